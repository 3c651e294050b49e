// SPDX-License-Identifier: Apache-2.0
/*
 * selftime.c - compares the times of an operation with its history. The times of a step form a
 * histogram. Its median and P90 are compared with the medians of the same quantiles in earlier
 * steps, using the likelihoods of culprit.c: a Student t with 3 degrees of freedom around the usual
 * quantile, or around the usual quantile plus a delay with a log-uniform prior.
 */
#include "analyse/selftime.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "base/table.h"

#define QUANTILES  2u	 /* two quantiles: the median and P90 */
#define PAST	   60u	 /* number of steps whose median is the usual quantile */
#define SPREAD_MIN 0.3f	 /* minimum deviation of a log quantile between steps, as for latencies */
#define MISS	   0.05f /* probability that an edge does not show a delay that it should show */
#define DELAYS	   14u	 /* delays from DELAY_MIN, each twice the previous one, to 4.1 s */
#define DELAY_MIN  0.0005
#define TIME_MIN   1e-6 /* seconds; less is rounding */
#define BIN	   0.1f /* width of a histogram bin, in log seconds */
#define BINS	   208u /* bins up to 1,000 s */
#define OWN	   UINT32_MAX

static const float quantile[QUANTILES] = {0.5f, 0.9f};

struct selftime_series {
	struct base_node node; /* by operation, pod and peer */
	uint64_t operation;
	/*
	 * peer: OWN for the pod's own time; otherwise the pod that it calls, for the gap between
	 * the two ends of these calls
	 */
	uint32_t pod, peer;
	uint32_t edge; /* index of the edge between them */
	uint32_t n, bins[BINS];
	uint32_t past; /* number of steps in ring */
	float ring[QUANTILES][PAST];
	float width; /* usual deviation of a log time within a step */
};

/* A caller and a callee. The log likelihood ratio is a mean over its operations. */
struct selftime_edge {
	uint32_t pod, peer, n;
	double sum;
};

struct analyse_selftime {
	struct selftime_series **series; /* oldest first, so that sums have a fixed order */
	struct selftime_edge *edge;
	struct base_table by_key;
	uint32_t n, edges;
	struct {
		double own, gap; /* sums over this step */
		uint32_t owns;
	} * pod;
	size_t room, edge_room, pods; /* allocated lengths */
	/* Scratch space for the trace being added. */
	uint32_t *calls;
	int64_t (*cut)[2];
	size_t span_room;
	float log_delay[DELAYS];
};

struct analyse_selftime *analyse_selftime_new(void)
{
	struct analyse_selftime *t = calloc(1, sizeof(*t));

	for (uint32_t d = 0; t && d < DELAYS; d++)
		t->log_delay[d] = (float)log(DELAY_MIN * (double)(1u << d));
	if (t && base_table_init(&t->by_key))
		return t;
	free(t);
	return NULL;
}

void analyse_selftime_free(struct analyse_selftime *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->n; i++)
		free(t->series[i]);
	base_table_free(&t->by_key);
	free(t->series);
	free(t->edge);
	free(t->pod);
	free(t->calls);
	free(t->cut);
	free(t);
}

/* ---- series ---- */

/* Returns the index of an edge; UINT32_MAX if out of memory. Only called for a new series. */
static uint32_t edge_of(struct analyse_selftime *t, uint32_t pod, uint32_t peer)
{
	uint32_t i = 0;

	while (i < t->edges && (t->edge[i].pod != pod || t->edge[i].peer != peer))
		i++;
	if (i < t->edges)
		return i;
	if (!BASE_GROW(t->edge, t->edges, t->edge_room))
		return UINT32_MAX;
	t->edge[t->edges++] = (struct selftime_edge){.pod = pod, .peer = peer};
	return i;
}

static struct selftime_series *series_of(struct analyse_selftime *t, uint32_t pod, uint32_t peer,
					 uint64_t operation)
{
	const uint64_t name[2] = {operation, (uint64_t)pod << 32 | peer};
	const uint64_t hash = base_hash(0, name, sizeof(name));
	struct selftime_series *s = base_table_first(&t->by_key, hash);
	uint32_t edge = 0;

	while (s && (s->operation != operation || s->pod != pod || s->peer != peer))
		s = base_table_next(s);
	if (s)
		return s;
	if (!BASE_GROW(t->series, t->n, t->room) ||
	    (peer != OWN && (edge = edge_of(t, pod, peer)) == UINT32_MAX) ||
	    !(s = calloc(1, sizeof(*s))))
		return NULL;
	s->operation = operation;
	s->pod = pod;
	s->peer = peer;
	s->edge = edge;
	base_table_add(&t->by_key, s, hash);
	t->series[t->n++] = s;
	return s;
}

static int count_time(struct analyse_selftime *t, const struct analyse_timed *s, uint32_t peer,
		      int64_t ns)
{
	struct selftime_series *to = series_of(t, s->pod, peer, s->operation);
	double bin = log(fmax((double)ns * 1e-9, TIME_MIN) / TIME_MIN) / (double)BIN;

	if (!to)
		return -ENOMEM;
	to->bins[bin < BINS ? (uint32_t)bin : BINS - 1]++;
	to->n++;
	return 0;
}

