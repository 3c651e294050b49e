// SPDX-License-Identifier: Apache-2.0
/*
 * otlp_serve.c - serves POST /v1/metrics and /v1/traces. Each service instance has its own
 * publisher, which is closed if the instance sends nothing for some time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>
#include <zlib.h>

#include "base/base.h"
#include "base/text.h"
#include "bridge/otlp.h"
#include "bridge/source.h"
#include "export/pb.h"
#include "http/http.h"

#define LOG	  "otlp"
#define SECOND_NS 1000000000ull
#define BODY_MAX  (8u << 20) /* maximum size of a body before and after inflation */
#define EXPIRE_NS (300 * SECOND_NS)
#define SERVICES  24u
#define IDLE_S	  10 /* time between two searches for idle services */
/* maximum number of services with spans; a process has room for 63 publishers in total */
#define SPANS 8u

struct service {
	char *name, *instance;
	/*
	 * If there is no service.instance.id, senders are identified by the resource's attributes
	 * and the connection. When the sender disconnects, .connection becomes 0, and the next
	 * sender with these attributes continues the service.
	 */
	bool by_connection;
	uint64_t hash, connection;
	struct base_table names;
	struct bridge_publisher *publisher; /* NULL means that this element is free */
	struct bridge_spans *spans;	    /* publishes spans; NULL if none were received yet */
	uint64_t spans_ns;		    /* time when spans were last received */
	uint64_t used_ns;		    /* time of the last request */
};

struct bridge_otlp_server {
	struct http *http;
	pthread_mutex_t lock;
	const struct bridge_worker *w; /* NULL if not running */
	struct bridge_otlp *otlp;
	struct service services[SERVICES];
	char *inflated;
	uint64_t connection;		     /* connection of the current request; 0 for spans */
	struct bridge_otlp_counts *counting; /* counts of the current request */
	struct bridge_publish_counts counts; /* sums over all publishers */
	struct sl_counter requests, malformed, points, expired, spans, exemplars, attributes,
		refused[OTLP_CAUSES], refused_spans[OTLP_CAUSES], costly[OTLP_COSTS],
		http_refused[HTTP_REFUSALS];
	uint64_t http_told[HTTP_REFUSALS];
};

/* ---- services; the caller holds the lock ---- */

static char *label_of(struct bridge_text t, const char *otherwise)
{
	bool good = t.n && t.n <= SL_LABEL_VALUE_MAX && base_utf8(t.s, t.n);

	return good ? bridge_text_copy(t) : strdup(otherwise);
}

static void close_service(struct service *s)
{
	bridge_publish_close(s->publisher);
	bridge_spans_close(s->spans);
	bridge_otlp_names_free(&s->names);
	free(s->name);
	free(s->instance);
	*s = (struct service){0};
}

/*
 * Returns the service of this sender; failing that, a service with the same attributes whose sender
 * has disconnected; or NULL. Spans go to any service with these attributes, because exporters send
 * spans and metrics over separate connections.
 */
static struct service *find_sender(struct bridge_otlp_server *o, const char *name,
				   const char *instance, uint64_t hash)
{
	struct service *left = NULL;

	for (size_t i = 0; i < SERVICES; i++) {
		struct service *s = &o->services[i];

		if (!s->publisher || strcmp(s->name, name) || s->by_connection == !!instance)
			continue;
		if (instance && !strcmp(s->instance, instance))
			return s;
		if (instance || s->hash != hash)
			continue;
		if (!o->connection || s->connection == o->connection)
			return s;
		if (!s->connection)
			left = left ?: s;
	}
	if (left)
		left->connection = o->connection;
	return left;
}

/* The first sender without an instance is called NAME, the others NAME-2, NAME-3, ... */
static char *free_instance(const struct bridge_otlp_server *o, const char *name)
{
	char *out = NULL;

	for (unsigned int n = 1, taken = 1; taken; n++) {
		free(out);
		if ((n == 1 ? asprintf(&out, "%s", name) : asprintf(&out, "%s-%u", name, n)) < 0)
			return NULL;
		taken = 0;
		for (size_t i = 0; i < SERVICES; i++)
			taken |= o->services[i].publisher && !strcmp(o->services[i].name, name) &&
				 !strcmp(o->services[i].instance, out);
	}
	return out;
}

/*
 * Closes the service whose sender disconnected longest ago, but never keep. Returns its element, or
 * NULL if no such sender has disconnected.
 */
