// SPDX-License-Identifier: Apache-2.0
/* path.c - postcards: the path of a key */
#include "dta/query/internal.h"

#include <math.h>

static bool is_value(uint32_t value, const uint32_t *values, size_t count)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (values[middle] == value)
			return true;
		if (values[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* A unit that verifies is still untrusted: a translator may be faulty. */
static bool decode(const struct sl_store_config *c, const uint64_t *unit,
		   struct sl_postcard_answer *p)
{
	p->present = unit[1];
	memcpy(&p->hops, unit + 2, 4);
	memcpy(p->value, (const uint8_t *)unit + 20, 4ull * c->hops);
	if (!p->hops || p->hops > c->hops || (p->hops < 64 && p->present >> p->hops))
		return false;
	return p->present != 0;
}

static void search_epoch(const struct dta_store_view *v, uint64_t epoch, struct dta_hash h,
			 uint32_t copies, const struct dta_query *q, const uint32_t *values,
			 size_t count, struct sl_postcard_answer *out)
{
	const struct sl_store_config *c = v->config;
	const uint64_t bytes = sl_store_path_bytes(c);
	struct dta_query_candidates said;
	int best;

	dta_query_read_copies(v, epoch, h, copies, bytes, bytes - 8, &said);
	best = dta_query_choose(said.agreed, said.n, q->policy, q->consensus, &out->result);
	if (best < 0)
		return;
	out->agreed = said.agreed[best];
	if (!decode(c, said.unit[best], out)) {
		out->result = SL_QUERY_CONFLICT;
		return;
	}
	for (uint32_t i = 0; values && i < out->hops; i++)
		if (out->present >> i & 1 && !is_value(out->value[i], values, count))
			out->result = SL_QUERY_CONFLICT;
}

void dta_view_path(const struct dta_store_view *v, const struct dta_query *q,
		   const uint32_t *values, size_t count, struct sl_postcard_answer *out)
{
	struct dta_query_search s;

	memset(out, 0, sizeof(*out));
	out->result = SL_QUERY_UNKNOWN;
	if (!dta_query_begin(v, q, SL_STORE_POSTCARD, &s))
		return;
	for (uint64_t e = s.newest;; e--) {
		search_epoch(v, e, s.h, s.copies, q, values, count, out);
		out->epoch = e;
		out->error_probability = ldexp(s.copies, -64);
		if (dta_query_done(v, q, e, s.oldest, &out->result))
			return;
	}
}
