// SPDX-License-Identifier: Apache-2.0
#include "collect/analysis/sender.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/internal.h"
#include "collect/analysis/sender_hist.h"

#define POINTS	  16384u	 /* of one series at a time */
#define LOOK_NS	  500000000u	 /* between two looks at who is there */
#define BEHIND_NS 600000000000ll /* further behind nobody wants it any more */
#define SECOND_NS 1000000000ull
#define BUCKETS	  4096u

struct pod {
	struct pod *next; /* in the bucket */
	uint64_t instance, seen;
	struct sl_sample_pod plan;
	uint64_t layout;
	uint32_t columns;
	struct sl_remote_series **series; /* [columns]; NULL: not sent */
	struct sender_hists *hists;
	int64_t hists_ns, hists_sent_ns; /* they are due; of what was sent last */
	bool anomalous;
	/* The span under way: columns before `column` are sent. */
	struct sl_sample_span span;
	uint32_t column;
	bool busy;
};

struct sender {
	struct sl_collector *c;
	struct sl_remote_write *w;
	struct sl_sample_opts o;
	bool native;
	uint64_t most_ns; /* of time that POINTS of a series surely hold */
	struct pod *bucket[BUCKETS];
	size_t turn; /* the next bucket */
	uint64_t look_ns, looks;
	struct sl_point *point;
	struct sl_remote_point *out;
	struct sender_stats s;
};

