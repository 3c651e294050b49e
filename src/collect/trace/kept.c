// SPDX-License-Identifier: Apache-2.0
/*
 * kept.c - kept traces, from the decision until they are evicted. Spans are appended as they arrive
 * and sorted when they are read: keeping the list sorted would take time quadratic in its length,
 * which is up to the publisher.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/graph.h"
#include "base/base.h"
#include "base/grow.h"
#include "collect/judge/live.h"
#include "collect/trace/export.h"
#include "collect/trace/internal.h"
#include "collect/trace/json.h"
#include "export/kafka.h"

#define OPEN_MAX 4096u /* maximum open kept traces */
/*
 * maximum number of kept traces with the same hash, because a run with that hash is read for each
 * of them
 */
#define ALIKE_MAX  8u
#define SPANS_MAX  10000u /* maximum spans per trace */
#define TAUGHT_MAX 1024u  /* maximum spans of a trace from which the call graph learns */
/* maximum bytes of a trace for Kafka, whose messages have up to 1 MB */
#define MESSAGE_MAX 900000u
#define SPAN_LINES  2u		 /* minimum lines per span */
#define ASKED_MAX   (64u << 20)	 /* maximum bytes of spans in flight */
#define BEFORE_NS   60000000000u /* how far back to search for runs of a trace without a root */
#define LATE_NS	    60000000000u /* how long after its end a trace may be reopened */

/* ---- the list ---- */

struct collect_trace_kept *collect_trace_kept_find(const struct collect_tracer *t, uint64_t hi,
						   uint64_t lo)
{
	struct collect_trace_kept *k = base_table_first(&t->by_id, sl_span_hash(hi, lo));

	while (k && (k->t.trace_hi != hi || k->t.trace_lo != lo))
		k = base_table_next(k);
	return k;
}

static void kept_free(struct collect_trace_kept *k)
{
	while (k->t.first) {
		struct collect_trace_span *s = (struct collect_trace_span *)k->t.first;

		k->t.first = s->next;
		free(s);
	}
	free(k->text);
	free(k);
}

static void kept_unlink(struct collect_tracer *t, struct collect_trace_kept *k)
{
	base_table_remove(&t->by_id, k);
	*(k->newer ? &k->newer->older : &t->newest) = k->older;
	*(k->older ? &k->older->newer : &t->oldest) = k->newer;
	t->stats.held--;
	t->stats.held_bytes -= k->bytes;
}

/* Evicts the oldest traces that are not open. */
static void kept_evict(struct collect_tracer *t)
{
	struct collect_trace_kept *k = t->oldest, *newer;

	for (; k && t->stats.held_bytes > t->o.memory; k = newer) {
		newer = k->newer;
		if (k->open || k->outstanding)
			continue;
		kept_unlink(t, k);
		kept_free(k);
		t->stats.evicted++;
	}
}

static void lose_lines(struct collect_tracer *t, struct collect_trace_kept *k, uint64_t *counter,
		       uint32_t lines)
{
	*counter += lines;
	if (!k)
		return;
	pthread_mutex_lock(&t->lock);
	k->t.lost_lines += lines;
	pthread_mutex_unlock(&t->lock);
}

/* ---- runs ---- */

static void spans_ask(struct collect_tracer *t, struct collect_trace_kept *k,
		      const struct collect_trace_run *run)
{
	struct collect_trace_request *r = NULL;

	if (run->pod && !collect_trace_may_read_spans(t, run->pod, run->lines * SL_LINE_SIZE)) {
		lose_lines(t, k, &t->stats.lost_bytes, run->lines);
		return;
	}
	if (run->pod && t->asked <= ASKED_MAX)
		r = collect_trace_request_new(t, run->pod, collect_trace_take_spans,
					      run->lines * SL_LINE_SIZE);
	if (!r) {
		lose_lines(t, k, run->pod ? &t->stats.lost_unread : &t->stats.lost_gone,
			   run->lines);
		return;
	}
	t->asked += r->length;
	r->pod->tenant->asked += r->length;
	r->kept = k;
	if (k)
		k->outstanding++;
	r->ring = run->ring;
	r->number = run->number;
	r->count = run->lines;
	collect_trace_ask_lines(r);
}

