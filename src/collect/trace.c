// SPDX-License-Identifier: Apache-2.0
/*
 * trace.c - the tracer: what it has READ, and when. Everything but the list of kept traces, which
 * has a lock, and the box of answers, which has another, is its own thread's.
 *
 * Every period, of each pod that has spans: the heads of its rings; by them the new lines of roots
 * and index. An index entry goes into a table by the hash of its trace. A root is decided upon one
 * period after it was read, when the index of the other pods has come too. A trace that is kept is
 * open for a while: what the table has of it is fetched, and what comes to the table later.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/internal.h"
#include "collect/trace.h"
#include "collect/trace_export.h"

#define RINGS_MAX	 1024u
#define LINES_MAX	 (SL_FETCH_MAX / SL_LINE_SIZE)
#define TRIES		 4u    /* periods in which something that does not settle is read again */
#define OPEN_MAX	 4096u /* kept traces that are still waited for */
#define PENDING_MAX	 65536u
#define SPANS_MAX	 10000u /* of a trace */
#define TABLE_BUCKETS	 65536u
#define EXPORT_LINGER_NS 1000000000u
#define FULL_HEADS	 10u /* periods after which the heads of rings not in use are read, too */

/* ---- what it knows ------------------------------------------------------------------------------- */

struct ring {
	struct sl_span_head head;
	bool known;
	uint64_t roots;	     /* number of the next root line to take */
	uint64_t index;	     /* number of the index line to look at again */
	uint32_t entry;	     /* entries of it that were taken */
	uint32_t lines;	     /* of the last of these, that were taken: it may have grown */
	uint64_t lines_seen; /* head.lines when the index was read last */
	bool roots_busy, index_busy;
	uint8_t roots_tries, index_tries;
};

struct pod {
	struct pod *next, *hash_next;
	unsigned int refs; /* requests and roots under way, and one of the list */
	uint64_t instance, mark;
	struct sl_region_info *info;
	const char *service, *pod; /* in info */
	bool gone, bad, heads_busy;
	uint32_t rings, rings_used;
	struct ring *ring;
	struct sl_schema schema;
	uint64_t schema_used;
	bool schema_busy, schema_wanted;
};

/* A run of spans of one trace in one ring. */
struct run {
	uint64_t sequence; /* that it was put under; tells whether a link to it still holds */
	uint64_t next;	   /* sequence of the run before it in the bucket; 0: none */
	struct pod *pod;   /* a reference is held */
	uint64_t number;
	uint32_t ring, hash;
	uint8_t lines;
};

struct kept {
	struct sl_trace t;
	struct kept *hash_next; /* while it is open */
	struct kept *id_next;
	struct kept *older, *newer;
	uint32_t hash, outstanding;
	uint64_t since_ns;
	bool open;
	size_t bytes;
	char text[];
};

struct pending {
	struct pod *pod;
	const char *name;
	struct sl_span_root root;
};

/* ---- requests ------------------------------------------------------------------------------------ */

enum want { WANT_HEADS, WANT_ROOTS, WANT_INDEX, WANT_SPANS, WANT_HOT, WANT_SCHEMA };

struct request;

struct part {
	struct request *request;
	uint32_t at; /* in request->bytes */
};

struct request {
	struct request *next;
	struct sl_tracer *t;
	struct pod *pod;
	struct kept *kept; /* WANT_SPANS; NULL: to find out whose an error is */
	enum want want;
	uint32_t ring, count, tries;
	uint64_t number, end;
	int status;
	unsigned int parts_left;
	struct part part[2];
	uint32_t length;
	uint64_t bytes[];
};

struct sl_tracer {
	struct sl_collector *c;
	struct sl_tracer_opts o;
	struct sl_trace_policy *policy;
	struct sl_otlp *otlp; /* or NULL */
	pthread_t thread;
	bool running;
	bool judged; /* there are verdicts to ask for */

	pthread_mutex_t box_lock;
	pthread_cond_t box_filled;
	struct request *box;
	bool stop;

	struct pod *pods, *by_instance[1024];
	uint64_t tick;
	struct request *again; /* to be asked again in the next period */
	struct run *run;
	struct sl_span_data data; /* the span that is being looked at: too large for a stack */
	uint64_t sequence;	  /* of the next run; the first one is 1 */
	uint64_t bucket[TABLE_BUCKETS];
	struct pending *pending;
	size_t pendings, decidable; /* the first of them are a period old */

	pthread_mutex_t lock; /* kept traces, and what is shown of the stats */
	struct kept *newest, *oldest;
	struct kept *open[1024], *by_id[4096];
	uint32_t opens;
	struct sl_tracer_stats shown;

	struct sl_tracer_stats stats; /* the thread's own */
};

static void pod_put(struct pod *p)
{
	if (--p->refs)
		return;
	sl_schema_free(&p->schema);
	free(p->ring);
	free(p->info);
	free(p);
}

static void request_free(struct request *r)
{
	if (r->kept)
		r->kept->outstanding--;
	pod_put(r->pod);
	free(r);
}

/* Called by a worker. */
static void answered(void *arg, int status, const void *bytes, uint32_t length, int64_t ns)
{
	struct part *part = arg;
	struct request *r = part->request;
	struct sl_tracer *t = r->t;

	(void)ns;
	if (status)
		__atomic_store_n(&r->status, status, __ATOMIC_RELAXED);
	else
		memcpy((uint8_t *)r->bytes + part->at, bytes, length);
	/* Release and acquire: whoever counts to 0 hands on what all parts have copied. */
	if (__atomic_sub_fetch(&r->parts_left, 1, __ATOMIC_ACQ_REL))
		return;
	pthread_mutex_lock(&t->box_lock);
	r->next = t->box;
	t->box = r;
	pthread_cond_signal(&t->box_filled);
	pthread_mutex_unlock(&t->box_lock);
}

