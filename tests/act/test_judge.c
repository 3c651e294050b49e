// SPDX-License-Identifier: Apache-2.0
/*
 * test_judge.c - the judge of all workers' pods: models of a service are those of its pods
 * together, without faults, and are as good after a restart as before.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "../analyse/noise.h"
#include "collect/judge/judge.h"
#include "collect/judge/models.h"

#define PODS	3u
#define COLUMNS 4u
#define MS	1000000ll
#define SECOND	(1000 * MS)
#define EVERY	(100 * MS)

static const struct analyse_column column[COLUMNS] = {
	{"shop_cpu_seconds_total", true},
	{"latency_seconds_p90", false},
	{"errors_total", true},
	{"queue", false},
};

struct shop {
	struct collect_judge *judge;
	struct collect_models *models;
	uint64_t seed;
	int64_t ns;
	uint32_t pods;
	double value[PODS + 2][COLUMNS];
	uint32_t number[PODS + 2]; /* own of each pod: its place */
	/* Numbers for each pod since they were last cleared. */
	uint32_t anomalous[PODS + 2], findings[PODS + 2], warming[PODS + 2];
	float best[PODS + 2];
	enum analyse_state state[PODS + 2];
	double least[PODS + 2];
	uint32_t changes;
	float score[3]; /* scores of the three kinds, as last found */
	double factor;	/* factor of the latency of a slower pod */
	double load;	/* factor of each pod's requests */
	uint32_t from_start[PODS + 2];
	uint32_t siblings; /* number of siblings of the pod last found unlike them */
	double median, level;
};

static void found(void *arg, const struct collect_judge_finding *f)
{
	struct shop *s = arg;
	uint32_t i = *(uint32_t *)f->own;

	s->findings[i]++;
	s->warming[i] += f->warming;
	s->anomalous[i] += f->anomalous;
	s->best[i] = fmaxf(s->best[i], f->verdict->score);
	s->changes += f->changed;
	s->state[i] = f->state;
	s->least[i] = f->least;
	s->from_start[i] += f->born_ns != 0;
	if (f->verdict->odd.score > 1) {
		s->siblings = f->verdict->odd.siblings;
		s->median = (double)f->verdict->odd.median;
		s->level = (double)f->verdict->odd.value;
	}
}

static void clear(struct shop *s)
{
	memset(s->anomalous, 0, sizeof(s->anomalous));
	memset(s->findings, 0, sizeof(s->findings));
	memset(s->warming, 0, sizeof(s->warming));
	memset(s->from_start, 0, sizeof(s->from_start));
	memset(s->best, 0, sizeof(s->best));
}

static const char *owner; /* of the pods that are added */

static void add_pod(struct shop *s)
{
	char name[16];
	uint32_t i = s->pods++;
	struct collect_judge_pod pod = {
		.instance = 100 + i, .ns = s->ns, .name = name, .owner = owner};

	snprintf(name, sizeof(name), "shop-%u", i);
	s->number[i] = i;
	pod.service = "shop";
	pod.own = &s->number[i];
	assert_int_equal(collect_judge_layout(s->judge, &pod, column, COLUMNS), 0);
}

static void open_shop(struct shop *s, struct collect_models *models, uint64_t seed)
{
	*s = (struct shop){.models = models, .seed = seed, .ns = 1000 * SECOND, .load = 1};
	s->judge = collect_judge_new(&(struct collect_judge_opts){
		.detector = analyse_detector_find("combined"),
		.false_alarms = 1,
		.warm_up_ns = 60 * SECOND,
		.step_ns = SECOND,
		.models = models,
		.found = found,
		.arg = s,
	});
	assert_non_null(s->judge);
	for (uint32_t i = 0; i < PODS; i++)
		add_pod(s);
}

