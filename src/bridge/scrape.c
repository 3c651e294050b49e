// SPDX-License-Identifier: Apache-2.0
/*
 * scrape.c - scrapes a target's /metrics like Prometheus. The target may be hostile, so time, size
 * before and after inflation, headers and series are limited, and redirects are not followed.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "bridge/families.h"
#include "bridge/source.h"
#include "bridge/text.h"
#include "http/client.h"

#define LOG	   "scrape"
#define SECOND_NS  1000000000ull
#define TIMEOUT_NS (10 * SECOND_NS)
#define RETRY_NS   (10 * SECOND_NS) /* parsing all lines again costs CPU time */
#define VALUE_MAX  255u		    /* bytes of a setting */
#define ACCEPT_NATIVE                                                         \
	"Accept: application/vnd.google.protobuf;proto=io.prometheus.client." \
	"MetricFamily;encoding=delimited;q=0.9,application/openmetrics-text;" \
	"version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
#define ACCEPT                                                                   \
	"Accept: application/openmetrics-text;version=1.0.0;q=0.75,application/" \
	"openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"

enum format { TEXT, OPENMETRICS, FAMILIES };
enum cause {
	CONNECT,
	TIMEOUT,
	STATUS,
	TOO_LARGE,
	MALFORMED,
	SERIES,
	MEMORY,
	SECRET,
	CONFIG,
	REGIONS,
	CAUSES
};
static const char *const cause_names[CAUSES] = {"connect",   "timeout", "status", "too_large",
						"malformed", "series",	"memory", "secret",
						"config",    "regions"};

struct scrape {
	const struct bridge_worker *w;
	const struct bridge_scrape_opts *o;
	struct bridge_publisher *publisher;
	struct bridge_text_parser *parser;
	size_t values; /* number of values in the last body */
	struct http_client *client;
	char timeout[80];
	const char *headers[3];
	struct sl_counter scrapes, failures[CAUSES], refused, full, untimely;
	struct bridge_publish_counts told;
	bool incomplete; /* a series was refused since the last retry */
	uint64_t retry_ns;

	/* About the current scrape. */
	struct http_fetched answer;
	enum cause failed;
};

/* ---- options ---- */

void bridge_scrape_release(struct bridge_scrape_opts *s)
{
	free(s->url);
	free(s->instance);
	*s = (struct bridge_scrape_opts){0};
}

/* Returns the HOST:PORT of an http or https URL, or NULL if it is not such a URL. */
static char *instance_of(const char *url)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *host = NULL, *port = NULL, *out = NULL;

	if (u && !curl_url_set(u, CURLUPART_URL, url, 0) &&
	    !curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) &&
	    (!strcmp(scheme, "http") || !strcmp(scheme, "https")) &&
	    !curl_url_get(u, CURLUPART_HOST, &host, 0) &&
	    !curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) &&
	    asprintf(&out, "%s:%s", host, port) < 0)
		out = NULL;
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	curl_url_cleanup(u);
	return out;
}

/* Parses "KEY=VALUE" or "native". The values point into s. */
static int parse_setting(char *s, struct bridge_scrape_opts *out)
{
	char *value = strchr(s, '=');
	uint64_t *time;

	if (!value) {
		out->native = true;
		return strcmp(s, "native") ? -EINVAL : 0;
	}
	*value++ = 0;
	if (!*value || strlen(value) > VALUE_MAX)
		return -EINVAL;
	if (!strcmp(s, "job")) {
		out->job = value;
		return 0;
	}
	if (!strcmp(s, "config")) {
		out->config = value;
		return 0;
	}
	time = !strcmp(s, "interval")  ? &out->interval_ns
	       : !strcmp(s, "timeout") ? &out->timeout_ns
				       : NULL;
	return time && !base_parse_duration(value, time) && *time >= 1000000 ? 0 : -EINVAL;
}

int bridge_scrape_parse(const char *text, uint64_t interval_ns, struct bridge_scrape_opts *out,
			char *error, size_t bytes)
{
	char *rest = strdup(text), *s, why[256];
	int err = 0;

	*out = (struct bridge_scrape_opts){.interval_ns = interval_ns};
	out->url = strsep(&rest, ",");
	out->instance = out->url ? instance_of(out->url) : NULL;
	out->job = out->instance;
	if (!out->instance)
		err = base_fail(error, bytes, -EINVAL, "--scrape '%s': not an http or https URL",
				text);
	else if (http_client_url(out->url, why, sizeof(why)))
		err = base_fail(error, bytes, -EINVAL, "--scrape: %s", why);
	while (!err && (s = strsep(&rest, ","))) {
		const char *at = text + (s - out->url);

		err = parse_setting(s, out);
		if (err)
			base_fail(error, bytes, err,
				  "--scrape '%s': expected job=NAME, interval=TIME, timeout=TIME, "
				  "config=FILE or native, not '%.*s'",
				  text, (int)BASE_MIN(strcspn(at, ","), 64u), at);
	}
	if (!err && !out->timeout_ns)
		out->timeout_ns = BASE_MIN(out->interval_ns, TIMEOUT_NS);
	if (err)
		bridge_scrape_release(out);
	return err;
}

