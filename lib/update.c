// SPDX-License-Identifier: Apache-2.0
/* update.c - updates that are not inlined: counters, gauges and state sets; reading values back. */
#include <math.h>

#include "internal.h"

/* ---- counters ---- */

/*
 * Handles a thread's first update, a thread without a stripe, a refused handle, and an update in a
 * signal handler that interrupted another one.
 */
void sl__counter_add_slow(struct sl_counter c, uint64_t n)
{
	unsigned int slot = sl__slot_of(c.bits);
	uintptr_t stripe;

	if (slot == SL__SLOT_NONE)
		return;
	stripe = sl__stripe_of(slot);
	if (stripe && sl__own_add(stripe + (uint32_t)c.bits, n))
		return;
	stripe = sl__shared(slot);
	if (stripe)
		sl__shared_add(stripe + (uint32_t)c.bits, n);
}

void sl_counter_add_batch(const struct sl_counter *counters, const uint64_t *n, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sl_counter_add(counters[i], n[i]);
}

void sl__refuse_observation(unsigned int slot)
{
	struct sl__region *r = sl__slots[slot].region;

	if (!r)
		return;
	atomic_fetch_add_explicit(&r->publisher->refused, 1, memory_order_relaxed);
	sl__hot_add(r, SL_HOT_REFUSED, 1);
}

void sl_counter_f64_add(struct sl_counter_f64 c, double v)
{
	unsigned int slot = sl__slot_of(c.bits);
	uintptr_t stripe;

	if (slot == SL__SLOT_NONE)
		return;
	if (unlikely(!(v >= 0) || isinf(v))) {
		sl__refuse_observation(slot);
		return;
	}
	stripe = sl__stripe_of(slot);
	if (likely(stripe) && likely(sl__own_add_f64(stripe + (uint32_t)c.bits, v)))
		return;
	stripe = sl__shared(slot);
	if (stripe)
		sl__shared_add_f64(stripe + (uint32_t)c.bits, v);
}

/* ---- gauges and state sets: stripe 0 ---- */

void sl_gauge_set(struct sl_gauge g, int64_t v)
{
	uintptr_t shared = sl__shared(sl__slot_of(g.bits));

	if (likely(shared))
		sl__shared_set(shared + (uint32_t)g.bits, (uint64_t)v);
}

void sl_gauge_add(struct sl_gauge g, int64_t v)
{
	uintptr_t shared = sl__shared(sl__slot_of(g.bits));

	if (likely(shared))
		sl__shared_add(shared + (uint32_t)g.bits, (uint64_t)v);
}

void sl_gauge_set_batch(const struct sl_gauge *gauges, const int64_t *v, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sl_gauge_set(gauges[i], v[i]);
}

void sl_gauge_f64_set(struct sl_gauge_f64 g, double v)
{
	uintptr_t shared = sl__shared(sl__slot_of(g.bits));

	if (likely(shared))
		sl__shared_set(shared + (uint32_t)g.bits, sl_cell_of_f64(v));
}

void sl_gauge_f64_add(struct sl_gauge_f64 g, double v)
{
	uintptr_t shared = sl__shared(sl__slot_of(g.bits));

	if (likely(shared))
		sl__shared_add_f64(shared + (uint32_t)g.bits, v);
}

void sl_gauge_f64_set_batch(const struct sl_gauge_f64 *gauges, const double *v, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sl_gauge_f64_set(gauges[i], v[i]);
}

void sl_stateset_set(struct sl_stateset s, unsigned int state, bool on)
{
	uintptr_t shared = sl__shared(sl__slot_of(s.bits)), cell = shared + (uint32_t)s.bits;
	uint64_t bit, old, now;

	if (unlikely(!shared || state >= SL_STATES_MAX))
		return;
	bit = 1ull << state;
	if (on) {
		old = __atomic_fetch_or((uint64_t *)cell, bit, __ATOMIC_RELAXED);
		now = old | bit;
	} else {
		old = __atomic_fetch_and((uint64_t *)cell, ~bit, __ATOMIC_RELAXED);
		now = old & ~bit;
	}
	/* The check word changes by the difference of this update, as in sl__shared_set(). */
	if (now != old)
		sl__shared_changed(cell, old, now);
}

/* ---- reading back ---- */

uint64_t sl__read_u64(unsigned int slot, uint32_t offset)
{
	struct sl__view view = sl__view(slot);
	uint64_t sum = 0;

	/* Relaxed: a cell never tears, and no order between cells is promised. */
	for (uint32_t i = 0; i < view.stripes; i++)
		sum += __atomic_load_n(
			(uint64_t *)(view.shared + (uintptr_t)i * view.stride + offset),
			__ATOMIC_RELAXED);
	return sum;
}

double sl__read_f64(unsigned int slot, uint32_t offset)
{
	struct sl__view view = sl__view(slot);
	double sum = 0;

	for (uint32_t i = 0; i < view.stripes; i++)
		sum += sl_f64_of_cell(__atomic_load_n(
			(uint64_t *)(view.shared + (uintptr_t)i * view.stride + offset),
			__ATOMIC_RELAXED));
	return sum;
}

uint64_t sl_counter_value(struct sl_counter c)
{
	return sl__read_u64(sl__slot_of(c.bits), (uint32_t)c.bits);
}

double sl_counter_f64_value(struct sl_counter_f64 c)
{
	return sl__read_f64(sl__slot_of(c.bits), (uint32_t)c.bits);
}

/* Gauges live in stripe 0 only; their cells in the other stripes are 0. */
uint64_t sl__read_shared(uint64_t bits)
{
	uintptr_t shared = sl__shared(sl__slot_of(bits));

	return shared ? __atomic_load_n((uint64_t *)(shared + (uint32_t)bits), __ATOMIC_RELAXED)
		      : 0;
}

int64_t sl_gauge_value(struct sl_gauge g)
{
	return (int64_t)sl__read_shared(g.bits);
}

double sl_gauge_f64_value(struct sl_gauge_f64 g)
{
	return sl_f64_of_cell(sl__read_shared(g.bits));
}