static struct service *end_left_service(struct bridge_otlp_server *o, const struct service *keep)
{
	struct service *left = NULL;

	for (size_t i = 0; i < SERVICES; i++) {
		struct service *s = &o->services[i];

		if (s->publisher && s != keep && s->by_connection && !s->connection &&
		    (!left || s->used_ns < left->used_ns))
			left = s;
	}
	if (!left)
		return NULL;
	sl_counter_add(o->expired, bridge_publish_series(left->publisher));
	close_service(left);
	return left;
}

/*
 * Returns a free element. If there is none, closes a service whose sender has disconnected. Returns
 * NULL if all are in use.
 */
static struct service *free_service(struct bridge_otlp_server *o)
{
	for (size_t i = 0; i < SERVICES; i++)
		if (!o->services[i].publisher)
			return &o->services[i];
	return end_left_service(o, NULL);
}

/* Closes services whose senders have disconnected until there is a region. */
static struct bridge_publisher *open_publisher(struct bridge_otlp_server *o,
					       const struct service *new)
{
	const struct bridge_publish_opts opts = {.service = new->name,
						 .pod = new->instance,
						 .socket = o->w->o->socket,
						 .scale = (int)o->w->o->scale,
						 .counts = &o->counts};
	struct bridge_publisher *p;

	do
		p = bridge_publish_open(&opts);
	while (!p && errno == ENOSPC && end_left_service(o, NULL));
	return p;
}

static struct bridge_spans *open_spans(struct bridge_otlp_server *o, const struct service *s)
{
	struct bridge_spans *spans;

	do
		spans = bridge_spans_open(s->name, s->instance, o->w->o->socket);
	while (!spans && errno == ENOSPC && end_left_service(o, s));
	return spans;
}

/* Logs why there is no publisher, and notes the cause for the answer. */
static void report_unserved(struct bridge_otlp_server *o, int error)
{
	if (error == ENOSPC)
		o->counting->unserved = OTLP_REGIONS;
	base_log_limited(BASE_WARN, LOG, "request refused: %s", bridge_publish_why(error));
}

/* Returns NULL if there is no room for another service. */
static struct service *find_service(struct bridge_otlp_server *o,
				    const struct bridge_otlp_identity *id)
{
	char *name = label_of(id->service, "unknown_service");
	char *instance = id->instance.n && name ? label_of(id->instance, name) : NULL;
	int error = ENOMEM;
	struct service new = {.by_connection = !instance, .hash = id->hash}, *to;

	to = name ? find_sender(o, name, instance, id->hash) : NULL;
	if (to) {
		free(name);
		free(instance);
		to->used_ns = base_now_ns();
		return to;
	}
	to = name ? free_service(o) : NULL;
	if (to) {
		new.name = name;
		new.instance = instance ?: free_instance(o, name);
		new.connection = new.by_connection ? o->connection : 0;
		new.used_ns = base_now_ns();
	}
	if (new.instance) {
		new.publisher = open_publisher(o, &new);
		error = errno;
	}
	if (!new.publisher) {
		if (name && !to)
			base_log_limited(BASE_WARN, LOG,
					 "request refused: there is no room for another "
					 "service max=%u",
					 SERVICES);
		else
			report_unserved(o, error);
		free(name);
		free(to ? new.instance : instance);
		return NULL;
	}
	*to = new;
	return to;
}

/* Called when a client disconnects. */
static void on_disconnect(void *arg, struct http_caller *caller)
{
	struct bridge_otlp_server *o = arg;

	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < SERVICES; i++)
		if (o->services[i].connection == caller->connection)
			o->services[i].connection = 0;
	pthread_mutex_unlock(&o->lock);
}

static struct bridge_sink *on_resource(void *arg, const struct bridge_otlp_identity *id,
				       struct base_table **names)
{
	struct service *s = find_service(arg, id);

	if (!s)
		return NULL;
	*names = &s->names;
	bridge_publish_begin(s->publisher);
	return bridge_publish_sink(s->publisher);
}

static bool room_for_spans(const struct bridge_otlp_server *o)
{
	unsigned int n = 0;

	for (size_t i = 0; i < SERVICES; i++)
		n += o->services[i].spans != NULL;
	if (n < SPANS)
		return true;
	base_log_limited(BASE_WARN, LOG,
			 "spans refused: there is no room for another service with spans max=%u",
			 SPANS);
	return false;
}

