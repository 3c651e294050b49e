/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rates.h - reports per second of tenants, over all engines that share it: a tenant's rate does not
 * grow with the number of workers. Any thread.
 */
#ifndef SL_DTA_ENGINE_RATES_H
#define SL_DTA_ENGINE_RATES_H

#include <stdint.h>

struct dta_rates;

struct dta_rates *dta_rates_new(void); /* NULL with errno */
void dta_rates_free(struct dta_rates *r);
/* per_second 0: unlimited. To say the same again changes nothing. */
void dta_rates_set(struct dta_rates *r, uint16_t tenant, uint64_t per_second, uint64_t burst);
/* How many of count reports the tenant may send now. */
uint32_t dta_rates_take(struct dta_rates *r, uint16_t tenant, uint32_t count, uint64_t now_ns);

#endif
