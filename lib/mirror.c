// SPDX-License-Identifier: Apache-2.0
/*
 * mirror.c - summaries, and metrics set as a whole to values that were counted or computed
 * elsewhere. These values are stored in stripe 0.
 */
#include <errno.h>
#include <math.h>

#include "internal.h"

static void set_cell(uint64_t bits, uint32_t cell, uint64_t v)
{
	uintptr_t shared = sl__shared(sl__slot_of(bits));

	if (likely(shared))
		sl__shared_set(shared + sl__cell_after((uint32_t)bits, cell), v);
}

void sl_counter_mirror(struct sl_counter c, uint64_t value)
{
	set_cell(c.bits, 0, value);
}

void sl_counter_f64_mirror(struct sl_counter_f64 c, double value)
{
	set_cell(c.bits, 0, sl_cell_of_f64(value));
}

void sl_unknown_set(struct sl_unknown u, double v)
{
	set_cell(u.bits, 0, sl_cell_of_f64(v));
}

double sl_unknown_value(struct sl_unknown u)
{
	return sl_f64_of_cell(sl__read_shared(u.bits));
}

/* ---- timed gauges ---- */

/* Store the time last: a reader must not combine the new time with the old value. */
void sl_gauge_timed_set_at(struct sl_gauge_timed g, double v, uint64_t time_ns)
{
	set_cell(g.bits, 0, sl_cell_of_f64(v));
	set_cell(g.bits, 1, time_ns);
}

void sl_gauge_timed_set(struct sl_gauge_timed g, double v)
{
	sl_gauge_timed_set_at(g, v, sl__realtime_ns());
}

double sl_gauge_timed_value(struct sl_gauge_timed g)
{
	return sl_f64_of_cell(sl__read_shared(g.bits));
}

/* ---- summaries ---- */

void sl_summary_add(struct sl_summary s, double sum, uint64_t count)
{
	const uint32_t sum_at = (uint32_t)s.bits,
		       count_at = sl__cell_after(sum_at, SL_SUMMARY_COUNT);
	unsigned int slot = sl__slot_of(s.bits);
	uintptr_t stripe, shared;
	bool counted;

	if (slot == SL__SLOT_NONE)
		return;
	if (unlikely(!isfinite(sum))) {
		sl__refuse_observation(slot);
		return;
	}
	stripe = sl__stripe_of(slot);
	counted = likely(stripe) && likely(sl__own_add(stripe + count_at, count));
	if (likely(counted) && likely(sl__own_add_f64(stripe + sum_at, sum)))
		return;
	shared = sl__shared(slot);
	if (!shared)
		return;
	if (!counted)
		sl__shared_add(shared + count_at, count);
	sl__shared_add_f64(shared + sum_at, sum);
}

void sl_summary_observe(struct sl_summary s, double v)
{
	sl_summary_add(s, v, 1);
}

int sl_summary_set_quantiles(struct sl_summary s, const double *values, size_t n)
{
	if (sl__slot_of(s.bits) == SL__SLOT_NONE)
		return 0;
	if (n != s.quantiles || (n && !values))
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++)
		set_cell(s.bits, SL_SUMMARY_QUANTILES + i, sl_cell_of_f64(values[i]));
	return 0;
}

void sl_summary_mirror(struct sl_summary s, double sum, uint64_t count)
{
	set_cell(s.bits, SL_SUMMARY_SUM, sl_cell_of_f64(sum));
	set_cell(s.bits, SL_SUMMARY_COUNT, count);
}

uint64_t sl_summary_count(struct sl_summary s)
{
	return sl__read_u64(sl__slot_of(s.bits),
			    sl__cell_after((uint32_t)s.bits, SL_SUMMARY_COUNT));
}

double sl_summary_sum(struct sl_summary s)
{
	return sl__read_f64(sl__slot_of(s.bits), (uint32_t)s.bits);
}