int bridge_scrape_check(const struct bridge_scrape_opts *s, char *error, size_t bytes)
{
	struct http_client *client = http_client_open(s->config, error, bytes);

	http_client_close(client);
	return client ? 0 : -EINVAL;
}

/* ---- fetching ---- */

static bool is_stopping(void *arg)
{
	return bridge_stopping(((const struct scrape *)arg)->w);
}

static void prepare_request(struct scrape *s)
{
	snprintf(s->timeout, sizeof(s->timeout), "X-Prometheus-Scrape-Timeout-Seconds: %g",
		 (double)s->o->timeout_ns / 1e9);
	s->headers[0] = s->o->native ? ACCEPT_NATIVE : ACCEPT;
	s->headers[1] = s->timeout;
}

static int report_failure(struct scrape *s, enum cause cause, const char *why)
{
	s->failed = cause;
	base_log_each(BASE_WARN, LOG, s->o->url, "scrape failed url=%s cause=%s error=%s",
		      s->o->url, cause_names[cause], why);
	return -EIO;
}

/* Reads the settings file, unless an earlier scrape did. Returns 0 or -EIO. */
static int open_client(struct scrape *s)
{
	char why[256];

	if (s->client)
		return 0;
	s->client = http_client_open(s->o->config, why, sizeof(why));
	return s->client ? 0 : report_failure(s, errno == ENOMEM ? MEMORY : CONFIG, why);
}

/* Fetches the body and determines its format. Returns 0 or -EIO. */
static int fetch_body(struct scrape *s, enum format *format)
{
	static const enum cause causes[] = {
		[HTTP_FETCH_CONNECT] = CONNECT,	   [HTTP_FETCH_TIMEOUT] = TIMEOUT,
		[HTTP_FETCH_TOO_LONG] = TOO_LARGE, [HTTP_FETCH_MEMORY] = MEMORY,
		[HTTP_FETCH_SECRET] = SECRET,
	};
	const struct http_fetch f = {.client = s->client,
				     .url = s->o->url,
				     .headers = s->headers,
				     .timeout_ns = s->o->timeout_ns,
				     .most = BRIDGE_BODY_MAX,
				     .keep = true,
				     .gzip = true,
				     .stop = is_stopping,
				     .stop_arg = s};
	enum http_fetch_error error = http_fetch(&f, &s->answer);
	char why[32];

	if (error)
		return report_failure(s, causes[error], s->answer.why);
	*format = TEXT;
	if (!strncasecmp(s->answer.type, "application/openmetrics-text", 28))
		*format = OPENMETRICS;
	else if (!strncasecmp(s->answer.type, "application/vnd.google.protobuf", 31))
		*format = FAMILIES;
	snprintf(why, sizeof(why), "HTTP %ld", s->answer.status);
	return s->answer.status == 200 ? 0 : report_failure(s, STATUS, why);
}

/* ---- reading ---- */

/* Parses and publishes a whole body. */
static int publish_body(struct scrape *s, enum format format)
{
	const double now = (double)base_realtime_ns() * 1e-9;
	const struct bridge_window window = {now - BRIDGE_PAST_SECONDS,
					     now + BRIDGE_FUTURE_SECONDS};
	struct bridge_error e = {0};
	struct bridge_body_counts n;
	char why[sizeof(e.text) + 32];
	int err;

	bridge_publish_begin(s->publisher);
	if (format == FAMILIES) {
		/* the published series no longer match the parser's last body */
		bridge_text_forget(s->parser);
		err = bridge_families_read(NULL, &window, s->answer.body ?: "", s->answer.bytes,
					   bridge_publish_sink(s->publisher), &n, &e);
	} else {
		bridge_text_set_window(s->parser, &window);
		err = bridge_text_read(s->parser,
				       format == OPENMETRICS ? BRIDGE_OPENMETRICS : BRIDGE_TEXT_004,
				       s->answer.body ?: "", s->answer.bytes,
				       bridge_publish_sink(s->publisher), &e);
		n = bridge_text_counts(s->parser);
	}
	s->values = n.values;
	if (!err) {
		bridge_publish_end(s->publisher);
		sl_counter_add(s->untimely, n.untimely);
		sl_counter_add(s->refused, n.refused);
		return 0;
	}
	snprintf(why, sizeof(why), "line %u: %s", e.line, e.text);
	return report_failure(s, err == -E2BIG ? SERIES : err == -EINVAL ? MALFORMED : MEMORY, why);
}