struct sender *sender_new(struct sl_collector *c, struct sl_remote_write *w,
			  const struct sl_sample_opts *opts, uint64_t period_ns, bool native)
{
	struct sender *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->c = c;
	s->w = w;
	s->o = *opts;
	s->native = native;
	/* Busy rounds come within tens of microseconds. */
	s->most_ns = POINTS / 2 * (period_ns ? period_ns : 20000);
	if (s->most_ns > 60 * SECOND_NS)
		s->most_ns = 60 * SECOND_NS;
	s->point = malloc(POINTS * sizeof(*s->point));
	s->out = malloc(POINTS * sizeof(*s->out));
	if (!s->point || !s->out) {
		sender_free(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

/* ---- series ------------------------------------------------------------------------------------------- */

static void free_series(struct sl_remote_series **series, uint32_t n)
{
	for (uint32_t i = 0; series && i < n; i++)
		free(series[i]);
	free(series);
}

static const char *suffix_of(const struct def *d)
{
	switch (d->type) {
	case SL_FAMILY_COUNTER:
		return "_total";
	case SL_FAMILY_INFO:
		return "_info";
	case SL_FAMILY_HISTOGRAM:
		return "_count";
	default:
		return "";
	}
}

static bool renew_series(const struct sender *s, struct pod *p, const struct region *r,
			 const struct board *b)
{
	const struct layout *l = b->layout;
	struct sl_remote_series **series;
	struct sender_hists *hists;

	if (p->series && p->layout == l->generation && p->columns == l->columns)
		return true;
	series = calloc(l->columns + 1, sizeof(struct sl_remote_series *));
	if (!series)
		return false;
	for (uint32_t i = 0; i < l->columns; i++) {
		const struct def *d = l->column[i].def;

		if (d->type == SL_FAMILY_STATESET || l->column[i].twin)
			continue;
		series[i] = sender_series(r, d, suffix_of(d), NULL, NULL);
		if (!series[i]) {
			free_series(series, i);
			return false;
		}
		sender_series_follow(series[i], i < p->columns ? p->series[i] : NULL);
	}
	hists = sender_hists_new(r, l, p->hists, s->native);
	if (!hists) {
		free_series(series, l->columns);
		return false;
	}
	sender_hists_free(p->hists);
	p->hists = hists;
	free_series(p->series, p->columns);
	p->series = series;
	p->columns = l->columns;
	p->layout = l->generation;
	return true;
}

/* ---- pods ----------------------------------------------------------------------------------------------- */

static struct pod **place_of(struct sender *s, uint64_t instance)
{
	struct pod **at = &s->bucket[(instance * 0x9e3779b97f4a7c15ull >> 40) % BUCKETS];

	while (*at && (*at)->instance != instance)
		at = &(*at)->next;
	return at;
}

/* Spread over every_ns, as the samples of different pods are; an anomaly's at once. */
static void send_hists(struct sender *s, struct pod *p, const struct region *r,
		       const struct board *b, int64_t now)
{
	int64_t ns = (int64_t)GET(r->last_read_ns), every = (int64_t)s->o.every_ns;

	/* What is dead is read no more, and its last words are due all the same. */
	if (sl_remote_write_busy(s->w) || ns <= p->hists_sent_ns ||
	    (now < p->hists_ns && !p->anomalous))
		return;
	p->hists_sent_ns = ns;
	sender_hists_send(p->hists, s->w, b, ns);
	if (every)
		p->hists_ns = now - now % every + every + (int64_t)(p->instance % s->o.every_ns);
}

static void look(struct sender *s)
{
	struct index *x = index_get(s->c);
	int64_t now = (int64_t)sl_realtime_ns();
	uint64_t now_ns = sl_now_ns();

	s->looks++;
	for (size_t i = 0; x && i < x->regions; i++) {
		const struct region *r = x->region[i];
		struct pod **at, *p;

		if (!x->board[i])
			continue;
		at = place_of(s, r->instance);
		p = *at;
		if (!p) {
			p = calloc(1, sizeof(*p));
			if (!p) {
				BUMP(s->s.refused_pods, 1);
				continue;
			}
			p->instance = r->instance;
			sl_sample_init(&p->plan, &s->o, now - (int64_t)s->o.around_ns, p->instance);
			*at = p;
			BUMP(s->s.pods, 1);
		}
		p->seen = s->looks;
		if (!renew_series(s, p, r, x->board[i]))
			BUMP(s->s.refused_pods, 1);
		else if (region_visible(r, now_ns))
			send_hists(s, p, r, x->board[i], now);
	}
	index_put(x);
}

static void pod_free(struct sender *s, struct pod *p)
{
	free_series(p->series, p->columns);
	sender_hists_free(p->hists);
	free(p);
	BUMP(s->s.pods, -1ull);
}

/* Expired: the receiver is told that nothing comes any more. */
static void pod_end(struct sender *s, struct pod *p)
{
	int64_t now = (int64_t)sl_realtime_ns();

	for (uint32_t i = 0; i < p->columns; i++)
		if (p->series[i])
			sl_remote_write_end(s->w, p->series[i], now);
	sender_hists_end(p->hists, s->w, now);
	pod_free(s, p);
}

void sender_anomaly(struct sender *s, const struct sl_anomaly *a)
{
	struct pod *p = *place_of(s, a->instance);
	uint64_t before;

	if (!p)
		return;
	p->anomalous = !a->end_ns;
	before = p->plan.clipped_ns;
	sl_sample_anomaly(&p->plan, &s->o, a->begin_ns, a->end_ns ? a->last_ns : 0);
	BUMP(s->s.late_ns, p->plan.clipped_ns - before);
}

/* ---- sending ----------------------------------------------------------------------------------------------- */

static void send_column(struct sender *s, struct pod *p, uint32_t column)
{
	struct sl_remote_series *series = p->series[column];
	ssize_t n;

	if (!series)
		return;
	n = sl_collector_history_between(s->c, p->instance, column, p->span.from_ns + 1,
					 p->span.to_ns, s->point, p->span.last ? 1 : POINTS);
	if (n == POINTS)
		BUMP(s->s.truncated, 1);
	for (ssize_t i = 0; i < n; i++)
		s->out[i] = (struct sl_remote_point){s->point[i].ns, s->point[i].value};
	if (n > 0)
		sl_remote_write_points(s->w, series, s->out, (size_t)n);
}

/* False if the time is up, or the receiver behind. */
static bool send_pod(struct sender *s, struct pod *p, uint64_t end_ns)
{
	int64_t now = (int64_t)sl_realtime_ns(), oldest = now - BEHIND_NS;

	for (;;) {
		if (sl_now_ns() >= end_ns || sl_remote_write_busy(s->w))
			return false;
		if (!p->busy) {
			if (p->plan.fulls || !s->o.every_ns)
				BUMP(s->s.skipped_ns, sl_sample_skip(&p->plan, &s->o, oldest));
			if (!sl_sample_next(&p->plan, &s->o, now, s->most_ns, &p->span))
				return true;
			p->busy = true;
			p->column = 0;
			BUMP(s->s.windows, !p->span.last);
		}
		/* A look at the clock for each column would cost more than some columns do. */
		for (int i = 0; i < 16 && p->column < p->columns; i++)
			send_column(s, p, p->column++);
		p->busy = p->column < p->columns;
	}
}

bool sender_turn(struct sender *s, uint64_t slice_ns)
{
	uint64_t now = sl_now_ns(), end = now + slice_ns;
	bool more = false;

	if (now >= s->look_ns) {
		look(s);
		s->look_ns = now + LOOK_NS;
	}
	for (size_t i = 0; i < BUCKETS && !more; i++) {
		struct pod **at = &s->bucket[s->turn], *p;

		while (!more && (p = *at)) {
			if (p->seen != s->looks) {
				*at = p->next;
				pod_end(s, p);
				continue;
			}
			more = !send_pod(s, p, end);
			at = &p->next;
		}
		if (!more)
			s->turn = (s->turn + 1) % BUCKETS;
	}
	return more && !sl_remote_write_busy(s->w);
}

void sender_stats(const struct sender *s, struct sender_stats *out)
{
	*out = (struct sender_stats){
		.pods = GET(s->s.pods),
		.windows = GET(s->s.windows),
		.late_ns = GET(s->s.late_ns),
		.skipped_ns = GET(s->s.skipped_ns),
		.truncated = GET(s->s.truncated),
		.refused_pods = GET(s->s.refused_pods),
	};
}

void sender_free(struct sender *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct pod *p = s->bucket[i], *next; p; p = next) {
			next = p->next;
			pod_free(s, p);
		}
	free(s->point);
	free(s->out);
	free(s);
}