static void ask_run(struct collect_tracer *t, struct collect_trace_run *run, void *arg)
{
	spans_ask(t, arg, run);
}

/* Returns true if runs must still be read for the trace. */
static bool is_wanted(const struct collect_trace_kept *k, uint64_t now_ns)
{
	return k->open || now_ns - k->since_ns < LATE_NS;
}

/*
 * Returns true if too many kept traces have this hash. Publishers choose trace IDs, and the hash
 * has only 23 bits: without a limit, all runs of a publisher could be read once for each of its
 * traces.
 */
static bool too_many_alike(const struct collect_tracer *t, uint32_t hash)
{
	uint64_t now = base_now_ns();
	unsigned int n = 0;

	for (const struct collect_trace_kept *k = base_table_first(&t->by_id, hash); k;
	     k = base_table_next(k))
		n += is_wanted(k, now);
	return n >= ALIKE_MAX;
}

void collect_trace_kept_run(struct collect_tracer *t, const struct collect_trace_run *run,
			    bool error)
{
	uint64_t now = 0;
	bool wanted = false;

	for (struct collect_trace_kept *k = base_table_first(&t->by_id, run->hash); k;
	     k = base_table_next(k)) {
		now = now || k->open ? now : base_now_ns();
		if (is_wanted(k, now)) {
			spans_ask(t, k, run);
			wanted = true;
		}
	}
	if (error && !wanted && act_trace_could_afford(t->policy, ACT_TRACE_ERROR))
		spans_ask(t, NULL, run);
}

/* ---- keeping ---- */

/* Called with the lock held. If out of memory, the names stay empty. */
static void set_root(struct collect_tracer *t, struct collect_trace_kept *k,
		     const struct collect_trace_pending *root)
{
	size_t name = strlen(root->name) + 1, service = strlen(root->pod->service) + 1;

	k->t.start_ns = root->root.start_ns;
	k->t.duration_ns = root->root.duration_ns;
	k->t.instance = root->pod->instance;
	free(k->text);
	k->t.root = k->t.service = "";
	k->text = malloc(name + service);
	if (!k->text)
		return;
	memcpy(k->text, root->name, name);
	memcpy(k->text + name, root->pod->service, service);
	k->t.root = k->text;
	k->t.service = k->text + name;
	k->bytes += name + service;
	t->stats.held_bytes += name + service;
}

static void open_trace(struct collect_tracer *t, struct collect_trace_kept *k)
{
	k->open = true;
	k->close_ns = base_now_ns() + t->o.linger_ns;
	k->open_next = t->open;
	t->open = k;
	t->opens++;
}

void collect_trace_keep(struct collect_tracer *t, uint64_t hi, uint64_t lo,
			enum act_trace_reason reason, const struct collect_trace_pending *root)
{
	uint32_t hash = sl_span_hash(hi, lo);
	struct collect_trace_kept *k = NULL;

	if (t->opens < OPEN_MAX && !too_many_alike(t, hash))
		k = calloc(1, sizeof(*k));
	if (!k) {
		t->stats.lost_memory++;
		return;
	}
	k->bytes = sizeof(*k);
	k->since_ns = base_now_ns();
	k->t = (struct collect_trace){
		.trace_hi = hi,
		.trace_lo = lo,
		.reason = reason,
		.root = "",
		.service = "",
		.error = reason == ACT_TRACE_ERROR,
	};
	open_trace(t, k);
	pthread_mutex_lock(&t->lock);
	base_table_add(&t->by_id, k, hash);
	k->older = t->newest;
	*(t->newest ? &t->newest->newer : &t->oldest) = k;
	t->newest = k;
	t->stats.held++;
	t->stats.held_bytes += k->bytes;
	if (root)
		set_root(t, k, root);
	kept_evict(t);
	pthread_mutex_unlock(&t->lock);
	collect_trace_each_run(t, hash, root ? root->root.duration_ns : BEFORE_NS, ask_run, k);
}

void collect_trace_kept_root(struct collect_tracer *t, struct collect_trace_kept *k,
			     const struct collect_trace_pending *root)
{
	pthread_mutex_lock(&t->lock);
	if (!k->text)
		set_root(t, k, root);
	pthread_mutex_unlock(&t->lock);
}

