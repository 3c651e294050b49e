// SPDX-License-Identifier: Apache-2.0
/*
 * The graph of calls is learned from traces; then the pod is found whose calls take longer or whose
 * resource metrics change, whatever its callers show.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/random.h"
#include "support/test.h"

#include "analyse/culprit.h"

/* ---- the graph ---- */

static const struct analyse_path *path(struct analyse_graph *g, uint32_t caller, uint32_t callee)
{
	uint32_t n;
	const struct analyse_path *p = analyse_graph_paths(g, &n);

	for (uint32_t i = 0; i < n; i++)
		if (p[i].caller == caller && p[i].callee == callee)
			return &p[i];
	return NULL;
}

static void shares_are_those_of_the_traces(void **state)
{
	enum { FRONT, CART, DB };
	struct analyse_graph *g = analyse_graph_new();
	/*
	 * A request that calls the cart, which asks the database three times; spans within a
	 * service.
	 */
	const struct analyse_span whole[] = {
		{FRONT, ANALYSE_SPAN_ROOT},
		{FRONT, 0},
		{CART, 1},
		{CART, 2},
		{DB, 3},
		{DB, 3},
		{DB, 2},
	};
	const struct analyse_span brief[] = {{FRONT, ANALYSE_SPAN_ROOT}};
	const struct analyse_span lost[] = {{CART, ANALYSE_SPAN_LOST}, {DB, 0}};
	const struct analyse_path *p;

	(void)state;
	assert_int_equal(analyse_graph_service(g, "front"), FRONT);
	assert_int_equal(analyse_graph_service(g, "cart"), CART);
	assert_int_equal(analyse_graph_service(g, "db"), DB);
	assert_int_equal(analyse_graph_service(g, "cart"), CART);
	assert_int_equal(analyse_graph_add(g, whole, 7), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(analyse_graph_add(g, brief, 1), 0);

	p = path(g, FRONT, CART); /* a quarter of the requests and all outgoing calls reach it */
	assert_float_equal(p->server, 0.25, 1e-6);
	assert_float_equal(p->client, 1, 1e-6);
	assert_float_equal(p->calls, 1, 1e-6);
	p = path(g, FRONT, DB);
	assert_float_equal(p->server, 0.25, 1e-6);
	assert_float_equal(p->client, 1, 1e-6);
	assert_float_equal(p->calls, 3, 1e-6);
	p = path(g, CART, DB);
	assert_float_equal(p->server, 1, 1e-6);
	assert_null(path(g, CART, FRONT));

	/*
	 * Without its parent, the request of a span is unknown; the call below the span is known.
	 */
	assert_int_equal(analyse_graph_add(g, lost, 2), 0);
	assert_float_equal(path(g, CART, DB)->server, 1, 1e-6);
	assert_float_equal(path(g, FRONT, CART)->server, 0.25, 1e-6);
	analyse_graph_free(g);
}

static void hostile_traces_end(void **state)
{
	struct analyse_graph *g = analyse_graph_new();
	struct analyse_span *spans = calloc(3000, sizeof(*spans));

	(void)state;
	assert_int_equal(analyse_graph_service(g, "a"), 0);
	assert_int_equal(analyse_graph_service(g, "b"), 1);
	spans[0] = (struct analyse_span){0, 1};
	spans[1] = (struct analyse_span){1, 0};	 /* each other's parent */
	spans[2] = (struct analyse_span){1, 2};	 /* its own */
	spans[3] = (struct analyse_span){0, 77}; /* none of this trace */
	assert_int_equal(analyse_graph_add(g, spans, 4), 0);
	for (uint32_t i = 0; i < 3000; i++) /* deep: a calls b calls a ... */
		spans[i] = (struct analyse_span){i % 2, i ? i - 1 : ANALYSE_SPAN_ROOT};
	assert_int_equal(analyse_graph_add(g, spans, 3000), 0);
	for (uint32_t n, i = (analyse_graph_paths(g, &n), 0); i < n; i++) {
		const struct analyse_path *p = &analyse_graph_paths(g, &n)[i];

		assert_in_range(p->server * 1e6f, 0, 1000000);
		assert_in_range(p->client * 1e6f, 0, 1000000);
		assert_true(isfinite(p->calls));
	}
	spans[0].service = 2;
	assert_int_equal(analyse_graph_add(g, spans, 1), -EINVAL);
	free(spans);
	analyse_graph_free(g);
}

/* ---- a fleet ---- */

enum { FRONT, CART, DB, MAIL, SERVICES };
#define PODS_MAX 16

struct fleet {
	struct analyse_culprit *c;
	struct analyse_suspect *suspect[PODS_MAX];
	uint32_t service[PODS_MAX], pods;
	struct analyse_observation seen[PODS_MAX];
	struct analyse_suspicion found[PODS_MAX];
	uint64_t step, seed;
	double delay[SERVICES], novelty[PODS_MAX], errors[PODS_MAX]; /* what is wrong */
	bool learn;
};

/*
 * The front calls the cart in half of its requests; the cart always calls the database; the front
 * calls the mail service in one request of ten.
 */
static const struct analyse_path calls[] = {
	{FRONT, CART, 0.8f, 0.5f, 1},
	{FRONT, DB, 0.8f, 0.5f, 1},
	{CART, DB, 1, 1, 1},
	{FRONT, MAIL, 0.2f, 0.1f, 1},
};

static void fleet_add(struct fleet *f, uint32_t service)
{
	f->service[f->pods] = service;
	f->suspect[f->pods] = analyse_culprit_add(f->c, service);
	assert_non_null(f->suspect[f->pods++]);
}

static struct fleet fleet_make(void)
{
	struct fleet f = {.c = analyse_culprit_new(), .seed = 1, .learn = true};

	for (uint32_t i = 0; i < SERVICES; i++)
		fleet_add(&f, i);
	assert_int_equal(analyse_culprit_paths(f.c, calls, 4), 0);
	return f;
}

static double noise(struct fleet *f)
{
	return 0.1 * (random_below(&f->seed, 20001) * 1e-4 - 1);
}

/*
 * The latency with a given survival probability if a share of the calls takes longer by delay: a
 * quantile of the mixture.
 */
static double mixed(double usual, double survival, double share, double delay)
{
	const double normal = usual * pow(0.1 / survival, 0.4);

	if (share > survival)
		return delay > 0 ? usual * pow(0.1 / fmin(survival / share, 1), 0.4) + delay
				 : normal;
	return normal;
}

static void fleet_step(struct fleet *f)
{
	static const double survival[ANALYSE_TAILS] = {0.10, 0.05, 0.01};

	f->step++;
	for (uint32_t i = 0; i < f->pods; i++) {
		struct analyse_observation *o = &f->seen[i];
		uint32_t me = f->service[i];

		*o = (struct analyse_observation){.step = f->step,
						  .learn = f->learn,
						  .novelty = (float)f->novelty[i],
						  .errors = (float)f->errors[i]};
		for (uint32_t j = 0; j < ANALYSE_TAILS; j++) {
			double server = 0.02 + (me < SERVICES ? f->delay[me] : 0), client = 0.01;

			for (uint32_t k = 0; k < 4; k++) {
				double d = f->delay[calls[k].callee];

				if (calls[k].caller != me || !(d > 0))
					continue;
				server = mixed(server, survival[j], (double)calls[k].server, d);
				client = mixed(client, survival[j], (double)calls[k].client, d);
			}
			o->latency[ANALYSE_SERVER][j] = server * exp(noise(f));
			o->latency[ANALYSE_CLIENT][j] = me == DB || me == MAIL
								? (double)NAN
								: client * exp(noise(f));
		}
	}
	analyse_culprit_step(f->c, f->suspect, f->seen, f->pods, 1e-3, f->found);
}

static void fleet_run(struct fleet *f, int steps)
{
	while (steps--)
		fleet_step(f);
}

static uint32_t most(const struct fleet *f)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < f->pods; i++)
		if (f->found[i].weighted > f->found[best].weighted)
			best = i;
	return best;
}