static void *on_span_resource(void *arg, const struct bridge_otlp_identity *id)
{
	struct bridge_otlp_server *o = arg;
	struct service *s = find_service(o, id);

	if (!s)
		return NULL;
	/*
	 * Spans have a separate publisher, so that a service without spans uses no memory for them.
	 */
	if (!s->spans && room_for_spans(o)) {
		s->spans = open_spans(o, s);
		if (!s->spans)
			report_unserved(o, errno);
	}
	s->spans_ns = base_now_ns();
	return s->spans;
}

static bool on_span(void *to, const struct bridge_span *s)
{
	return bridge_spans_put(to, s);
}

/* ---- requests ---- */

/*
 * Inflates a gzip body, which may have several members (RFC 1952, 2.2). Returns its size, or -1 if
 * it is malformed or too long.
 */
static ssize_t inflate_body(struct bridge_otlp_server *o, const void *body, size_t bytes)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)body, .avail_in = (uInt)bytes};
	int err;

	if (!o->inflated)
		o->inflated = malloc(BODY_MAX);
	if (!o->inflated || inflateInit2(&z, 15 + 16) != Z_OK)
		return -1;
	z.next_out = (Bytef *)o->inflated;
	z.avail_out = BODY_MAX;
	do
		err = inflate(&z, Z_FINISH);
	while (err == Z_STREAM_END && z.avail_in && inflateReset(&z) == Z_OK);
	inflateEnd(&z);
	return err == Z_STREAM_END ? (ssize_t)(BODY_MAX - z.avail_out) : -1;
}

/* Writes "2 points: WHY; 1 point: WHY". Returns the number of points. */
static uint64_t explain_refusals(const struct bridge_otlp_counts *n, const char *what, char *out,
				 size_t bytes)
{
	uint64_t all = 0;
	size_t used = 0;

	*out = 0;
	for (int i = 0; i < OTLP_CAUSES; i++) {
		int r = 0;

		if (n->refused[i] && used < bytes)
			r = snprintf(out + used, bytes - used, "%s%llu %s%s: %s", all ? "; " : "",
				     (unsigned long long)n->refused[i], what,
				     n->refused[i] == 1 ? "" : "s", bridge_otlp_causes[i].why);
		used += r > 0 ? (size_t)r : 0;
		all += n->refused[i];
	}
	return all;
}

/*
 * Sends ExportMetricsServiceResponse or ExportTraceServiceResponse, whose fields have the same
 * numbers. partial_success is set only if something was refused.
 */
static void send_answer(struct http_request *req, bool json, enum bridge_otlp_signal signal,
			const struct bridge_otlp_counts *n)
{
	char why[1024];
	uint8_t inner[sizeof(why) + 2 * EXPORT_PB_FIELD], out[sizeof(inner) + EXPORT_PB_FIELD], *p;
	const bool spans = signal == OTLP_TRACES;
	uint64_t refused = explain_refusals(n, spans ? "span" : "point", why, sizeof(why));

	if (json) {
		json_t *partial =
			refused ? json_pack("{s:o, s:s}",
					    spans ? "rejectedSpans" : "rejectedDataPoints",
					    json_sprintf("%llu", (unsigned long long)refused),
					    "errorMessage", why)
				: NULL;

		http_reply_json(req, 200, json_pack("{s:o*}", "partialSuccess", partial));
		return;
	}
	p = export_pb_string(export_pb_u64(inner, 1, refused), 2, why);
	p = export_pb_bytes(out, 1, inner, (size_t)(p - inner));
	http_reply(req, 200, "application/x-protobuf", out, refused ? (size_t)(p - out) : 0);
}

/* Adds the points refused by publishers to those refused by the decoder. */
static void add_left_out(struct bridge_otlp_counts *n, const struct bridge_publish_counts *before,
			 const struct bridge_publish_counts *after)
{
	const uint64_t duplicate = after->duplicate - before->duplicate;
	const uint64_t negative = after->negative - before->negative;
	const uint64_t full = after->full - before->full;
	const uint64_t refused = after->refused - before->refused;

	n->refused[OTLP_DUPLICATE] += duplicate;
	n->refused[OTLP_NEGATIVE] += negative;
	n->refused[OTLP_FULL] += full;
	n->refused[OTLP_UNPUBLISHABLE] += refused - duplicate - negative;
	/* Points published without their negative observations count as accepted. */
	n->points -= BASE_MIN(n->points, refused - negative + full);
}