static struct request *request_new(struct sl_tracer *t, struct pod *p, enum want want,
				   uint32_t length)
{
	struct request *r = malloc(sizeof(*r) + length);

	if (!r) {
		t->stats.lost_memory++;
		return NULL;
	}
	*r = (struct request){.t = t, .pod = p, .want = want, .length = length};
	p->refs++;
	return r;
}

/* length bytes of the request from `at` on, from offset of the region. */
static void ask_part(struct request *r, unsigned int part, uint64_t offset, uint32_t at,
		     uint32_t length)
{
	int error;

	r->part[part] = (struct part){r, at};
	error = sl_collector_fetch(r->t->c, r->pod->instance, offset, length, answered,
				   &r->part[part]);
	if (error)
		answered(&r->part[part], error, NULL, length, 0);
}

static void ask(struct request *r, uint64_t offset)
{
	r->status = 0;
	r->parts_left = 1;
	ask_part(r, 0, offset, 0, r->length);
}

/* Lines of a span ring, which may go over its end. */
static void ask_spans(struct request *r)
{
	const struct sl_region_info *info = r->pod->info;
	uint32_t first = info->span_lines - (uint32_t)(r->number % info->span_lines);

	r->status = 0;
	if (first >= r->count) {
		ask(r, sl_span_line_at(info, r->ring, r->number));
		return;
	}
	r->parts_left = 2;
	ask_part(r, 0, sl_span_line_at(info, r->ring, r->number), 0, first * SL_LINE_SIZE);
	ask_part(r, 1, sl_span_line_at(info, r->ring, r->number + first), first * SL_LINE_SIZE,
		 (r->count - first) * SL_LINE_SIZE);
}

static void ask_again_later(struct sl_tracer *t, struct request *r)
{
	r->tries++;
	r->next = t->again;
	t->again = r;
}

/* ---- names ---------------------------------------------------------------------------------------- */

static void schema_ask(struct sl_tracer *t, struct pod *p)
{
	struct request *r;

	p->schema_wanted = true;
	if (p->schema_busy || p->gone)
		return;
	r = request_new(t, p, WANT_HOT, SL_LINE_SIZE);
	if (!r)
		return;
	p->schema_busy = true;
	p->schema_wanted = false;
	ask(r, p->info->hot);
}

static void schema_next(struct sl_tracer *t, struct pod *p)
{
	uint64_t left = p->schema_used - p->schema.parsed;
	struct request *r;

	r = left ? request_new(t, p, WANT_SCHEMA,
			       left < SL_FETCH_MAX ? (uint32_t)left : SL_FETCH_MAX)
		 : NULL;
	p->schema_busy = r != NULL;
	if (r)
		ask(r, p->info->schema + p->schema.parsed);
}

static void take_hot(struct sl_tracer *t, struct request *r)
{
	struct pod *p = r->pod;
	struct sl_hot hot;

	p->schema_busy = false;
	if (r->status || sl_hot_parse(r->bytes, p->info, &hot) ||
	    hot.schema_used < p->schema.parsed)
		return; /* whoever misses a name asks again */
	p->schema_used = hot.schema_used;
	schema_next(t, p);
}

static void take_schema(struct sl_tracer *t, struct request *r)
{
	struct pod *p = r->pod;
	uint64_t before = p->schema.parsed;

	p->schema_busy = false;
	if (r->status)
		return;
	t->stats.bytes_schema += r->length;
	/* A fault stops it where it is. What is there stays, and what is missing is asked for. */
	(void)sl_schema_append(&p->schema, p->info, r->bytes, r->length);
	if (p->schema.parsed > before)
		schema_next(t, p);
}

/* "?" for one that is not there after some tries; NULL: come again. */
static const char *name_of(struct sl_tracer *t, struct pod *p, uint32_t id, uint32_t tries)
{
	const char *s = sl_schema_string(&p->schema, id);

	if (s)
		return s;
	if (tries >= TRIES)
		return "?";
	schema_ask(t, p);
	return NULL;
}

/* ---- kept traces ----------------------------------------------------------------------------------- */

static struct kept *kept_open_find(struct sl_tracer *t, uint32_t hash, struct kept *after)
{
	struct kept *k = after ? after->hash_next : t->open[hash % 1024];

	while (k && k->hash != hash)
		k = k->hash_next;
	return k;
}

static struct kept *kept_find(const struct sl_tracer *t, uint64_t hi, uint64_t lo)
{
	struct kept *k = t->by_id[sl_span_hash(hi, lo) % 4096];

	while (k && (k->t.trace_hi != hi || k->t.trace_lo != lo))
		k = k->id_next;
	return k;
}

static void kept_free(struct kept *k)
{
	while (k->t.first) {
		struct sl_trace_span *s = (struct sl_trace_span *)k->t.first;

		k->t.first = s->next;
		free(s);
	}
	free(k);
}

static void kept_unlink(struct sl_tracer *t, struct kept *k)
{
	struct kept **at = &t->by_id[k->hash % 4096];

	while (*at != k)
		at = &(*at)->id_next;
	*at = k->id_next;
	*(k->newer ? &k->newer->older : &t->newest) = k->older;
	*(k->older ? &k->older->newer : &t->oldest) = k->newer;
	t->stats.held--;
	t->stats.held_bytes -= k->bytes;
}

