// SPDX-License-Identifier: Apache-2.0
/* clang-format off */
/*
 * remote_read.c - Prometheus' remote read of the history
 * (prometheus.io/docs/prometheus/latest/querying/remote_read_api): a response of samples, or a
 * stream of XOR chunks, as the client prefers. The messages (prompb/remote.proto,
 * prompb/types.proto):
 *
 *   ReadRequest  { repeated Query queries = 1;
 *                  repeated ResponseType accepted_response_types = 2; }
 *   Query        { int64 start_timestamp_ms = 1; int64 end_timestamp_ms = 2;
 *                  repeated LabelMatcher matchers = 3; ReadHints hints = 4; }
 *   ReadHints    { int64 step_ms = 1; string func = 2; int64 start_ms = 3; int64 end_ms = 4;
 *                  repeated string grouping = 5; bool by = 6; int64 range_ms = 7; }
 *   LabelMatcher { Type type = 1; string name = 2; string value = 3; }
 *   ReadResponse { repeated QueryResult results = 1; }
 *   QueryResult  { repeated TimeSeries timeseries = 1; }
 *   TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2; }
 *   ChunkedReadResponse { repeated ChunkedSeries chunked_series = 1; int64 query_index = 2; }
 *   ChunkedSeries { repeated Label labels = 1; repeated Chunk chunks = 2; }
 *   Chunk        { int64 min_time_ms = 1; int64 max_time_ms = 2; Encoding type = 3;
 *                  bytes data = 4; }
 */
/* clang-format on */
#include <endian.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <snappy-c.h>

#include "api/api.h"
#include "api/internal.h"
#include "api/selected.h"
#include "base/base.h"
#include "base/budget.h"
#include "base/grow.h"
#include "base/pb_read.h"
#include "export/pb.h"
#include "export/xor_chunk.h"

#define REQUEST_MAX ((size_t)256 << 10) /* size of the uncompressed request */
#define QUERIES_MAX 16u
#define POINTS_MAX  16384u  /* maximum number of points per series in memory, unless thinned */
#define THIN_MAX    524288u /* series with more points in the window are not thinned */
/* maximum size of a samples response; a stream is unlimited */
#define ANSWER_MAX ((size_t)32 << 20)
#define READS_MAX  4 /* maximum number of concurrent reads */
/*
 * Maximum gap left by dropping repeated values if the evaluation times are unknown. Any useful
 * --query.lookback-delta is longer.
 */
#define LOOKBACK_GAP_NS 1000000000ll

/* ---- hints ---- */

/*
 * Prometheus' ReadHints say what is evaluated, and points that cannot change the result are left
 * out: with a period of 10 ms, an instant query would otherwise read 30,000 points per series. If
 * the result depends on every point, all are kept.
 */
struct read_hints {
	int64_t step_ms, range_ms; /* step_ms 0: a single evaluation, at end_ms */
	int64_t start_ms, end_ms;
	enum read_thin {
		THIN_NONE,
		THIN_LAST, /* only the last point matters */
		THIN_LAST_TWO,
		THIN_REPEATED, /* only changes of the value matter */
		THIN_SMALLEST,
		THIN_GREATEST,
		THIN_DELTA,    /* only the first and the last point matter */
		THIN_RATE,     /* the same, and the points around a counter reset */
		THIN_LOOKBACK, /* the last point before each evaluation matters */
	} thin;
};

static enum read_thin thin_of(const struct read_hints *h, struct base_pb name)
{
	static const struct {
		const char *name;
		enum read_thin thin;
	} functions[] = {
		{"rate", THIN_RATE},
		{"increase", THIN_RATE},
		{"delta", THIN_DELTA},
		{"irate", THIN_LAST_TWO},
		{"idelta", THIN_LAST_TWO},
		{"last_over_time", THIN_LAST},
		{"present_over_time", THIN_LAST},
		{"changes", THIN_REPEATED},
		{"resets", THIN_REPEATED},
		{"min_over_time", THIN_SMALLEST},
		{"max_over_time", THIN_GREATEST},
	};
	const size_t n = name.at ? (size_t)(name.end - name.at) : 0;

