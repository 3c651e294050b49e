// SPDX-License-Identifier: Apache-2.0
/* workload_flows.c - sums flows by role and port of the service */
#include <math.h>

#include "base/base.h"
#include "collect/tables/workload.h"

/* ---- counting ---- */

/* Counts n observations that sum up to n * seconds, in the bucket of their mean. */
static void observe_mean(uint64_t *h, int scale, int low, uint32_t cells, double seconds,
			 uint64_t n)
{
	double place = (log2(seconds) - low) * (1 << scale); /* bucket i ends at place i */
	uint32_t last = cells - SL_HIST_BUCKETS - 1, i;

	i = !(place > 0) ? 0 : place > last ? last : (uint32_t)ceil(place);
	h[SL_HIST_BUCKETS + (BASE_MIN(i, last))] += n;
	collect_workload_add_f64(&h[SL_HIST_SUM], seconds * (double)n);
}

/*
 * Returns the growth of a 32-bit counter, or 0 if the value decreased because the counter
 * restarted.
 */
static uint32_t get_growth32(uint32_t before, uint32_t now)
{
	uint32_t by = now - before;

	return by < 1u << 31 ? by : 0;
}

/* Counts how a flow ended, if it failed. */
static void count_failure(uint64_t *cell, const struct region_flow *f)
{
	static const uint8_t cells[REGION_FLOW_ENDS] = {
		[REGION_FLOW_REFUSED] = FAILED_REFUSED,
		[REGION_FLOW_UNANSWERED] = FAILED_UNANSWERED,
		[REGION_FLOW_NOT_MADE] = FAILED_OTHER,
		[REGION_FLOW_KEEPALIVE] = FAILED_KEEPALIVE,
		[REGION_FLOW_RTO] = FAILED_RTO,
		[REGION_FLOW_USER_TIMEOUT] = FAILED_USER_TIMEOUT,
	};
	uint8_t of = cells[region_flow_end(f)];

	if (of)
		cell[of]++;
}

static void add_time(uint64_t *cell, const struct region_flow *b, const struct region_flow *f)
{
	uint64_t before_ns = b->id ? region_flow_duration(b, 0) : 0;
	uint64_t whole = collect_grown(before_ns, region_flow_duration(f, 0)) / 1000;
	uint64_t busy = collect_grown(b->busy_us, f->busy_us);
	uint64_t rwnd = collect_grown(b->rwnd_us, f->rwnd_us);
	uint64_t sndbuf = collect_grown(b->sndbuf_us, f->sndbuf_us);

	collect_workload_add_f64(&cell[BY_RECEIVE_WINDOW], (double)rwnd / 1e6);
	collect_workload_add_f64(&cell[BY_SEND_BUFFER], (double)sndbuf / 1e6);
	collect_workload_add_f64(&cell[BY_CONGESTION_WINDOW],
				 (double)collect_grown(rwnd + sndbuf, busy) / 1e6);
	collect_workload_add_f64(&cell[BY_APPLICATION], (double)collect_grown(busy, whole) / 1e6);
}

