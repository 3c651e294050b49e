// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "act/alert.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#define SECOND_NS 1000000000ll
#define NAME	  "PodAnomalous"

struct alert {
	struct act_anomaly a;
	int64_t due_ns; /* when to send it next; 0: at once */
};

struct act_alerts {
	char *link;
	int64_t again_ns;
	struct alert *alert;
	size_t n, max;
	uint64_t lost;
};

struct act_alerts *act_alerts_new(const struct act_alerts_opts *opts)
{
	struct act_alerts *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->again_ns = opts->again_ns ? (int64_t)opts->again_ns : 60 * SECOND_NS;
	a->max = opts->max ? opts->max : 4096;
	a->alert = calloc(a->max, sizeof(*a->alert));
	a->link = opts->link ? strdup(opts->link) : NULL;
	if (!a->alert || (opts->link && !a->link)) {
		act_alerts_free(a);
		errno = ENOMEM;
		return NULL;
	}
	return a;
}

void act_alerts_free(struct act_alerts *a)
{
	if (!a)
		return;
	free(a->alert);
	free(a->link);
	free(a);
}

/* ---- JSON ---- */

/* RFC 3339 with milliseconds. */
static void put_time(json_t *o, const char *key, int64_t ns)
{
	time_t s = (time_t)(ns / SECOND_NS);
	char day[32], text[48];
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%03dZ", day, (int)(ns % SECOND_NS / 1000000));
	json_object_set_new(o, key, json_string(text));
}

/* A truncated name may end within a UTF-8 character, which jansson refuses. */
static void put(json_t *o, const char *key, const char *text)
{
	size_t n = strlen(text);
	json_t *s;

	while (!(s = json_stringn(text, n)) && n)
		n--;
	json_object_set_new(o, key, s);
}

static void put_nonempty(json_t *o, const char *key, const char *text)
{
	if (*text)
		put(o, key, text);
}

static void put_trace(json_t *o, const struct act_anomaly *a)
{
	char id[2 * ACT_TRACE_ID_BYTES + 1];

	if (!a->has_trace)
		return;
	base_hex(id, a->trace, sizeof(a->trace));
	put(o, "trace_id", id);
}

static void put_link(json_t *o, const char *key, const struct act_alerts *s,
		     const struct act_anomaly *a)
{
	char text[1024];

	if (!s->link)
		return;
	snprintf(text, sizeof(text), "%s/#tab=anomalies&anomaly=%016llx", s->link,
		 (unsigned long long)a->instance);
	put(o, key, text);
}

static json_t *labels(const struct act_anomaly *a)
{
	json_t *o = json_object();
	char instance[20];

	put(o, "alertname", NAME);
	put(o, "severity", "warning");
	put_nonempty(o, "pod", a->name.pod);
	put_nonempty(o, "service", a->name.service);
	put_nonempty(o, "namespace", a->name.kube_namespace);
	put_nonempty(o, "host", a->name.host);
	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)a->instance);
	put(o, "instance_id", instance);
	return o;
}

static void describe(const struct act_anomaly *a, char *text, size_t room)
{
	size_t n = (size_t)snprintf(text, room, "%s is anomalous (score %.3g, 1 is the threshold)",
				    *a->name.pod ? a->name.pod : "A pod", a->peak);

	for (uint32_t i = 0; i < a->blames && n < room; i++) {
		const struct act_blame *b = &a->blame[i];

		n += (size_t)snprintf(text + n, room - n, "%s%s", i ? ", " : ": ", b->metric);
		if (n < room && isfinite(b->value))
			n += (size_t)snprintf(text + n, room - n, " = %.4g", b->value);
		if (n < room)
			n += (size_t)snprintf(text + n, room - n, " (%.0f %%)", b->share * 100);
	}
}

static json_t *annotations(const struct act_alerts *s, const struct act_anomaly *a)
{
	json_t *o = json_object();
	char text[1024], number[32];

	describe(a, text, sizeof(text));
	put(o, "summary", text);
	snprintf(number, sizeof(number), "%.6g", a->peak);
	put(o, "score", number);
	if (a->blames)
		put(o, "blame", a->blame[0].metric);
	put_trace(o, a);
	put_link(o, "page", s, a);
	return o;
}

static json_t *alert_json(const struct act_alerts *s, const struct act_anomaly *a, int64_t now_ns)
{
	json_t *o = json_object();

	json_object_set_new(o, "labels", labels(a));
	json_object_set_new(o, "annotations", annotations(s, a));
	put_time(o, "startsAt", a->begin_ns);
	put_time(o, "endsAt", a->end_ns ? a->end_ns : now_ns + 4 * s->again_ns);
	put_link(o, "generatorURL", s, a);
	return o;
}

/*
 * Adds the fields of Alertmanager's webhooks, version 4
 * (prometheus.io/docs/alerting/latest/configuration/#webhook_config): a group of one alert, so that
 * their receivers accept it.
 */