/* ---- a trace ---- */

static int by_begin(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Returns the time of the span not covered by any of n intervals. */
static int64_t uncovered_ns(const struct analyse_timed *s, int64_t (*cut)[2], uint32_t n)
{
	int64_t at = s->begin_ns, left = 0;

	qsort(cut, n, sizeof(*cut), by_begin);
	for (uint32_t i = 0; i < n && at < s->end_ns; i++) {
		if (cut[i][0] > at)
			left += (cut[i][0] < s->end_ns ? cut[i][0] : s->end_ns) - at;
		at = cut[i][1] > at ? cut[i][1] : at;
	}
	return left + (at < s->end_ns ? s->end_ns - at : 0);
}

static bool room_for(struct analyse_selftime *t, uint32_t n)
{
	size_t room = t->span_room;

	/* If the second one fails, the first one grows again. */
	return base_grow(&t->calls, &room, n, sizeof(*t->calls)) &&
	       base_grow(&t->cut, &t->span_room, n, sizeof(*t->cut));
}

static const struct analyse_timed *parent_of(const struct analyse_timed *spans, uint32_t n,
					     const struct analyse_timed *s)
{
	return s->parent < n && spans + s->parent != s ? &spans[s->parent] : NULL;
}

/*
 * Returns the time that a call takes longer than the callee, whose clock may differ. If the callee
 * works longer than the call takes, the caller does not wait for it; then the result is the time
 * until the work begins.
 */
static int64_t gap_of(const struct analyse_timed *call, const struct analyse_timed *child,
		      int64_t alone)
{
	int64_t wait;

	if (child->end_ns - child->begin_ns <= call->end_ns - call->begin_ns)
		return alone;
	wait = child->begin_ns - call->begin_ns;
	return wait > 0 ? wait : 0;
}

static bool is_sound(const struct analyse_timed *s)
{
	return s->end_ns >= s->begin_ns && s->begin_ns >= 0;
}

/*
 * Measures the span's own time or, for a call, the gaps between it and the spans that it causes in
 * other pods.
 */
static int measure_span(struct analyse_selftime *t, const struct analyse_timed *spans, uint32_t n,
			uint32_t i, uint32_t calls, bool is_call)
{
	const struct analyse_timed *s = &spans[i];
	uint32_t cuts = 0;
	int64_t alone = s->end_ns - s->begin_ns;
	int err = 0;

	for (uint32_t k = 0; k < n; k++)
		if (parent_of(spans, n, &spans[k]) == s && is_sound(&spans[k])) {
			/*
			 * by the callee's clock; only the length is used, not the position within
			 * the call
			 */
			t->cut[cuts][0] = spans[k].begin_ns;
			t->cut[cuts++][1] = spans[k].end_ns;
		}
	if (!is_call) {
		for (uint32_t c = 0; c < calls; c++) {
			const struct analyse_timed *call = &spans[t->calls[c]];

			if (call->pod != s->pod || call->begin_ns < s->begin_ns ||
			    parent_of(spans, n, call) == s)
				continue;
			t->cut[cuts][0] = call->begin_ns;
			t->cut[cuts++][1] = call->end_ns;
		}
		return count_time(t, s, OWN, uncovered_ns(s, t->cut, cuts));
	}
	if (cuts == 1)
		alone -= t->cut[0][1] - t->cut[0][0];
	else
		alone = uncovered_ns(s, t->cut, cuts);
	for (uint32_t k = 0; k < n && !err; k++)
		if (parent_of(spans, n, &spans[k]) == s && spans[k].pod != s->pod &&
		    is_sound(&spans[k]))
			err = count_time(t, s, spans[k].pod, gap_of(s, &spans[k], alone));
	return err;
}

int analyse_selftime_add(struct analyse_selftime *t, const struct analyse_timed *spans, uint32_t n)
{
	uint32_t calls = 0;
	int err = 0;

	if (n > ANALYSE_TRACE_MAX)
		return -E2BIG;
	if (!room_for(t, n))
		return -ENOMEM;
	/* Visit each span with a child in another pod once. */
	for (uint32_t i = 0; i < n; i++) {
		const struct analyse_timed *p = parent_of(spans, n, &spans[i]);
		uint32_t c = 0, at = p ? (uint32_t)(p - spans) : 0;

		if (!p || p->pod == spans[i].pod || !is_sound(p) || !is_sound(&spans[i]))
			continue;
		while (c < calls && t->calls[c] != at)
			c++;
		if (c == calls)
			t->calls[calls++] = at;
	}
	for (uint32_t i = 0; i < n && !err; i++) {
		bool is_call = false;

		if (!is_sound(&spans[i]))
			continue;
		for (uint32_t c = 0; c < calls && !is_call; c++)
			is_call = t->calls[c] == i;
		err = measure_span(t, spans, n, i, calls, is_call);
	}
	return err;
}

/* ---- a step ---- */

/* Returns the log of the time below which this share of the step's spans lies. */
static float log_quantile(const struct selftime_series *s, float share)
{
	float rank = share * (float)s->n, below = 0;
	uint32_t i = 0;

	while (i < BINS - 1 && below + (float)s->bins[i] < rank)
		below += (float)s->bins[i++];
	return ((float)i + (s->bins[i] ? (rank - below) / (float)s->bins[i] : 0)) * BIN +
	       logf((float)TIME_MIN);
}

static float student_surprise(float deviation, float spread)
{
	float z = deviation / spread;

	return 2 * log1pf(z * z / 3);
}

/*
 * Returns the deviation of a quantile at this step: the deviation between steps, estimated from the
 * known ones, combined with the deviation of n spans within a step.
 */
static float spread_of(const struct selftime_series *s, const float *sorted, uint32_t past)
{
	float between = past < 10 ? 0 : (sorted[past * 9 / 10] - sorted[past / 10]) / 2.56f;

	between = fmaxf(between, SPREAD_MIN);
	return sqrtf(between * between * (1 + 1 / (float)past) + s->width * s->width / (float)s->n);
}

/* Returns the evidence that the operation takes longer by any delay. */
static float delay_likelihood(const struct analyse_selftime *t, const struct selftime_series *s,
			      const float now[QUANTILES])
{
	uint32_t past = s->past < PAST ? s->past : PAST;
	float l[DELAYS] = {0}, most, sum = 0;

	for (uint32_t j = 0; j < QUANTILES; j++) {
		float sorted[PAST], usual, spread, before;

		memcpy(sorted, s->ring[j], past * sizeof(float));
		qsort(sorted, past, sizeof(float), base_by_f32);
		usual = 0.5f * (sorted[(past - 1) / 2] + sorted[past / 2]);
		spread = spread_of(s, sorted, past);
		before = student_surprise(now[j] - usual, spread);
		for (uint32_t d = 0; d < DELAYS; d++) {
			float delayed = logf(expf(usual) + expf(t->log_delay[d]));

			l[d] += (before - student_surprise(now[j] - delayed, spread)) / QUANTILES;
		}
	}
	most = l[0];
	for (uint32_t d = 1; d < DELAYS; d++)
		most = fmaxf(most, l[d]);
	for (uint32_t d = 0; d < DELAYS; d++)
		sum += expf(l[d] - most);
	return most + logf(sum / DELAYS);
}

static void learn_step(struct selftime_series *s, const float now[QUANTILES])
{
	float width = fmaxf(now[1] - now[0], 0) / 1.28f;

	for (uint32_t j = 0; j < QUANTILES; j++)
		s->ring[j][s->past % PAST] = now[j];
	s->past++;
	s->width += (width - s->width) / (float)(s->past < PAST ? s->past : PAST);
}

static int room_for_pods(struct analyse_selftime *t)
{
	uint32_t pods = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct selftime_series *s = t->series[i];

		pods = s->pod >= pods ? s->pod + 1 : pods;
		pods = s->peer != OWN && s->peer >= pods ? s->peer + 1 : pods;
	}
	if (!base_grow(&t->pod, &t->pods, pods, sizeof(*t->pod)))
		return -ENOMEM;
	if (t->pods)
		memset(t->pod, 0, t->pods * sizeof(*t->pod));
	return 0;
}

