/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rates.h - limits on tenants' reports per second. All workers share the limits, so that a tenant's
 * rate does not grow with their number. Any thread may call these functions.
 */
#ifndef SL_DTA_ENGINE_RATES_H
#define SL_DTA_ENGINE_RATES_H

#include <stdint.h>

struct dta_rates;

struct dta_rates *dta_rates_new(void); /* returns NULL with errno */
void dta_rates_free(struct dta_rates *r);
/* per_second: 0 means unlimited. Idempotent. */
void dta_rates_set(struct dta_rates *r, uint16_t tenant, uint64_t per_second, uint64_t burst);
/* Returns how many of count reports the tenant may send now. */
uint32_t dta_rates_take(struct dta_rates *r, uint16_t tenant, uint32_t count, uint64_t now_ns);

#endif