static void count_request(struct bridge_otlp_server *o, enum bridge_otlp_signal signal, int err,
			  const struct bridge_otlp_counts *n)
{
	const bool spans = signal == OTLP_TRACES;

	sl_counter_inc(o->requests);
	sl_counter_add(o->malformed, err && !n->cost);
	if (n->cost)
		sl_counter_inc(o->costly[n->cost]);
	sl_counter_add(o->exemplars, n->exemplars_left_out);
	sl_counter_add(o->attributes, n->attributes_left_out);
	sl_counter_add(spans ? o->spans : o->points, n->points);
	for (int i = 0; i < OTLP_CAUSES; i++)
		sl_counter_add(spans ? o->refused_spans[i] : o->refused[i], n->refused[i]);
}

static void on_request(struct http_request *req, struct bridge_otlp_server *o,
		       enum bridge_otlp_signal signal)
{
	const struct bridge_span_sink sink = {on_span_resource, o, on_span};
	const char *type = http_header(req, "Content-Type");
	const char *encoding = http_header(req, "Content-Encoding");
	const bool json = type && !strncasecmp(type, "application/json", 16);
	struct bridge_otlp_counts n = {0};
	struct bridge_error e = {.text = "the gzip data is malformed, or the body is too long"};
	size_t bytes;
	const void *body = http_body(req, &bytes);
	struct bridge_publish_counts before;
	ssize_t inflated;
	int err = 0;

	pthread_mutex_lock(&o->lock);
	if (!o->w) {
		pthread_mutex_unlock(&o->lock);
		http_reply_error(req, 503, "the bridge is starting or stopping");
		return;
	}
	if (encoding && !strcasecmp(encoding, "gzip")) {
		inflated = inflate_body(o, body, bytes);
		err = inflated < 0 ? -EINVAL : 0;
		body = o->inflated;
		bytes = err ? 0 : (size_t)inflated;
	}
	o->connection = signal == OTLP_METRICS ? http_caller(req)->connection : 0;
	o->counting = &n;
	before = o->counts;
	if (!err && signal == OTLP_TRACES)
		err = bridge_otlp_read_traces(o->otlp, body, bytes, json, &sink, &n, &e);
	else if (!err)
		err = bridge_otlp_read(o->otlp, body, bytes, json, on_resource, o, &n, &e);
	add_left_out(&n, &before, &o->counts);
	count_request(o, signal, err, &n);
	pthread_mutex_unlock(&o->lock);
	if (err)
		http_reply_error(req, err == -E2BIG ? 413 : 400, "%s", e.text);
	else
		send_answer(req, json, signal, &n);
}

static void on_metrics(struct http_request *req, void *arg)
{
	on_request(req, arg, OTLP_METRICS);
}

static void on_traces(struct http_request *req, void *arg)
{
	on_request(req, arg, OTLP_TRACES);
}

/* ---- the server ---- */

int bridge_otlp_check(const struct bridge_opts *o, char *error, size_t bytes)
{
	const char *at = o->otlp;
	int local = http_is_local(at, error, bytes);

	if (local < 0)
		return base_fail(
			error, bytes, -EINVAL,
			"--otlp '%s': expected an address such as 127.0.0.1:4318 or unix:/PATH",
			at);
	return local || o->web_config
		       ? 0
		       : base_fail(error, bytes, -EINVAL,
				   "--otlp '%s': without authentication, only this host may send "
				   "data: listen on loopback or a Unix socket, or set "
				   "--web-config, and also --insecure-listen if that file does not "
				   "configure TLS",
				   at);
}

struct bridge_otlp_server *bridge_otlp_listen(const struct bridge_opts *opts,
					      struct http_front *front, char *error, size_t bytes)
{
	const char *at = opts->otlp;
	const bool tcp = strncmp(at, "unix:", 5);
	struct bridge_otlp_server *o = calloc(1, sizeof(*o));

	if (o)
		o->otlp = bridge_otlp_new(&(struct bridge_otlp_opts){
			.resource_labels = opts->otlp_labels, .utf8 = opts->otlp_utf8});
	if (!o || !o->otlp) {
		base_fail(error, bytes, -ENOMEM, "--otlp: out of memory");
		free(o);
		return NULL;
	}
	pthread_mutex_init(&o->lock, NULL);
	o->http = http_new(&(struct http_opts){.listen = at,
					       .max_body = BODY_MAX,
					       .protobuf = true,
					       .no_gzip = true,
					       .web_config = tcp ? opts->web_config : NULL,
					       .roles_file = tcp ? opts->roles_file : NULL,
					       .insecure = opts->insecure,
					       .forget = on_disconnect,
					       .identify_arg = o,
					       .front = front},
			   error, bytes);
	if (o->http && !http_route(o->http, "POST", "/v1/metrics", HTTP_READER, on_metrics, o) &&
	    !http_route(o->http, "POST", "/v1/traces", HTTP_READER, on_traces, o) &&
	    !http_start(o->http, error, bytes))
		return o;
	bridge_otlp_close(o);
	return NULL;
}