int analyse_selftime_step(struct analyse_selftime *t, float *evidence, uint32_t pods)
{
	int err = room_for_pods(t);

	memset(evidence, 0, pods * sizeof(*evidence));
	for (uint32_t i = 0; i < t->n; i++) {
		struct selftime_series *s = t->series[i];
		float now[QUANTILES];
		double e = 1;

		if (!s->n)
			continue;
		for (uint32_t j = 0; j < QUANTILES; j++)
			now[j] = log_quantile(s, quantile[j]);
		if (s->past)
			e = exp((double)delay_likelihood(t, s, now));
		if (!err && s->peer == OWN) {
			t->pod[s->pod].own += e;
			t->pod[s->pod].owns++;
		} else if (!err) {
			t->edge[s->edge].sum += e;
			t->edge[s->edge].n++;
		}
		learn_step(s, now);
		memset(s->bins, 0, sizeof(s->bins));
		s->n = 0;
	}
	for (uint32_t i = 0; i < t->edges; i++) {
		struct selftime_edge *e = &t->edge[i];
		double shown = e->n ? log((double)MISS + (1 - (double)MISS) * e->sum / e->n) : 0;

		if (!err) {
			t->pod[e->pod].gap += shown;
			t->pod[e->peer].gap += shown;
		}
		e->sum = 0;
		e->n = 0;
	}
	for (uint32_t i = 0; !err && i < pods && i < t->pods; i++) {
		double own = t->pod[i].owns ? log(t->pod[i].own / t->pod[i].owns) : 0;

		evidence[i] = (float)(fmax(own, 0) + fmax(t->pod[i].gap, 0));
	}
	return err;
}
