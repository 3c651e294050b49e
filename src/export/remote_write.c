// SPDX-License-Identifier: Apache-2.0
/*
 * The messages (prompb/remote.proto, prompb/types.proto):
 *
 *	WriteRequest { repeated TimeSeries timeseries = 1; }
 *	TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2;
 *		       repeated Exemplar exemplars = 3; repeated Histogram histograms = 4; }
 *	Label        { string name = 1; string value = 2; }
 *	Sample       { double value = 1; int64 timestamp = 2; }
 *	Exemplar     { repeated Label labels = 1; double value = 2; int64 timestamp = 3; }
 *	Histogram    { uint64 count_int = 1; double sum = 3; sint32 schema = 4;
 *		       double zero_threshold = 5; uint64 zero_count_int = 6;
 *		       repeated BucketSpan positive_spans = 11;
 *		       repeated sint64 positive_deltas = 12; int64 timestamp = 15; }
 *	BucketSpan   { sint32 offset = 1; uint32 length = 2; }
 */
#include "export/remote_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snappy-c.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/relaxed.h"
#include "base/table.h"
#include "export/pb.h"
#include "export/remote_v2.h"
#include "export/spool.h"

#define REQUEST_MAX (4u << 20) /* size before compression, because receivers have limits */
#define POINTS_MAX  10000u     /* points per message of one series */
/* an exemplar may be this much later than its sample, as the clock of its host may be ahead */
#define AHEAD_NS 3600000000000ull
/* interval after which a receiver that uses 1.0 is offered 2.0 again */
#define AGAIN_NS 3600000000000ull

struct export_remote_meta {
	struct base_node node;
	struct export_remote_v2_meta m;
	char text[];
};

/* Header of a queued body. The request follows in each encoded version, in the order of bytes[]. */
#define REQUEST_MAGIC 0x31575253u /* "SRW1" */
struct queued_request {
	uint32_t magic;
	uint32_t bytes[2]; /* compressed sizes of versions 1.0 and 2.0; 0 means not encoded */
	uint32_t items_2;  /* number of items that a 2.0 receiver should report */
};

struct export_remote_write {
	struct export_push *push;
	size_t batch_samples;
	enum export_remote_protocol protocol;
	int64_t floor_ms; /* time of the latest sample that an earlier process may have queued */
	struct base_table metas;
	/* Used only by push's thread. */
	uint64_t again_ns; /* time at which 2.0 is tried again */
	bool spoke_2;	   /* the receiver has answered with version 2.0 */
	/*
	 * The request under construction. v2: for version 2.0, or NULL; at and the following
	 * fields: for version 1.0.
	 */
	struct export_remote_v2 *v2;
	const struct export_remote_v2_meta *open_meta; /* metadata of the open series */
	bool is_open;
	uint64_t batch, opened; /* numbers of the current request and the open series */
	uint8_t *at;
	size_t bytes, room;
	uint64_t samples, items; /* items also counts exemplars */
	/*
	 * The caller's thread writes them, except .fallbacks and .version, which push's thread
	 * writes. Any thread may read them. .push is unused.
	 */
	struct export_remote_write_stats stats;
};

/* ---- protobuf ---- */

static uint8_t *put_sample(uint8_t *p, int64_t ms, double value)
{
	p = export_pb_head(p, 2, 9 + 1 + export_pb_varint_bytes((uint64_t)ms));
	p = export_pb_f64(p, 1, value);
	return export_pb_u64(p, 2, (uint64_t)ms);
}

/* ---- requests ---- */

static void end_series(struct export_remote_write *w)
{
	if (w->is_open)
		export_remote_v2_end(w->v2, w->open_meta);
	w->is_open = false;
}

/*
 * Compresses a request to `to`, which must be large enough. Returns the compressed size, or 0 on
 * failure.
 */
static uint32_t pack_request(const uint8_t *from, size_t bytes, uint8_t *to)
{
	size_t room = snappy_max_compressed_length(bytes);

	return snappy_compress((const char *)from, bytes, (char *)to, &room) == SNAPPY_OK
		       ? (uint32_t)room
		       : 0;
}

