// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "act/alert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#define SECOND_NS 1000000000ll
#define NAME	  "Incident"

struct act_alerts {
	char *link;
	int64_t again_ns;
	json_t *due; /* alerts to send; NULL if there are none */
	uint64_t lost;
};

struct act_alerts *act_alerts_new(const char *link, uint64_t again_ns)
{
	struct act_alerts *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->again_ns = (int64_t)again_ns;
	s->link = link ? strdup(link) : NULL;
	if (!link || s->link)
		return s;
	free(s);
	return NULL;
}

void act_alerts_free(struct act_alerts *s)
{
	if (!s)
		return;
	json_decref(s->due);
	free(s->link);
	free(s);
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

static json_t *trace_of(const struct act_incident *i)
{
	char id[2 * ACT_TRACE_ID_BYTES + 1];

	base_hex(id, i->trace, sizeof(i->trace));
	return i->has_trace ? json_string(id) : NULL;
}

static json_t *link_of(const struct act_alerts *s, const struct act_incident *i)
{
	return s->link ? json_sprintf("%s/#tab=cause&incident=%s", s->link, i->id) : NULL;
}

/*
 * The service and namespace come from the cause that receivers were first told. The cause may
 * change later, but labels identify an alert and must not.
 */
static json_t *make_labels(const struct act_incident *i)
{
	const struct act_pod_name *n = &i->told_cause;

	return json_pack("{s:s, s:s, s:s, s:o*, s:o*}", "alertname", NAME, "severity", "warning",
			 "incident", i->id, "service", make_nonempty(n->service), "namespace",
			 make_nonempty(n->kube_namespace));
}

static json_t *make_annotations(const struct act_alerts *s, const struct act_incident *i)
{
	const struct act_anomaly *a = &i->cause;

	return json_pack("{s:o, s:o, s:o, s:o*, s:o*, s:o*, s:o, s:o*, s:o*}", "summary",
			 make_string(i->sentence), "score", json_sprintf("%.6g", a->peak),
			 "service", make_string(a->name.service), "pod", make_nonempty(a->name.pod),
			 "host", make_nonempty(a->name.host), "blame",
			 a->blames ? make_string(a->blame[0].metric) : NULL, "members",
			 json_sprintf("%u", i->members + i->left_out), "trace_id", trace_of(i),
			 "page", link_of(s, i));
}

static json_t *make_alert(const struct act_alerts *s, const struct act_incident *i, int64_t now_ns)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o*}", "labels", make_labels(i), "annotations",
			 make_annotations(s, i), "startsAt", make_time(i->begin_ns), "endsAt",
			 make_time(i->end_ns ? i->end_ns : now_ns + 4 * s->again_ns),
			 "generatorURL", link_of(s, i));
}

/*
 * Builds the fields of an Alertmanager webhook, version 4
 * (prometheus.io/docs/alerting/latest/configuration/#webhook_config): a group with one alert, so
 * that existing receivers accept it.
 */
static json_t *make_webhook(const struct act_alerts *s, const struct act_incident *i, bool ended)
{
	const char *status = ended ? "resolved" : "firing";
	/* Go's zero time stands for "unknown" */
	json_t *end = ended ? make_time(i->end_ns) : json_string("0001-01-01T00:00:00Z");
	json_t *alert = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:s}", "status", status, "labels",
				  make_labels(i), "annotations", make_annotations(s, i), "startsAt",
				  make_time(i->begin_ns), "endsAt", end, "generatorURL",
				  s->link ? link_of(s, i) : json_string(""), "fingerprint", i->id);

	return json_pack("{s:s, s:o, s:i, s:s, s:s, s:{s:s, s:s}, s:o, s:o, s:o, s:[o]}", "version",
			 "4", "groupKey", json_sprintf("{}:{incident=\"%s\"}", i->id),
			 "truncatedAlerts", 0, "status", status, "receiver", "sidelight",
			 "groupLabels", "alertname", NAME, "incident", i->id, "commonLabels",
			 make_labels(i), "commonAnnotations", make_annotations(s, i), "externalURL",
			 make_string(s->link ? s->link : ""), "alerts", alert);
}

