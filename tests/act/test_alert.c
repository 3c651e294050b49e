// SPDX-License-Identifier: Apache-2.0
/* test_alert.c - a receiver of alerts sees an incident begin, continue and end. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "support/test.h"
#include "act/alert.h"

#define S 1000000000ll
#define T (1763694391 * S) /* 2025-11-21T03:06:31Z */

struct heard {
	json_t *alerts; /* the last message */
	size_t messages, count;
	json_t *events[16];
	size_t n;
};

static json_t *parse(const char *json, size_t bytes)
{
	json_t *j = json_loadb(json, bytes, 0, NULL);

	assert_non_null(j);
	return j;
}

static void on_alerts(void *arg, const char *json, size_t bytes, size_t count)
{
	struct heard *h = arg;

	json_decref(h->alerts);
	h->alerts = parse(json, bytes);
	h->messages++;
	h->count = count;
	assert_int_equal(json_array_size(h->alerts), count);
}

static void on_event(void *arg, const char *id, const char *json, size_t bytes)
{
	struct heard *h = arg;

	assert_true(h->n < 16);
	h->events[h->n] = parse(json, bytes);
	assert_string_equal(id, json_string_value(json_object_get(h->events[h->n++], "id")));
}

static void forget(struct heard *h)
{
	json_decref(h->alerts);
	for (size_t i = 0; i < h->n; i++)
		json_decref(h->events[i]);
}

static const char *at(const json_t *j, const char *object, const char *key)
{
	return json_string_value(
		json_object_get(object ? json_object_get(j, object) : (json_t *)j, key));
}

static struct act_incident incident(void)
{
	return (struct act_incident){
		.number = 1,
		.id = "0000000000000abc-29394906",
		.cause = {.id = 1,
			  .instance = 0xabc,
			  .name = {.pod = "cart-0", .service = "cart", .kube_namespace = "shop"},
			  .peak = 3.5,
			  .blames = 2,
			  .blame = {{"latency_p90{path=\"/\"}", 0.75, 0.168, 0.02, false, 0, 0,
				     false},
				    {"errors_total", 0.25, NAN, NAN, false, 0, 0, false}}},
		.told_cause = {.pod = "cart-0", .service = "cart", .kube_namespace = "shop"},
		.begin_ns = T + 250000000,
		.last_ns = T + 250000000,
		.sentence = "cart-0 is slow since 03:06:31 UTC",
		.members = 2,
		.member = {{.instance = 0xabc, .name = {.pod = "cart-0", .service = "cart"}},
			   {.instance = 0xdef,
			    .name = {.service = "web", .container = "web", .process = 12}}},
	};
}

static void take(struct act_alerts *s, const struct act_incident *i, unsigned int news,
		 int64_t now_ns, const struct act_alerts_out *out)
{
	act_alerts_take(s, i, news, now_ns, out);
	act_alerts_send(s, out);
}

static void alertmanager_hears_begin_again_and_end(void **state)
{
	struct heard h = {.n = 0};
	struct act_alerts_out out = {.alertmanager = on_alerts, .arg = &h};
	struct act_alerts *s = act_alerts_new("http://here:1", 60 * S);
	struct act_incident i = incident();
	json_t *first, *labels;

	(void)state;
	act_alerts_send(s, &out);
	assert_int_equal(h.messages, 0);
	act_alerts_take(s, &i, ACT_NEWS_BEGAN, T + S, &out);
	take(s, &i, ACT_NEWS_BEGAN, T + S, &out);
	assert_int_equal(h.messages, 1);
	assert_int_equal(h.count, 2);
	first = json_array_get(h.alerts, 0);
	assert_string_equal(at(first, "labels", "alertname"), "Incident");
	assert_string_equal(at(first, "labels", "incident"), i.id);
	assert_string_equal(at(first, "labels", "service"), "cart");
	assert_string_equal(at(first, "labels", "namespace"), "shop");
	assert_string_equal(at(first, NULL, "startsAt"), "2025-11-21T03:06:31.250Z");
	assert_string_equal(at(first, NULL, "endsAt"), "2025-11-21T03:10:32.000Z");
	assert_string_equal(at(first, NULL, "generatorURL"),
			    "http://here:1/#tab=cause&incident=0000000000000abc-29394906");
	assert_string_equal(at(first, "annotations", "blame"), "latency_p90{path=\"/\"}");
	assert_string_equal(at(first, "annotations", "summary"), i.sentence);
	assert_string_equal(at(first, "annotations", "pod"), "cart-0");
	assert_null(at(first, "annotations", "host")); /* empty labels are omitted */
	labels = json_deep_copy(json_object_get(first, "labels"));

	/* If the cause changes, the annotations change, but the labels stay the same. */
	strcpy(i.cause.name.service, "db");
	i.cause.peak = 9;
	take(s, &i, ACT_NEWS_CHANGED, T + 61 * S, &out);
	first = json_array_get(h.alerts, 0);
	assert_string_equal(at(first, "annotations", "score"), "9");
	assert_string_equal(at(first, "annotations", "service"), "db");
	assert_true(json_equal(labels, json_object_get(first, "labels")));

	i.end_ns = T + 70 * S;
	take(s, &i, ACT_NEWS_ENDED, T + 80 * S, &out);
	assert_int_equal(h.messages, 3);
	first = json_array_get(h.alerts, 0);
	assert_string_equal(at(first, NULL, "endsAt"), "2025-11-21T03:07:41.000Z");
	assert_true(json_equal(labels, json_object_get(first, "labels")));
	act_alerts_send(s, &out);
	assert_int_equal(h.messages, 3);
	json_decref(labels);
	forget(&h);
	act_alerts_free(s);
}