static void fleet_free(struct fleet *f)
{
	analyse_culprit_free(f->c);
}

static void a_slow_callee_is_named_and_not_its_callers(void **state)
{
	for (uint32_t who = 0; who < SERVICES; who++) {
		struct fleet f = fleet_make();

		(void)state;
		fleet_run(&f, 200);
		f.learn = false;
		fleet_run(&f, 5);
		for (uint32_t i = 0; i < SERVICES; i++)
			assert_true(f.found[i].weighted < 0.5f);
		f.delay[who] = 0.3;
		fleet_run(&f, 2);
		assert_int_equal(most(&f), who);
		assert_true(f.found[who].posterior > 0.8f);
		assert_true(f.found[who].score > 1);
		/* New only for two steps, but evidence as long as the fault lasts. */
		fleet_run(&f, 3);
		assert_true(f.found[who].score < f.found[who].weighted / 2);
		assert_true(f.found[who].weighted > 1);
		f.delay[who] = 0;
		fleet_run(&f, 2);
		for (uint32_t i = 0; i < SERVICES; i++)
			assert_true(f.found[i].weighted < 0.5f);
		fleet_free(&f);
	}
}

/* The front calls the middle service, which calls a pod in one call of twenty. */
static void a_slow_network_is_not_blamed_on_callees(void **state)
{
	enum { TOP, MIDDLE, BELOW, ALL };
	const struct analyse_path paths[] = {{TOP, MIDDLE, 1, 1, 1},
					     {TOP, BELOW, 0.05f, 0.05f, 1},
					     {MIDDLE, BELOW, 0.05f, 0.05f, 1}};
	struct analyse_culprit *c = analyse_culprit_new();
	struct analyse_suspect *suspect[ALL];
	struct analyse_observation seen[ALL];
	struct analyse_suspicion found[ALL];

	(void)state;
	assert_non_null(c);
	assert_int_equal(analyse_culprit_paths(c, paths, 3), 0);
	for (uint32_t i = 0; i < ALL; i++)
		assert_non_null(suspect[i] = analyse_culprit_add(c, i));
	for (uint64_t step = 1; step < 203; step++) {
		double late = step > 200 ? 0.2 : 0; /* delay of the network of the middle pod */

		for (uint32_t i = 0; i < ALL; i++) {
			seen[i] = (struct analyse_observation){.step = step, .learn = step < 200};
			for (uint32_t j = 0; j < ANALYSE_TAILS; j++) {
				double usual = 0.02 * pow(1.5, j);

				seen[i].latency[ANALYSE_CLIENT][j] = i == BELOW ? (double)NAN
										: usual + late;
				seen[i].latency[ANALYSE_SERVER][j] = usual +
								     (i == BELOW ? 0 : late);
			}
		}
		analyse_culprit_step(c, suspect, seen, ALL, 1e-3, found);
	}
	assert_true(found[MIDDLE].posterior > 0.8f);
	assert_true(found[MIDDLE].delay > 0.1f && found[MIDDLE].delay < 0.4f);
	for (uint32_t i = 0; i < ALL; i++)
		analyse_culprit_remove(c, suspect[i]);
	analyse_culprit_free(c);
}