/* ---- spans ---- */

static char *put_text(char **to, const char *s)
{
	char *start = *to;

	*to = stpcpy(start, s) + 1;
	return start;
}

static const char *key_of(const struct collect_trace_pod *p, uint32_t id)
{
	const char *key = region_schema_string(&p->schema, id);

	return key ? key : "?";
}

/* Makes a span in one allocation. Returns NULL if out of memory. */
static struct collect_trace_span *span_new(const struct region_span_data *d,
					   const struct collect_trace_pod *p, const char *name)
{
	size_t text = strlen(name) + strlen(p->service) + strlen(p->pod) + strlen(p->owner) +
		      strlen(d->message) + 5;
	struct export_otlp_attr *a;
	struct collect_trace_span *s;
	size_t bytes;
	char *to;

	for (uint32_t i = 0; i < d->attr_count; i++) {
		text += strlen(key_of(p, d->attrs[i].key)) + 1;
		if (d->attrs[i].type == SL_SPAN_TYPE_STRING)
			text += strlen(d->attrs[i].string) + 1;
	}
	bytes = sizeof(*s) + d->attr_count * sizeof(*a) + text;
	s = malloc(bytes);
	if (!s)
		return NULL;
	a = (struct export_otlp_attr *)(s + 1);
	to = (char *)(a + d->attr_count);
	*s = (struct collect_trace_span){
		.instance = p->instance,
		.duration_ns = d->duration_ns,
		.service = put_text(&to, p->service),
		.pod = put_text(&to, p->pod),
		.owner = put_text(&to, p->owner),
		.bytes = bytes,
	};
	s->o = (struct export_otlp_span){
		.trace_hi = d->trace_hi,
		.trace_lo = d->trace_lo,
		.span_id = d->span_id,
		.parent_id = d->parent_id,
		.start_ns = d->start_ns,
		.end_ns = d->start_ns + BASE_MIN(d->duration_ns, UINT64_MAX - d->start_ns),
		.kind = d->kind + 1, /* in OTLP, 0 is "unspecified" */
		.status = d->status,
		.flags = d->flags | EXPORT_OTLP_HAS_REMOTE |
			 (d->remote ? EXPORT_OTLP_IS_REMOTE : 0),
		.name = put_text(&to, name),
		.message = put_text(&to, d->message),
		.attrs = a,
		.attr_count = d->attr_count,
	};
	for (uint32_t i = 0; i < d->attr_count; i++) {
		const struct region_span_attr *from = &d->attrs[i];

		a[i] = (struct export_otlp_attr){.key = put_text(&to, key_of(p, from->key))};
		switch (from->type) {
		case SL_SPAN_TYPE_STRING:
			a[i].type = EXPORT_OTLP_STRING;
			a[i].string = put_text(&to, from->string);
			break;
		case SL_SPAN_TYPE_BOOL:
			a[i].type = EXPORT_OTLP_BOOL;
			a[i].boolean = from->boolean;
			break;
		case SL_SPAN_TYPE_F64:
			a[i].type = EXPORT_OTLP_F64;
			a[i].f64 = from->f64;
			break;
		default:
			a[i].type = EXPORT_OTLP_I64;
			a[i].i64 = from->i64;
		}
	}
	return s;
}

/* Called with the lock held. */
static void span_add(struct collect_tracer *t, struct collect_trace_kept *k,
		     struct collect_trace_span *s)
{
	s->next = (struct collect_trace_span *)k->t.first;
	k->t.first = s;
	k->untidy = true;
	k->t.spans++;
	k->t.error |= s->o.status == SL_SPAN_ERROR;
	k->bytes += s->bytes;
	t->stats.held_bytes += s->bytes;
	t->stats.spans_kept++;
}

static int by_start(const void *a, const void *b)
{
	const struct collect_trace_span *x = *(struct collect_trace_span *const *)a;
	const struct collect_trace_span *y = *(struct collect_trace_span *const *)b;

	if (x->o.start_ns != y->o.start_ns)
		return x->o.start_ns < y->o.start_ns ? -1 : 1;
	if (x->o.span_id != y->o.span_id)
		return x->o.span_id < y->o.span_id ? -1 : 1;
	return (x->instance > y->instance) - (x->instance < y->instance);
}

