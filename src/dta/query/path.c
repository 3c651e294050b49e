// SPDX-License-Identifier: Apache-2.0
/*
 * path.c - queries postcards by key. Each hop's word is verified separately, because hops may be
 * written separately: by several translators, by several workers, or late.
 */
#include "dta/query/internal.h"

#include <math.h>
#include <stdlib.h>

/* The hops of a key in all its copies. */
struct path_copies {
	uint32_t n; /* number of distinct slots */
	uint8_t of[SL_STORE_COPIES_MAX]
		  /*
		   * length of the path that the hop belongs to; 0 means that it is not a hop of
		   * this key
		   */
		  [SL_STORE_HOPS_MAX];
	uint32_t value[SL_STORE_COPIES_MAX][SL_STORE_HOPS_MAX];
};

static void read_copies(const struct dta_store_view *v, uint64_t epoch, struct dta_hash h,
			uint32_t copies, struct path_copies *out)
{
	const uint8_t *bank = dta_store_bank(v, epoch);
	const uint32_t most = v->config->hops;
	uint64_t at[SL_STORE_COPIES_MAX], word[SL_STORE_HOPS_MAX];

	out->n = 0;
	for (uint32_t i = 0, j; i < copies; i++) {
		const uint64_t slot = dta_slot(h, i, v->config->slots);

		for (j = 0; j < out->n && at[j] != slot; j++)
			;
		if (j < out->n) /* copies in the same slot count once */
			continue;
		at[j] = slot;
		dta_query_copy(word, bank + slot * sl_store_path_bytes(v->config), 8ull * most);
		for (uint32_t hop = 0; hop < most; hop++) {
			const uint32_t value = (uint32_t)word[hop];
			const uint32_t hops = (uint32_t)(word[hop] >> 32) -
					      dta_hop_code(h, hop, value);

			out->value[j][hop] = value;
			out->of[j][hop] = word[hop] && hops > hop && hops <= most ? (uint8_t)hops
										  : 0;
		}
		out->n++;
	}
}

/*
 * Returns the length of the path, or 0 if no hop was found. The first copy of a hop is its newest.
 * If the key had several paths, a path with all its hops wins, otherwise the path with the most
 * hops. Sets *tie if the choice is ambiguous.
 */
static uint32_t length_of(const struct path_copies *p, uint32_t most, bool *tie)
{
	uint32_t known[SL_STORE_HOPS_MAX + 1] = {0}, best = 0;

	for (uint32_t hop = 0, i; hop < most; hop++) {
		for (i = 0; i < p->n && !p->of[i][hop]; i++)
			;
		if (i < p->n)
			known[p->of[i][hop]]++;
	}
	*tie = false;
	for (uint32_t hops = 1; hops <= most; hops++) {
		if (known[hops] == hops) {
			*tie = false;
			return hops;
		}
		*tie = known[hops] && known[hops] == known[best] ? true
		       : known[hops] > known[best]		 ? false
								 : *tie;
		best = known[hops] > known[best] ? hops : best;
	}
	return best;
}

/* Chooses a hop's value from the copies. Returns -1 with the reason in *result if there is none. */
static int choose_hop(const struct path_copies *p, uint32_t hop, uint32_t hops,
		      const struct dta_query *q, uint32_t *agreed, enum sl_query_result *result)
{
	uint32_t votes[SL_STORE_COPIES_MAX], first[SL_STORE_COPIES_MAX], n = 0, last = 0, j;
	bool mixed = false;
	int best;

	for (uint32_t i = 0; i < p->n; i++) {
		if (p->of[i][hop] != hops)
			continue;
		for (j = 0; j < n && p->value[first[j]][hop] != p->value[i][hop]; j++)
			;
		mixed |= j < last;
		last = j;
		if (j == n) {
			votes[n] = 0;
			first[n++] = i;
		}
		votes[j]++;
	}
	best = dta_query_choose(votes, n, mixed, q->policy, q->consensus, result);
	if (best < 0)
		return -1;
	*agreed = votes[best];
	return (int)first[best];
}

static void path_of_epoch(const struct dta_store_view *v, uint64_t epoch, struct dta_hash h,
			  uint32_t copies, const struct dta_query *q, const uint32_t *values,
			  size_t count, struct sl_postcard_answer *out)
{
	struct path_copies p;
	uint32_t hops;
	bool tie;

	read_copies(v, epoch, h, copies, &p);
	hops = length_of(&p, v->config->hops, &tie);
	out->result = tie && q->policy != SL_QUERY_FIRST ? SL_QUERY_CONFLICT : SL_QUERY_EMPTY;
	for (uint32_t hop = 0; hop < hops && out->result != SL_QUERY_CONFLICT; hop++) {
		enum sl_query_result result;
		uint32_t agreed;
		const int from = choose_hop(&p, hop, hops, q, &agreed, &result);

		if (from < 0) {
			out->result = result == SL_QUERY_CONFLICT ? result : out->result;
			continue;
		}
		out->agreed = !out->present || agreed < out->agreed ? agreed : out->agreed;
		out->present |= 1ull << hop;
		out->value[hop] = p.value[from][hop];
		out->hops = hops;
		out->result = values && !bsearch(&out->value[hop], values, count, sizeof(*values),
						 dta_store_by_value)
				      ? SL_QUERY_CONFLICT
				      : SL_QUERY_FOUND;
	}
}

void dta_view_path(const struct dta_store_view *v, const struct dta_query *q,
		   const uint32_t *values, size_t count, struct sl_postcard_answer *out)
{
	const double hops = v->config->hops;
	struct dta_query_search s;

	memset(out, 0, sizeof(*out));
	out->result = SL_QUERY_UNKNOWN;
	if (!dta_query_begin(v, q, SL_STORE_POSTCARD, &s))
		return;
	for (uint64_t e = s.newest;; e--) {
		path_of_epoch(v, e, s.h, s.copies, q, values, count, out);
		out->epoch = e;
		/* The word of hop h can match by chance for any of hops - h path lengths. */
		out->error_probability = ldexp(s.copies * hops * (hops + 1) / 2, -32);
		if (dta_query_done(v, q, e, s.oldest, &out->result))
			return;
	}
}
