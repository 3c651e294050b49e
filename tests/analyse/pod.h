/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pod.h - a pod of twelve metrics, and a pipeline that learns what is usual for it. After cmocka.h.
 */
#ifndef SL_TESTS_ANALYSE_POD_H
#define SL_TESTS_ANALYSE_POD_H

#include <math.h>
#include <stdbool.h>

#include "analyse/pipeline.h"
#include "noise.h"

#define N    12u
#define STEP 1000000000ull

static const struct analyse_column columns[N] = {
	{"cpu", false}, {"memory", false}, {"requests", true},	{"errors", true},
	{"p50", false}, {"p99", false},	   {"constant", false}, {"zero", false},
	{"rx", true},	{"tx", true},	   {"threads", false},	{"queue", false},
};

static double false_alarms = 3.6; /* an hour: one in a thousand steps */
static uint64_t hold_ns;	  /* default */

struct pod {
	struct analyse_pipeline *p;
	uint64_t t, seed;
	double values[N];
};

static inline struct analyse_pipeline *create(const struct analyse_detector_ops *ops)
{
	struct analyse_pipeline_opts o = {.columns = 16,
					  .false_alarms = false_alarms,
					  .hold_ns = hold_ns,
					  .seed = 1,
					  .detector = ops};
	struct analyse_pipeline *p = analyse_pipeline_create(&o);

	assert_non_null(p);
	assert_int_equal(analyse_pipeline_columns(p, columns, N), 0);
	return p;
}

static inline void move_on(struct pod *d)
{
	double load = 100 + 5 * noise_normal(&d->seed);

	d->t += STEP;
	d->values[0] = load / 2 + noise_normal(&d->seed);
	d->values[1] = 4e8 + 1e6 * noise_normal(&d->seed);
	d->values[2] += floor(load);
	d->values[3] += noise_uniform(&d->seed) < 0.1;
	d->values[4] = 0.01 + 0.001 * noise_normal(&d->seed);
	d->values[5] = 0.05 * pow(noise_uniform(&d->seed), -0.3);
	d->values[6] = 42;
	d->values[7] = 0;
	d->values[8] += 1000 * load;
	d->values[9] += 3000 * load + 100 * noise_uniform(&d->seed);
	d->values[10] = 8 + floor(3 * noise_uniform(&d->seed));
	d->values[11] = noise_uniform(&d->seed) < 0.2;
}

static inline struct analyse_verdict push(struct pod *d)
{
	struct analyse_verdict v;

	move_on(d);
	assert_int_equal(analyse_pipeline_push(d->p, d->t, d->values, &v), 0);
	assert_true(v.score >= 0 && isfinite(v.score));
	return v;
}

static inline struct pod trained(const struct analyse_detector_ops *ops, int steps)
{
	struct pod d = {.p = create(ops), .t = STEP, .seed = 1};

	analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < steps; i++)
		push(&d);
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_GATED);
	return d;
}

#endif
