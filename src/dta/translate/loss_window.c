// SPDX-License-Identifier: Apache-2.0
/* loss_window.c - a reporter's window: its bitmap and gaps */
#include "dta/translate/loss_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* ---- gaps ---- */

void dta_loss_want(struct dta_loss *l, struct dta_loss_reporter *r)
{
	if (r->wanting)
		return;
	r->wanting = true;
	LIST_INSERT_HEAD(&l->wanting, r, want);
}

static void gap_remove(struct dta_loss_reporter *r, uint32_t i)
{
	r->gaps--;
	memmove(r->gap + i, r->gap + i + 1, (r->gaps - i) * sizeof(*r->gap));
}

/*
 * Makes room at index i. If the list is full, gives up the oldest gap; returns false if that would
 * be the new gap.
 */
static bool gap_insert(struct dta_loss_reporter *r, uint32_t i)
{
	if (r->gaps == r->room && r->room < DTA_LOSS_GAPS_MAX) {
		uint32_t room = r->room ? 2 * r->room : 4;
		struct dta_loss_gap *more = reallocarray(r->gap, room, sizeof(*more));

		if (more) {
			r->gap = more;
			r->room = room;
		}
	}
	if (r->gaps == r->room) {
		if (!i)
			return false;
		dta_loss_give_up(r, r->gap[0].count);
		gap_remove(r, 0);
		i--;
	}
	memmove(r->gap + i + 1, r->gap + i, (r->gaps - i) * sizeof(*r->gap));
	r->gaps++;
	return true;
}

/* Appends a gap whose reports are already counted as missing. */
static void gap_append(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t first,
		       uint32_t count, uint64_t now_ns)
{
	if (!gap_insert(r, r->gaps)) {
		dta_loss_give_up(r, count);
		return;
	}
	r->gap[r->gaps - 1] = (struct dta_loss_gap){now_ns + l->o.nack_ns, first, count, 0};
	if (r->gaps == 1 || now_ns + l->o.nack_ns < r->due_ns)
		r->due_ns = now_ns + l->o.nack_ns;
	dta_loss_want(l, r);
}

/* Records the arrival of a missing or lost report. */
void dta_loss_fill(struct dta_loss_reporter *r, uint32_t sequence)
{
	uint32_t at = dta_loss_behind(r, sequence), before, after;
	struct dta_loss_gap *g;
	size_t i;

	/* Find the first gap that does not end before this report. */
	BASE_LOWER_BOUND(i, 0, r->gaps,
			 dta_loss_behind(r, r->gap[i].first) - r->gap[i].count >= at);
	g = &r->gap[i];
	if (i == r->gaps || dta_loss_behind(r, g->first) < at) {
		r->s.lost--; /* the report had been given up */
		return;
	}
	r->s.missing--;
	if (g->named)
		r->s.recovered++;
	before = dta_loss_modulo(r, sequence - g->first);
	after = g->count - before - 1;
	if (before && after) {
		struct dta_loss_gap rest = {g->due_ns, dta_loss_modulo(r, sequence + 1), after,
					    g->named};
		uint32_t was = r->gaps;

		g->count = before;
		if (!gap_insert(r, (uint32_t)i + 1)) {
			dta_loss_give_up(r, after);
			return;
		}
		if (r->gaps == was) /* the oldest gap was given up */
			i--;
		r->gap[i + 1] = rest;
	} else if (before) {
		g->count--;
	} else if (after) {
		g->first = dta_loss_modulo(r, g->first + 1);
		g->count--;
	} else {
		gap_remove(r, (uint32_t)i);
	}
}

/* ---- the map ---- */

void dta_loss_set_bits(uint64_t *map, uint32_t at, uint32_t count, bool value)
{
	if (count == 1) {
		const uint64_t bit = 1ull << at % 64;

		map[at / 64] = value ? map[at / 64] | bit : map[at / 64] & ~bit;
		return;
	}
	while (count) {
		const uint32_t in = at % 64, n = count < 64 - in ? count : 64 - in;
		const uint64_t mask = (n == 64 ? ~0ull : (1ull << n) - 1) << in;

		map[at / 64] = value ? map[at / 64] | mask : map[at / 64] & ~mask;
		at += n;
		count -= n;
	}
}

void dta_loss_map_range(struct dta_loss_reporter *r, uint32_t window, uint32_t sequence,
			uint32_t count, bool value)
{
	const uint32_t at = sequence & (window - 1), most = count < window ? count : window;
	const uint32_t first = most < window - at ? most : window - at;

	dta_loss_set_bits(r->map, at, first, value);
	dta_loss_set_bits(r->map, 0, most - first, value);
}

/* Advances top; gives up gaps that leave the window. */
void dta_loss_slide(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t by)
{
	uint32_t window = dta_loss_window_of(l, r), drop = 0;

	r->top = dta_loss_modulo(r, r->top + by);
	r->reach = r->reach + (uint64_t)by > window ? window : r->reach + by;
	r->joined &= r->reach < window;
	while (drop < r->gaps) {
		struct dta_loss_gap *g = &r->gap[drop];
		uint32_t far = dta_loss_behind(r, g->first);

		if (far <= window)
			break;
		if (far - window < g->count) {
			dta_loss_give_up(r, far - window);
			g->first = dta_loss_modulo(r, g->first + (far - window));
			g->count -= far - window;
			break;
		}
		dta_loss_give_up(r, g->count);
		drop++;
	}
	if (drop) {
		r->gaps -= drop;
		memmove(r->gap, r->gap + drop, r->gaps * sizeof(*r->gap));
	}
}

/* Records that `ahead` reports were skipped. */
void dta_loss_skip(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t ahead, uint64_t now_ns)
{
	uint32_t window = dta_loss_window_of(l, r), from = r->top, keep = ahead;

	r->s.expected += ahead;
	r->s.missing += ahead;
	if (ahead > window) { /* more than a window: the first reports can no longer be accepted */
		dta_loss_give_up(r, r->s.missing - window);
		r->gaps = 0;
		keep = window;
		from = dta_loss_modulo(r, from + (ahead - window));
		r->top = from;
		r->reach = 0;
	}
	dta_loss_slide(l, r, keep);
	dta_loss_map_range(r, window, from, keep, false);
	dta_loss_hole(r);
	gap_append(l, r, from, keep, now_ns);
}