	if (!h->range_ms && !h->step_ms)
		return THIN_LAST;
	if (!h->range_ms)
		return n == 9 && !memcmp(name.at, "timestamp", n) ? THIN_NONE : THIN_LOOKBACK;
	/* With several windows, any point may be the first or last of one: keep all. */
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions) && !h->step_ms; i++)
		if (n == strlen(functions[i].name) && !memcmp(name.at, functions[i].name, n))
			return functions[i].thin;
	return THIN_NONE;
}

/* Parses a ReadHints message. Returns false if it is malformed. */
static bool take_hints(struct read_hints *h, struct base_pb p)
{
	struct base_pb name = {.at = NULL};
	struct base_pb_field f;

	*h = (struct read_hints){.step_ms = 0};
	while (base_pb_next(&p, &f)) {
		if (f.number == 2 && f.wire == PB_LENGTH)
			name = f.data;
		if (f.wire != PB_VARINT)
			continue;
		if (f.number == 1)
			h->step_ms = (int64_t)f.value;
		else if (f.number == 3)
			h->start_ms = (int64_t)f.value;
		else if (f.number == 4)
			h->end_ms = (int64_t)f.value;
		else if (f.number == 7)
			h->range_ms = (int64_t)f.value;
	}
	/* Without an evaluation time, the hints are unusable. */
	h->thin = h->end_ms && h->start_ms <= h->end_ms ? thin_of(h, name) : THIN_NONE;
	return !p.bad;
}

static bool is_same(double a, double b)
{
	return !memcmp(&a, &b, sizeof(a));
}

/* Drops repeated values, unless that would leave a gap of more than max_ns. */
static size_t thin_repeated(struct collect_point *p, size_t n, int64_t max_ns)
{
	size_t kept = 1;

	for (size_t i = 1; i < n; i++)
		if (i == n - 1 || !is_same(p[i].value, p[kept - 1].value) ||
		    p[i + 1].ns - p[kept - 1].ns > max_ns)
			p[kept++] = p[i];
	return kept;
}

static size_t thin_to_extreme(struct collect_point *p, size_t n, double sign)
{
	for (size_t i = 1; i < n; i++)
		if (isnan(p->value) || p[i].value * sign > p->value * sign)
			*p = p[i];
	return 1;
}

/*
 * Prometheus extrapolates to an end of the window if the nearest point is closer to it than 1.1
 * times the mean distance between points. Dropping points only increases that distance, so the
 * result does not change. Otherwise it depends on the number of points, and all are kept.
 */
static size_t thin_to_ends(const struct read_hints *h, struct collect_point *p, size_t n)
{
	const double first = (double)(p[0].ns / 1000000), last = (double)(p[n - 1].ns / 1000000);
	const double near = (last - first) / (double)(n - 1) * 1.1;
	size_t kept = 1;

	if (!(first - (double)h->start_ms < near && (double)h->end_ms - last < near))
		return n;
	for (size_t i = 1; i < n; i++)
		if (i == n - 1 || (h->thin == THIN_RATE && (!(p[i].value >= p[i - 1].value) ||
							    !(p[i + 1].value >= p[i].value))))
			p[kept++] = p[i];
	return kept;
}

/* Thins all points of a series from start_ms to end_ms, in place. Returns the number left. */
static size_t thin_points(const struct read_hints *h, struct collect_point *p, size_t n)
{
	size_t last;

	if (h->range_ms)
		n = api_drop_stale(p, n);
	if (n < 2)
		return n;
	switch (h->thin) {
	case THIN_LAST:
	case THIN_LAST_TWO:
		last = h->thin == THIN_LAST ? 1 : 2;
		memmove(p, p + n - last, last * sizeof(*p));
		return last;
	case THIN_REPEATED:
		return thin_repeated(p, n, INT64_MAX);
	case THIN_LOOKBACK:
		return thin_repeated(p, n, LOOKBACK_GAP_NS);
	case THIN_SMALLEST:
	case THIN_GREATEST:
		return thin_to_extreme(p, n, h->thin == THIN_SMALLEST ? -1 : 1);
	case THIN_DELTA:
	case THIN_RATE:
		return n > 2 ? thin_to_ends(h, p, n) : n;
	default:
		return n;
	}
}

/* ---- requests ---- */

static atomic_int reads;

struct read_query {
	int64_t from_ns, to_ns;
	struct read_hints hints;
	struct api_matchers matchers;
	struct api_selected selected;
};