/* Seconds of rows; the faulty pod, if there is one, is slow, busy or fails. */
static void run(struct shop *s, int seconds, uint32_t faulty, const char *kind)
{
	for (int k = 0; k < 10 * seconds; k++, s->ns += EVERY) {
		for (uint32_t i = 0; i < s->pods; i++) {
			double *v = s->value[i];
			bool ill = i == faulty;

			v[0] += 0.01 * s->load + 0.001 * noise_normal(&s->seed) +
				(ill && !strcmp(kind, "cpu") ? 0.06 : 0);
			v[1] = 0.01 * exp(0.2 * noise_normal(&s->seed)) +
			       (ill && !strcmp(kind, "slow") ? 0.2 : 0);
			if (ill && !strcmp(kind, "slower"))
				v[1] = 0.01 * s->factor;
			v[2] += ill && !strcmp(kind, "errors") ? 3 : 0;
			v[3] = 5 * s->load + noise_normal(&s->seed);
			assert_int_equal(collect_judge_row(s->judge, 100 + i, s->ns, v), 0);
		}
		collect_judge_moment(s->judge);
	}
}

static const char *const kinds[] = {"slow", "cpu", "errors"};

/*
 * Returns how many of three kinds of faults are found within a second, and the sum of their scores.
 */
static uint32_t found_within_a_second(struct shop *s, float *scores)
{
	uint32_t n = 0;

	*scores = 0;
	for (uint32_t k = 0; k < 3; k++) {
		run(s, 15, PODS + 9, "");
		clear(s);
		run(s, 1, k, kinds[k]);
		n += s->anomalous[k] > 0;
		run(s, 2, k, kinds[k]);
		s->score[k] = s->best[k];
		*scores += s->best[k];
	}
	return n;
}

static void faults_are_found_as_well_after_a_restart(void **state)
{
	struct collect_models *models = collect_models_new();
	float before, after;
	struct shop s;

	(void)state;
	open_shop(&s, models, 1);
	run(&s, 120, PODS + 9, "");
	assert_int_equal(found_within_a_second(&s, &before), 3);
	/* The collector ends: its pods disappear. */
	for (uint32_t i = 0; i < PODS; i++)
		assert_ptr_equal(collect_judge_gone(s.judge, 100 + i), &s.number[i]);
	collect_judge_free(s.judge);

	open_shop(&s, models, 2);
	clear(&s);
	run(&s, 5, PODS + 9, "");
	for (uint32_t i = 0; i < PODS; i++)
		assert_true(s.findings[i] && !s.warming[i] && !s.anomalous[i]);
	assert_int_equal(found_within_a_second(&s, &after), 3);
	print_message("scores %g before, %g after\n", (double)before, (double)after);
	assert_true(after >= 0.95f * before);
	collect_judge_free(s.judge);
	collect_models_free(models);
}

/* The model of a service is learned from all its pods. */
static void a_model_has_learned_from_every_pod(void **state)
{
	struct collect_models *models = collect_models_new();
	struct analyse_model_info all, one;
	struct shop s;

	(void)state;
	open_shop(&s, models, 3);
	run(&s, 120, PODS + 9, "");
	collect_judge_keep(s.judge);
	assert_int_equal(collect_models_info(models, "", "shop", &all), 0);
	collect_judge_gone(s.judge, 100);
	collect_judge_gone(s.judge, 101);
	collect_judge_keep(s.judge);
	assert_int_equal(collect_models_info(models, "", "shop", &one), 0);
	assert_true(all.learned > 2 * one.learned);
	collect_judge_free(s.judge);
	collect_models_free(models);
}

/* A fault just before the end is not in the model: it is found again. */
static void faults_are_left_out_of_models(void **state)
{
	struct collect_models *models = collect_models_new();
	struct shop s;

	(void)state;
	open_shop(&s, models, 4);
	run(&s, 120, PODS + 9, "");
	for (int i = 0; i < 5; i++) {
		run(&s, 5, 0, "slow");
		run(&s, 15, PODS + 9, "");
	}
	run(&s, 3, 0, "slow");
	for (uint32_t i = 0; i < PODS; i++)
		collect_judge_gone(s.judge, 100 + i);
	collect_judge_free(s.judge);
	open_shop(&s, models, 5);
	run(&s, 15, PODS + 9, "");
	clear(&s);
	run(&s, 2, 1, "slow");
	if (!s.anomalous[1] || s.anomalous[0] || s.anomalous[2])
		fail_msg("score %g", (double)s.best[1]);
	collect_judge_free(s.judge);
	collect_models_free(models);
}

