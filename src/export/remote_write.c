// SPDX-License-Identifier: Apache-2.0
/*
 * The messages (prompb/remote.proto, prompb/types.proto):
 *
 *	WriteRequest { repeated TimeSeries timeseries = 1; }
 *	TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2;
 *		       repeated Histogram histograms = 4; }
 *	Label        { string name = 1; string value = 2; }
 *	Sample       { double value = 1; int64 timestamp = 2; }
 *	Histogram    { uint64 count_int = 1; double sum = 3; sint32 schema = 4;
 *		       double zero_threshold = 5; uint64 zero_count_int = 6;
 *		       repeated BucketSpan positive_spans = 11;
 *		       repeated sint64 positive_deltas = 12; int64 timestamp = 15; }
 *	BucketSpan   { sint32 offset = 1; uint32 length = 2; }
 */
#include "export/remote_write.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <snappy-c.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/relaxed.h"
#include "export/pb.h"

#define LABELS_MAX  128u
#define REQUEST_MAX (4u << 20)		  /* before compression: receivers have limits */
#define POINTS_MAX  10000u		  /* of one series in one message */
#define STALE_NAN   0x7ff0000000000002ull /* prometheus/model/value: StaleNaN */

struct export_remote_write {
	struct export_push *push;
	size_t batch_samples;
	/* The request under way. */
	uint8_t *at;
	size_t bytes, room;
	uint64_t samples;
	/* Written by the one thread, read by any. */
	uint64_t taken, same_ms, dropped_memory;
};

/* ---- protobuf ---- */

static size_t string_bytes(size_t n)
{
	return 1 + export_pb_varint_bytes(n) + n;
}

struct label {
	const char *name, *value, *more; /* the value is `value` followed by `more` */
};

static size_t label_message(const struct label *l)
{
	return string_bytes(strlen(l->name)) + string_bytes(strlen(l->value) + strlen(l->more));
}

static uint8_t *put_label(uint8_t *p, const struct label *l)
{
	size_t value = strlen(l->value), more = strlen(l->more);

	p = export_pb_head(p, 1, label_message(l));
	p = export_pb_string(p, 1, l->name);
	p = export_pb_head(p, 2, value + more);
	p = (uint8_t *)mempcpy(p, l->value, value);
	return (uint8_t *)mempcpy(p, l->more, more);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct label *)a)->name, ((const struct label *)b)->name);
}

struct export_remote_series *export_remote_series_new(const char *name, const char *suffix,
						      const struct region_text_label *labels,
						      size_t count)
{
	struct label sorted[LABELS_MAX] = {{"__name__", name, suffix}};
	struct export_remote_series *s;
	size_t n = 1, bytes = 0;
	uint8_t *p;

	for (size_t i = 0; i < count && n < LABELS_MAX; i++)
		if (*labels[i].value)
			sorted[n++] = (struct label){labels[i].key, labels[i].value, ""};
	qsort(sorted, n, sizeof(*sorted), by_name);
	for (size_t i = 0; i < n; i++)
		bytes += string_bytes(label_message(&sorted[i]));
	s = malloc(sizeof(*s) + bytes);
	if (!s)
		return NULL;
	s->last_ms = INT64_MIN;
	s->label_bytes = (uint32_t)bytes;
	p = s->labels;
	for (size_t i = 0; i < n; i++)
		p = put_label(p, &sorted[i]);
	return s;
}

struct export_remote_series *export_remote_series_copy(const struct export_remote_series *s)
{
	const size_t bytes = sizeof(*s) + s->label_bytes;
	struct export_remote_series *to = malloc(bytes);

	return to ? memcpy(to, s, bytes) : NULL;
}

static uint8_t *put_sample(uint8_t *p, int64_t ms, double value)
{
	p = export_pb_head(p, 2, 9 + 1 + export_pb_varint_bytes((uint64_t)ms));
	p = export_pb_f64(p, 1, value);
	return export_pb_u64(p, 2, (uint64_t)ms);
}

/* ---- requests ---- */

void export_remote_write_flush(struct export_remote_write *w)
{
	size_t room = snappy_max_compressed_length(w->bytes);
	char *body;

	if (!w->samples)
		return;
	body = malloc(room);
	if (body && snappy_compress((const char *)w->at, w->bytes, body, &room) == SNAPPY_OK) {
		export_push_send(w->push, body, room, w->samples);
	} else {
		free(body);
		relaxed_bump(w->dropped_memory, w->samples);
	}
	w->bytes = 0;
	w->samples = 0;
}

static bool reserve(struct export_remote_write *w, size_t n)
{
	if (w->bytes && w->bytes + n > REQUEST_MAX)
		export_remote_write_flush(w);
	return base_grow(&w->at, &w->room, w->bytes + n, 1);
}

/* Appends up to `end` to the request: n samples of a series. */
static void taken(struct export_remote_write *w, struct export_remote_series *s, const uint8_t *end,
		  int64_t last_ms, size_t n)
{
	s->last_ms = last_ms;
	w->bytes = (size_t)(end - w->at);
	w->samples += n;
	relaxed_bump(w->taken, n);
	if (w->samples >= w->batch_samples)
		export_remote_write_flush(w);
}