/* The oldest go, but those that somebody is about to add to. */
static void kept_evict(struct sl_tracer *t)
{
	struct kept *k = t->oldest, *newer;

	for (; k && t->stats.held_bytes > t->o.memory; k = newer) {
		newer = k->newer;
		if (k->open || k->outstanding)
			continue;
		kept_unlink(t, k);
		kept_free(k);
		t->stats.evicted++;
	}
}

static void spans_ask(struct sl_tracer *t, struct kept *k, struct pod *p, uint32_t ring,
		      uint64_t number, uint32_t lines)
{
	struct request *r = request_new(t, p, WANT_SPANS, lines * SL_LINE_SIZE);

	if (!r)
		return;
	r->kept = k;
	if (k)
		k->outstanding++;
	r->ring = ring;
	r->number = number;
	r->count = lines;
	ask_spans(r);
}

/* Every run of this trace that is known; fn may ask for its lines. */
static void each_run(struct sl_tracer *t, uint32_t hash,
		     bool (*fn)(struct sl_tracer *, struct run *, void *), void *arg)
{
	uint64_t at = t->bucket[hash % TABLE_BUCKETS];

	while (at) {
		struct run *r = &t->run[at % t->o.index_entries];

		if (r->sequence != at) /* overwritten, and so are those before it */
			return;
		if (r->hash == hash && r->pod && !fn(t, r, arg))
			return;
		at = r->next;
	}
}

static bool ask_run(struct sl_tracer *t, struct run *r, void *arg)
{
	spans_ask(t, arg, r->pod, r->ring, r->number, r->lines);
	return true;
}

static void keep(struct sl_tracer *t, uint64_t hi, uint64_t lo, enum sl_trace_reason reason,
		 const char *root, const char *service, const struct sl_span_root *facts)
{
	size_t root_bytes = strlen(root) + 1, service_bytes = strlen(service) + 1;
	struct kept *k;

	k = t->opens < OPEN_MAX ? calloc(1, sizeof(*k) + root_bytes + service_bytes) : NULL;
	if (!k) {
		t->stats.lost_memory++;
		return;
	}
	memcpy(k->text, root, root_bytes);
	memcpy(k->text + root_bytes, service, service_bytes);
	k->bytes = sizeof(*k) + root_bytes + service_bytes;
	k->hash = sl_span_hash(hi, lo);
	k->since_ns = sl_now_ns();
	k->open = true;
	k->t = (struct sl_trace){
		.trace_hi = hi,
		.trace_lo = lo,
		.reason = reason,
		.root = k->text,
		.service = k->text + root_bytes,
		.start_ns = facts ? facts->start_ns : 0,
		.duration_ns = facts ? facts->duration_ns : 0,
		.error = reason == SL_TRACE_ERROR,
	};
	k->hash_next = t->open[k->hash % 1024];
	t->open[k->hash % 1024] = k;
	t->opens++;
	pthread_mutex_lock(&t->lock);
	k->id_next = t->by_id[k->hash % 4096];
	t->by_id[k->hash % 4096] = k;
	k->older = t->newest;
	*(t->newest ? &t->newest->newer : &t->oldest) = k;
	t->newest = k;
	t->stats.held++;
	t->stats.held_bytes += k->bytes;
	kept_evict(t);
	pthread_mutex_unlock(&t->lock);
	each_run(t, k->hash, ask_run, k);
}

/* ---- spans of kept traces --------------------------------------------------------------------------- */

static char *put(char **to, const char *s)
{
	char *start = *to;

	*to = stpcpy(start, s) + 1;
	return start;
}

/* One allocation. NULL: no memory. */
static struct sl_trace_span *span_new(const struct sl_span_data *d, const struct pod *p,
				      const char *name)
{
	size_t text = strlen(name) + strlen(p->service) + strlen(p->pod) + strlen(d->message) + 4;
	struct sl_trace_attr *a;
	struct sl_trace_span *s;
	size_t bytes;
	char *to;

	for (uint32_t i = 0; i < d->attr_count; i++) {
		const char *key = sl_schema_string(&p->schema, d->attrs[i].key);

		text += strlen(key ? key : "?") + 1;
		if (d->attrs[i].type == SL_SPAN_TYPE_STRING)
			text += strlen(d->attrs[i].string) + 1;
	}
	bytes = sizeof(*s) + d->attr_count * sizeof(*a) + text;
	s = malloc(bytes);
	if (!s)
		return NULL;
	a = (struct sl_trace_attr *)(s + 1);
	to = (char *)(a + d->attr_count);
	*s = (struct sl_trace_span){
		.instance = p->instance,
		.span_id = d->span_id,
		.parent_id = d->parent_id,
		.start_ns = d->start_ns,
		.duration_ns = d->duration_ns,
		.kind = d->kind,
		.status = d->status,
		.flags = d->flags,
		.remote = d->remote,
		.attr_count = d->attr_count,
		.attrs = a,
		.bytes = bytes,
	};
	s->name = put(&to, name);
	s->service = put(&to, p->service);
	s->pod = put(&to, p->pod);
	s->message = put(&to, d->message);
	for (uint32_t i = 0; i < d->attr_count; i++) {
		const char *key = sl_schema_string(&p->schema, d->attrs[i].key);

		a[i].key = put(&to, key ? key : "?");
		a[i].type = d->attrs[i].type;
		if (a[i].type == SL_SPAN_TYPE_STRING)
			a[i].string = put(&to, d->attrs[i].string);
		else
			memcpy(&a[i].i64, &d->attrs[i].i64, sizeof(a[i].i64));
	}
	return s;
}