/* Ten minutes; from second `from` on, a pod is faulty in three seconds of thirty. */
static void learn(struct shop *s, struct collect_models *models, uint64_t seed, int from)
{
	open_shop(s, models, seed);
	for (int t = 0; t < 600; t += 30) {
		uint32_t kind = (uint32_t)t / 30 % 3, pod = (uint32_t)t / 90 % PODS;

		run(s, 27, PODS + 9, "");
		run(s, 3, t >= from ? pod : PODS + 9, kinds[kind]);
	}
	for (uint32_t i = 0; i < PODS; i++)
		collect_judge_gone(s->judge, 100 + i);
	collect_judge_free(s->judge);
}

/* Judges the same rows as a collector that was restarted with this model would. */
static void restart(struct shop *s, struct collect_models *models, uint64_t seed)
{
	float scores;

	open_shop(s, models, seed);
	run(s, 15, PODS + 9, "");
	clear(s);
	run(s, 300, PODS + 9, "");
	for (uint32_t i = 0; i < PODS; i++)
		assert_int_equal(s->anomalous[i], 0);
	assert_int_equal(found_within_a_second(s, &scores), 3);
	collect_judge_free(s->judge);
}

/*
 * A tenth of the time faulty: the thresholds after a restart are those of a service without faults,
 * so the same faults score as high. If the first minute, in which nearly all is learned, has two of
 * these faults, thresholds are higher, yet all are found.
 */
static void what_is_learned_beside_faults_is_as_good(void **state)
{
	static const int from[] = {INT32_MAX, 90, 0};
	double ratio[3][3] = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct shop s[3];

		for (int i = 0; i < 3; i++) {
			struct collect_models *models = collect_models_new();

			learn(&s[i], models, 10 * seed, from[i]);
			restart(&s[i], models, 10 * seed + 1);
			collect_models_free(models);
			for (int k = 0; k < 3; k++)
				ratio[i][k] += log((double)(s[i].score[k] / s[0].score[k])) / 4;
		}
	}
	for (int k = 0; k < 3; k++) {
		print_message(
			"%s: scores over those without faults %.3f, and from the start %.3f\n",
			kinds[k], exp(ratio[1][k]), exp(ratio[2][k]));
		assert_true(ratio[1][k] > log(0.9) && ratio[2][k] > log(0.5));
	}
}

/* A new pod does not need to learn what its siblings have learned. */
static void a_new_pod_begins_with_what_its_siblings_know(void **state)
{
	struct collect_models *models = collect_models_new();
	struct shop s;

	(void)state;
	open_shop(&s, models, 6);
	run(&s, 120, PODS + 9, "");
	add_pod(&s);
	clear(&s);
	run(&s, 15, PODS + 9, "");
	assert_true(s.findings[PODS] == 150 && !s.warming[PODS] && !s.anomalous[PODS]);
	run(&s, 2, PODS, "slow");
	if (!s.anomalous[PODS])
		fail_msg("score %g", (double)s.best[PODS]);
	collect_judge_free(s.judge);
	collect_models_free(models);
}

