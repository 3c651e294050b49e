/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.h - fair shares of a resource among tenants that do not trust each other: the dynamic
 * threshold of shared-memory switches (Choudhury and Hahne, IEEE/ACM Transactions on Networking
 * 6(2), 1998), with alpha 1. A tenant may hold as much as it leaves free. A single tenant can take
 * half; when resources are returned, tenants that hold least can claim most.
 */
#ifndef SL_BASE_SHARE_H
#define SL_BASE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * One resource. The reserve is for trusted tenants, and for the first claim of a tenant without a
 * share: at most 1/64 of the capacity, and at least one unit.
 */
struct base_share {
	uint64_t capacity, used, reserve;
};

#define BASE_SHARE_RESERVE 8u /* divisor: the reserve usually is capacity / 8 */

/* Returns the limit for a tenant that now holds `held`. */
uint64_t base_share_limit(const struct base_share *s, uint64_t held, bool trusted);

/* True if a tenant that holds `held` may take `want` more. */
bool base_share_may(const struct base_share *s, uint64_t held, uint64_t want, bool trusted);

#endif