void collect_workload_add(struct collect_workload *w, uint32_t group,
			  const struct region_flow *before, const struct region_flow *f)
{
	static const struct region_flow nothing;
	const struct region_flow *b = before ? before : &nothing;
	uint64_t *cell = collect_workload_cells(w, group), samples, sum;

	if (f->flags & SL_FLOW_LISTENER) {
		if (region_flow_queue_full(b) || region_flow_queue_full(f))
			cell[COLLECT_DROPS] += get_growth32(b->drops, f->drops);
		return;
	}
	cell[COLLECT_SENT] += collect_grown(b->bytes_sent, f->bytes_sent);
	cell[COLLECT_ACKED] += collect_grown(b->bytes_acked, f->bytes_acked);
	cell[COLLECT_RECEIVED] += collect_grown(b->bytes_received, f->bytes_received);
	collect_workload_busy(w, group,
			      collect_grown(b->bytes_sent, f->bytes_sent) +
				      collect_grown(b->bytes_received, f->bytes_received));
	cell[COLLECT_RESENT] += collect_grown(b->bytes_retrans, f->bytes_retrans);
	cell[SEGMENTS_OUT] += get_growth32(b->segs_out, f->segs_out);
	cell[SEGMENTS_IN] += get_growth32(b->segs_in, f->segs_in);
	cell[COLLECT_RETRANSMITS] += get_growth32(b->retrans, f->retrans);
	cell[RE_FAST] += get_growth32(b->re_fast, f->re_fast);
	cell[RE_TIMEOUT] += get_growth32(b->re_rto, f->re_rto);
	cell[RE_PROBE] += get_growth32(b->re_tlp, f->re_tlp);
	cell[RE_SYN] += get_growth32(b->re_syn, f->re_syn);
	cell[COLLECT_SPURIOUS] += get_growth32(b->dsack, f->dsack);
	cell[COLLECT_TIMEOUTS] += get_growth32(b->timeouts, f->timeouts);
	cell[COLLECT_RECOVERIES] += get_growth32(b->fast, f->fast);
	cell[ZERO_PEER] += get_growth32(b->zero_in, f->zero_in);
	cell[ZERO_LOCAL] += get_growth32(b->zero_out, f->zero_out);
	cell[OUT_OF_ORDER] += get_growth32(b->ooo, f->ooo);
	cell[COLLECT_CE] += get_growth32(b->delivered_ce, f->delivered_ce);
	cell[RESET_IN] += f->flags & ~b->flags & SL_FLOW_RESET_IN ? 1 : 0;
	cell[RESET_OUT] += f->flags & ~b->flags & SL_FLOW_RESET_OUT ? 1 : 0;
	if (!region_flow_failed(f))
		add_time(cell, b, f);
	samples = collect_grown(b->rtt_count, f->rtt_count);
	sum = collect_grown(b->rtt_sum_us, f->rtt_sum_us);
	if (samples)
		observe_mean(cell + COLLECT_RTT, RTT_SCALE, RTT_LOW, RTT_CELLS,
			     (double)sum / 1e6 / (double)samples, samples);
}

void collect_workload_add_bytes(struct collect_workload *w, uint32_t group, uint64_t acked,
				uint64_t received)
{
	uint64_t *cell = collect_workload_cells(w, group);

	cell[COLLECT_ACKED] += acked;
	cell[COLLECT_RECEIVED] += received;
}

/* Adds the past traffic of an existing connection as if it had occurred in one period. */
static void rank_by_history(struct collect_workload *w, uint32_t group, const struct region_flow *f)
{
	uint64_t ns = region_flow_duration(f, 0), period_ns = w->rank_period_ns;
	double bytes = (double)f->bytes_sent + (double)f->bytes_received;

	bytes *= (double)period_ns / (double)BASE_MAX(ns, period_ns);
	collect_workload_busy(w, group, bytes < 1e18 ? (uint64_t)bytes : 0);
}

void collect_workload_opened(struct collect_workload *w, uint32_t group,
			     const struct region_flow *f, bool counts)
{
	uint64_t *cell = collect_workload_cells(w, group);

	if (f && (f->flags & SL_FLOW_LISTENER || region_flow_failed(f)))
		return;
	cell[COLLECT_OPEN]++;
	w->group[group].open++;
	if (f && !counts)
		rank_by_history(w, group, f);
	if (!counts)
		return;
	cell[COLLECT_OPENED]++;
	if (f && f->handshake_us)
		observe_mean(cell + COLLECT_HANDSHAKE, RTT_SCALE, RTT_LOW, RTT_CELLS,
			     (double)f->handshake_us / 1e6, 1);
}

void collect_workload_closed(struct collect_workload *w, uint32_t group,
			     const struct region_flow *f, bool counts)
{
	uint64_t *cell = collect_workload_cells(w, group);

	if (f)
		count_failure(cell, f);
	if (f && region_flow_failed(f))
		return;
	collect_workload_left(w, group);
	if (!counts)
		return;
	cell[COLLECT_CLOSED]++;
	if (f && !(f->flags & SL_FLOW_OLDER))
		observe_mean(cell + COLLECT_LIFE, LIFE_SCALE, LIFE_LOW, LIFE_CELLS,
			     (double)region_flow_duration(f, 0) / 1e9, 1);
}

void collect_workload_left(struct collect_workload *w, uint32_t group)
{
	collect_workload_cells(w, group)[COLLECT_OPEN]--;
	w->group[group].open--;
}