/* Publishes the series that Prometheus adds for each scrape as series of the target. */
static void publish_status(struct scrape *s, bool up, uint64_t took_ns)
{
	static const char *const names[] = {"up", "scrape_duration_seconds",
					    "scrape_samples_scraped"};
	static const char *const helps[] = {"1 if the last scrape succeeded.",
					    "How long the last scrape took.",
					    "Number of values in the last scrape."};
	const double values[] = {up, (double)took_ns / 1e9, up ? (double)s->values : 0};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		sl_gauge_f64_set(sl_gauge_f64_create(bridge_publish_of(s->publisher),
						     &SL_OPTS(sl_metric_opts, .name = names[i],
							      .help = helps[i])),
				 values[i]);
}

/*
 * A body that differs only in its numbers sets only series that were published before. Makes the
 * next body announce all series again, because the refused ones may now have room.
 */
static void retry_refused(struct scrape *s, const struct bridge_publish_counts *now)
{
	if (now->refused != s->told.refused || now->full != s->told.full)
		s->incomplete = true;
	if (!s->incomplete || base_now_ns() < s->retry_ns)
		return;
	bridge_text_forget(s->parser);
	s->incomplete = false;
	s->retry_ns = base_now_ns() + RETRY_NS;
}

static void add_counts(struct scrape *s, bool up)
{
	struct bridge_publish_counts now = bridge_publish_counts(s->publisher);

	retry_refused(s, &now);
	sl_counter_inc(s->scrapes);
	if (!up)
		sl_counter_inc(s->failures[s->failed]);
	sl_counter_add(s->refused, now.refused - s->told.refused);
	sl_counter_add(s->full, now.full - s->told.full);
	s->told = now;
}

static void scrape_once(struct scrape *s)
{
	uint64_t start = base_now_ns();
	enum format format = TEXT;
	int err = open_client(s);

	err = err ?: fetch_body(s, &format);
	err = err ?: publish_body(s, format);
	if (bridge_stopping(s->w))
		return;
	if (err) {
		/* As in Prometheus, a target's series end when it does not respond. */
		bridge_publish_clear(s->publisher);
		bridge_text_forget(s->parser);
	}
	publish_status(s, !err, base_now_ns() - start);
	add_counts(s, !err);
}

/*
 * Returns false if memory or regions are short: without a publisher, only the counters tell of the
 * failure.
 */
static bool open_publisher(struct scrape *s)
{
	enum cause cause;

	s->parser = s->parser ?: bridge_text_new(NULL);
	s->publisher = s->publisher
			       ?: bridge_publish_open(&(struct bridge_publish_opts){
					  .service = s->o->job,
					  .pod = s->o->instance,
					  .socket = s->w->o->socket,
					  .scale = (int)s->w->o->scale});
	if (s->parser && s->publisher)
		return true;
	cause = errno == ENOSPC ? REGIONS : MEMORY;
	report_failure(s, cause, bridge_publish_why(errno));
	sl_counter_inc(s->scrapes);
	sl_counter_inc(s->failures[cause]);
	return false;
}

static void create_counters(struct scrape *s)
{
	struct sl_label l[] = {{"target", s->o->url}, {"cause", NULL}};

	s->scrapes = bridge_counter(s->w, "sidelight_bridge_scrapes_total",
				    "Scrapes, including failed ones.", l, 1);
	s->refused = bridge_counter(s->w, "sidelight_bridge_refused_total",
				    "Series that cannot be published.", l, 1);
	s->full = bridge_counter(s->w, "sidelight_bridge_full_total",
				 "Series for which there was no room.", l, 1);
	s->untimely = bridge_counter(
		s->w, "sidelight_bridge_untimely_total",
		"Series with a timestamp more than 5 min in the past or 10 min in the future.", l,
		1);
	for (int i = 0; i < CAUSES; i++) {
		l[1].value = cause_names[i];
		s->failures[i] = bridge_counter(s->w, "sidelight_bridge_failures_total",
						"Scrapes that failed, by cause.", l, 2);
	}
}

void bridge_scrape_run(const struct bridge_worker *w, const struct bridge_scrape_opts *o)
{
	struct scrape s = {.w = w, .o = o};
	uint64_t next = base_now_ns();

	create_counters(&s);
	prepare_request(&s);
	while (bridge_sleep(w, next)) {
		if (open_publisher(&s))
			scrape_once(&s);
		next += o->interval_ns;
		/* the scrape took longer than the interval, so skip scrapes */
		if (next < base_now_ns())
			next = base_now_ns() + o->interval_ns / 10;
	}
	bridge_publish_close(s.publisher);
	bridge_text_free(s.parser);
	http_client_close(s.client);
	free(s.answer.body);
}