/* In the order of their start; one that is there is not put there again. Under the lock. */
static void span_insert(struct sl_tracer *t, struct kept *k, struct sl_trace_span *s)
{
	struct sl_trace_span **at = (struct sl_trace_span **)&k->t.first;
	bool new_pod = true;

	for (const struct sl_trace_span *o = k->t.first; o; o = o->next) {
		if (o->span_id == s->span_id && o->instance == s->instance) {
			free(s);
			return;
		}
		new_pod &= o->instance != s->instance;
	}
	while (*at && (*at)->start_ns <= s->start_ns)
		at = &(*at)->next;
	s->next = *at;
	*at = s;
	/* Of a trace that is kept for an error within, the root comes with the spans. */
	if (!s->parent_id && !*k->t.root) {
		k->t.root = s->name;
		k->t.service = s->service;
		k->t.start_ns = s->start_ns;
		k->t.duration_ns = s->duration_ns;
	}
	k->t.spans++;
	k->t.pods += new_pod;
	k->t.error |= s->status == SL_SPAN_ERROR;
	k->bytes += s->bytes;
	t->stats.held_bytes += s->bytes;
	t->stats.spans_kept++;
}

/* Every id that its attributes and its name need is known; asks for those that are not. */
static bool names_known(struct sl_tracer *t, struct pod *p, const struct sl_span_data *d,
			uint32_t tries)
{
	bool known = name_of(t, p, d->name, tries) != NULL;

	for (uint32_t i = 0; i < d->attr_count; i++)
		known &= name_of(t, p, d->attrs[i].key, tries) != NULL;
	return known;
}

/* A span with status error was found by itself: its trace is kept, if the budget allows. */
static void found_error(struct sl_tracer *t, const struct sl_span_data *d)
{
	if (!kept_find(t, d->trace_hi, d->trace_lo) && sl_trace_afford(t->policy, SL_TRACE_ERROR))
		keep(t, d->trace_hi, d->trace_lo, SL_TRACE_ERROR, "", "", NULL);
}

static void lost(struct sl_tracer *t, struct kept *k, uint64_t *counter, uint32_t lines)
{
	*counter += lines;
	if (!k)
		return;
	pthread_mutex_lock(&t->lock);
	k->t.lost_lines += lines;
	pthread_mutex_unlock(&t->lock);
}

static void take_span(struct sl_tracer *t, struct request *r, const struct sl_span_data *d)
{
	struct kept *k = r->kept;
	struct sl_trace_span *s;

	if (!k) {
		if (d->status == SL_SPAN_ERROR)
			found_error(t, d);
		return;
	}
	/* Of another trace with the same hash? */
	if (d->trace_hi != k->t.trace_hi || d->trace_lo != k->t.trace_lo)
		return;
	s = k->t.spans < SPANS_MAX ? span_new(d, r->pod, name_of(t, r->pod, d->name, TRIES)) : NULL;
	if (!s) {
		t->stats.lost_memory++;
		return;
	}
	pthread_mutex_lock(&t->lock);
	span_insert(t, k, s);
	pthread_mutex_unlock(&t->lock);
}

/* True if all that can be known is known; false: to be read again. */
static bool take_spans(struct sl_tracer *t, struct request *r)
{
	const uint64_t(*lines)[8] = (const uint64_t(*)[8])r->bytes;
	struct sl_span_data *d = &t->data;
	bool last = r->tries >= TRIES, again = false;
	uint32_t n;

	if (r->status) {
		bool passing = r->status == -EAGAIN || r->status == -ETIMEDOUT ||
			       r->status == -ENOTCONN;

		if (passing && !last)
			return false;
		lost(t, r->kept, &t->stats.lost_gone, r->count);
		return true;
	}
	t->stats.bytes_spans += r->length;
	for (uint32_t i = 0; i < r->count; i += n) {
		switch (sl_span_parse(lines + i, r->count - i, r->number + i, d, &n)) {
		case SL_SPAN_LINE_GOOD:
			if (names_known(t, r->pod, d, r->tries))
				take_span(t, r, d);
			else
				again = true;
			break;
		case SL_SPAN_LINE_EARLY:
		case SL_SPAN_LINE_UNSETTLED:
			again |= !last;
			if (last)
				lost(t, r->kept, &t->stats.lost_unsettled, n);
			break;
		case SL_SPAN_LINE_LATE:
			lost(t, r->kept, &t->stats.lost_overrun, n);
			break;
		case SL_SPAN_LINE_INSIDE: /* its first line was lost, and counted */
			break;
		case SL_SPAN_LINE_SHORT:
		case SL_SPAN_LINE_LIE:
			lost(t, r->kept, &t->stats.lost_lies, n);
			break;
		}
	}
	return !again;
}

/* ---- heads, roots, index ------------------------------------------------------------------------------ */

/* New lines of roots or index, in one piece of the ring. */
static void ask_lines(struct sl_tracer *t, struct pod *p, uint32_t ring, enum want want,
		      uint64_t from, uint64_t end)
{
	uint32_t places = want == WANT_ROOTS ? SL_SPAN_ROOTS(p->info->span_lines)
					     : SL_SPAN_INDEX(p->info->span_lines);
	uint64_t count = end - from;
	struct request *r;

	if (count > places - from % places)
		count = places - from % places;
	if (count > LINES_MAX)
		count = LINES_MAX;
	r = request_new(t, p, want, (uint32_t)count * SL_LINE_SIZE);
	if (!r)
		return;
	r->ring = ring;
	r->number = from;
	r->count = (uint32_t)count;
	r->end = end;
	*(want == WANT_ROOTS ? &p->ring[ring].roots_busy : &p->ring[ring].index_busy) = true;
	ask(r, want == WANT_ROOTS ? sl_span_root_at(p->info, ring, from)
				  : sl_span_index_at(p->info, ring, from));
}

