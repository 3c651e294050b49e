// SPDX-License-Identifier: Apache-2.0
/* test_alert.c - a receiver of alerts sees an anomaly begin, continue and end. */
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

static void on_event(void *arg, const char *json, size_t bytes)
{
	struct heard *h = arg;

	assert_true(h->n < 16);
	h->events[h->n++] = parse(json, bytes);
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

static struct act_anomaly anomaly(void)
{
	return (struct act_anomaly){
		.id = 1,
		.instance = 0xabc,
		.name = {.pod = "cart-0", .service = "cart", .kube_namespace = "shop"},
		.begin_ns = T + 250000000,
		.minute = T / (60 * S),
		.last_ns = T + 250000000,
		.findings = 1,
		.peak = 3.5,
		.threshold = 1,
		.blames = 2,
		.blame = {{"latency_p90{path=\"/\"}", 0.75, 0.168, 0.02},
			  {"errors_total", 0.25, NAN, NAN}},
		.explanation = "cart-0 since 03:06:31.2 UTC: latency_p90 rose",
	};
}

static void alertmanager_hears_begin_again_and_end(void **state)
{
	struct heard h = {.n = 0};
	struct act_alerts_out out = {.alertmanager = on_alerts, .arg = &h};
	struct act_alerts *s = act_alerts_new(
		&(struct act_alerts_opts){.link = "http://here:1", .again_ns = 60 * S});
	struct act_anomaly a = anomaly();
	json_t *first, *labels;

	(void)state;
	act_alerts_poll(s, T, &out);
	assert_int_equal(h.messages, 0);
	act_alerts_take(s, &a, &out);
	act_alerts_poll(s, T + S, &out);
	assert_int_equal(h.messages, 1);
	first = json_array_get(h.alerts, 0);
	assert_string_equal(at(first, "labels", "alertname"), "PodAnomalous");
	assert_string_equal(at(first, "labels", "pod"), "cart-0");
	assert_string_equal(at(first, "labels", "namespace"), "shop");
	assert_null(at(first, "labels", "host")); /* an empty label is left out */
	assert_string_equal(at(first, NULL, "startsAt"), "2025-11-21T03:06:31.250Z");
	assert_string_equal(at(first, NULL, "endsAt"), "2025-11-21T03:10:32.000Z");
	assert_string_equal(at(first, NULL, "generatorURL"),
			    "http://here:1/#tab=anomalies&anomaly=0000000000000abc");
	assert_string_equal(at(first, "annotations", "blame"), "latency_p90{path=\"/\"}");
	assert_string_equal(at(first, "annotations", "summary"),
			    "cart-0 since 03:06:31.2 UTC: latency_p90 rose");
	labels = json_deep_copy(json_object_get(first, "labels"));

	a.peak = 9; /* further findings cause no message */
	act_alerts_take(s, &a, &out);
	act_alerts_poll(s, T + 30 * S, &out);
	assert_int_equal(h.messages, 1);
	act_alerts_poll(s, T + 61 * S, &out);
	assert_int_equal(h.messages, 2);
	first = json_array_get(h.alerts, 0);
	assert_string_equal(at(first, "annotations", "score"), "9");
	assert_true(json_equal(labels, json_object_get(first, "labels")));

	a.end_ns = T + 70 * S;
	act_alerts_take(s, &a, &out);
	act_alerts_poll(s, T + 71 * S, &out);
	assert_int_equal(h.messages, 3);
	first = json_array_get(h.alerts, 0);
	assert_string_equal(at(first, NULL, "endsAt"), "2025-11-21T03:07:41.000Z");
	assert_true(json_equal(labels, json_object_get(first, "labels")));
	act_alerts_poll(s, T + 1000 * S, &out);
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
	struct act_alerts *s = act_alerts_new(&(struct act_alerts_opts){.max = 2});
	struct act_anomaly a = anomaly();

	(void)state;
	act_alerts_take(s, &a, &out);
	act_alerts_take(s, &a, &out);
	act_alerts_poll(s, T + 500 * S, &out);
	assert_int_equal(h.n, 1);
	assert_string_equal(at(h.events[0], NULL, "event"), "anomaly.begin");
	assert_string_equal(at(h.events[0], NULL, "id"), "0000000000000abc-29394906");
	assert_true(json_is_null(json_object_get(
		json_array_get(json_object_get(h.events[0], "blame"), 1), "value")));
	a.end_ns = T + 600 * S;
	a.unread = true;
	act_alerts_take(s, &a, &out);
	assert_int_equal(h.n, 2);
	assert_string_equal(at(h.events[1], NULL, "event"), "anomaly.end");
	assert_string_equal(at(h.events[1], NULL, "id"), "0000000000000abc-29394906");
	expect_version_4(h.events[0], "firing");
	expect_version_4(h.events[1], "resolved");
	assert_string_equal(at(h.events[0], NULL, "groupKey"), at(h.events[1], NULL, "groupKey"));
	assert_true(json_is_true(json_object_get(h.events[1], "unread")));
	act_alerts_poll(s, T + 601 * S, &out);
	/* It ended before the next look: both events are sent. */
	a.id = 2;
	act_alerts_take(s, &a, &out);
	assert_int_equal(h.n, 4);
	assert_string_equal(at(h.events[2], NULL, "event"), "anomaly.begin");
	assert_null(at(h.events[2], NULL, "end"));
	act_alerts_poll(s, T + 602 * S, &out);
	/* Alerts that do not fit are counted. */
	a.end_ns = 0;
	for (uint64_t id = 10; id < 15; id++) {
		a.id = id;
		act_alerts_take(s, &a, &out);
	}
	assert_int_equal(h.n, 6);
	assert_int_equal(act_alerts_lost(s), 3);
	forget(&h);
	act_alerts_free(s);
}

static void a_kept_trace_is_told_at_once_and_stays(void **state)
{
	struct heard h = {.n = 0};
	struct act_alerts_out out = {.alertmanager = on_alerts, .webhook = on_event, .arg = &h};
	struct act_alerts *s = act_alerts_new(&(struct act_alerts_opts){.max = 0});
	uint8_t trace[ACT_TRACE_ID_BYTES] = {0x0a, 0xff};
	struct act_anomaly a = anomaly();

	(void)state;
	act_alerts_take(s, &a, &out);
	act_alerts_poll(s, T + S, &out);
	a.has_trace = true;
	memcpy(a.trace, trace, sizeof(trace));
	act_alerts_take(s, &a, &out);
	act_alerts_poll(s, T + 2 * S, &out);
	assert_int_equal(h.messages, 2);
	assert_string_equal(at(json_array_get(h.alerts, 0), "annotations", "trace_id"),
			    "0aff0000000000000000000000000000");
	a.end_ns = T + 3 * S;
	act_alerts_take(s, &a, &out);
	assert_string_equal(at(h.events[1], NULL, "trace_id"), "0aff0000000000000000000000000000");
	forget(&h);
	act_alerts_free(s);
}

static void labels_cut_within_a_character_are_still_text(void **state)
{
	struct heard h = {.n = 0};
	struct act_alerts_out out = {.alertmanager = on_alerts, .webhook = on_event, .arg = &h};
	struct act_alerts *s = act_alerts_new(&(struct act_alerts_opts){.max = 0});
	struct act_anomaly a = anomaly();

	(void)state;
	memset(a.name.pod, 'x', sizeof(a.name.pod) - 1);
	a.name.pod[sizeof(a.name.pod) - 2] = '\xe2';
	memset(a.blame[0].metric, '\xff', sizeof(a.blame[0].metric) - 1);
	a.peak = INFINITY;
	act_alerts_take(s, &a, &out);
	act_alerts_poll(s, T, &out);
	assert_int_equal(strlen(at(json_array_get(h.alerts, 0), "labels", "pod")),
			 sizeof(a.name.pod) - 2);
	forget(&h);
	act_alerts_free(s);
}

/* Two processes of a service on a host without an orchestrator. */
static void labels_tell_pods_of_a_bare_host_apart(void **state)
{
	struct heard h = {.n = 0};
	struct act_alerts_out out = {.webhook = on_event, .arg = &h};
	struct act_alerts *s = act_alerts_new(&(struct act_alerts_opts){.max = 0});
	struct act_anomaly a = anomaly();

	(void)state;
	a.name = (struct act_pod_name){.service = "cart", .container = "web", .process = 12};
	act_alerts_take(s, &a, &out);
	assert_null(at(h.events[0], "labels", "pod"));
	assert_string_equal(at(h.events[0], "labels", "container"), "web");
	assert_string_equal(at(h.events[0], "labels", "process"), "12");
	assert_string_equal(at(h.events[0], NULL, "explanation"), a.explanation);
	forget(&h);
	act_alerts_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alertmanager_hears_begin_again_and_end),
		cmocka_unit_test(a_webhook_hears_each_begin_and_end_once),
		cmocka_unit_test(a_kept_trace_is_told_at_once_and_stays),
		cmocka_unit_test(labels_tell_pods_of_a_bare_host_apart),
		cmocka_unit_test(labels_cut_within_a_character_are_still_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