/*
 * The database calls something that publishes nothing, and neither its callers nor its requests
 * become slower.
 */
static void what_no_caller_shows_is_no_slow_network(void **state)
{
	struct fleet f = fleet_make();

	(void)state;
	for (int i = 0; i < 202; i++) {
		f.learn = i < 200;
		fleet_step(&f);
		for (uint32_t j = 0; j < ANALYSE_TAILS; j++)
			f.seen[DB].latency[ANALYSE_CLIENT][j] = i < 200 ? 0.005 : 20;
		analyse_culprit_step(f.c, f.suspect, f.seen, f.pods, 1e-3, f.found);
	}
	assert_true(f.found[DB].evidence < 1);
	fleet_free(&f);
}

/*
 * Callers that take an answer later, from a queue, do not become slow with the pod. What they show
 * beside it, as the front does here, must not outweigh that.
 */
static void a_slow_pod_is_found_if_its_callers_do_not_wait(void **state)
{
	struct fleet f = fleet_make();

	(void)state;
	for (int i = 0; i < 202; i++) {
		f.learn = i < 200;
		fleet_step(&f);
		for (uint32_t j = 0; j < ANALYSE_TAILS && i >= 200; j++) {
			f.seen[DB].latency[ANALYSE_SERVER][j] += 1;
			f.seen[FRONT].latency[ANALYSE_SERVER][j] *= 1.4;
		}
		analyse_culprit_step(f.c, f.suspect, f.seen, f.pods, 1e-3, f.found);
	}
	assert_int_equal(most(&f), DB);
	assert_true(f.found[DB].posterior > 0.8f);
	fleet_free(&f);
}