/*
 * Drops duplicates of spans that were read twice because their pod was lost and found again;
 * prefers to keep the one already sent.
 */
static uint32_t drop_twins(struct collect_tracer *t, struct collect_trace_kept *k,
			   struct collect_trace_span **span, uint32_t n)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!left || by_start(&span[left - 1], &span[i])) {
			span[left++] = span[i];
			continue;
		}
		if (span[i]->sent) {
			struct collect_trace_span *twin = span[left - 1];

			span[left - 1] = span[i];
			span[i] = twin;
		}
		k->bytes -= span[i]->bytes;
		t->stats.held_bytes -= span[i]->bytes;
		t->stats.spans_kept--;
		free(span[i]);
	}
	return left;
}

void collect_trace_kept_tidy(struct collect_tracer *t, struct collect_trace_kept *k)
{
	struct collect_trace_span **span, *s;
	uint32_t n = 0, pods = 0, orphans = 0;
	uint64_t *number;

	if (!k->untidy)
		return;
	span = malloc(k->t.spans * sizeof(struct collect_trace_span *));
	number = malloc(k->t.spans * sizeof(*number));
	if (!span || !number)
		goto out;
	for (s = (struct collect_trace_span *)k->t.first; s; s = s->next)
		span[n++] = s;
	/* The names belong to a span that may be dropped below. */
	if (!k->text)
		k->t.root = k->t.service = "";
	qsort(span, n, sizeof(struct collect_trace_span *), by_start);
	n = drop_twins(t, k, span, n);
	for (uint32_t i = 0; i < n; i++) {
		span[i]->next = i + 1 < n ? span[i + 1] : NULL;
		number[i] = span[i]->instance;
	}
	qsort(number, n, sizeof(*number), base_by_u64);
	for (uint32_t i = 0; i < n; i++)
		pods += !i || number[i] != number[i - 1];
	for (uint32_t i = 0; i < n; i++)
		number[i] = span[i]->o.span_id;
	qsort(number, n, sizeof(*number), base_by_u64);
	for (uint32_t i = 0; i < n; i++)
		orphans += span[i]->o.parent_id &&
			   !bsearch(&span[i]->o.parent_id, number, n, sizeof(*number), base_by_u64);
	/* The root of a trace kept because of an error may be among the spans. */
	for (uint32_t i = 0; i < n && !k->text; i++) {
		if (span[i]->o.parent_id)
			continue;
		k->t.root = span[i]->o.name;
		k->t.service = span[i]->service;
		k->t.start_ns = span[i]->o.start_ns;
		k->t.duration_ns = span[i]->duration_ns;
		break;
	}
	k->t.first = span[0];
	k->t.spans = n;
	k->t.pods = pods;
	k->t.orphans = orphans;
	k->untidy = false;
out:
	free(span);
	free(number);
}

static void take_span(struct collect_tracer *t, struct collect_trace_request *r,
		      const struct region_span_data *d, uint32_t lines)
{
	struct collect_trace_kept *k = r->kept;
	struct collect_trace_span *s;
	bool room;

	if (!k) {
		if (d->status == SL_SPAN_ERROR)
			collect_trace_found_error(t, r->pod, d);
		return;
	}
	/* The span belongs to another trace with the same hash. */
	if (d->trace_hi != k->t.trace_hi || d->trace_lo != k->t.trace_lo)
		return;
	if (!k->open && t->opens >= OPEN_MAX) {
		lose_lines(t, k, &t->stats.lost_unread, lines);
		return;
	}
	if (!k->open)
		open_trace(t, k);
	s = span_new(d, r->pod, collect_trace_name(t, r->pod, d->name, TRACE_TRIES));
	pthread_mutex_lock(&t->lock);
	/* Open traces cannot be evicted, so they may take the same amount of memory on top. */
	room = k->t.spans < SPANS_MAX && t->stats.held_bytes < 2 * t->o.memory;
	if (s && room)
		span_add(t, k, s);
	pthread_mutex_unlock(&t->lock);
	if (s && room)
		return;
	free(s);
	lose_lines(t, k, &t->stats.lost_unread, lines);
}

