// SPDX-License-Identifier: Apache-2.0
#include "collect/send/sender.h"

#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/table.h"
#include "collect/send/sender_hist.h"
#include "collect/read/collector_internal.h"
#include "collect/read/host.h"
#include "collect/read/index.h"

#define POINTS	  16384u	 /* maximum points per series at a time */
#define LOOK_NS	  500000000u	 /* time between two searches for pods */
#define BEHIND_NS 600000000000ll /* samples older than this are not sent */
#define SECOND_NS 1000000000ull
/* Rows of another collector's series appear this long after their time, at most. */
#define ORIGIN_LAG_NS 5000000000u
#define STEP_NS	      1000000000ll /* a smaller jump of the clock does not count as setting it */

struct sender_pod {
	struct base_node node; /* next pod in the bucket */
	uint64_t instance, seen;
	const struct collect_host *host;
	struct act_sample_pod plan;
	uint64_t layout;
	int64_t known_ns; /* the columns are as of this time */
	uint32_t columns;
	/* [columns]: the remote series of each column; NULL means not sent */
	struct export_remote_series **series;
	struct collect_sender_hists *hists;
	struct export_remote_series **all; /* series of columns and histograms, sorted by labels */
	size_t alls;
	int64_t hists_ns, hists_sent_ns; /* when histograms are due; time of those sent last */
	uint64_t jumped_ns; /* time that the clock skipped, for which there are no samples */
	bool anomalous;
	uint64_t lag_ns; /* rows may appear this long after their time */
	/* The span being sent: columns before `column` are done. */
	struct act_sample_span span;
	uint32_t column;
	bool busy;
};

struct collect_sender {
	struct collect_collector *c;
	struct export_remote_write *w;
	struct act_sample_opts o;
	struct collect_sender_form form;
	uint64_t most_ns; /* longest time span that POINTS points can always cover */
	struct base_table pods;
	size_t next; /* next bucket to visit */
	uint64_t look_ns, looks;
	/* offset of the real-time clock from the monotonic clock at the last search */
	int64_t offset_ns;
	struct collect_point *point;
	struct export_remote_point *out;
	struct collect_sender_stats s;
};

