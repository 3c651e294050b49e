// SPDX-License-Identifier: Apache-2.0
/*
 * otlp_serve.c - serves POST /v1/metrics and /v1/traces. Each service instance has its own
 * publisher, which is closed if the instance sends nothing for some time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <zlib.h>

#include "base/base.h"
#include "base/text.h"
#include "bridge/otlp.h"
#include "bridge/source.h"
#include "bridge/spans.h"
#include "http/http.h"

#define LOG	  "otlp"
#define SECOND_NS 1000000000ull
#define BODY_MAX  (8u << 20) /* maximum size of a body before and after inflation */
#define EXPIRE_NS (300 * SECOND_NS)
#define SERVICES  24u
/* maximum number of services with spans; a process has room for 63 publishers in total */
#define SPANS 8u

struct service {
	char *name, *instance;
	struct bridge_publisher *publisher; /* NULL means that this element is free */
	struct bridge_spans *spans;	    /* publishes spans; NULL if none were received yet */
	uint64_t spans_ns;		    /* time when spans were last received */
};

struct bridge_otlp_server {
	struct http *http;
	pthread_mutex_t lock;
	const struct bridge_worker *w; /* NULL if not running */
	struct bridge_otlp *otlp;
	struct service services[SERVICES];
	char *inflated;
	struct sl_counter requests, malformed, points, refused, expired, spans, refused_spans,
		exemplars, costly[OTLP_COSTS];
};

/* ---- services; the caller holds the lock ---- */

static char *label_of(struct bridge_text t, const char *otherwise)
{
	bool good = t.n && t.n <= SL_LABEL_VALUE_MAX && base_utf8(t.s, t.n);

	return good ? bridge_text_copy(t) : strdup(otherwise);
}

/* Returns NULL if there is no room for another service. */
static struct service *find_service(struct bridge_otlp_server *o, struct bridge_text name,
				    struct bridge_text id)
{
	struct service new = {.name = label_of(name, "unknown_service")}, *to = NULL;

	new.instance = new.name ? label_of(id, new.name) : NULL;
	for (size_t i = 0; new.instance &&i < SERVICES; i++) {
		struct service *s = &o->services[i];

		if (!s->publisher) {
			to = to ?: s;
		} else if (!strcmp(s->name, new.name) && !strcmp(s->instance, new.instance)) {
			free(new.name);
			free(new.instance);
			return s;
		}
	}
	if (to)
		new.publisher = bridge_publish_open(
			&(struct bridge_publish_opts){.service = new.name,
						      .pod = new.instance,
						      .socket = o->w->o->socket,
						      .scale = (int)o->w->o->scale});
	if (!new.publisher) {
		base_log_limited(BASE_WARN, LOG, "refused: no room for another service max=%u",
				 SERVICES);
		free(new.name);
		free(new.instance);
		return NULL;
	}
	*to = new;
	return to;
}

static struct bridge_sink *on_resource(void *arg, struct bridge_text name, struct bridge_text id)
{
	struct service *s = find_service(arg, name, id);

	if (!s)
		return NULL;
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
			 "spans refused: no room for another service with spans max=%u", SPANS);
	return false;
}

static void *on_span_resource(void *arg, struct bridge_text name, struct bridge_text id)
{
	struct bridge_otlp_server *o = arg;
	struct service *s = find_service(o, name, id);

	if (!s)
		return NULL;
	/*
	 * Spans have a separate publisher, so that a service without spans uses no memory for them.
	 */
	if (!s->spans && room_for_spans(o))
		s->spans = bridge_spans_open(s->name, s->instance, o->w->o->socket);
	s->spans_ns = base_now_ns();
	return s->spans;
}

static bool on_span(void *to, const struct bridge_span *s)
{
	return bridge_spans_put(to, s);
}

static void close_service(struct service *s)
{
	bridge_publish_close(s->publisher);
	bridge_spans_close(s->spans);
	free(s->name);
	free(s->instance);
	*s = (struct service){0};
}

/* ---- requests ---- */

/* Inflates a gzip body. Returns its size, or -1 if it is malformed or too long. */
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
	err = inflate(&z, Z_FINISH);
	inflateEnd(&z);
	return err == Z_STREAM_END ? (ssize_t)z.total_out : -1;
}

/*
 * Sends an empty response. Refused points are not reported, because retrying them would not help.
 */
static void send_empty(struct http_request *req, bool json)
{
	if (json)
		http_reply(req, 200, "application/json", "{}", 2);
	else
		http_reply(req, 200, "application/x-protobuf", "", 0);
}

/* Returns the number of points for which there was no room or that can't be published. */
static uint64_t left_out(const struct bridge_otlp_server *o)
{
	uint64_t n = 0;

	for (size_t i = 0; i < SERVICES; i++)
		if (o->services[i].publisher) {
			struct bridge_publish_counts c =
				bridge_publish_counts(o->services[i].publisher);

			n += c.refused + c.full;
		}
	return n;
}