/* Returns true if all names of the span are known; otherwise requests the missing names. */
static bool names_known(struct collect_tracer *t, struct collect_trace_pod *p,
			const struct region_span_data *d, uint32_t tries)
{
	bool known = collect_trace_name(t, p, d->name, tries) != NULL;

	for (uint32_t i = 0; i < d->attr_count; i++)
		known &= collect_trace_name(t, p, d->attrs[i].key, tries) != NULL;
	return known;
}

/*
 * Takes one span, or skips a line that does not start a span. Returns false if the line must be
 * read again.
 */
static bool take_lines(struct collect_tracer *t, struct collect_trace_request *r, uint32_t i,
		       uint32_t *n)
{
	const uint64_t(*lines)[8] = (const uint64_t(*)[8])r->bytes;
	bool last = r->tries >= TRACE_TRIES;

	switch (region_span_parse(lines + i, r->count - i, r->number + i, &t->data, n)) {
	case REGION_SPAN_LINE_GOOD:
		if (!names_known(t, r->pod, &t->data, r->tries))
			return false;
		take_span(t, r, &t->data, *n);
		return true;
	case REGION_SPAN_LINE_EARLY:
	case REGION_SPAN_LINE_UNSETTLED:
		if (last)
			lose_lines(t, r->kept, &t->stats.lost_unsettled, *n);
		return last;
	case REGION_SPAN_LINE_INSIDE: /* the span's first line is read again, or was overrun */
		if (r->again)
			return false;
		lose_lines(t, r->kept, &t->stats.lost_overrun, *n);
		return true;
	case REGION_SPAN_LINE_LATE:
		lose_lines(t, r->kept, &t->stats.lost_overrun, *n);
		return true;
	case REGION_SPAN_LINE_SHORT:
	case REGION_SPAN_LINE_LIE:
		break;
	}
	lose_lines(t, r->kept, &t->stats.lost_lies, *n);
	return true;
}

static bool is_done(const struct collect_trace_request *r, uint32_t line)
{
	return r->done[line / 64] >> line % 64 & 1;
}

void collect_trace_take_spans(struct collect_tracer *t, struct collect_trace_request *r)
{
	bool passing = r->status == -EAGAIN || r->status == -ETIMEDOUT || r->status == -ENOTCONN;
	uint32_t n;

	if (passing && r->tries < TRACE_TRIES) {
		r->again = true;
		return;
	}
	t->stats.bytes_spans += r->status ? 0 : r->length;
	r->pod->tenant->moved += r->status ? 0 : r->length;
	for (uint32_t i = 0; i < r->count; i += n) {
		n = 1;
		if (is_done(r, i))
			continue;
		if (r->status) {
			lose_lines(t, r->kept, &t->stats.lost_gone, 1);
			continue;
		}
		if (!take_lines(t, r, i, &n)) {
			r->again = true;
			continue;
		}
		for (uint32_t k = i; k < i + n; k++)
			r->done[k / 64] |= 1ull << k % 64;
	}
}

/* ---- closing ---- */

void collect_trace_kept_show(struct collect_tracer *t, struct collect_trace_kept *k)
{
	if (!t->judged || k->notified || !k->open || k->outstanding)
		return;
	pthread_mutex_lock(&t->lock);
	k->notified = collect_trace_notify_verdicts(t, &k->t, k->since_ns, false);
	pthread_mutex_unlock(&t->lock);
}

/* Sends the whole trace with its ID as the key, so that a message replaces the previous one. */
static void produce_trace(struct collect_tracer *t, const struct collect_trace_kept *k)
{
	struct base_json j;
	char id[33];

	snprintf(id, sizeof(id), "%016llx%016llx", (unsigned long long)k->t.trace_hi,
		 (unsigned long long)k->t.trace_lo);
	base_json_init(&j, MESSAGE_MAX);
	base_json_begin(&j, '{');
	collect_trace_put(&j, &k->t);
	base_json_kbegin(&j, "spans", '[');
	for (const struct collect_trace_span *s = k->t.first; s; s = s->next) {
		base_json_begin(&j, '{');
		collect_trace_put_span(&j, s);
		base_json_end(&j, '}');
	}
	base_json_end(&j, ']');
	base_json_end(&j, '}');
	if (j.overflow)
		t->stats.lost_memory++;
	else
		export_kafka_send(t->o.kafka, EXPORT_KAFKA_TRACES, id, j.buf, j.len);
	base_json_free(&j);
}