struct read {
	struct collect_collector *c;
	struct base_budget *budget;
	bool chunks; /* true for a stream of chunks */
	struct read_query query[QUERIES_MAX];
	size_t queries;
	char error[256];
	/* Position of the stream: query, series, and time. */
	size_t at_query, at_series;
	int64_t from_ns;
	bool begun; /* true if from_ns belongs to the current series */
	struct collect_point *point;
	size_t point_room; /* at least POINTS_MAX */
	uint8_t *out;
	size_t bytes, sent, room;
};

static void read_free(void *arg)
{
	struct read *r = arg;

	for (size_t i = 0; i < r->queries; i++) {
		api_matchers_free(&r->query[i].matchers);
		api_selected_free(&r->query[i].selected);
	}
	free(r->point);
	free(r->out);
	free(r);
	atomic_fetch_sub(&reads, 1);
}

/* Request */

static int take_matcher(struct read *r, struct api_matchers *m, struct base_pb p)
{
	struct base_pb name = {.at = NULL}, value = {.at = NULL};
	struct base_pb_field f;
	uint64_t type = 0;

	while (base_pb_next(&p, &f)) {
		if (f.number == 1 && f.wire == PB_VARINT)
			type = f.value;
		else if (f.number == 2 && f.wire == PB_LENGTH)
			name = f.data;
		else if (f.number == 3 && f.wire == PB_LENGTH)
			value = f.data;
	}
	if (p.bad || type > API_MATCH_NOT_RE || !name.at)
		return base_fail(r->error, sizeof(r->error), -EINVAL, "a malformed matcher");
	return api_matchers_add(m, (enum api_match)type, (const char *)name.at,
				(size_t)(name.end - name.at),
				value.at ? (const char *)value.at : "",
				(size_t)(value.end - value.at), r->error, sizeof(r->error));
}

static int take_query(struct read *r, struct base_pb p)
{
	struct read_query *q = &r->query[r->queries];
	struct base_pb_field f;
	int64_t end = 0;
	int err;

	if (r->queries == QUERIES_MAX)
		return base_fail(r->error, sizeof(r->error), -EINVAL, "more than %u queries",
				 QUERIES_MAX);
	r->queries++;
	while (base_pb_next(&p, &f)) {
		if (f.number == 1 && f.wire == PB_VARINT) {
			q->from_ns = api_ms_to_ns((int64_t)f.value);
		} else if (f.number == 2 && f.wire == PB_VARINT) {
			end = (int64_t)f.value;
		} else if (f.number == 3 && f.wire == PB_LENGTH) {
			err = take_matcher(r, &q->matchers, f.data);
			if (err)
				return err;
		} else if (f.number == 4 && f.wire == PB_LENGTH) {
			p.bad |= !take_hints(&q->hints, f.data);
		}
	}
	if (q->hints.thin) {
		q->from_ns = BASE_MAX(q->from_ns, api_ms_to_ns(q->hints.start_ms));
		end = BASE_MIN(end, q->hints.end_ms);
	}
	/* A timestamp covers its whole millisecond, so include the end of the last one. */
	q->to_ns = api_ms_to_ns(end);
	if (q->to_ns < INT64_MAX - 999999)
		q->to_ns += 999999;
	return p.bad ? base_fail(r->error, sizeof(r->error), -EINVAL, "a malformed query") : 0;
}

/* Uses the first response type that is known. */
static bool take_type(struct read *r, uint64_t type, bool chosen)
{
	if (!chosen && type == 1)
		r->chunks = true;
	return chosen || type <= 1;
}

static int take_request(struct read *r, struct base_pb p)
{
	struct base_pb_field f;
	bool chosen = false;
	int err;

	while (base_pb_next(&p, &f)) {
		if (f.number == 1 && f.wire == PB_LENGTH) {
			err = take_query(r, f.data);
			if (err)
				return err;
		} else if (f.number == 2 && f.wire == PB_VARINT) {
			chosen = take_type(r, f.value, chosen);
		} else if (f.number == 2 && f.wire == PB_LENGTH) {
			while (f.data.at < f.data.end && !f.data.bad)
				chosen = take_type(r, base_pb_varint(&f.data), chosen);
			p.bad |= f.data.bad;
		}
	}
	return p.bad ? base_fail(r->error, sizeof(r->error), -EINVAL, "a malformed request") : 0;
}