static void ring_ask(struct sl_tracer *t, struct pod *p, uint32_t i)
{
	uint32_t roots = SL_SPAN_ROOTS(p->info->span_lines);
	uint32_t index = SL_SPAN_INDEX(p->info->span_lines);
	struct ring *g = &p->ring[i];

	if (!g->roots_busy && g->head.roots > g->roots) {
		if (g->head.roots - g->roots > roots) {
			t->stats.lost_roots += g->head.roots - g->roots - roots;
			g->roots = g->head.roots - roots;
		}
		ask_lines(t, p, i, WANT_ROOTS, g->roots, g->head.roots);
	}
	if (!g->index_busy && g->head.index > g->index && g->head.lines != g->lines_seen) {
		if (g->head.index - g->index > index) {
			t->stats.lost_index += g->head.index - g->index - index;
			g->index = g->head.index - index;
			g->entry = g->lines = 0;
		}
		g->lines_seen = g->head.lines;
		ask_lines(t, p, i, WANT_INDEX, g->index, g->head.index);
	}
}

static void take_heads(struct sl_tracer *t, struct request *r)
{
	struct pod *p = r->pod;

	p->heads_busy = false;
	if (r->status || p->gone)
		return;
	t->stats.bytes_heads += r->length;
	for (uint32_t i = 0; i < r->count; i++) {
		struct ring *g = &p->ring[i];
		struct sl_span_head head;
		enum sl_fault fault = sl_span_head_parse(r->bytes + i * 8ull, &head);

		if (fault == SL_FAULT_UNSETTLED)
			continue; /* next time */
		if (!fault && g->known)
			fault = sl_span_head_follows(&g->head, &head);
		if (fault) {
			if (!p->bad)
				sl_log_limited(SL_WARN, "trace",
					       "a head of its spans lies, they are not read any "
					       "more instance=%016llx ring=%u",
					       (unsigned long long)p->instance, i);
			p->bad = true;
			return;
		}
		t->stats.spans_published += head.spans - g->head.spans;
		t->stats.lines_published += head.lines - g->head.lines;
		g->known = true;
		g->head = head;
		if (head.lines && i >= p->rings_used)
			p->rings_used = i + 1;
		ring_ask(t, p, i);
	}
}

static void take_roots(struct sl_tracer *t, struct request *r)
{
	struct ring *g = &r->pod->ring[r->ring];
	struct sl_span_root root;
	const char *name;

	g->roots_busy = false;
	if (r->status)
		return;
	t->stats.bytes_roots += r->length;
	for (uint32_t i = 0; i < r->count; i++, g->roots++) {
		bool last = g->roots_tries >= TRIES;

		switch (sl_span_root_parse(r->bytes + i * 8ull, r->number + i, &root)) {
		case SL_SPAN_LINE_GOOD:
			name = name_of(t, r->pod, root.name, g->roots_tries);
			if (!name)
				goto again;
			if (t->pendings == PENDING_MAX) {
				t->stats.lost_memory++;
				break;
			}
			t->stats.roots++;
			t->pending[t->pendings++] = (struct pending){r->pod, name, root};
			r->pod->refs++;
			break;
		case SL_SPAN_LINE_EARLY:
		case SL_SPAN_LINE_UNSETTLED:
			if (!last)
				goto again;
			t->stats.lost_roots++;
			break;
		case SL_SPAN_LINE_LATE:
			t->stats.lost_roots++;
			break;
		default:
			t->stats.lost_lies++;
		}
		g->roots_tries = 0;
	}
	return;
again:
	g->roots_tries++;
}

static void take_run(struct sl_tracer *t, struct pod *p, uint32_t ring, uint64_t number,
		     uint32_t lines, uint32_t hash, bool error)
{
	struct run *r = &t->run[t->sequence % t->o.index_entries];
	bool kept = false;

	if (r->pod)
		pod_put(r->pod);
	*r = (struct run){
		.sequence = t->sequence,
		.next = t->bucket[hash % TABLE_BUCKETS],
		.pod = p,
		.number = number,
		.ring = ring,
		.hash = hash,
		.lines = (uint8_t)lines,
	};
	p->refs++;
	t->bucket[hash % TABLE_BUCKETS] = t->sequence++;
	t->stats.entries++;
	for (struct kept *k = kept_open_find(t, hash, NULL); k; k = kept_open_find(t, hash, k)) {
		spans_ask(t, k, p, ring, number, lines);
		kept = true;
	}
	if (error && !kept)
		spans_ask(t, NULL, p, ring, number, lines);
}

/*
 * Takes what is new of an index line: entries that were not there, and of the last one that was
 * the lines by which it grew since.
 */
static void take_entries(struct sl_tracer *t, struct request *r, const uint64_t *entries,
			 uint32_t count)
{
	struct ring *g = &r->pod->ring[r->ring];

	for (uint32_t i = g->entry ? g->entry - 1 : 0; i < count; i++) {
		uint32_t lines = SL_SPAN_ENTRY_LINES(entries[i]), had;
		/* The ring went on after its head was read: what is near counts, on either side. */
		uint64_t number = sl_span_entry_number(entries[i], g->head.lines + (1ull << 31));

		had = i + 1 == g->entry ? g->lines : 0;
		if (number != UINT64_MAX && lines > had && lines <= r->pod->info->span_lines)
			take_run(t, r->pod, r->ring, number + had, lines - had,
				 SL_SPAN_ENTRY_HASH(entries[i]), SL_SPAN_ENTRY_ERROR(entries[i]));
		g->entry = i + 1;
		g->lines = lines;
	}
}