/* Sends the new spans. Called with the lock held. */
static void hand_over(struct collect_tracer *t, struct collect_trace_kept *k)
{
	bool anything = false;

	for (const struct collect_trace_span *s = k->t.first; s && !anything; s = s->next)
		anything = !s->sent;
	if (t->otlp && !k->closed)
		k->known = export_otlp_known(t->otlp, k->t.trace_hi, k->t.trace_lo);
	k->closed = true;
	if (!anything || (!t->otlp && !t->o.kafka))
		return;
	if (t->o.kafka)
		produce_trace(t, k);
	if (t->otlp && !k->known && !collect_trace_export(t->otlp, &k->t, t->since_ns))
		t->stats.lost_memory++;
	for (struct collect_trace_span *s = (struct collect_trace_span *)k->t.first; s; s = s->next)
		s->sent = true;
}

/*
 * Counts a root whose span cannot be found because the index was overrun. The count stays even if
 * the root arrives after a reopening, because a counter must not decrease. Called with the lock
 * held.
 */
static void miss_root(struct collect_tracer *t, struct collect_trace_kept *k)
{
	const struct collect_trace_span *s = k->t.first;

	while (s && s->o.parent_id)
		s = s->next;
	if (s || !k->text || k->t.lost_lines)
		return;
	k->t.lost_lines += SPAN_LINES;
	t->stats.lost_overrun += SPAN_LINES;
}

/* Returns the index of the parent among the spans. */
static uint32_t place_of_parent(const struct collect_trace *k, const struct collect_trace_span *s)
{
	uint32_t i = 0;

	if (!s->o.parent_id)
		return ANALYSE_SPAN_ROOT;
	for (const struct collect_trace_span *p = k->first; p; p = p->next, i++)
		if (p->o.span_id == s->o.parent_id)
			return i;
	return ANALYSE_SPAN_LOST;
}

/* Passes the calls between services to the analysis. */
static void teach_calls(struct collect_tracer *t, const struct collect_trace *k)
{
	struct collect_edges_span *span;
	struct collect_analysis_view a;
	uint32_t n = 0, i = 0;

	for (const struct collect_trace_span *s = k->first; s; s = s->next)
		n++;
	if (n < 2 || n > TAUGHT_MAX || !collect_collector_analysis(t->c, &a) ||
	    !collect_analysis_wants_trace(a.analysis))
		return;
	span = malloc(n * sizeof(*span));
	if (!span)
		return;
	for (const struct collect_trace_span *s = k->first; s; s = s->next)
		span[i++] = (struct collect_edges_span){
			.service = s->service, .owner = s->owner, .parent = place_of_parent(k, s)};
	collect_analysis_trace(a.analysis, span, n);
	free(span);
}

static void close_trace(struct collect_tracer *t, struct collect_trace_kept *k)
{
	t->opens--;
	pthread_mutex_lock(&t->lock);
	k->open = false;
	collect_trace_kept_tidy(t, k);
	if (!k->closed)
		miss_root(t, k);
	if (!k->closed && t->judged)
		teach_calls(t, &k->t);
	if (t->judged)
		collect_trace_notify_verdicts(t, &k->t, k->since_ns, true);
	hand_over(t, k);
	kept_evict(t);
	pthread_mutex_unlock(&t->lock);
}

void collect_trace_close_some(struct collect_tracer *t, uint64_t now_ns)
{
	struct collect_trace_kept **at = &t->open, *k;

	while ((k = *at)) {
		if (k->outstanding || now_ns < k->close_ns) {
			collect_trace_kept_show(t, k);
			at = &k->open_next;
			continue;
		}
		*at = k->open_next;
		close_trace(t, k);
	}
}

void collect_trace_kept_free_all(struct collect_tracer *t)
{
	struct collect_trace_kept *k;

	while ((k = t->open)) {
		t->open = k->open_next;
		close_trace(t, k);
	}
	while ((k = t->newest)) {
		t->newest = k->older;
		kept_free(k);
	}
}