/* Parses a request body. Returns 0, or a negative errno with a one-line error in r->error. */
static int take_body(struct read *r, const char *body, size_t bytes)
{
	size_t n;
	char *text;
	int err;

	if (snappy_uncompressed_length(body, bytes, &n) != SNAPPY_OK)
		return base_fail(r->error, sizeof(r->error), -EINVAL,
				 "the body is not valid snappy data");
	if (n > REQUEST_MAX)
		return base_fail(r->error, sizeof(r->error), -EINVAL,
				 "the request has more than %zu bytes", REQUEST_MAX);
	text = malloc(n + 1);
	if (!text)
		return -ENOMEM;
	if (snappy_uncompress(body, bytes, text, &n) != SNAPPY_OK)
		err = base_fail(r->error, sizeof(r->error), -EINVAL,
				"the body is not valid snappy data");
	else
		err = take_request(r, (struct base_pb){(const uint8_t *)text,
						       (const uint8_t *)text + n, false});
	free(text);
	return err;
}

/* Points */

/*
 * Reads all points of a series, which the hints thin. Returns 0 with from_ns at the start if that
 * takes too much memory, or if there are none.
 */
static size_t thinned_points(struct read *r, const struct read_query *q, const struct api_series *s)
{
	size_t n = 0;

	if (q->hints.thin == THIN_LAST && !q->hints.range_ms) {
		r->from_ns = INT64_MAX;
		return api_series_last(r->c, &q->selected, s, q->from_ns, q->to_ns, r->point);
	}
	while (r->from_ns <= q->to_ns && r->from_ns != INT64_MAX) {
		if (n > THIN_MAX ||
		    !base_grow(&r->point, &r->point_room, n + POINTS_MAX, sizeof(*r->point))) {
			r->from_ns = q->from_ns;
			return 0;
		}
		n += api_series_points(r->c, &q->selected, s, &r->from_ns, q->to_ns, r->point + n,
				       POINTS_MAX);
	}
	return thin_points(&q->hints, r->point, n);
}

static size_t next_points(struct read *r, struct read_query *q)
{
	const struct api_series *s = &q->selected.v[r->at_series];
	const bool begins = !r->begun;
	size_t n = 0;

	if (begins)
		r->from_ns = q->from_ns;
	r->begun = true;
	if (begins && q->hints.thin)
		n = thinned_points(r, q, s);
	if (!n && r->from_ns <= q->to_ns && r->from_ns != INT64_MAX)
		n = api_series_points(r->c, &q->selected, s, &r->from_ns, q->to_ns, r->point,
				      POINTS_MAX);
	if (r->from_ns > q->to_ns || r->from_ns == INT64_MAX) {
		r->at_series++;
		r->begun = false;
	}
	return n;
}

/* Samples, in a single response */

#define SAMPLE_MAX   32u
#define LENGTH_GUESS 4u

/* Begins a nested message. Returns the offset of its body, or 0 if out of memory. */
static size_t open_message(struct read *r)
{
	if (!base_grow(&r->out, &r->room, r->bytes + 2 * EXPORT_PB_FIELD, 1))
		return 0;
	r->bytes = (size_t)(export_pb_open(r->out + r->bytes, 1, LENGTH_GUESS) - r->out);
	return r->bytes;
}

static int close_message(struct read *r, size_t body)
{
	/* The body moves if its length needs more bytes than reserved. */
	if (!base_grow(&r->out, &r->room, r->bytes + EXPORT_PB_FIELD, 1))
		return -ENOMEM;
	r->bytes =
		(size_t)(export_pb_close(r->out + body, r->out + r->bytes, LENGTH_GUESS) - r->out);
	return 0;
}

static int put_samples(struct read *r, size_t n)
{
	uint8_t *p;

	if (!base_grow(&r->out, &r->room, r->bytes + n * SAMPLE_MAX, 1))
		return -ENOMEM;
	p = r->out + r->bytes;
	for (size_t i = 0; i < n; i++) {
		const uint64_t ms = (uint64_t)(r->point[i].ns / 1000000);

		p = export_pb_head(p, 2, 9 + 1 + export_pb_varint_bytes(ms));
		p = export_pb_f64(p, 1, r->point[i].value);
		p = export_pb_u64(p, 2, ms);
	}
	r->bytes = (size_t)(p - r->out);
	return r->bytes > ANSWER_MAX ? -E2BIG : 0;
}