static void take_index(struct sl_tracer *t, struct request *r)
{
	struct ring *g = &r->pod->ring[r->ring];
	uint64_t entries[SL_SPAN_ENTRIES];
	uint32_t count;

	g->index_busy = false;
	if (r->status) {
		g->lines_seen = 0;
		return;
	}
	t->stats.bytes_index += r->length;
	for (uint32_t i = 0; i < r->count; i++) {
		switch (sl_span_index_parse(r->bytes + i * 8ull, r->number + i, entries, &count)) {
		case SL_SPAN_LINE_GOOD:
			take_entries(t, r, entries, count);
			break;
		case SL_SPAN_LINE_EARLY:
		case SL_SPAN_LINE_UNSETTLED:
			if (g->index_tries++ < TRIES) {
				g->lines_seen = 0; /* there is something new: ask again */
				return;
			}
			t->stats.lost_index++;
			break;
		case SL_SPAN_LINE_LATE:
			t->stats.lost_index++;
			break;
		default:
			t->stats.lost_lies++;
		}
		g->index_tries = 0;
		if (r->number + i + 1 >= r->end)
			break; /* the last line when it was asked for: it may have grown since */
		g->index = r->number + i + 1;
		g->entry = g->lines = 0;
	}
	if (g->index + 1 < g->head.index)
		g->lines_seen = 0; /* only a piece of it was asked for */
}

/* ---- verdicts ------------------------------------------------------------------------------------------- */

/* Was the pod anomalous then? Analysis is asked, if there is any and nobody else is to be. */
static bool suspicious(struct sl_tracer *t, uint64_t instance, uint64_t at_ns)
{
	struct sl_pod_verdict v;
	struct sl_analysis_view a;

	if (t->o.verdict)
		return t->o.verdict(t->o.verdict_arg, instance, at_ns);
	return sl_collector_analysis(t->c, &a) && sl_verdicts_pod(a.verdicts, instance, &v) &&
	       v.anomalous && (int64_t)at_ns >= v.begin_ns - (int64_t)t->o.linger_ns;
}

/* An anomaly gets a trace that shows it. */
static void tell_verdicts(struct sl_tracer *t, const struct sl_trace *k)
{
	struct sl_analysis_view a;
	uint8_t id[SL_TRACE_ID_BYTES];
	uint64_t last = 0;

	if (!sl_collector_analysis(t->c, &a))
		return;
	for (int i = 0; i < 8; i++) {
		id[i] = (uint8_t)(k->trace_hi >> (56 - 8 * i));
		id[8 + i] = (uint8_t)(k->trace_lo >> (56 - 8 * i));
	}
	for (const struct sl_trace_span *s = k->first; s; s = s->next) {
		if (s->instance != last && suspicious(t, s->instance, k->start_ns))
			sl_verdicts_traced(a.verdicts, s->instance, (int64_t)sl_realtime_ns(), id);
		last = s->instance;
	}
}

/* ---- decisions ------------------------------------------------------------------------------------------ */

struct suspicion {
	uint64_t at_ns;
	bool found;
};

static bool suspect_run(struct sl_tracer *t, struct run *r, void *arg)
{
	struct suspicion *s = arg;

	s->found = suspicious(t, r->pod->instance, s->at_ns);
	return !s->found;
}

static void decide(struct sl_tracer *t, struct pending *p)
{
	const struct sl_span_root *root = &p->root;
	struct suspicion s = {root->start_ns, false};
	struct sl_trace_facts facts;
	enum sl_trace_reason reason;
	struct kept *there;
	char name[SL_NAME_MAX + 72];

	/* Durations compare by what the root is called, and by whom. */
	snprintf(name, sizeof(name), "%.64s %s", p->pod->service, p->name);
	s.found = suspicious(t, p->pod->instance, s.at_ns);
	if (!s.found && t->judged)
		each_run(t, sl_span_hash(root->trace_hi, root->trace_lo), suspect_run, &s);
	facts = (struct sl_trace_facts){
		.name = name,
		.trace_hi = root->trace_hi,
		.trace_lo = root->trace_lo,
		.duration_ns = root->duration_ns,
		.error = root->status == SL_SPAN_ERROR,
		.verdict = s.found,
	};
	there = kept_find(t, root->trace_hi, root->trace_lo); /* for an error within it */
	reason = sl_trace_decide(t->policy, &facts);
	if (reason && !there)
		keep(t, root->trace_hi, root->trace_lo, reason, p->name, p->pod->service, root);
}

/* Spans whose parent is not there. */
static void count_orphans(struct kept *k)
{
	k->t.orphans = 0;
	for (const struct sl_trace_span *s = k->t.first; s; s = s->next) {
		const struct sl_trace_span *o = k->t.first;

		while (o && o->span_id != s->parent_id)
			o = o->next;
		k->t.orphans += s->parent_id && !o;
	}
}

static void close_trace(struct sl_tracer *t, struct kept *k)
{
	t->opens--;
	pthread_mutex_lock(&t->lock);
	k->open = false;
	count_orphans(k);
	if (t->judged)
		tell_verdicts(t, &k->t);
	if (t->otlp && !trace_export(t->otlp, &k->t))
		t->stats.lost_memory++;
	if (t->o.kept)
		t->o.kept(t->o.kept_arg, &k->t);
	kept_evict(t);
	pthread_mutex_unlock(&t->lock);
}

static void close_traces(struct sl_tracer *t, uint64_t now_ns)
{
	for (uint32_t i = 0; i < 1024; i++) {
		struct kept **at = &t->open[i], *k;

		while ((k = *at)) {
			if (k->outstanding || now_ns - k->since_ns < t->o.linger_ns) {
				at = &k->hash_next;
				continue;
			}
			*at = k->hash_next;
			close_trace(t, k);
		}
	}
}

