// SPDX-License-Identifier: Apache-2.0
/*
 * replicas.c - replicas of reports: selects the collectors that hold a key, and counts the reports
 * that absent collectors missed. A report goes to the first of its members on the ring that are up.
 * A member that was down is told when its gap started and ended and how many reports it missed.
 */
#include "base/base.h"
#include "dta/translate/internal.h"

uint64_t dta_worker_members(const struct dta_worker *w, uint64_t hash, uint64_t up)
{
	uint64_t found = 0;

	for (uint32_t n = 0; n < w->opts.replicas; n++) {
		const uint32_t member = dta_hash_ring_find(&w->ring, hash, up & ~found);

		if (member == DTA_HASH_RING_MEMBERS_MAX)
			break;
		found |= 1ull << member;
	}
	return found;
}

void dta_worker_missed(struct dta_worker *w, uint64_t hash)
{
	const uint64_t all = w->opts.n_collectors < 64 ? (1ull << w->opts.n_collectors) - 1 : ~0ull;
	uint64_t away = dta_worker_members(w, hash, all) & ~w->up;

	for (; away; away &= away - 1)
		w->gap[__builtin_ctzll(away)].reports++;
}

/*
 * Starts and ends gaps. Writes in the last moments of a connection may also be lost, so a gap
 * starts GAP_EARLY_NS before the loss of the connection was noticed.
 */
#define GAP_EARLY_NS 1000000000ull

void dta_worker_gaps(struct dta_worker *w, uint64_t was_up)
{
	const uint64_t now = base_realtime_ns();

	for (uint32_t i = 0; i < w->opts.n_collectors && w->opts.replicas > 1; i++) {
		struct dta_translate_gap *g = &w->gap[i];
		const bool up = w->up >> i & 1;

		if (!up && (was_up >> i & 1 || g->reports) && !g->from_ns)
			g->from_ns = now - GAP_EARLY_NS;
		if (!up || !g->from_ns)
			continue;
		if (dta_client_send(w->client[i],
				    json_pack("{s:s,s:I,s:I,s:I}", "type", "gap", "from",
					      (json_int_t)g->from_ns, "to", (json_int_t)now,
					      "reports", (json_int_t)g->reports)))
			g->from_ns = g->reports = 0;
	}
}

/*
 * A report is lost if all collectors that received it lost it. It is not recorded which collectors
 * received it. Reports may therefore be lost only if the number of collectors that have lost
 * something since acknowledgements were last held is at least the number of replicas.
 */
bool dta_worker_lost(struct dta_worker *w)
{
	for (uint32_t i = 0; i < w->opts.n_collectors; i++) {
		const uint64_t lost = dta_client_lost(w->client[i]);

		w->losers |= (uint64_t)(lost != w->lost[i]) << i;
		w->lost[i] = lost;
	}
	if ((uint32_t)__builtin_popcountll(w->losers) < w->opts.replicas) {
		if (!w->held[0]->count && !w->held[1]->count)
			w->losers = 0;
		return false;
	}
	w->losers = 0;
	return true;
}