/* The callers of a failing service fail more often, because all of its failures are theirs. */
static void errors_are_those_of_the_lowest_service(void **state)
{
	const double errors[SERVICES][SERVICES] = {[FRONT] = {30},
						   [CART] = {30, 20},
						   [DB] = {30, 20, 15},
						   [MAIL] = {[0] = 30, [MAIL] = 15}};
	/* Each calls the other: either may be the cause. */
	const struct analyse_path mutual[] = {{FRONT, CART, 1, 1, 1}, {CART, FRONT, 1, 1, 1}};
	struct fleet f = fleet_make();

	(void)state;
	fleet_run(&f, 200);
	f.learn = false;
	for (uint32_t who = 0; who < SERVICES; who++) {
		memcpy(f.errors, errors[who], sizeof(errors[who]));
		fleet_run(&f, 1);
		assert_int_equal(most(&f), who);
		assert_true(f.found[who].failing > 0.99f);
		for (uint32_t i = 0; i < who; i++)
			assert_true(f.found[i].failing < 0.1f || !(f.errors[i] > 0));
	}
	assert_int_equal(analyse_culprit_paths(f.c, mutual, 2), 0);
	memcpy(f.errors, errors[CART], sizeof(errors[CART]));
	fleet_run(&f, 1);
	assert_true(f.found[FRONT].failing == 1 && f.found[CART].failing == 1);
	fleet_free(&f);
}

/* From a millisecond to an hour, as an idle connection's reads may take. */
static void latencies_that_always_leap_are_no_evidence(void **state)
{
	struct fleet f = fleet_make();

	(void)state;
	for (int i = 0; i < 400; i++) {
		f.learn = i < 399;
		fleet_step(&f);
		for (uint32_t j = 0; j < ANALYSE_TAILS; j++)
			f.seen[FRONT].latency[ANALYSE_SERVER][j] = i % 8 < 6 ? 0.001 : 3600;
		analyse_culprit_step(f.c, f.suspect, f.seen, f.pods, 1e-3, f.found);
	}
	assert_true(f.found[FRONT].evidence < 2);
	fleet_free(&f);
}

static void new_resources_count_for_their_pod(void **state)
{
	struct fleet f = fleet_make();

	(void)state;
	fleet_run(&f, 200);
	f.learn = false;
	f.novelty[MAIL] = 3;
	f.novelty[FRONT] = 1;
	fleet_step(&f);
	assert_int_equal(most(&f), MAIL);
	assert_float_equal(f.found[MAIL].evidence, 3, 0.2);
	assert_true(f.found[MAIL].posterior > f.found[FRONT].posterior);
	fleet_free(&f);
}

static void without_a_graph_only_the_pod_itself_speaks(void **state)
{
	struct fleet f = fleet_make();

	(void)state;
	assert_int_equal(analyse_culprit_paths(f.c, NULL, 0), 0);
	fleet_run(&f, 200);
	f.learn = false;
	f.delay[DB] = 0.3;
	f.novelty[CART] = 2;
	fleet_run(&f, 2);
	assert_int_equal(most(&f), CART);
	for (uint32_t i = 0; i < SERVICES; i++)
		assert_true(isfinite(f.found[i].evidence));
	fleet_free(&f);
}

/* Any number of rows of one step replace each other. */
static void more_rows_of_a_step_are_one_step(void **state)
{
	struct fleet once = fleet_make(), often = fleet_make();

	(void)state;
	for (int i = 0; i < 150; i++) {
		fleet_step(&once);
		often.seed = once.seed;
		often.step = once.step;
		memcpy(often.seen, once.seen, sizeof(once.seen));
		for (int k = 0; k < 3; k++)
			analyse_culprit_step(often.c, often.suspect, often.seen, often.pods, 1e-3,
					     often.found);
	}
	for (uint32_t i = 0; i < SERVICES; i++)
		assert_memory_equal(&once.found[i].evidence, &often.found[i].evidence,
				    sizeof(float));
	fleet_free(&once);
	fleet_free(&often);
}