/* A pod goes from learning through coarse to ready, and finds faults of the size that it states. */
static void a_pod_says_how_well_it_is_known_and_what_it_misses(void **state)
{
	struct collect_models *models = collect_models_new();
	double coarse;
	struct shop s;

	(void)state;
	open_shop(&s, models, 7);
	run(&s, 30, PODS + 9, "");
	assert_int_equal(s.state[0], ANALYSE_LEARNING);
	run(&s, 60, PODS + 9, "");
	assert_int_equal(s.state[0], ANALYSE_COARSE);
	coarse = s.least[0];
	assert_true(coarse > 1);
	run(&s, 150, PODS + 9, "");
	assert_int_equal(s.state[0], ANALYSE_READY);
	assert_int_equal(s.changes, 2 * PODS);
	print_message("least factor of latency %.2f coarse, %.2f ready\n", coarse, s.least[0]);
	assert_true(s.least[0] > 1 && s.least[0] < coarse);

	clear(&s);
	s.factor = 1 + (s.least[0] - 1) / 3;
	run(&s, 1, 0, "slower");
	assert_false(s.anomalous[0]);
	run(&s, 20, PODS + 9, "");
	s.factor = 1 + (s.least[0] - 1) * 1.5;
	run(&s, 2, 0, "slower");
	assert_true(s.anomalous[0] && !s.anomalous[1]);
	collect_judge_free(s.judge);
	collect_models_free(models);
}

/*
 * Errors within the first minute are an anomaly, although the pod is still learning. They are not
 * learned, so later errors are an anomaly too. Nothing else is reported while it learns.
 */
static void errors_are_evidence_while_a_pod_learns(void **state)
{
	struct collect_models *models = collect_models_new();
	float first;
	struct shop s;

	(void)state;
	open_shop(&s, models, 8);
	run(&s, 40, PODS + 9, "");
	run(&s, 3, 1, "slow");
	for (uint32_t i = 0; i < PODS; i++)
		assert_int_equal(s.anomalous[i], 0);
	run(&s, 2, PODS + 9, "");
	clear(&s);
	run(&s, 8, 0, "errors");
	assert_true(s.anomalous[0] >= 75 && !s.anomalous[1] && !s.anomalous[2]);
	assert_true(s.warming[0] == s.findings[0] && s.state[0] == ANALYSE_LEARNING);
	first = s.best[0];
	run(&s, 67, PODS + 9, "");
	clear(&s);
	run(&s, 1, 0, "errors");
	assert_true(!s.warming[0] && s.anomalous[0] >= 8);
	print_message("score %g while it learns, %g later\n", (double)first, (double)s.best[0]);
	collect_judge_free(s.judge);
	collect_models_free(models);
}

/* A person declares the present level of a pod normal: the anomaly is over. */
static void an_accepted_level_is_normal(void **state)
{
	struct collect_models *models = collect_models_new();
	struct shop s;

	(void)state;
	open_shop(&s, models, 9);
	run(&s, 120, PODS + 9, "");
	clear(&s);
	run(&s, 300, 0, "slow");
	assert_true(s.anomalous[0] >= 2980 && !s.anomalous[1]);
	assert_int_equal(collect_judge_accept(s.judge, 100), 0);
	assert_int_equal(collect_judge_accept(s.judge, 99), -ENOENT);
	clear(&s);
	run(&s, 60, 0, "slow");
	assert_int_equal(s.anomalous[0], 0);
	collect_judge_free(s.judge);
	collect_models_free(models);
}

/* There is no model, and no pod has finished its warm-up. */
static void a_pod_unlike_its_siblings_is_found(void **state)
{
	struct collect_models *models = collect_models_new();
	struct shop s;

	(void)state;
	open_shop(&s, models, 1);
	add_pod(&s);
	add_pod(&s);
	s.factor = 13;
	run(&s, 60, 1, "slower");
	assert_true(s.anomalous[1] > 0 && s.warming[1] == s.findings[1]);
	assert_int_equal(s.siblings, 4);
	assert_true(s.median > 0.008 && s.median < 0.012);
	assert_true(s.level > 0.1 && s.level < 0.15);
	for (uint32_t i = 0; i < s.pods; i++)
		assert_true(i == 1 || !s.anomalous[i]);
	for (uint32_t i = 0; i < s.pods; i++)
		assert_non_null(collect_judge_gone(s.judge, 100 + i));
	collect_judge_free(s.judge);
	collect_models_free(models);
}

/* All pods are replaced by those of a new version. */
static void replace_pods(struct shop *s)
{
	uint32_t n = s->pods;

	for (uint32_t i = 0; i < n; i++)
		assert_non_null(collect_judge_gone(s->judge, 100 + i));
	s->pods = 0;
	memset(s->value, 0, sizeof(s->value));
	for (uint32_t i = 0; i < n; i++)
		add_pod(s);
	clear(s);
}