/* prometheus.io/docs/alerting/latest/configuration/#webhook_config */
static void expect_version_4(const json_t *e, const char *status)
{
	static const char *const strings[] = {"groupKey", "receiver", "externalURL"};
	static const char *const alert_strings[] = {"startsAt", "endsAt", "generatorURL",
						    "fingerprint"};
	static const char *const maps[] = {"groupLabels", "commonLabels", "commonAnnotations"};
	const json_t *alert = json_array_get(json_object_get(e, "alerts"), 0), *label;
	const char *key;

	assert_string_equal(at(e, NULL, "version"), "4");
	assert_string_equal(at(e, NULL, "status"), status);
	assert_true(json_is_integer(json_object_get(e, "truncatedAlerts")));
	assert_int_equal(json_array_size(json_object_get(e, "alerts")), 1);
	assert_string_equal(at(alert, NULL, "status"), status);
	for (size_t i = 0; i < 3; i++)
		assert_true(json_is_string(json_object_get(e, strings[i])));
	for (size_t i = 0; i < 4; i++)
		assert_true(json_is_string(json_object_get(alert, alert_strings[i])));
	for (size_t i = 0; i < 3; i++) {
		assert_true(json_object_size(json_object_get(e, maps[i])) > 0);
		json_object_foreach(json_object_get(e, maps[i]), key, label)
			assert_true(json_is_string(label));
	}
	/* The labels that identify the group are labels of its alert. */
	json_object_foreach(json_object_get(e, "groupLabels"), key, label) assert_true(
		json_equal(label, json_object_get(json_object_get(alert, "labels"), key)));
	assert_true(
		json_equal(json_object_get(e, "commonLabels"), json_object_get(alert, "labels")));
	assert_string_equal(at(alert, "annotations", "blame"), "latency_p90{path=\"/\"}");
}