static void what_is_missing_says_nothing(void **state)
{
	struct fleet f = fleet_make();

	(void)state;
	fleet_run(&f, 100);
	for (uint32_t i = 0; i < f.pods; i++)
		for (uint32_t j = 0; j < ANALYSE_TAILS; j++) {
			f.seen[i].latency[ANALYSE_SERVER][j] = j ? (double)NAN : HUGE_VAL;
			f.seen[i].latency[ANALYSE_CLIENT][j] = -1;
			f.seen[i].step = f.step + 1;
		}
	analyse_culprit_step(f.c, f.suspect, f.seen, f.pods, 1e-3, f.found);
	for (uint32_t i = 0; i < f.pods; i++)
		assert_true(f.found[i].evidence == 0);
	analyse_culprit_step(f.c, f.suspect, f.seen, 0, 1e-3, f.found);
	/* After a jump of time, the current level must be observed again first. */
	for (uint32_t i = 0; i < f.pods; i++)
		analyse_culprit_rewind(f.suspect[i]);
	f.delay[DB] = 0.3;
	fleet_step(&f);
	assert_true(f.found[DB].evidence == 0);
	fleet_step(&f);
	assert_true(f.found[DB].evidence > 1);
	fleet_free(&f);
}

static void pods_come_and_go_while_they_are_scored(void **state)
{
	struct fleet f = fleet_make();

	(void)state;
	fleet_run(&f, 150);
	fleet_add(&f, DB);    /* two replicas, one of them new */
	fleet_add(&f, 12345); /* of no service in the graph */
	fleet_add(&f, ANALYSE_NO_SERVICE);
	fleet_run(&f, 80);
	f.learn = false;
	f.delay[MAIL] = 0.3;
	fleet_run(&f, 2);
	assert_int_equal(most(&f), MAIL);
	analyse_culprit_remove(f.c, f.suspect[FRONT]);
	f.suspect[FRONT] = f.suspect[--f.pods];
	f.service[FRONT] = f.service[f.pods];
	fleet_run(&f, 3);
	for (uint32_t i = 0; i < f.pods; i++)
		assert_true(isfinite(f.found[i].score) && f.found[i].score >= 0);
	analyse_culprit_remove(f.c, NULL);
	fleet_free(&f);
}

static void many_replicas_and_a_cycle_end(void **state)
{
	enum { MANY = 5000 };
	const struct analyse_path loop[] = {{0, 1, 1, 1, 1}, {1, 0, 1, 1, 1}, {0, 0, 1, 1, 9}};
	struct analyse_culprit *c = analyse_culprit_new();
	struct analyse_suspect **s = calloc(MANY, sizeof(*s));
	struct analyse_observation *o = calloc(MANY, sizeof(*o));
	struct analyse_suspicion *v = calloc(MANY, sizeof(*v));

	(void)state;
	assert_int_equal(analyse_culprit_paths(c, loop, 3), 0);
	for (uint32_t i = 0; i < MANY; i++)
		assert_non_null(s[i] = analyse_culprit_add(c, i == 0));
	for (uint64_t step = 1; step < 70; step++) {
		for (uint32_t i = 0; i < MANY; i++) {
			o[i] = (struct analyse_observation){.step = step};
			for (uint32_t j = 0; j < ANALYSE_TAILS; j++)
				o[i].latency[ANALYSE_SERVER][j] = o[i].latency[ANALYSE_CLIENT][j] =
					step < 66 ? 0.01 : 1;
		}
		analyse_culprit_step(c, s, o, MANY, 1e-3, v);
	}
	for (uint32_t i = 0; i < MANY; i++)
		assert_true(isfinite(v[i].score) && v[i].posterior >= 0 && v[i].posterior <= 1);
	free(s);
	free(o);
	free(v);
	analyse_culprit_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_those_of_the_traces),
		cmocka_unit_test(hostile_traces_end),
		cmocka_unit_test(a_slow_callee_is_named_and_not_its_callers),
		cmocka_unit_test(a_slow_network_is_not_blamed_on_callees),
		cmocka_unit_test(what_no_caller_shows_is_no_slow_network),
		cmocka_unit_test(a_slow_pod_is_found_if_its_callers_do_not_wait),
		cmocka_unit_test(errors_are_those_of_the_lowest_service),
		cmocka_unit_test(latencies_that_always_leap_are_no_evidence),
		cmocka_unit_test(new_resources_count_for_their_pod),
		cmocka_unit_test(without_a_graph_only_the_pod_itself_speaks),
		cmocka_unit_test(more_rows_of_a_step_are_one_step),
		cmocka_unit_test(what_is_missing_says_nothing),
		cmocka_unit_test(pods_come_and_go_while_they_are_scored),
		cmocka_unit_test(many_replicas_and_a_cycle_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