static void a_regression_begins_with_the_new_version(void **state)
{
	struct collect_models *models = collect_models_new();
	struct shop s;

	(void)state;
	open_shop(&s, models, 1);
	run(&s, 180, PODS + 9, "");
	/* The same version again. */
	replace_pods(&s);
	run(&s, 90, PODS + 9, "");
	for (uint32_t i = 0; i < PODS; i++)
		assert_int_equal(s.anomalous[i], 0);
	/* A version that is slower from its first row, at one pod. */
	replace_pods(&s);
	s.factor = 3;
	run(&s, 90, 1, "slower");
	print_message("%u of %u findings, %u of them from the start\n", s.anomalous[1],
		      s.findings[1], s.from_start[1]);
	assert_true(s.anomalous[1] > 200);
	assert_true(s.from_start[1] > s.anomalous[1] * 9 / 10);
	assert_int_equal(s.anomalous[0] + s.anomalous[2], 0);
	/* A fault that begins later did not come with the version. */
	run(&s, 120, PODS + 9, "");
	clear(&s);
	run(&s, 10, 0, "slow");
	assert_true(s.anomalous[0] > 0);
	assert_int_equal(s.from_start[0], 0);
	for (uint32_t i = 0; i < PODS; i++)
		collect_judge_gone(s.judge, 100 + i);
	collect_judge_free(s.judge);
	collect_models_free(models);
}

/* The same load is divided among more pods. */
static void scaling_up_is_silent(void **state)
{
	struct shop s;

	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct collect_models *models = collect_models_new();

		open_shop(&s, models, seed);
		assert_non_null(collect_judge_gone(s.judge, 100 + --s.pods));
		run(&s, 180, PODS + 9, "");
		add_pod(&s);
		add_pod(&s);
		clear(&s);
		s.load = 0.5;
		run(&s, 120, PODS + 9, "");
		for (uint32_t i = 0; i < s.pods; i++)
			assert_int_equal(s.anomalous[i], 0);
		/* The pods are judged by their present work. */
		if (seed == 1) {
			run(&s, 10, 0, "slow");
			assert_true(s.anomalous[0] > 0);
			clear(&s);
		}
		for (uint32_t i = 0; i < s.pods; i++)
			collect_judge_gone(s.judge, 100 + i);
		collect_judge_free(s.judge);
		collect_models_free(models);
	}
}

/* Models of pods that are gone must not keep a new service from getting one. */
static void the_least_recently_used_model_is_replaced(void **state)
{
	struct collect_models *models = collect_models_new();
	struct collect_models_stats stats;
	struct analyse_model_info info;
	char name[24];
	struct shop s;
	int n = 0;

	(void)state;
	for (int err = 0; !err; n++) {
		snprintf(name, sizeof(name), "gone-%06d", n);
		err = collect_models_put(models, name, "?", 1);
	}
	assert_int_equal(n, 4096 + 1);
	assert_int_equal(collect_models_put(models, "gone-000000", "!", 1), 0);
	open_shop(&s, models, 11);
	run(&s, 120, PODS + 9, "");
	for (int i = 0; i < 2; i++)
		collect_judge_keep(s.judge);
	assert_int_equal(collect_models_info(models, "", "shop", &info), 0);
	assert_int_equal(collect_models_info(models, "", "gone-000001", &info), -ENOENT);
	assert_int_not_equal(collect_models_info(models, "", "gone-000000", &info), -ENOENT);
	assert_int_not_equal(collect_models_info(models, "", "gone-000002", &info), -ENOENT);
	collect_models_stats(models, &stats);
	assert_int_equal(stats.removed, 1);
	collect_judge_free(s.judge);
	/* A model is also used when a new pod begins with it. */
	for (n = 2; n < 4096; n++) {
		snprintf(name, sizeof(name), "gone-%06d", n);
		assert_int_equal(collect_models_put(models, name, "?", 1), 0);
	}
	open_shop(&s, models, 12);
	run(&s, 5, PODS + 9, "");
	for (n = 0; n < 2; n++) {
		snprintf(name, sizeof(name), "new-%d", n);
		collect_models_make_room(models, name);
		assert_int_equal(collect_models_put(models, name, "?", 1), 0);
	}
	assert_int_equal(collect_models_info(models, "", "shop", &info), 0);
	collect_judge_free(s.judge);
	collect_models_free(models);
}

