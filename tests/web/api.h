/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - code shared by the tests of the API: a server with a simulated collector of two hosts and
 * five pods (fake_flows.h has its connections), and a client.
 */
#ifndef TESTS_WEB_API_H
#define TESTS_WEB_API_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/services/services.h"
#include "support/test.h"
#include "fake_flows.h"

#define POINTS	5000
#define CART	0x00b1d05a7c1f9e42
#define CART_ID "00b1d05a7c1f9e42"

extern struct collect_collector collector;
extern struct fake_region regions[];
extern struct collect_worker_view workers[];
extern struct collect_point points[POINTS];
extern const struct region_text_label odd[1];
extern const uint64_t value_500[1];
extern struct http *http;
extern struct collect_services *services;
extern struct collect_tracer tracer;

int setup(void **state);
int teardown(void **state);

/*
 * Calls fn once the server has stopped: its threads may have read the memory since the last
 * fake_sync().
 */
void free_at_the_end(void (*fn)(void *), void *what);

struct reply {
	int status;
	char *text; /* head and body */
	char *body;
	size_t body_bytes;
};
int dial(void);
/* HTTP/1.0: the body ends with the connection. */
struct reply ask(const char *path, const char *headers);
json_t *ask_json(const char *path, int status);
/* Sends a request, and returns the list called key; free *whole. */
json_t *ask_list(const char *path, const char *key, json_t **whole);
double number(const json_t *json, const char *key);
const char *string(const json_t *json, const char *key);

/* The tests, by file. */
void status_sums_up_the_workers(void **state);
void rates_are_those_of_the_last_seconds(void **state);
void hosts_say_why_they_are_not_reached(void **state);
void pods_carry_one_word_for_their_state(void **state);
void pods_are_ordered_by_the_attention_they_need(void **state);
void metrics_show_exact_values_of_every_kind(void **state);
void metrics_are_found_by_name_label_and_pod(void **state);
void pages_of_metrics_join_without_a_seam(void **state);
void history_is_in_order_and_says_what_was_left_out(void **state);
void history_of_what_is_gone_says_so(void **state);
void buckets_have_their_bounds(void **state);
void a_pod_that_returns_continues_its_series(void **state);
void functions_treat_odd_values_as_prometheus(void **state);
void label_replace_expands_groups_by_the_rules_of_go(void **state);
void latency_is_given_by_worker_and_in_all(void **state);
void bad_questions_are_answered_400_with_what_is_wrong(void **state);
void answers_are_bounded_and_can_be_gone_on_with(void **state);
void findings_are_told_with_what_is_to_blame(void **state);
void the_end_of_an_incident_says_how_it_ended(void **state);
void namespaces_have_deployments_of_their_own(void **state);
void too_many_marks_leave_out_no_incident(void **state);
void jobs_name_the_rank_that_is_slow_now(void **state);
void a_start_that_is_no_time_hides_no_other(void **state);
void services_are_told_by_what_needs_attention(void **state);
void metrics_that_change_are_told_from_others(void **state);
void the_map_has_each_edge_once(void **state);
void calls_of_traces_are_edges(void **state);
void scaling_is_told_as_kubernetes_wants_it(void **state);
void slow_readers_get_503_and_no_more_memory(void **state);
void the_page_is_embedded_and_knows_no_outside(void **state);
void many_clients_at_once_are_answered(void **state);
void layers_are_sorted_by_answers_with_quantiles(void **state);
void flows_are_sorted_by_relevance_with_their_causes(void **state);
void an_rtt_that_was_never_measured_is_0(void **state);
void pair_latency_has_its_bound_and_the_whole_path(void **state);
void top_talkers_have_exact_sums_below_the_bound(void **state);

#endif