static json_t *make_blame(const struct act_anomaly *a)
{
	json_t *blame = json_array();

	for (uint32_t k = 0; k < a->blames; k++) {
		const struct act_blame *b = &a->blame[k];

		json_array_append_new(blame, json_pack("{s:o, s:o, s:o, s:o}", "metric",
						       make_string(b->metric), "share",
						       json_real(isfinite(b->share) ? b->share : 0),
						       "value", make_number(b->value), "before",
						       make_number(b->before)));
	}
	return blame;
}

static json_t *make_pod(const struct act_pod_name *n, uint64_t instance)
{
	return json_pack("{s:o, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*}", "instance_id",
			 json_sprintf("%016llx", (unsigned long long)instance), "pod",
			 make_nonempty(n->pod), "service", make_nonempty(n->service), "namespace",
			 make_nonempty(n->kube_namespace), "container", make_nonempty(n->container),
			 "process", n->process ? json_sprintf("%u", n->process) : NULL, "host",
			 make_nonempty(n->host));
}

static json_t *make_event(const struct act_alerts *s, const struct act_incident *i, bool ended)
{
	json_t *members = json_array(), *o;

	for (uint32_t k = 0; k < i->members; k++)
		json_array_append_new(members, make_pod(&i->member[k].name, i->member[k].instance));
	o = json_pack("{s:s, s:s, s:o, s:o, s:o*, s:o*, s:o*, s:o, s:o, s:o, s:o, s:i, s:o, s:o*, "
		      "s:o*}",
		      "event", ended ? "incident.end" : "incident.begin", "id", i->id, "labels",
		      make_labels(i), "begin", make_time(i->begin_ns), "end",
		      ended ? make_time(i->end_ns) : NULL, "unread",
		      ended ? json_boolean(i->cause.unread) : NULL, "part_of",
		      make_nonempty(i->part_of), "cause",
		      make_pod(&i->cause.name, i->cause.instance), "score",
		      make_number(i->cause.peak), "blame", make_blame(&i->cause), "members",
		      members, "members_left_out", (int)i->left_out, "sentence",
		      make_string(i->sentence), "trace_id", trace_of(i), "page", link_of(s, i));
	json_object_update_new(o, make_webhook(s, i, ended));
	return o;
}

/* ---- notifications ---- */

/*
 * Serialises and frees o. If out of memory, returns NULL and counts `count` notifications as lost.
 */
static char *text_of(struct act_alerts *s, json_t *o, size_t count)
{
	char *text = json_dumps(o, JSON_COMPACT);

	json_decref(o);
	s->lost += text ? 0 : count;
	return text;
}

static void call_webhook(struct act_alerts *s, const struct act_incident *i, bool ended,
			 const struct act_alerts_out *out)
{
	char *text = out->webhook ? text_of(s, make_event(s, i, ended), 1) : NULL;

	if (text)
		out->webhook(out->arg, i->id, text, strlen(text));
	free(text);
}

void act_alerts_take(struct act_alerts *s, const struct act_incident *i, unsigned int news,
		     int64_t now_ns, const struct act_alerts_out *out)
{
	if (i->kind == ACT_INCIDENT_LOAD)
		return;
	if (news & ACT_NEWS_BEGAN)
		call_webhook(s, i, false, out);
	if (news & ACT_NEWS_ENDED)
		call_webhook(s, i, true, out);
	if (!out->alertmanager)
		return;
	s->due = s->due ? s->due : json_array();
	if (json_array_append_new(s->due, make_alert(s, i, now_ns)))
		s->lost++;
}

void act_alerts_send(struct act_alerts *s, const struct act_alerts_out *out)
{
	size_t n = json_array_size(s->due);
	char *text = n ? text_of(s, s->due, n) : NULL;

	if (n)
		s->due = NULL;
	if (text)
		out->alertmanager(out->arg, text, strlen(text), n);
	free(text);
}

uint64_t act_alerts_lost(const struct act_alerts *s)
{
	return s->lost;
}