/* A user who claims a service gets separate models, and a new pod starts with its owner's. */
static void tenants_that_claim_one_service_share_no_model(void **state)
{
	struct collect_models *models = collect_models_new();
	struct analyse_model_info info, shop;
	struct shop s;

	(void)state;
	open_shop(&s, models, 1);
	owner = "uid 1000";
	add_pod(&s);
	run(&s, 120, PODS + 9, "");
	collect_judge_keep(s.judge);
	assert_int_equal(collect_models_info(models, "", "shop", &shop), 0);
	assert_int_equal(collect_models_info(models, "", "uid 1000/shop", &info), 0);
	assert_true(shop.learned > 2 * info.learned);
	clear(&s);
	add_pod(&s);
	run(&s, 5, PODS + 9, "");
	assert_int_equal(s.warming[PODS + 1], 0);
	/* A departing pod is kept with those of its owner alone. */
	for (uint32_t i = 0; i < s.pods; i++)
		collect_judge_gone(s.judge, 100 + i);
	assert_int_equal(collect_models_info(models, "", "shop", &shop), 0);
	assert_int_equal(collect_models_info(models, "", "uid 1000/shop", &info), 0);
	assert_true(shop.learned > info.learned);
	collect_judge_free(s.judge);
	owner = NULL;
	collect_models_free(models);
}

/* A pod is compared with pods of its own user on any host, and not with those of others. */
static void a_pod_is_odd_beside_its_owners_alone(void **state)
{
	static const char *const last[] = {"uid 1000", "uid 1001", ""};

	(void)state;
	for (size_t k = 0; k < sizeof(last) / sizeof(*last); k++) {
		struct collect_models *models = collect_models_new();
		struct shop s;

		owner = "uid 1000";
		open_shop(&s, models, 1);
		add_pod(&s);
		owner = last[k];
		add_pod(&s);
		owner = NULL;
		s.factor = 13;
		run(&s, 60, PODS + 1, "slower");
		assert_int_equal(s.anomalous[PODS + 1] > 0, k == 0);
		assert_int_equal(s.siblings, k == 0 ? 4 : 0);
		for (uint32_t i = 0; i <= PODS; i++)
			assert_int_equal(s.anomalous[i], 0);
		for (uint32_t i = 0; i < s.pods; i++)
			assert_non_null(collect_judge_gone(s.judge, 100 + i));
		collect_judge_free(s.judge);
		collect_models_free(models);
	}
}

int act_test_judge(void);
int act_test_judge(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_found_as_well_after_a_restart),
		cmocka_unit_test(a_model_has_learned_from_every_pod),
		cmocka_unit_test(faults_are_left_out_of_models),
		cmocka_unit_test(the_least_recently_used_model_is_replaced),
		cmocka_unit_test(what_is_learned_beside_faults_is_as_good),
		cmocka_unit_test(errors_are_evidence_while_a_pod_learns),
		cmocka_unit_test(a_pod_says_how_well_it_is_known_and_what_it_misses),
		cmocka_unit_test(a_new_pod_begins_with_what_its_siblings_know),
		cmocka_unit_test(an_accepted_level_is_normal),
		cmocka_unit_test(a_regression_begins_with_the_new_version),
		cmocka_unit_test(scaling_up_is_silent),
		cmocka_unit_test(a_pod_unlike_its_siblings_is_found),
		cmocka_unit_test(tenants_that_claim_one_service_share_no_model),
		cmocka_unit_test(a_pod_is_odd_beside_its_owners_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