/*
 * Builds the body to queue, which holds the request in each protocol version that might be sent.
 * Returns NULL if out of memory.
 */
static uint8_t *make_body(struct export_remote_write *w, size_t *bytes)
{
	struct queued_request r = {.magic = REQUEST_MAGIC};
	uint64_t items = 0;
	size_t bytes_2 = 0;
	uint8_t *plain_2 = w->v2 ? export_remote_v2_take(w->v2, &bytes_2, &items) : NULL;
	uint8_t *body = malloc(sizeof(r) + snappy_max_compressed_length(w->bytes) +
			       snappy_max_compressed_length(bytes_2));

	if (!body || (w->v2 && !plain_2))
		goto fail;
	if (w->bytes)
		r.bytes[0] = pack_request(w->at, w->bytes, body + sizeof(r));
	if (plain_2)
		r.bytes[1] = pack_request(plain_2, bytes_2, body + sizeof(r) + r.bytes[0]);
	if (!r.bytes[0] != !w->bytes || !r.bytes[1] != !plain_2)
		goto fail;
	r.items_2 = (uint32_t)items;
	memcpy(body, &r, sizeof(r));
	*bytes = sizeof(r) + r.bytes[0] + r.bytes[1];
	free(plain_2);
	return body;
fail:
	free(plain_2);
	free(body);
	return NULL;
}

void export_remote_write_flush(struct export_remote_write *w)
{
	size_t bytes;
	uint8_t *body;

	if (!w->items)
		return;
	end_series(w);
	body = make_body(w, &bytes);
	if (body)
		export_push_send(w->push, body, bytes, w->items);
	else
		relaxed_bump(w->stats.dropped_memory, w->items);
	w->bytes = 0;
	w->samples = 0;
	w->items = 0;
	w->batch++;
}

/* True if the series is the one under construction, to which more may be added. */
static bool is_open(const struct export_remote_write *w, const struct export_remote_series *s)
{
	return w->is_open && s->opened == w->opened;
}

/*
 * True if n more bytes of a series need a new request. Version 2.0 allows each series only once per
 * request.
 */
static bool needs_request(const struct export_remote_write *w, const struct export_remote_series *s,
			  size_t n)
{
	const size_t bytes = BASE_MAX(w->bytes, w->v2 ? export_remote_v2_bytes(w->v2) : 0);

	return (bytes && bytes + n > REQUEST_MAX) ||
	       (w->v2 && s->batch == w->batch && s->opened != w->opened);
}

/* Reserves n bytes for items of a series in the request. If out of memory, drops the items. */
static bool begin_series(struct export_remote_write *w, struct export_remote_series *s, size_t n,
			 uint64_t items)
{
	if (needs_request(w, s, n))
		export_remote_write_flush(w);
	if (!base_grow(&w->at, &w->room, w->bytes + n, 1)) {
		relaxed_bump(w->stats.dropped_memory, items);
		return false;
	}
	if (w->v2 && !is_open(w, s)) {
		end_series(w);
		export_remote_v2_begin(w->v2, s->labels, s->label_bytes, s->created_ms);
		w->open_meta = s->meta ? &s->meta->m : NULL;
		w->is_open = true;
		s->opened = ++w->opened;
	}
	s->batch = w->batch;
	return true;
}

/* Ends a series at `end` in the 1.0 request, if version 1.0 may be sent. */
static void end_v1(struct export_remote_write *w, const uint8_t *end)
{
	if (w->protocol != EXPORT_REMOTE_2)
		w->bytes = (size_t)(end - w->at);
}

/* ---- metadata, which only version 2.0 has ---- */

static const uint8_t types[] = {
	[EXPORT_FAMILY_COUNTER] = 1, [EXPORT_FAMILY_BARE_COUNTER] = 1,
	[EXPORT_FAMILY_GAUGE] = 2,   [EXPORT_FAMILY_HISTOGRAM] = 3,
	[EXPORT_FAMILY_SUMMARY] = 5, [EXPORT_FAMILY_GAUGE_HISTOGRAM] = 4,
	[EXPORT_FAMILY_INFO] = 6,    [EXPORT_FAMILY_STATESET] = 7,
	[EXPORT_FAMILY_UNKNOWN] = 0,
};