/* Writes one message with all points of the series; writes nothing if there are none. */
static int put_series(struct read *r, struct read_query *q)
{
	const size_t before = r->bytes, at = r->at_series, body = open_message(r);
	const struct export_remote_series *s = q->selected.v[at].of;
	size_t any = 0;
	int err = body && base_grow(&r->out, &r->room, body + s->label_bytes, 1) ? 0 : -ENOMEM;

	if (err)
		return err;
	memcpy(r->out + body, s->labels, s->label_bytes);
	r->bytes += s->label_bytes;
	while (r->at_series == at && !err) {
		const size_t n = next_points(r, q);

		any += n;
		err = r->budget && r->budget->err ? r->budget->err : put_samples(r, n);
	}
	if (!err && any)
		return close_message(r, body);
	r->bytes = before;
	return err;
}

static int put_query(struct read *r, struct read_query *q)
{
	const size_t body = open_message(r);
	int err = body ? 0 : -ENOMEM;

	for (r->at_series = 0; r->at_series < q->selected.n && !err;)
		err = put_series(r, q);
	return err ? err : close_message(r, body);
}

static ssize_t give_samples(void *arg, char *to, size_t max)
{
	struct read *r = arg;
	const size_t n = BASE_MIN(r->bytes - r->sent, max);

	memcpy(to, r->out + r->sent, n);
	r->sent += n;
	return (ssize_t)n;
}

static bool compress_samples(struct read *r)
{
	size_t room = snappy_max_compressed_length(r->bytes);
	char *body = malloc(room + 1);

	if (!body || snappy_compress((const char *)r->out, r->bytes, body, &room) != SNAPPY_OK) {
		free(body);
		return false;
	}
	free(r->out);
	r->out = (uint8_t *)body;
	r->bytes = r->room = room;
	return true;
}

static void answer_samples(struct http_request *req, struct read *r)
{
	int err = 0;

	for (size_t i = 0; i < r->queries && !err; i++)
		err = put_query(r, &r->query[i]);
	if (http_over_budget(req)) {
		read_free(r);
		return;
	}
	if (err || !compress_samples(r)) {
		http_reply_error(
			req, err == -E2BIG ? 400 : 503, "%s",
			err == -E2BIG
				? "the response is too large: narrow the selection or the time "
				  "range, or accept chunks"
				: "out of memory");
		read_free(r);
		return;
	}
	http_add_header(req, "Content-Encoding", "snappy");
	http_reply_stream(req, 200, "application/x-protobuf", give_samples, read_free, r);
}

/* Chunks, as a stream */

static uint32_t crc_table[256];

static void make_crc_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
		crc_table[i] = crc;
	}
}

/* CRC-32 with Castagnoli's polynomial. */
static uint32_t crc32c(const uint8_t *p, size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint32_t crc = ~0u;

	pthread_once(&once, make_crc_table);
	while (n--)
		crc = crc_table[(crc ^ *p++) & 0xff] ^ crc >> 8;
	return ~crc;
}

#define CHUNK_MAX  (EXPORT_XOR_BYTES + 4 * EXPORT_PB_FIELD)
#define FRAME_HEAD (10u + 4u) /* maximum size of the frame's length and CRC fields */

static uint8_t *put_chunk(uint8_t *p, const struct collect_point *point, size_t n)
{
	uint8_t data[EXPORT_XOR_BYTES], *body = export_pb_open(p, 2, 2);
	int64_t ms[EXPORT_XOR_SAMPLES];
	double value[EXPORT_XOR_SAMPLES];

	for (size_t i = 0; i < n; i++) {
		ms[i] = point[i].ns / 1000000;
		value[i] = point[i].value;
	}
	p = export_pb_u64(body, 1, (uint64_t)ms[0]);
	p = export_pb_u64(p, 2, (uint64_t)ms[n - 1]);
	p = export_pb_u64(p, 3, 1); /* encoding: XOR */
	p = export_pb_bytes(p, 4, data, export_xor_chunk(data, ms, value, n));
	return export_pb_close(body, p, 2);
}