void bridge_otlp_close(struct bridge_otlp_server *o)
{
	if (!o)
		return;
	http_free(o->http);
	for (size_t i = 0; i < SERVICES; i++)
		close_service(&o->services[i]);
	bridge_otlp_free(o->otlp);
	free(o->inflated);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

static void end_idle_services(struct bridge_otlp_server *o)
{
	for (size_t i = 0; i < SERVICES; i++) {
		struct service *s = &o->services[i];
		const uint64_t before = o->counts.removed;

		if (!s->publisher)
			continue;
		bridge_publish_expire(s->publisher, base_now_ns(), EXPIRE_NS);
		sl_counter_add(o->expired, o->counts.removed - before);
		if (s->spans && base_now_ns() - s->spans_ns >= EXPIRE_NS) {
			bridge_spans_close(s->spans);
			s->spans = NULL;
		}
		if (!bridge_publish_series(s->publisher) && !s->spans)
			close_service(s);
	}
}

/* Publishes the refusals of the HTTP server, whose requests never arrive here. */
static void count_http_refusals(struct bridge_otlp_server *o)
{
	for (int i = 0; i < HTTP_REFUSALS; i++) {
		const uint64_t now = http_refused(o->http, i);

		sl_counter_add(o->http_refused[i], now - o->http_told[i]);
		o->http_told[i] = now;
	}
}

void bridge_otlp_run(const struct bridge_worker *w)
{
	struct bridge_otlp_server *o = w->otlp;

#define COUNTER(name, help) bridge_counter(w, "sidelight_bridge_otlp_" name "_total", help, NULL, 0)
	o->requests = COUNTER("requests", "Requests received, including malformed ones.");
	o->malformed = COUNTER("malformed", "Requests that were refused as malformed.");
	o->points = COUNTER("points", "Points taken.");
	o->spans = COUNTER("spans", "Spans taken.");
	o->exemplars = COUNTER("left_out_exemplars",
			       "Exemplars dropped because a point had too many, because their "
			       "labels were too long, or because the metric is neither a counter "
			       "nor a histogram.");
	o->attributes = COUNTER("left_out_attributes",
				"Resource attributes left out of target_info because they were "
				"too long or too many.");
	o->expired = COUNTER("expired",
			     "Series removed because they had not been sent for a long time.");
#undef COUNTER
	for (int i = 0; i < OTLP_CAUSES; i++) {
		const struct sl_label l = {"cause", bridge_otlp_causes[i].cause};

		o->refused[i] = bridge_counter(w, "sidelight_bridge_otlp_refused_total",
					       "Points refused or only partly accepted, by cause.",
					       &l, 1);
		o->refused_spans[i] = bridge_counter(w, "sidelight_bridge_otlp_refused_spans_total",
						     "Spans refused, by cause.", &l, 1);
	}
	for (int i = OTLP_COST_NONE + 1; i < OTLP_COSTS; i++)
		o->costly[i] =
			bridge_counter(w, "sidelight_bridge_otlp_costly_total",
				       "Requests that were refused because of a limit, by cause.",
				       &(struct sl_label){"cause", bridge_otlp_costs[i]}, 1);
	for (int i = 0; i < HTTP_REFUSALS; i++)
		o->http_refused[i] =
			bridge_counter(w, "sidelight_bridge_otlp_http_refused_total",
				       "Requests and connections refused before the bodies were "
				       "read, by cause.",
				       &(struct sl_label){"cause", http_refusal_names[i]}, 1);
	pthread_mutex_lock(&o->lock);
	o->w = w;
	pthread_mutex_unlock(&o->lock);
	for (unsigned int n = 1; bridge_sleep(w, base_now_ns() + SECOND_NS); n++) {
		count_http_refusals(o);
		if (n % IDLE_S)
			continue;
		pthread_mutex_lock(&o->lock);
		end_idle_services(o);
		pthread_mutex_unlock(&o->lock);
	}
	pthread_mutex_lock(&o->lock);
	o->w = NULL;
	pthread_mutex_unlock(&o->lock);
}