static void a_webhook_hears_each_begin_and_end_once(void **state)
{
	struct heard h = {.n = 0};
	struct act_alerts_out out = {.webhook = on_event, .arg = &h};
	struct act_alerts *s = act_alerts_new(NULL, 60 * S);
	struct act_incident i = incident();
	json_t *member;

	(void)state;
	take(s, &i, ACT_NEWS_BEGAN, T, &out);
	take(s, &i, ACT_NEWS_AGAIN, T, &out);
	take(s, &i, ACT_NEWS_CHANGED, T, &out);
	assert_int_equal(h.n, 1);
	assert_string_equal(at(h.events[0], NULL, "event"), "incident.begin");
	assert_string_equal(at(h.events[0], NULL, "id"), "0000000000000abc-29394906");
	assert_string_equal(at(h.events[0], NULL, "sentence"), i.sentence);
	assert_string_equal(at(h.events[0], "cause", "pod"), "cart-0");
	assert_true(json_is_null(json_object_get(
		json_array_get(json_object_get(h.events[0], "blame"), 1), "value")));
	/* Processes of a service on a host without an orchestrator can be told apart. */
	member = json_array_get(json_object_get(h.events[0], "members"), 1);
	assert_null(at(member, NULL, "pod"));
	assert_string_equal(at(member, NULL, "container"), "web");
	assert_string_equal(at(member, NULL, "process"), "12");
	assert_string_equal(at(member, NULL, "instance_id"), "0000000000000def");
	i.end_ns = T + 600 * S;
	i.cause.unread = true;
	take(s, &i, ACT_NEWS_ENDED, T + 600 * S, &out);
	assert_int_equal(h.n, 2);
	assert_string_equal(at(h.events[1], NULL, "event"), "incident.end");
	assert_string_equal(at(h.events[1], NULL, "id"), "0000000000000abc-29394906");
	expect_version_4(h.events[0], "firing");
	expect_version_4(h.events[1], "resolved");
	assert_string_equal(at(h.events[0], NULL, "groupKey"), at(h.events[1], NULL, "groupKey"));
	assert_true(json_is_true(json_object_get(h.events[1], "unread")));
	/* The incident ended before its beginning was sent: both events are sent. */
	take(s, &i, ACT_NEWS_BEGAN | ACT_NEWS_ENDED, T + 601 * S, &out);
	assert_int_equal(h.n, 4);
	assert_string_equal(at(h.events[2], NULL, "event"), "incident.begin");
	assert_null(at(h.events[2], NULL, "end"));
	assert_int_equal(act_alerts_lost(s), 0);
	forget(&h);
	act_alerts_free(s);
}

static void load_notifies_no_receiver(void **state)
{
	struct heard h = {.n = 0};
	struct act_alerts_out out = {.alertmanager = on_alerts, .webhook = on_event, .arg = &h};
	struct act_alerts *s = act_alerts_new(NULL, 60 * S);
	struct act_incident i = incident();

	(void)state;
	i.kind = ACT_INCIDENT_LOAD;
	i.end_ns = T + 9 * S;
	take(s, &i, ACT_NEWS_BEGAN | ACT_NEWS_ENDED, T, &out);
	assert_int_equal(h.n, 0);
	assert_int_equal(h.messages, 0);
	act_alerts_free(s);
}

static void a_kept_trace_is_told(void **state)
{
	struct heard h = {.n = 0};
	struct act_alerts_out out = {.alertmanager = on_alerts, .webhook = on_event, .arg = &h};
	struct act_alerts *s = act_alerts_new(NULL, 60 * S);
	uint8_t trace[ACT_TRACE_ID_BYTES] = {0x0a, 0xff};
	struct act_incident i = incident();

	(void)state;
	i.has_trace = true;
	memcpy(i.trace, trace, sizeof(trace));
	take(s, &i, ACT_NEWS_BEGAN, T, &out);
	assert_string_equal(at(json_array_get(h.alerts, 0), "annotations", "trace_id"),
			    "0aff0000000000000000000000000000");
	assert_string_equal(at(h.events[0], NULL, "trace_id"), "0aff0000000000000000000000000000");
	forget(&h);
	act_alerts_free(s);
}

static void labels_cut_within_a_character_are_still_text(void **state)
{
	struct heard h = {.n = 0};
	struct act_alerts_out out = {.alertmanager = on_alerts, .webhook = on_event, .arg = &h};
	struct act_alerts *s = act_alerts_new(NULL, 60 * S);
	struct act_incident i = incident();
	char *service = i.told_cause.service;

	(void)state;
	memset(service, 'x', sizeof(i.told_cause.service) - 1);
	service[sizeof(i.told_cause.service) - 2] = '\xe2';
	memset(i.cause.blame[0].metric, '\xff', sizeof(i.cause.blame[0].metric) - 1);
	i.cause.peak = INFINITY;
	take(s, &i, ACT_NEWS_BEGAN, T, &out);
	assert_int_equal(strlen(at(json_array_get(h.alerts, 0), "labels", "service")),
			 sizeof(i.told_cause.service) - 2);
	assert_int_equal(h.n, 1);
	forget(&h);
	act_alerts_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alertmanager_hears_begin_again_and_end),
		cmocka_unit_test(a_webhook_hears_each_begin_and_end_once),
		cmocka_unit_test(load_notifies_no_receiver),
		cmocka_unit_test(a_kept_trace_is_told),
		cmocka_unit_test(labels_cut_within_a_character_are_still_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