static void on_request(struct http_request *req, struct bridge_otlp_server *o,
		       enum bridge_otlp_signal signal)
{
	const struct bridge_span_sink sink = {on_span_resource, o, on_span};
	const char *type = http_header(req, "Content-Type");
	const char *encoding = http_header(req, "Content-Encoding");
	const bool json = type && !strncasecmp(type, "application/json", 16);
	struct bridge_otlp_counts n = {0};
	struct bridge_error e = {.text = "malformed gzip, or the body is too long"};
	size_t bytes;
	const void *body = http_body(req, &bytes);
	uint64_t before;
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
	before = left_out(o);
	if (!err && signal == OTLP_TRACES)
		err = bridge_otlp_read_traces(o->otlp, body, bytes, json, &sink, &n, &e);
	else if (!err)
		err = bridge_otlp_read(o->otlp, body, bytes, json, on_resource, o, &n, &e);
	n.refused += left_out(o) - before;
	sl_counter_inc(o->requests);
	sl_counter_add(o->malformed, err && !n.cost);
	if (n.cost)
		sl_counter_inc(o->costly[n.cost]);
	sl_counter_add(o->exemplars, n.exemplars_left_out);
	sl_counter_add(signal == OTLP_TRACES ? o->spans : o->points, n.points);
	sl_counter_add(signal == OTLP_TRACES ? o->refused_spans : o->refused, n.refused);
	pthread_mutex_unlock(&o->lock);
	if (err)
		http_reply_error(req, err == -E2BIG ? 413 : 400, "%s", e.text);
	else
		send_empty(req, json);
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
			"--otlp '%s': must be an address such as 127.0.0.1:4318 or unix:/PATH", at);
	return local || o->web_config
		       ? 0
		       : base_fail(error, bytes, -EINVAL,
				   "--otlp '%s': senders are not authenticated, so only this host "
				   "may send: listen on loopback or a unix socket, or set "
				   "--web-config, and --insecure-listen if that has no TLS",
				   at);
}

struct bridge_otlp_server *bridge_otlp_listen(const struct bridge_opts *opts,
					      struct http_front *front, char *error, size_t bytes)
{
	const char *at = opts->otlp;
	const bool tcp = strncmp(at, "unix:", 5);
	struct bridge_otlp_server *o = calloc(1, sizeof(*o));

	if (o)
		o->otlp = bridge_otlp_new();
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
		uint64_t before;

		if (!s->publisher)
			continue;
		before = bridge_publish_counts(s->publisher).removed;
		bridge_publish_expire(s->publisher, base_now_ns(), EXPIRE_NS);
		sl_counter_add(o->expired, bridge_publish_counts(s->publisher).removed - before);
		if (s->spans && base_now_ns() - s->spans_ns >= EXPIRE_NS) {
			bridge_spans_close(s->spans);
			s->spans = NULL;
		}
		if (!bridge_publish_series(s->publisher) && !s->spans)
			close_service(s);
	}
}

void bridge_otlp_run(struct bridge_otlp_server *o, const struct bridge_worker *w)
{
#define COUNTER(name, help) bridge_counter(w, "sidelight_bridge_otlp_" name "_total", help, NULL, 0)
	o->requests = COUNTER("requests", "Requests received, including malformed ones.");
	o->malformed = COUNTER("malformed", "Requests that were refused as malformed.");
	o->points = COUNTER("points", "Points taken.");
	o->refused = COUNTER(
		"refused",
		"Points refused or partly accepted: no temporality, unsuitable buckets, negative "
		"observations, too many labels, or no room.");
	o->spans = COUNTER("spans", "Spans taken.");
	o->refused_spans = COUNTER("refused_spans",
				   "Spans refused: no IDs or times, or no room for "
				   "the service or their names.");
	o->exemplars = COUNTER("left_out_exemplars",
			       "Exemplars left out: too many per point, or labels too long.");
	o->expired = COUNTER("expired",
			     "Series removed because they were not sent for a long time.");
#undef COUNTER
	for (int i = OTLP_COST_NONE + 1; i < OTLP_COSTS; i++)
		o->costly[i] =
			bridge_counter(w, "sidelight_bridge_otlp_costly_total",
				       "Requests that were refused because of a limit, by cause.",
				       &(struct sl_label){"cause", bridge_otlp_costs[i]}, 1);
	pthread_mutex_lock(&o->lock);
	o->w = w;
	pthread_mutex_unlock(&o->lock);
	while (bridge_sleep(w, base_now_ns() + 10 * SECOND_NS)) {
		pthread_mutex_lock(&o->lock);
		end_idle_services(o);
		pthread_mutex_unlock(&o->lock);
	}
	pthread_mutex_lock(&o->lock);
	o->w = NULL;
	pthread_mutex_unlock(&o->lock);
}