const struct export_remote_meta *export_remote_write_meta(struct export_remote_write *w,
							  enum export_family_type type,
							  const char *help, const char *unit)
{
	const size_t h = strlen(help) + 1, u = strlen(unit) + 1;
	const uint64_t hash = base_hash_text(base_hash_text(types[type], help), unit);
	struct export_remote_meta *m;

	if (!w->v2)
		return NULL;
	for (m = base_table_first(&w->metas, hash); m; m = base_table_next(m))
		if (m->m.type == types[type] && !strcmp(m->m.help, help) &&
		    !strcmp(m->m.unit, unit))
			return m;
	m = w->metas.count < EXPORT_REMOTE_METAS ? malloc(sizeof(*m) + h + u) : NULL;
	if (!m)
		return NULL;
	m->m = (struct export_remote_v2_meta){memcpy(m->text, help, h),
					      memcpy(m->text + h, unit, u), types[type]};
	base_table_add(&w->metas, m, hash);
	return m;
}

/* Returns the time of the last sample of a series that the receiver has, or may have. */
static int64_t last_of(const struct export_remote_write *w, const struct export_remote_series *s)
{
	return BASE_MAX(s->last_ms, w->floor_ms);
}

/*
 * Counts n skipped samples, `before` of which are older than the last sample of an earlier process.
 */
static void count_skipped(struct export_remote_write *w, uint64_t n, uint64_t before)
{
	relaxed_bump(w->stats.same_ms, n - before);
	if (!before)
		return;
	relaxed_bump(w->stats.before, before);
	base_log_limited(BASE_WARN, "remote-write",
			 "samples are not sent because the queue holds later samples of an "
			 "earlier process: the clock jumped back samples=%llu",
			 (unsigned long long)before);
}

/* Counts n samples of a series that were added to the request. */
static void count_taken(struct export_remote_write *w, struct export_remote_series *s,
			int64_t last_ms, size_t n)
{
	s->last_ms = last_ms;
	w->samples += n;
	w->items += n;
	relaxed_bump(w->stats.samples, n);
	if (w->samples >= w->batch_samples)
		export_remote_write_flush(w);
}

/*
 * Appends at most POINTS_MAX points, skipping points that are not later than the series' last
 * point.
 */
