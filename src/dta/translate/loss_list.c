// SPDX-License-Identifier: Apache-2.0
/* loss_list.c - lists the reporters */
#include "dta/translate/loss_internal.h"

#define RATE_NS 500000000ull /* minimum interval over which a rate is computed */

static struct dta_loss_about describe_reporter(struct dta_loss_reporter *r, uint64_t now_ns)
{
	const uint64_t took = now_ns - r->listed_ns;
	struct dta_loss_about a = {.key = r->key,
				   .incarnation = r->incarnation,
				   .contested = r->contested,
				   .age_ns = now_ns - r->since_ns,
				   .silent_ns = now_ns - r->seen_ns,
				   .stats = r->s};

	a.key.authenticated = r->authenticated;
	if (took < RATE_NS)
		return a;
	a.rate = (double)(r->s.arrived - r->listed) * 1e9 / (double)took;
	r->listed_ns = now_ns;
	r->listed = r->s.arrived;
	return a;
}

uint32_t dta_loss_list(struct dta_loss *l, uint64_t now_ns, struct dta_loss_about *out,
		       uint32_t max)
{
	struct dta_loss_reporter *r[2] = {TAILQ_LAST(&l->table[0].ages, dta_loss_ages),
					  TAILQ_LAST(&l->table[1].ages, dta_loss_ages)};
	uint32_t n = 0;

	for (; n < max && (r[0] || r[1]); n++) {
		const int i = !r[0] || (r[1] && r[1]->seen_ns > r[0]->seen_ns);

		out[n] = describe_reporter(r[i], now_ns);
		r[i] = TAILQ_PREV(r[i], dta_loss_ages, age);
	}
	return n;
}