/* ---- the thread ------------------------------------------------------------------------------------------ */

/* What a view has ends with the last label: the rest of its text may not be there. */
static void copy_info(struct sl_region_info *to, const struct sl_region_info *from)
{
	char *text = to->label_text;

	memcpy(to, from, offsetof(struct sl_region_info, label_text));
	for (uint32_t i = 0; i < to->label_count; i++) {
		to->labels[i].key = text;
		text = stpcpy(text, from->labels[i].key) + 1;
		to->labels[i].value = text;
		text = stpcpy(text, from->labels[i].value) + 1;
	}
}

static void see_region(const struct sl_region_view *v, void *arg)
{
	struct sl_tracer *t = arg;
	struct pod **bucket = &t->by_instance[v->info->instance % 1024], *p = *bucket;

	if (!v->info->spans || !v->info->hot || (v->fault && *v->fault))
		return;
	while (p && p->instance != v->info->instance)
		p = p->hash_next;
	if (p) {
		p->mark = t->tick;
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return; /* next time */
	p->rings = v->info->max_stripes < RINGS_MAX ? v->info->max_stripes : RINGS_MAX;
	p->ring = calloc(p->rings, sizeof(*p->ring));
	p->info = calloc(1, sizeof(*p->info));
	if (!p->ring || !p->info) {
		free(p->ring);
		free(p->info);
		free(p);
		return;
	}
	copy_info(p->info, v->info);
	p->service = p->pod = "";
	for (uint32_t i = 0; i < p->info->label_count; i++) {
		struct sl_text_label *l = &p->info->labels[i];

		if (!strcmp(l->key, "service"))
			p->service = l->value;
		else if (!strcmp(l->key, "pod"))
			p->pod = l->value;
	}
	sl_schema_init(&p->schema);
	p->schema.strings_only = true;
	p->instance = p->info->instance;
	p->mark = t->tick;
	p->refs = 1;
	p->next = t->pods;
	t->pods = p;
	p->hash_next = *bucket;
	*bucket = p;
	t->stats.pods++;
}

static void forget_pods(struct sl_tracer *t)
{
	struct pod **at = &t->pods, **link, *p, *gone = NULL;

	while ((p = *at)) {
		if (p->mark == t->tick) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		link = &t->by_instance[p->instance % 1024];
		while (*link != p)
			link = &(*link)->hash_next;
		*link = p->hash_next;
		p->gone = true;
		p->next = gone;
		gone = p;
		t->stats.pods--;
	}
	/* Their runs can't be fetched any more, and would keep them in memory. */
	for (size_t i = 0; gone && i < t->o.index_entries; i++) {
		struct run *r = &t->run[i];

		if (!r->pod || !r->pod->gone)
			continue;
		pod_put(r->pod);
		r->pod = NULL;
	}
	while ((p = gone)) {
		gone = p->next;
		pod_put(p);
	}
}

static void ask_heads(struct sl_tracer *t, struct pod *p)
{
	uint32_t rings = p->rings_used + 4;
	struct request *r;

	if (p->heads_busy || p->bad)
		return;
	if (rings > p->rings || t->tick % FULL_HEADS == 0)
		rings = p->rings;
	r = request_new(t, p, WANT_HEADS, rings * SL_LINE_SIZE);
	if (!r)
		return;
	r->count = rings;
	p->heads_busy = true;
	ask(r, sl_span_head_at(p->info, 0));
}

static void show_stats(struct sl_tracer *t)
{
	struct sl_trace_policy_stats p;

	sl_trace_policy_stats(t->policy, &p);
	memcpy(t->stats.kept, p.kept, sizeof(t->stats.kept));
	memcpy(t->stats.over_budget, p.over_budget, sizeof(t->stats.over_budget));
	pthread_mutex_lock(&t->lock);
	t->shown = t->stats;
	pthread_mutex_unlock(&t->lock);
}

static void tick(struct sl_tracer *t)
{
	struct request *again = t->again;
	size_t n = t->decidable;

	t->again = NULL;
	t->tick++;
	sl_collector_regions(t->c, see_region, t);
	forget_pods(t);
	for (size_t i = 0; i < n; i++) {
		decide(t, &t->pending[i]);
		pod_put(t->pending[i].pod);
	}
	memmove(t->pending, t->pending + n, (t->pendings - n) * sizeof(*t->pending));
	t->pendings -= n;
	t->decidable = t->pendings;
	while (again) {
		struct request *r = again;

		again = r->next;
		ask_spans(r);
	}
	for (struct pod *p = t->pods; p; p = p->next) {
		if (p->schema_wanted)
			schema_ask(t, p);
		ask_heads(t, p);
	}
	close_traces(t, sl_now_ns());
	if (t->otlp)
		sl_otlp_flush(t->otlp);
	show_stats(t);
}

static void take(struct sl_tracer *t, struct request *r)
{
	switch (r->want) {
	case WANT_HEADS:
		take_heads(t, r);
		break;
	case WANT_ROOTS:
		take_roots(t, r);
		break;
	case WANT_INDEX:
		take_index(t, r);
		break;
	case WANT_SPANS:
		if (!take_spans(t, r)) {
			ask_again_later(t, r);
			return;
		}
		break;
	case WANT_HOT:
		take_hot(t, r);
		break;
	case WANT_SCHEMA:
		take_schema(t, r);
		break;
	}
	request_free(r);
}

static void *tracer_main(void *arg)
{
	struct sl_tracer *t = arg;
	uint64_t due = sl_now_ns();

	struct sl_analysis_view a;

	t->judged = t->o.verdict || sl_collector_analysis(t->c, &a);
	pthread_setname_np(pthread_self(), "trace");
	pthread_mutex_lock(&t->box_lock);
	while (!t->stop) {
		struct timespec until = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)};
		struct request *r = t->box;

		t->box = NULL;
		if (!r && sl_now_ns() < due) {
			pthread_cond_timedwait(&t->box_filled, &t->box_lock, &until);
			continue;
		}
		pthread_mutex_unlock(&t->box_lock);
		while (r) {
			struct request *next = r->next;

			take(t, r);
			r = next;
		}
		if (sl_now_ns() >= due) {
			tick(t);
			due = sl_now_ns() + t->o.period_ns;
		}
		pthread_mutex_lock(&t->box_lock);
	}
	pthread_mutex_unlock(&t->box_lock);
	return NULL;
}