static void put_points(struct export_remote_write *w, struct export_remote_series *s,
		       const struct export_remote_point *point, size_t n)
{
	size_t inner = s->label_bytes, n_taken = 0, before = 0;
	int64_t last = last_of(w, s), from = last;
	uint8_t *p;

	if (s->clashes) {
		relaxed_bump(w->stats.clashing, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		int64_t ms = point[i].ns / 1000000;

		if (ms <= last) {
			before += ms <= w->floor_ms && ms > s->last_ms;
			continue;
		}
		last = ms;
		inner += export_label_field(9 + 1 + export_pb_varint_bytes((uint64_t)ms));
		n_taken++;
	}
	count_skipped(w, n - n_taken, before);
	if (!n_taken)
		return;
	if (!begin_series(w, s, export_label_field(inner), n_taken))
		return;
	p = export_pb_head(w->at + w->bytes, 1, inner);
	p = (uint8_t *)mempcpy(p, s->labels, s->label_bytes);
	for (size_t i = 0; i < n; i++) {
		int64_t ms = point[i].ns / 1000000;

		if (ms <= from)
			continue;
		from = ms;
		s->last = point[i].value;
		p = put_sample(p, ms, point[i].value);
		if (w->v2)
			export_remote_v2_sample(w->v2, ms, point[i].value);
	}
	end_v1(w, p);
	count_taken(w, s, last, n_taken);
}

void export_remote_write_native(struct export_remote_write *w, struct export_remote_series *s,
				int64_t ns, const struct export_native *n)
{
	static const struct export_native_fields fields = {1, 3, 4, 5, 6, 11, 12};
	const size_t most = export_native_bytes(n) + EXPORT_PB_FIELD;
	const size_t guess = export_pb_varint_bytes(most);
	int64_t ms = ns / 1000000;
	uint8_t *series, *body, *p;

	if (s->clashes) {
		relaxed_bump(w->stats.clashing, 1);
		return;
	}
	if (ms <= last_of(w, s)) {
		count_skipped(w, 1, ms > s->last_ms);
		return;
	}
	if (!begin_series(w, s, s->label_bytes + most + 2 * EXPORT_PB_FIELD, 1))
		return;
	series = export_pb_open(w->at + w->bytes, 1, guess);
	p = (uint8_t *)mempcpy(series, s->labels, s->label_bytes);
	body = export_pb_open(p, 4, guess);
	p = export_native_put(body, n, &fields);
	p = export_pb_u64(p, 15, (uint64_t)ms);
	if (w->v2)
		export_remote_v2_histogram(w->v2, ms, body, (size_t)(p - body));
	end_v1(w, export_pb_close(series, export_pb_close(body, p, guess), guess));
	s->native = true;
	count_taken(w, s, ms, 1);
}

void export_remote_write_points(struct export_remote_write *w, struct export_remote_series *s,
				const struct export_remote_point *p, size_t n)
{
	for (; n > POINTS_MAX; n -= POINTS_MAX, p += POINTS_MAX)
		put_points(w, s, p, POINTS_MAX);
	put_points(w, s, p, n);
}

/* ---- exemplars ---- */

/* Only exemplars without a usable timestamp are compared with the previous one by hash. */
static uint64_t hash_of(const struct export_exemplar *e)
{
	uint64_t hash = base_hash(1, &e->value, sizeof(e->value));

	for (size_t i = 0; i < e->label_count; i++)
		hash = base_hash_text(base_hash_text(hash, e->labels[i].key), e->labels[i].value);
	return hash;
}

void export_remote_write_exemplar(struct export_remote_write *w, struct export_remote_series *s,
				  int64_t ns, const struct export_exemplar *e)
{
	const size_t n = BASE_MIN(e->label_count, (size_t)SL_LABELS_MAX);
	const bool future = e->ns > (uint64_t)ns + AHEAD_NS;
	int64_t ms = (int64_t)(e->ns ? e->ns : (uint64_t)ns) / 1000000;
	uint64_t hash = e->ns && !future ? 0 : hash_of(e);
	size_t inner = 9 + 1 + export_pb_varint_bytes((uint64_t)ms);
	struct export_label l[SL_LABELS_MAX];
	size_t bytes;
	uint8_t *from, *p;
	uint64_t opened;

	if (s->clashes || s->last_ms == INT64_MIN || (ms <= s->exemplar_ms && !future) ||
	    (hash && hash == s->exemplar))
		return;
	if (future) { /* sending it would block exemplars with earlier times */
		s->exemplar = hash;
		relaxed_bump(w->stats.future_exemplars, 1);
		return;
	}
	for (size_t i = 0; i < n; i++)
		l[i] = (struct export_label){e->labels[i].key, e->labels[i].value, ""};
	inner += export_labels_bytes(l, n);
	bytes = s->label_bytes + inner + 2 * EXPORT_PB_FIELD;
	/*
	 * A histogram is not sent twice, so the exemplar is kept and sent with the next histogram.
	 */
	if (w->v2 && s->native && (!is_open(w, s) || needs_request(w, s, bytes)))
		return;
	s->exemplar_ms = ms;
	s->exemplar = hash ?: s->exemplar;
	if (export_exemplar_is_long(e)) {
		relaxed_bump(w->stats.long_exemplars, 1);
		return;
	}
	opened = s->opened;
	if (!begin_series(w, s, bytes, 1))
		return;
	p = export_pb_head(w->at + w->bytes, 1, s->label_bytes + export_label_field(inner));
	p = (uint8_t *)mempcpy(p, s->labels, s->label_bytes);
	p = export_pb_head(p, 3, inner);
	from = p;
	p = export_labels_put(p, l, n);
	if (w->v2) {
		/* Version 2.0 allows no exemplar without a sample, so repeat the last sample. */
		if (s->opened != opened)
			export_remote_v2_sample(w->v2, s->last_ms, s->last);
		export_remote_v2_exemplar(w->v2, from, (size_t)(p - from), ms, e->value);
	}
	p = export_pb_f64(p, 2, e->value);
	end_v1(w, export_pb_u64(p, 3, (uint64_t)ms));
	w->items++;
	relaxed_bump(w->stats.exemplars, 1);
}

/* ---- ends of series ---- */

void export_remote_write_end(struct export_remote_write *w, struct export_remote_series *s,
			     int64_t ns)
{
	struct export_remote_point p = {.ns = ns};
	uint64_t bits = EXPORT_STALE_NAN;

	if (s->last_ms == INT64_MIN)
		return; /* the receiver does not know the series */
	if (ns / 1000000 <= s->last_ms)
		p.ns = (s->last_ms + 1) * 1000000;
	memcpy(&p.value, &bits, 8);
	put_points(w, s, &p, 1);
}

void export_remote_write_follow(struct export_remote_write *w, struct export_remote_series **now,
				size_t n, struct export_remote_series **old, size_t olds,
				int64_t ns)
{
	for (size_t i = 0, k = 0; i < olds; i++) {
		int d = 1;

		if (old[i]->clashes)
			continue;
		while (k < n &&
		       (now[k]->clashes || (d = export_remote_series_compare(now[k], old[i])) < 0))
			k++;
		if (k == n || d) {
			export_remote_write_end(w, old[i], ns);
			continue;
		}
		now[k]->last_ms = old[i]->last_ms;
		now[k]->last = old[i]->last;
		now[k]->batch = old[i]->batch;
		now[k]->opened = old[i]->opened;
		now[k]->native = old[i]->native;
		now[k]->exemplar_ms = old[i]->exemplar_ms;
		now[k]->exemplar = old[i]->exemplar;
	}
}

/* ---- start and end ---- */

/* Reads the header of a queued body, which may have been damaged on disk. */
static bool read_request(const void *body, size_t bytes, struct queued_request *r)
{
	if (bytes < sizeof(*r))
		return false;
	memcpy(r, body, sizeof(*r));
	return r->magic == REQUEST_MAGIC && sizeof(*r) + (size_t)r->bytes[0] + r->bytes[1] == bytes;
}

static unsigned int version_now(struct export_remote_write *w)
{
	if (w->protocol == EXPORT_REMOTE_AUTO && w->stats.version == 1 &&
	    base_now_ns() >= w->again_ns)
		relaxed_store(w->stats.version, 2);
	return w->stats.version;
}

static bool make_request(void *arg, struct export_push_try *t)
{
	static const char *const headers_2[] = {
		"Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request",
		"X-Prometheus-Remote-Write-Version: 2.0.0", NULL};
	struct export_remote_write *w = arg;
	struct queued_request r;

	if (!read_request(t->body, t->bytes, &r))
		return false;
	/* A body queued by an earlier process may contain only the other version. */
	t->form = version_now(w);
	if (!r.bytes[t->form - 1])
		t->form = 3 - t->form;
	t->send = (const uint8_t *)t->body + sizeof(r) + (t->form == 2 ? r.bytes[0] : 0);
	t->send_bytes = r.bytes[t->form - 1];
	t->expected = r.items_2;
	if (t->form == 2)
		t->replace = headers_2;
	return true;
}

static enum export_push_outcome judge_answer(void *arg, const struct export_push_try *t,
					     long status, const int64_t n[EXPORT_PUSH_NUMBERS],
					     enum export_push_outcome usual, uint64_t *rejected)
{
	struct export_remote_write *w = arg;
	const bool says = n[0] >= 0;
	uint64_t written = 0;
	struct queued_request r;

	if (t->form != 2 || usual == EXPORT_PUSH_AGAIN)
		return usual;
	for (int i = 0; i < EXPORT_PUSH_NUMBERS; i++)
		written += n[i] > 0 ? (uint64_t)n[i] : 0;
	w->spoke_2 = w->spoke_2 || (says && usual == EXPORT_PUSH_DONE);
	if (says) {
		*rejected = written < t->expected ? t->expected - written : 0;
		return usual;
	}
	/*
	 * A receiver that supports 2.0 answers 400 to report errors in the samples; other receivers
	 * answer 400 because they can't parse the request.
	 */
	if (w->protocol == EXPORT_REMOTE_AUTO && read_request(t->body, t->bytes, &r) &&
	    r.bytes[0] &&
	    (status == 415 || usual == EXPORT_PUSH_DONE ||
	     (!w->spoke_2 && (status == 400 || status == 406)))) {
		relaxed_store(w->stats.version, 1);
		relaxed_bump(w->stats.fallbacks, 1);
		w->again_ns = base_now_ns() + AGAIN_NS;
		base_logf(BASE_INFO, "remote-write",
			  "the receiver does not support version 2.0: falling back to 1.0 "
			  "status=%ld",
			  status);
		return EXPORT_PUSH_AGAIN;
	}
	if (usual == EXPORT_PUSH_DONE) {
		*rejected = t->items;
		base_log_limited(
			BASE_WARN, "remote-write",
			"the receiver does not report how many samples it wrote with version 2.0: "
			"use --remote-protocol 1.0 status=%ld",
			status);
	}
	return usual;
}

struct export_remote_write *export_remote_write_open(const struct export_remote_opts *opts,
						     char *error, size_t error_bytes)
{
	static const char *const headers[] = {"Content-Encoding: snappy",
					      "X-Prometheus-Remote-Write-Version: 0.1.0", NULL};
	struct export_push_opts push = {
		.url = opts->url,
		.config = opts->config,
		.name = "remote-write",
		.content_type = "application/x-protobuf",
		.headers = headers,
	};
	struct export_remote_write *w = calloc(1, sizeof(*w));

	if (!w) {
		snprintf(error, error_bytes, "out of memory");
		return NULL;
	}
	w->batch_samples = opts->batch_samples ? opts->batch_samples : 10000;
	w->protocol = opts->protocol;
	w->stats.version = opts->protocol == EXPORT_REMOTE_1 ? 1 : 2;
	w->floor_ms = INT64_MIN;
	w->batch = 1;
	if (opts->queue) {
		push.spool = export_spool_open(opts->queue, opts->queue_bytes, error, error_bytes);
		if (!push.spool)
			goto fail;
		w->floor_ms = (int64_t)export_spool_newest_ns(push.spool) / 1000000;
	}
	if (!base_table_init(&w->metas) ||
	    (w->protocol != EXPORT_REMOTE_1 && !(w->v2 = export_remote_v2_new()))) {
		export_spool_close(push.spool);
		snprintf(error, error_bytes, "out of memory");
		goto fail;
	}
	push.hooks = (struct export_push_hooks){
		.arg = w,
		.numbers = {"X-Prometheus-Remote-Write-Samples-Written",
			    "X-Prometheus-Remote-Write-Histograms-Written",
			    "X-Prometheus-Remote-Write-Exemplars-Written"},
		.make = make_request,
		.judge = judge_answer,
	};
	w->push = export_push_new(&push, error, error_bytes);
	if (w->push)
		return w;
fail:
	base_table_free(&w->metas);
	export_remote_v2_free(w->v2);
	free(w); /* free() preserves errno since glibc 2.33 */
	return NULL;
}

bool export_remote_write_busy(struct export_remote_write *w)
{
	return export_push_busy(w->push);
}

void export_remote_write_stats(struct export_remote_write *w, struct export_remote_write_stats *out)
{
	for (size_t i = 0; i < offsetof(struct export_remote_write_stats, version) / 8; i++)
		((uint64_t *)out)[i] = relaxed_load(((uint64_t *)&w->stats)[i]);
	out->version = relaxed_load(w->stats.version);
	export_push_stats(w->push, &out->push);
}

void export_remote_write_free(struct export_remote_write *w, uint64_t linger_ns)
{
	if (!w)
		return;
	export_remote_write_flush(w);
	export_push_free(w->push, linger_ns);
	BASE_TABLE_EACH(&w->metas, n)
		free(n);
	base_table_free(&w->metas);
	export_remote_v2_free(w->v2);
	free(w->at);
	free(w);
}
