// SPDX-License-Identifier: Apache-2.0
#include "act/sample.h"

#include <string.h>

#include "base/base.h"

#define SECOND_NS 1000000000ull

uint64_t act_sample_phase(const struct act_sample_opts *o, uint64_t seed)
{
	uint64_t phase = o->every_ns ? (seed ^ seed >> 32) % o->every_ns : 0;

	return o->every_ns < 10 * SECOND_NS ? phase : phase - phase % SECOND_NS;
}

void act_sample_init(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t from_ns,
		     uint64_t seed)
{
	const int64_t every = (int64_t)o->every_ns, phase = (int64_t)act_sample_phase(o, seed);

	*p = (struct act_sample_pod){.cursor_ns = from_ns, .tick_ns = INT64_MAX};
	if (!every)
		return;
	/* Ticks are multiples of every_ns plus the pod's phase, so they survive a restart. */
	p->tick_ns = (from_ns - phase) / every * every + phase;
	while (p->tick_ns <= from_ns)
		p->tick_ns += every;
}

/* Adds [from, to] to the sorted spans, merging those that overlap or touch. */
static void add_full(struct act_sample_pod *p, int64_t from, int64_t to)
{
	uint32_t i = 0, n;

	while (i < p->fulls && p->full[i].to_ns < from)
		i++;
	for (n = i; n < p->fulls && p->full[n].from_ns <= to; n++) {
		from = BASE_MIN(p->full[n].from_ns, from);
		to = BASE_MAX(p->full[n].to_ns, to);
	}
	if (n == i && p->fulls == ACT_SAMPLE_FULL_MAX) {
		/*
		 * no free span: extend a neighbour, so that too many samples are sent rather than
		 * too few
		 */
		if (i < p->fulls)
			p->full[i].from_ns = from;
		else
			p->full[i - 1].to_ns = to;
		return;
	}
	memmove(&p->full[i + 1], &p->full[n], (p->fulls - n) * sizeof(p->full[0]));
	p->fulls = p->fulls - (n - i) + 1;
	p->full[i].from_ns = from;
	p->full[i].to_ns = to;
}

/* Ends the last span if it is still open. */
static void cut_open(struct act_sample_pod *p, int64_t to)
{
	if (p->fulls && p->full[p->fulls - 1].to_ns == INT64_MAX)
		p->full[p->fulls - 1].to_ns = BASE_MAX(to, p->full[p->fulls - 1].from_ns);
}

void act_sample_anomaly(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t begin_ns,
			int64_t end_ns)
{
	int64_t from = begin_ns - (int64_t)o->around_ns;
	int64_t to = end_ns ? end_ns + (int64_t)o->around_ns : INT64_MAX;
	bool open = p->fulls && p->full[p->fulls - 1].to_ns == INT64_MAX;

	if (!o->every_ns)
		return; /* all samples are sent */
	if (open && !end_ns)
		return; /* already known */
	if (end_ns)
		cut_open(p, to);
	if (from < p->cursor_ns) {
		/* Time that an open span has already sent is not missing. */
		if (!open)
			p->clipped_ns += (uint64_t)(BASE_MIN(to, p->cursor_ns) - from);
		from = p->cursor_ns;
	}
	if (from < to)
		add_full(p, from, to);
}

/* Moves the tick past `to`. */
static void advance_tick(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t to)
{
	int64_t every = (int64_t)o->every_ns;

	if (every && p->tick_ns <= to)
		p->tick_ns += ((to - p->tick_ns) / every + 1) * every;
}

bool act_sample_next(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t now_ns,
		     uint64_t most_ns, struct act_sample_span *out)
{
	int64_t horizon = now_ns - (int64_t)(o->every_ns ? o->around_ns + o->late_ns : 0), to;

	while (p->fulls && p->full[0].to_ns <= p->cursor_ns) {
		p->fulls--;
		memmove(&p->full[0], &p->full[1], p->fulls * sizeof(p->full[0]));
	}
	if (p->cursor_ns >= horizon)
		return false;
	/*
	 * Within a span at full resolution, or without sampling, send everything up to the horizon.
	 */
	if (!o->every_ns || (p->fulls && p->full[0].from_ns <= p->cursor_ns)) {
		to = p->fulls && p->full[0].to_ns < horizon ? p->full[0].to_ns : horizon;
		if ((uint64_t)(to - p->cursor_ns) > most_ns)
			to = p->cursor_ns + (int64_t)most_ns;
		*out = (struct act_sample_span){p->cursor_ns, to, false};
		p->cursor_ns = to;
		advance_tick(p, o, to);
		return true;
	}
	/* If there is a tick before the next span, send the newest sample up to the tick. */
	to = p->fulls ? p->full[0].from_ns : INT64_MAX;
	if (p->tick_ns <= horizon && p->tick_ns <= to) {
		*out = (struct act_sample_span){p->cursor_ns, p->tick_ns, true};
		p->cursor_ns = p->tick_ns;
		p->tick_ns += (int64_t)o->every_ns;
		return true;
	}
	if (to > horizon)
		return false; /* the next tick may still select a sample from this time */
	p->cursor_ns = to;
	return act_sample_next(p, o, now_ns, most_ns, out);
}

uint64_t act_sample_skip(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t to_ns)
{
	int64_t from = p->cursor_ns;

	if (to_ns <= from)
		return 0;
	p->cursor_ns = to_ns;
	advance_tick(p, o, to_ns);
	return (uint64_t)(to_ns - from);
}