struct collect_sender *collect_sender_new(struct collect_collector *c,
					  struct export_remote_write *w,
					  const struct act_sample_opts *opts, uint64_t period_ns,
					  const struct collect_sender_form *form)
{
	struct collect_sender *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->c = c;
	s->w = w;
	s->o = *opts;
	s->form = *form;
	s->form.to = w;
	s->form.relabel_failed = &s->s.relabel_failed;
	/* With period 0, rounds are back to back and take tens of microseconds. */
	s->most_ns = POINTS / 2 * (period_ns ? period_ns : 20000);
	if (s->most_ns > 60 * SECOND_NS)
		s->most_ns = 60 * SECOND_NS;
	s->point = malloc(POINTS * sizeof(*s->point));
	s->out = malloc(POINTS * sizeof(*s->out));
	if (!base_table_init(&s->pods) || !s->point || !s->out) {
		collect_sender_free(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

/* ---- series ---- */

/*
 * Returns all series of a pod, sorted, and sets *n to their number. Returns NULL if out of memory.
 */
static struct export_remote_series **settle_series(struct export_remote_series **series,
						   uint32_t columns,
						   const struct collect_sender_hists *hists,
						   size_t *n)
{
	size_t most = columns + collect_sender_hists_series(hists, NULL);
	struct export_remote_series **all = calloc(most + 1, sizeof(struct export_remote_series *));

	*n = 0;
	if (!all)
		return NULL;
	for (uint32_t i = 0; i < columns; i++)
		if (series[i])
			all[(*n)++] = series[i];
	*n += collect_sender_hists_series(hists, all + *n);
	export_remote_series_settle(all, *n);
	return all;
}

static void free_series(struct sender_pod *p)
{
	free(p->all);
	collect_sender_hists_free(p->hists);
	collect_sender_series_free(p->series, p->columns);
}

static bool renew_series(const struct collect_sender *s, struct sender_pod *p,
			 const struct collect_region *r, const struct collect_snapshot *b)
{
	const struct collect_layout *l = b->layout;
	struct sender_pod now = {.columns = l->columns};

	if (p->series && p->layout == l->generation && p->columns == l->columns)
		return true;
	now.series = calloc(l->columns + 1, sizeof(struct export_remote_series *));
	if (!now.series)
		return false;
	for (uint32_t i = 0; i < l->columns; i++) {
		const struct collect_def *d = l->column[i].def;

		if (d->type == EXPORT_FAMILY_STATESET || l->column[i].twin || l->column[i].removed)
			continue;
		if (!collect_sender_series(r, &l->column[i], collect_history_suffix(d->type), NULL,
					   NULL, &s->form, &now.series[i]))
			goto fail;
	}
	now.hists = collect_sender_hists_new(r, l, &s->form);
	if (!now.hists)
		goto fail;
	now.all = settle_series(now.series, l->columns, now.hists, &now.alls);
	if (!now.all)
		goto fail;
	/* End the series of metrics that were removed or replaced. */
	export_remote_write_follow(s->w, now.all, now.alls, p->all, p->alls,
				   (int64_t)base_realtime_ns());
	free_series(p);
	p->all = now.all;
	p->alls = now.alls;
	p->hists = now.hists;
	p->series = now.series;
	p->columns = l->columns;
	p->layout = l->generation;
	return true;
fail:
	free_series(&now);
	return false;
}

/* ---- pods ---- */

static struct sender_pod *find_pod(const struct collect_sender *s, uint64_t instance)
{
	struct sender_pod *p = base_table_first(&s->pods, base_hash_u64(instance));

	while (p && p->instance != instance)
		p = base_table_next(p);
	return p;
}

/*
 * Sends histograms once per every_ns, at an offset that depends on the pod, to spread the load.
 * During an anomaly, sends them immediately.
 */
static void send_hists(struct collect_sender *s, struct sender_pod *p,
		       const struct collect_region *r, const struct collect_snapshot *b,
		       int64_t now)
{
	int64_t ns = (int64_t)relaxed_load(r->last_read_ns), every = (int64_t)s->o.every_ns;

	/* The final values of a dead pod are sent, too. */
	if (export_remote_write_busy(s->w) || ns <= p->hists_sent_ns ||
	    (now < p->hists_ns && !p->anomalous))
		return;
	p->hists_sent_ns = ns;
	collect_sender_hists_send(p->hists, s->w, r, b, ns);
	for (uint32_t i = 0; i < p->columns && i < b->layout->columns; i++)
		if (p->series[i] && region_is_counter(&b->layout->column[i].def->metric))
			collect_sender_exemplars(s->w, r, &b->layout->column[i], &p->series[i], 1,
						 ns);
	if (every)
		p->hists_ns = now - now % every + every +
			      (int64_t)act_sample_phase(&s->o, p->instance);
}

/* Detects that the clock was set, and computes the consequences. */
static void watch_clock(struct collect_sender *s, int64_t now, uint64_t now_ns)
{
	const int64_t around = s->o.every_ns ? (int64_t)s->o.around_ns : 0;
	const int64_t offset = now - (int64_t)now_ns, step = offset - s->offset_ns;
	const bool forward = s->looks && step >= STEP_NS, withheld = s->s.withheld_ns;
	int64_t left = 0;

	BASE_TABLE_EACH(&s->pods, n) {
		struct sender_pod *p = (struct sender_pod *)n;

		left = BASE_MAX(left, p->plan.cursor_ns + around - now);
		p->jumped_ns += forward ? (uint64_t)step : 0;
	}
	s->offset_ns = offset;
	left = left < STEP_NS ? 0 : left;
	if (left)
		relaxed_bump(s->s.back_ns, LOOK_NS);
	relaxed_store(s->s.withheld_ns, (uint64_t)left);
	if (forward)
		base_logf(BASE_WARN, "remote-write", "the clock jumped forward seconds=%lld",
			  (long long)(step / STEP_NS));
	if (left && !withheld)
		base_logf(BASE_WARN, "remote-write",
			  "the clock jumped back: no samples are sent until it has caught up "
			  "seconds=%lld",
			  (long long)(left / STEP_NS));
	if (!left && withheld)
		base_logf(BASE_INFO, "remote-write",
			  "the clock has caught up: sending samples again");
}

/*
 * Returns true if the pod belongs to this sender. The hash of its labels does not change over
 * restarts, so a series keeps its sender: the receiver accepts its samples only in order.
 */
static bool is_own(const struct collect_sender *s, const struct collect_region *r)
{
	return s->form.shards < 2 || r->group->hash % s->form.shards == s->form.shard;
}

static void look_at_index(struct collect_sender *s)
{
	int64_t now = (int64_t)base_realtime_ns();
	struct collect_index *x = collect_index_get(s->c);
	uint64_t now_ns = base_now_ns();

	watch_clock(s, now, now_ns);
	s->looks++;
	for (size_t i = 0; x && i < x->regions; i++) {
		const struct collect_region *r = x->region[i];
		struct sender_pod *p;

		if (!x->snapshot[i] || !is_own(s, r))
			continue;
		p = find_pod(s, r->instance);
		if (!p) {
			p = calloc(1, sizeof(*p));
			if (!p)
				continue;
			p->instance = r->instance;
			p->host = r->host;
			act_sample_init(&p->plan, &s->o, now - (int64_t)s->o.around_ns,
					p->instance);
			base_table_add(&s->pods, p, base_hash_u64(p->instance));
		}
		p->seen = s->looks;
		p->known_ns = now;
		p->lag_ns = r->origin ? ORIGIN_LAG_NS : 0;
		if (renew_series(s, p, r, x->snapshot[i]) && collect_region_visible(r, now_ns))
			send_hists(s, p, r, x->snapshot[i], now);
	}
	collect_index_put(x);
}

static void pod_free(struct sender_pod *p)
{
	free_series(p);
	free(p);
}

/*
 * Called when a pod has expired. Marks its series stale at the receiver, unless its host has left,
 * because another collector may send them now.
 */
static void pod_end(struct collect_sender *s, struct sender_pod *p)
{
	if (relaxed_load(p->host->wanted))
		export_remote_write_follow(s->w, NULL, 0, p->all, p->alls,
					   (int64_t)base_realtime_ns());
	pod_free(p);
}

void collect_sender_anomaly(struct collect_sender *s, const struct act_anomaly *a)
{
	struct sender_pod *p = find_pod(s, a->instance);
	uint64_t before;

	if (!p)
		return;
	p->anomalous = !a->end_ns;
	before = p->plan.clipped_ns;
	act_sample_anomaly(&p->plan, &s->o, a->begin_ns, a->end_ns ? a->last_ns : 0);
	relaxed_bump(s->s.late_ns, p->plan.clipped_ns - before);
}

/* ---- sending ---- */

static void send_column(struct collect_sender *s, struct sender_pod *p, uint32_t column)
{
	const struct collect_series_ref of = {.instance = p->instance, .metric = column};
	struct export_remote_series *series = p->series[column];
	ssize_t n;

	if (!series)
		return;
	n = collect_collector_points(s->c, &of, p->known_ns, p->span.from_ns + 1, p->span.to_ns,
				     s->point, p->span.last ? 1 : POINTS, NULL);
	for (ssize_t i = 0; i < n; i++)
		s->out[i] = (struct export_remote_point){s->point[i].ns, s->point[i].value};
	if (n > 0)
		export_remote_write_points(s->w, series, s->out, (size_t)n);
}

/* Skips samples that are too old. Time that the clock skipped does not count as lost. */
static void skip_older(struct collect_sender *s, struct sender_pod *p, int64_t oldest)
{
	uint64_t skipped = act_sample_skip(&p->plan, &s->o, oldest);
	uint64_t jumped = BASE_MIN(skipped, p->jumped_ns);

	p->jumped_ns -= jumped;
	relaxed_bump(s->s.skipped_ns, skipped - jumped);
}

/* Returns false if the time is up, or the receiver is behind. */
static bool send_pod(struct collect_sender *s, struct sender_pod *p, uint64_t end_ns)
{
	/*
	 * The current time by the real-time clock, assuming no step since the last watch_clock().
	 */
	int64_t now = (int64_t)base_now_ns() + s->offset_ns, oldest = now - BEHIND_NS;
	/*
	 * A row that was read before now may not be published yet. Sampling allows for this delay;
	 * without sampling, stop at the last time for which all rows are published.
	 */
	int64_t decided = s->o.every_ns ? now : BASE_MIN(now, collect_collector_shown(s->c));

	decided -= (int64_t)p->lag_ns;
	for (;;) {
		if (base_now_ns() >= end_ns || export_remote_write_busy(s->w))
			return false;
		if (!p->busy) {
			if (p->plan.fulls || !s->o.every_ns)
				skip_older(s, p, oldest);
			if (!act_sample_next(&p->plan, &s->o, decided, s->most_ns, &p->span))
				return true;
			p->busy = true;
			p->column = 0;
		}
		/* Reading the clock costs more than sending some columns. */
		for (int i = 0; i < 16 && p->column < p->columns; i++)
			send_column(s, p, p->column++);
		p->busy = p->column < p->columns;
	}
}

bool collect_sender_poll(struct collect_sender *s, uint64_t slice_ns)
{
	uint64_t now = base_now_ns(), end = now + slice_ns;
	bool more = false;

	if (now >= s->look_ns) {
		look_at_index(s);
		s->look_ns = now + LOOK_NS;
	}
	for (size_t i = 0; i < s->pods.buckets && !more; i++) {
		struct base_node *at = s->pods.bucket[s->next % s->pods.buckets], *next;

		for (; at && !more; at = next) {
			struct sender_pod *p = (struct sender_pod *)at;

			next = at->next;
			if (p->seen != s->looks) {
				base_table_remove(&s->pods, p);
				pod_end(s, p);
				continue;
			}
			more = !send_pod(s, p, end);
		}
		s->next += !more;
	}
	return more && !export_remote_write_busy(s->w);
}

void collect_sender_stats(const struct collect_sender *s, struct collect_sender_stats *out)
{
	for (size_t i = 0; i < sizeof(*out) / sizeof(uint64_t); i++)
		((uint64_t *)out)[i] = relaxed_load(((const uint64_t *)&s->s)[i]);
}

void collect_sender_free(struct collect_sender *s)
{
	if (!s)
		return;
	BASE_TABLE_EACH(&s->pods, n)
		pod_free((struct sender_pod *)n);
	base_table_free(&s->pods);
	free(s->point);
	free(s->out);
	free(s);
}