/* ---- the whole --------------------------------------------------------------------------------------------- */

struct sl_tracer *sl_tracer_new(struct sl_collector *c, const struct sl_tracer_opts *opts,
				char *error, size_t error_bytes)
{
	struct sl_tracer *t = calloc(1, sizeof(*t));
	pthread_condattr_t attr;

	snprintf(error, error_bytes, "out of memory");
	if (!t)
		return NULL;
	if (opts)
		t->o = *opts;
	if (!t->o.period_ns)
		t->o.period_ns = 100000000;
	if (!t->o.linger_ns)
		t->o.linger_ns = 1000000000;
	if (!t->o.memory)
		t->o.memory = 16u << 20;
	if (!t->o.index_entries)
		t->o.index_entries = 262144;
	t->c = c;
	t->sequence = 1;
	t->policy = sl_trace_policy_new(&t->o.policy);
	t->run = calloc(t->o.index_entries, sizeof(*t->run));
	t->pending = malloc(PENDING_MAX * sizeof(*t->pending));
	if (!t->policy || !t->run || !t->pending)
		goto fail;
	if (t->o.otlp) {
		t->otlp = sl_otlp_new(&(struct sl_otlp_opts){.url = t->o.otlp}, error, error_bytes);
		if (!t->otlp)
			goto fail;
	}
	pthread_mutex_init(&t->box_lock, NULL);
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->box_filled, &attr);
	pthread_condattr_destroy(&attr);
	c->tracer = t;
	return t;
fail:
	sl_trace_policy_free(t->policy);
	free(t->run);
	free(t->pending);
	free(t);
	return NULL;
}

int sl_tracer_start(struct sl_tracer *t)
{
	int error = pthread_create(&t->thread, NULL, tracer_main, t);

	t->running = !error;
	return -error;
}

void sl_tracer_stop(struct sl_tracer *t)
{
	if (!t || !t->running)
		return;
	pthread_mutex_lock(&t->box_lock);
	t->stop = true;
	pthread_cond_signal(&t->box_filled);
	pthread_mutex_unlock(&t->box_lock);
	pthread_join(t->thread, NULL);
	t->running = false;
}

static void free_requests(struct request *r)
{
	while (r) {
		struct request *next = r->next;

		request_free(r);
		r = next;
	}
}

void sl_tracer_free(struct sl_tracer *t)
{
	if (!t)
		return;
	sl_tracer_stop(t);
	free_requests(t->box);
	free_requests(t->again);
	/* Those that are still waited for are as complete as they will be. The collector is gone. */
	t->judged = false;
	for (uint32_t i = 0; i < 1024; i++) {
		while (t->open[i]) {
			struct kept *k = t->open[i];

			t->open[i] = k->hash_next;
			close_trace(t, k);
		}
	}
	sl_otlp_free(t->otlp, EXPORT_LINGER_NS);
	for (size_t i = 0; i < t->pendings; i++)
		pod_put(t->pending[i].pod);
	for (size_t i = 0; i < t->o.index_entries; i++)
		if (t->run[i].pod)
			pod_put(t->run[i].pod);
	while (t->pods) {
		struct pod *p = t->pods;

		t->pods = p->next;
		pod_put(p);
	}
	while (t->newest) {
		struct kept *k = t->newest;

		t->newest = k->older;
		kept_free(k);
	}
	sl_trace_policy_free(t->policy);
	pthread_cond_destroy(&t->box_filled);
	pthread_mutex_destroy(&t->box_lock);
	pthread_mutex_destroy(&t->lock);
	free(t->run);
	free(t->pending);
	free(t);
}

/* ---- looking at it ------------------------------------------------------------------------------------------ */

void sl_tracer_list(struct sl_tracer *t, bool (*fn)(const struct sl_trace *, void *), void *arg)
{
	pthread_mutex_lock(&t->lock);
	for (const struct kept *k = t->newest; k; k = k->older) {
		struct sl_trace copy = k->t;

		copy.first = NULL;
		if (!fn(&copy, arg))
			break;
	}
	pthread_mutex_unlock(&t->lock);
}

bool sl_tracer_get(struct sl_tracer *t, uint64_t trace_hi, uint64_t trace_lo,
		   void (*fn)(const struct sl_trace *, void *), void *arg)
{
	struct kept *k;

	pthread_mutex_lock(&t->lock);
	k = kept_find(t, trace_hi, trace_lo);
	if (k)
		fn(&k->t, arg);
	pthread_mutex_unlock(&t->lock);
	return k != NULL;
}

void sl_tracer_stats(struct sl_tracer *t, struct sl_tracer_stats *out)
{
	pthread_mutex_lock(&t->lock);
	*out = t->shown;
	pthread_mutex_unlock(&t->lock);
}

bool sl_tracer_export_stats(struct sl_tracer *t, struct sl_otlp_stats *out)
{
	if (!t->otlp)
		return false;
	sl_otlp_stats(t->otlp, out);
	return true;
}