static void put_version_4(json_t *o, const struct act_alerts *s, const struct act_anomaly *a)
{
	const char *status = a->end_ns ? "resolved" : "firing";
	json_t *alert = json_object(), *alerts = json_array(), *group = json_object();
	char key[64];

	snprintf(key, sizeof(key), "%016llx", (unsigned long long)a->instance);
	put(alert, "status", status);
	json_object_set_new(alert, "labels", labels(a));
	json_object_set_new(alert, "annotations", annotations(s, a));
	put_time(alert, "startsAt", a->begin_ns);
	if (a->end_ns)
		put_time(alert, "endsAt", a->end_ns);
	else
		put(alert, "endsAt", "0001-01-01T00:00:00Z"); /* Go's zero time: unknown */
	put(alert, "generatorURL", "");
	put_link(alert, "generatorURL", s, a);
	put(alert, "fingerprint", key);
	json_array_append_new(alerts, alert);
	put(group, "alertname", NAME);
	put(group, "instance_id", key);

	put(o, "version", "4");
	snprintf(key, sizeof(key), "{}:{instance_id=\"%016llx\"}", (unsigned long long)a->instance);
	put(o, "groupKey", key);
	json_object_set_new(o, "truncatedAlerts", json_integer(0));
	put(o, "status", status);
	put(o, "receiver", "sidelight");
	json_object_set_new(o, "groupLabels", group);
	json_object_set_new(o, "commonLabels", labels(a));
	json_object_set_new(o, "commonAnnotations", annotations(s, a));
	put(o, "externalURL", s->link ? s->link : "");
	json_object_set_new(o, "alerts", alerts);
}

static json_t *event_json(const struct act_alerts *s, const struct act_anomaly *a)
{
	json_t *o = json_object(), *blame = json_array();

	put(o, "event", a->end_ns ? "anomaly.end" : "anomaly.begin");
	json_object_set_new(o, "id", json_integer((json_int_t)a->id));
	json_object_set_new(o, "labels", labels(a));
	put_time(o, "begin", a->begin_ns);
	if (a->end_ns) {
		put_time(o, "end", a->end_ns);
		json_object_set_new(o, "unread", json_boolean(a->unread));
	}
	json_object_set_new(o, "score", isfinite(a->peak) ? json_real(a->peak) : json_null());
	for (uint32_t i = 0; i < a->blames; i++) {
		const struct act_blame *b = &a->blame[i];
		json_t *one = json_object();

		put(one, "metric", b->metric);
		json_object_set_new(one, "share", json_real(isfinite(b->share) ? b->share : 0));
		json_object_set_new(one, "value",
				    isfinite(b->value) ? json_real(b->value) : json_null());
		json_array_append_new(blame, one);
	}
	json_object_set_new(o, "blame", blame);
	put_trace(o, a);
	put_link(o, "page", s, a);
	put_version_4(o, s, a);
	return o;
}

/* ---- schedule ---- */

static struct alert *find(struct act_alerts *s, uint64_t id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->alert[i].a.id == id)
			return &s->alert[i];
	return NULL;
}

static void notify(struct act_alerts *s, const struct act_anomaly *a,
		   const struct act_alerts_out *out)
{
	json_t *o = out->webhook ? event_json(s, a) : NULL;
	char *text;

	if (!o)
		return;
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	if (text)
		out->webhook(out->arg, text, strlen(text));
	else
		s->lost++;
	free(text);
}

void act_alerts_take(struct act_alerts *s, const struct act_anomaly *a,
		     const struct act_alerts_out *out)
{
	struct alert *x = find(s, a->id);
	bool fresh = !x;

	if (!x) {
		if (s->n == s->max) {
			s->lost++;
			return;
		}
		x = &s->alert[s->n++];
		*x = (struct alert){.due_ns = 0};
	}
	if (a->end_ns || (a->has_trace && !x->a.has_trace))
		x->due_ns = 0;
	x->a = *a;
	/* An anomaly that began and ended since the last call makes two events. */
	if (fresh) {
		struct act_anomaly begun = x->a;

		begun.end_ns = 0;
		notify(s, &begun, out);
	}
	if (a->end_ns)
		notify(s, &x->a, out);
}

void act_alerts_poll(struct act_alerts *s, int64_t now_ns, const struct act_alerts_out *out)
{
	json_t *all = NULL;
	size_t n = 0, kept = 0;
	char *text;

	for (size_t i = 0; i < s->n; i++) {
		struct alert *x = &s->alert[i];

		if (x->due_ns <= now_ns) {
			if (out->alertmanager) {
				all = all ? all : json_array();
				json_array_append_new(all, alert_json(s, &x->a, now_ns));
				n++;
			}
			x->due_ns = now_ns + s->again_ns;
			if (x->a.end_ns)
				continue; /* its last alert */
		}
		s->alert[kept++] = *x;
	}
	s->n = kept;
	if (!all)
		return;
	text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	if (text)
		out->alertmanager(out->arg, text, strlen(text), n);
	else
		s->lost += n;
	free(text);
}

uint64_t act_alerts_lost(const struct act_alerts *s)
{
	return s->lost;
}
