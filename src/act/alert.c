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
	int64_t due_ns; /* time to send the next alert; 0: now */
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

/* Formats as RFC 3339 with milliseconds. */
static json_t *make_time(int64_t ns)
{
	time_t s = (time_t)(ns / SECOND_NS);
	char day[32];
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
	return json_sprintf("%s.%03dZ", day, (int)(ns % SECOND_NS / 1000000));
}

/* A truncated name may end in the middle of a UTF-8 character, which jansson refuses. */
static json_t *make_string(const char *text)
{
	size_t n = strlen(text);
	json_t *s;

	while (!(s = json_stringn(text, n)) && n)
		n--;
	return s;
}

static json_t *make_nonempty(const char *text)
{
	return *text ? make_string(text) : NULL;
}

static json_t *make_number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *trace_of(const struct act_anomaly *a)
{
	char id[2 * ACT_TRACE_ID_BYTES + 1];

	base_hex(id, a->trace, sizeof(a->trace));
	return a->has_trace ? json_string(id) : NULL;
}

static json_t *instance_of(const struct act_anomaly *a)
{
	return json_sprintf("%016llx", (unsigned long long)a->instance);
}

static json_t *link_of(const struct act_alerts *s, const struct act_anomaly *a)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s/#tab=anomalies&anomaly=%016llx", s->link ? s->link : "",
		 (unsigned long long)a->instance);
	return s->link ? make_string(text) : NULL;
}

/* Returns the process number as a string, because all labels must be strings. */
static json_t *process_of(const struct act_anomaly *a)
{
	return a->name.process ? json_sprintf("%u", a->name.process) : NULL;
}

static json_t *make_labels(const struct act_anomaly *a)
{
	return json_pack("{s:s, s:s, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o}", "alertname", NAME,
			 "severity", "warning", "pod", make_nonempty(a->name.pod), "service",
			 make_nonempty(a->name.service), "namespace",
			 make_nonempty(a->name.kube_namespace), "container",
			 make_nonempty(a->name.container), "process", process_of(a), "host",
			 make_nonempty(a->name.host), "instance_id", instance_of(a));
}

static json_t *make_annotations(const struct act_alerts *s, const struct act_anomaly *a)
{
	return json_pack("{s:o, s:o, s:o*, s:o*, s:o*}", "summary", make_string(a->explanation),
			 "score", json_sprintf("%.6g", a->peak), "blame",
			 a->blames ? make_string(a->blame[0].metric) : NULL, "trace_id",
			 trace_of(a), "page", link_of(s, a));
}

static json_t *alert_json(const struct act_alerts *s, const struct act_anomaly *a, int64_t now_ns)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o*}", "labels", make_labels(a), "annotations",
			 make_annotations(s, a), "startsAt", make_time(a->begin_ns), "endsAt",
			 make_time(a->end_ns ? a->end_ns : now_ns + 4 * s->again_ns),
			 "generatorURL", link_of(s, a));
}

/*
 * Makes the fields of Alertmanager's webhooks, version 4
 * (prometheus.io/docs/alerting/latest/configuration/#webhook_config): a group with one alert, so
 * that existing receivers accept it.
 */
static json_t *make_webhook(const struct act_alerts *s, const struct act_anomaly *a)
{
	const char *status = a->end_ns ? "resolved" : "firing";
	/* Go's zero time stands for "unknown" */
	json_t *end = a->end_ns ? make_time(a->end_ns) : json_string("0001-01-01T00:00:00Z");
	json_t *alert = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "status", status, "labels",
				  make_labels(a), "annotations", make_annotations(s, a), "startsAt",
				  make_time(a->begin_ns), "endsAt", end, "generatorURL",
				  s->link ? link_of(s, a) : json_string(""), "fingerprint",
				  instance_of(a));

	return json_pack(
		"{s:s, s:o, s:i, s:s, s:s, s:{s:s, s:o}, s:o, s:o, s:o, s:[o]}", "version", "4",
		"groupKey",
		json_sprintf("{}:{instance_id=\"%016llx\"}", (unsigned long long)a->instance),
		"truncatedAlerts", 0, "status", status, "receiver", "sidelight", "groupLabels",
		"alertname", NAME, "instance_id", instance_of(a), "commonLabels", make_labels(a),
		"commonAnnotations", make_annotations(s, a), "externalURL",
		make_string(s->link ? s->link : ""), "alerts", alert);
}

static json_t *event_json(const struct act_alerts *s, const struct act_anomaly *a)
{
	json_t *blame = json_array(), *o;
	char id[ACT_EVENT_ID_BYTES];

	act_anomaly_event_id(a, id);
	for (uint32_t i = 0; i < a->blames; i++) {
		const struct act_blame *b = &a->blame[i];

		json_array_append_new(blame, json_pack("{s:o, s:o, s:o, s:o}", "metric",
						       make_string(b->metric), "share",
						       json_real(isfinite(b->share) ? b->share : 0),
						       "value", make_number(b->value), "before",
						       make_number(b->before)));
	}
	o = json_pack("{s:s, s:s, s:o, s:o, s:o*, s:o*, s:o, s:o, s:o, s:o*, s:o*}", "event",
		      a->end_ns ? "anomaly.end" : "anomaly.begin", "id", id, "labels",
		      make_labels(a), "begin", make_time(a->begin_ns), "end",
		      a->end_ns ? make_time(a->end_ns) : NULL, "unread",
		      a->end_ns ? json_boolean(a->unread) : NULL, "score", make_number(a->peak),
		      "blame", blame, "explanation", make_string(a->explanation), "trace_id",
		      trace_of(a), "page", link_of(s, a));
	json_object_update_new(o, make_webhook(s, a));
	return o;
}

/* ---- schedule ---- */

static struct alert *find_alert(struct act_alerts *s, uint64_t id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->alert[i].a.id == id)
			return &s->alert[i];
	return NULL;
}

/* Serialises and frees o. NULL: out of memory, and `count` alerts are lost. */
static char *text_of(struct act_alerts *s, json_t *o, size_t count)
{
	char *text = json_dumps(o, JSON_COMPACT);

	json_decref(o);
	s->lost += text ? 0 : count;
	return text;
}

static void notify_receivers(struct act_alerts *s, const struct act_anomaly *a,
			     const struct act_alerts_out *out)
{
	char *text = out->webhook ? text_of(s, event_json(s, a), 1) : NULL;

	if (text)
		out->webhook(out->arg, text, strlen(text));
	free(text);
}

void act_alerts_take(struct act_alerts *s, const struct act_anomaly *a,
		     const struct act_alerts_out *out)
{
	struct alert *x = find_alert(s, a->id);
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
	/* An anomaly that began and ended since the last call produces two events. */
	if (fresh) {
		struct act_anomaly begun = x->a;

		begun.end_ns = 0;
		notify_receivers(s, &begun, out);
	}
	if (a->end_ns)
		notify_receivers(s, &x->a, out);
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
				continue; /* the anomaly has ended, so this was its last alert */
		}
		s->alert[kept++] = *x;
	}
	s->n = kept;
	text = all ? text_of(s, all, n) : NULL;
	if (text)
		out->alertmanager(out->arg, text, strlen(text), n);
	free(text);
}

uint64_t act_alerts_lost(const struct act_alerts *s)
{
	return s->lost;
}