/* Appends at most POINTS_MAX points; those not later than the series' last are skipped. */
static void put(struct export_remote_write *w, struct export_remote_series *s,
		const struct export_remote_point *point, size_t n)
{
	size_t inner = s->label_bytes, n_taken = 0;
	int64_t last = s->last_ms;
	uint8_t *p;

	for (size_t i = 0; i < n; i++) {
		int64_t ms = point[i].ns / 1000000;

		if (ms <= last)
			continue;
		last = ms;
		inner += string_bytes(9 + 1 + export_pb_varint_bytes((uint64_t)ms));
		n_taken++;
	}
	relaxed_bump(w->same_ms, n - n_taken);
	if (!n_taken)
		return;
	if (!reserve(w, string_bytes(inner))) {
		relaxed_bump(w->dropped_memory, n_taken);
		return;
	}
	p = w->at + w->bytes;
	p = export_pb_head(p, 1, inner);
	p = (uint8_t *)mempcpy(p, s->labels, s->label_bytes);
	for (size_t i = 0; i < n; i++) {
		int64_t ms = point[i].ns / 1000000;

		if (ms <= s->last_ms)
			continue;
		s->last_ms = ms;
		p = put_sample(p, ms, point[i].value);
	}
	taken(w, s, p, last, n_taken);
}

void export_remote_write_native(struct export_remote_write *w, struct export_remote_series *s,
				int64_t ns, const struct export_native *n)
{
	static const struct export_native_fields fields = {1, 3, 4, 5, 6, 11, 12};
	const size_t most = export_native_bytes(n) + EXPORT_PB_FIELD;
	const size_t guess = export_pb_varint_bytes(most);
	int64_t ms = ns / 1000000;
	uint8_t *series, *body, *p;

	if (ms <= s->last_ms) {
		relaxed_bump(w->same_ms, 1);
		return;
	}
	if (!reserve(w, s->label_bytes + most + 2 * EXPORT_PB_FIELD)) {
		relaxed_bump(w->dropped_memory, 1);
		return;
	}
	series = export_pb_open(w->at + w->bytes, 1, guess);
	p = (uint8_t *)mempcpy(series, s->labels, s->label_bytes);
	body = export_pb_open(p, 4, guess);
	p = export_native_put(body, n, &fields);
	p = export_pb_u64(p, 15, (uint64_t)ms);
	p = export_pb_close(body, p, guess);
	taken(w, s, export_pb_close(series, p, guess), ms, 1);
}

void export_remote_write_points(struct export_remote_write *w, struct export_remote_series *s,
				const struct export_remote_point *p, size_t n)
{
	for (; n > POINTS_MAX; n -= POINTS_MAX, p += POINTS_MAX)
		put(w, s, p, POINTS_MAX);
	put(w, s, p, n);
}

void export_remote_write_end(struct export_remote_write *w, struct export_remote_series *s,
			     int64_t ns)
{
	struct export_remote_point p = {.ns = ns};
	uint64_t bits = STALE_NAN;

	if (s->last_ms == INT64_MIN)
		return; /* the receiver does not know it */
	if (ns / 1000000 <= s->last_ms)
		p.ns = (s->last_ms + 1) * 1000000;
	memcpy(&p.value, &bits, 8);
	put(w, s, &p, 1);
}

/* ---- start and end ---- */

struct export_remote_write *export_remote_write_new(const char *url, size_t batch_samples,
						    char *error, size_t error_bytes)
{
	static const char *const headers[] = {"Content-Encoding: snappy",
					      "X-Prometheus-Remote-Write-Version: 0.1.0", NULL};
	struct export_push_opts push = {
		.url = url,
		.name = "remote-write",
		.content_type = "application/x-protobuf",
		.headers = headers,
	};
	struct export_remote_write *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->batch_samples = batch_samples ? batch_samples : 10000;
	w->push = export_push_new(&push, error, error_bytes);
	if (!w->push) {
		free(w); /* which keeps errno, as of glibc 2.33 */
		return NULL;
	}
	return w;
}

bool export_remote_write_busy(struct export_remote_write *w)
{
	return export_push_busy(w->push);
}

void export_remote_write_stats(struct export_remote_write *w, struct export_remote_write_stats *out)
{
	*out = (struct export_remote_write_stats){
		.samples = __atomic_load_n(&w->taken, __ATOMIC_RELAXED),
		.same_ms = __atomic_load_n(&w->same_ms, __ATOMIC_RELAXED),
		.dropped_memory = __atomic_load_n(&w->dropped_memory, __ATOMIC_RELAXED),
	};
	export_push_stats(w->push, &out->push);
}

void export_remote_write_free(struct export_remote_write *w, uint64_t linger_ns)
{
	if (!w)
		return;
	export_remote_write_flush(w);
	export_push_free(w->push, linger_ns);
	free(w->at);
	free(w);
}