/* Writes a frame with one series: { varint length, u32 CRC, message }. */
static bool put_frame(struct read *r, const struct export_remote_series *s, size_t n)
{
	const size_t chunks = (n + EXPORT_XOR_SAMPLES - 1) / EXPORT_XOR_SAMPLES;
	const size_t most = s->label_bytes + chunks * CHUNK_MAX + 2 * EXPORT_PB_FIELD;
	uint8_t *message, *body, *p, *at;
	uint32_t crc;

	if (!base_grow(&r->out, &r->room, FRAME_HEAD + most, 1))
		return false;
	message = r->out + FRAME_HEAD;
	body = export_pb_open(message, 1, LENGTH_GUESS);
	p = (uint8_t *)mempcpy(body, s->labels, s->label_bytes);
	for (size_t i = 0; i < n; i += EXPORT_XOR_SAMPLES)
		p = put_chunk(p, r->point + i, BASE_MIN(n - i, (size_t)EXPORT_XOR_SAMPLES));
	p = export_pb_close(body, p, LENGTH_GUESS);
	p = export_pb_u64(p, 2, r->at_query);
	/* Place the head so that it ends where the message begins. */
	r->sent = FRAME_HEAD - 4 - export_pb_varint_bytes((uint64_t)(p - message));
	at = export_pb_varint(r->out + r->sent, (uint64_t)(p - message));
	crc = htobe32(crc32c(message, (size_t)(p - message)));
	memcpy(at, &crc, sizeof(crc));
	r->bytes = (size_t)(p - r->out);
	return true;
}

static ssize_t give_frames(void *arg, char *to, size_t max)
{
	struct read *r = arg;

	while (r->sent == r->bytes) {
		const struct api_series *s;
		struct read_query *q;
		size_t n;

		if (r->at_query == r->queries)
			return 0;
		q = &r->query[r->at_query];
		if (r->at_series == q->selected.n) {
			r->at_query++;
			r->at_series = 0;
			continue;
		}
		s = &q->selected.v[r->at_series];
		n = next_points(r, q);
		if (r->budget && r->budget->err)
			return r->budget->err;
		if (n && !put_frame(r, s->of, n))
			return -ENOMEM;
	}
	return give_samples(r, to, max);
}

/* Route */

static struct read *read_new(struct collect_collector *c)
{
	struct read *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->c = c;
	if (base_grow(&r->point, &r->point_room, POINTS_MAX, sizeof(*r->point)))
		return r;
	free(r);
	return NULL;
}

static void post_read(struct http_request *req, void *arg)
{
	size_t bytes = 0;
	const char *body = http_body(req, &bytes);
	struct read *r = NULL;
	int err = -ENOMEM, before = atomic_fetch_add(&reads, 1);

	/* As in api_answer(), half is for clients that have no other answer in progress. */
	if (before >= READS_MAX || (before >= READS_MAX / 2 && http_answers(req) > 1)) {
		atomic_fetch_sub(&reads, 1);
		http_reply_full(req, "too many remote reads are in progress: try again later");
		return;
	}
	r = read_new(arg); /* read_free() decrements the count */
	if (!r) {
		atomic_fetch_sub(&reads, 1);
		http_reply_error(req, 503, "out of memory");
		return;
	}
	r->budget = http_budget(req);
	err = take_body(r, body ? body : "", bytes);
	for (size_t i = 0; i < r->queries && !err; i++) {
		r->query[i].selected.budget = r->budget;
		r->query[i].selected.from_ns = r->query[i].from_ns;
		err = api_select(&r->query[i].selected, r->c, &r->query[i].matchers);
		if (err)
			base_fail(r->error, sizeof(r->error), err, "%s", api_select_failure(err));
	}
	if (http_over_budget(req)) {
		read_free(r);
	} else if (err) {
		http_reply_error(req, err == -ENOMEM ? 503 : 400, "%s",
				 *r->error ? r->error : "out of memory");
		read_free(r);
	} else if (r->chunks) {
		http_reply_stream_costly(
			req, 200,
			"application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse",
			give_frames, read_free, r);
	} else {
		answer_samples(req, r);
	}
}

int api_remote_read(struct http *http, struct collect_collector *c)
{
	return http_route_costly(http, "POST", "/api/v1/read", HTTP_READER, post_read, c);
}
