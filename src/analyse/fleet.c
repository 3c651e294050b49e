// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>

#include "analyse/fleet.h"
#include "analyse/pipeline_internal.h"

struct fleet_metric {
	uint64_t key, round;
	float sum; /* of all pods' shares in this round */
};

struct analyse_fleet {
	struct analyse_thresholds all;
	struct fleet_metric
		*metrics; /* open addressing, at most half full; room is a power of two */
	uint32_t room, used;
	uint64_t round;
};

struct analyse_fleet *analyse_fleet_create(double q, uint64_t seed)
{
	struct analyse_fleet *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	if (analyse_thresholds_init(&f->all, q, true, ANALYSE_TAIL_LOG_P, seed)) {
		free(f);
		errno = EINVAL;
		return NULL;
	}
	return f;
}

void analyse_fleet_free(struct analyse_fleet *f)
{
	if (f)
		free(f->metrics);
	free(f);
}

void analyse_fleet_join(struct analyse_fleet *f, struct analyse_pipeline *p)
{
	if (!p->opts.detector->comparable)
		return;
	p->thresholds = &f->all;
	/* The first pod's budgets become the fleet's. */
	if (!f->all.step.n) {
		analyse_calibration_budget(&f->all.step, p->own.step.q);
		analyse_calibration_budget(&f->all.run, p->own.run.q);
	}
}

static struct fleet_metric *find(struct fleet_metric *metrics, uint32_t room, uint64_t key)
{
	uint32_t i = (uint32_t)(key ^ key >> 32) & (room - 1);

	while (metrics[i].key && metrics[i].key != key)
		i = (i + 1) & (room - 1);
	return &metrics[i];
}

/* Allocates only in a round with new names, and drops names not seen for 1,000 rounds. */
static int grow(struct analyse_fleet *f)
{
	uint32_t room = 256, live = 0;
	struct fleet_metric *more;

	for (uint32_t i = 0; i < f->room; i++)
		live += f->metrics[i].key && f->metrics[i].round + 1000 > f->round;
	while (room < 4 * (live + 1))
		room *= 2;
	more = calloc(room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->room; i++)
		if (f->metrics[i].key && f->metrics[i].round + 1000 > f->round)
			*find(more, room, f->metrics[i].key) = f->metrics[i];
	free(f->metrics);
	f->metrics = more;
	f->room = room;
	f->used = live;
	return 0;
}

static int sum_up(struct analyse_fleet *f, struct analyse_pipeline *p)
{
	const float *shares = p->blame;
	const uint64_t *keys = p->keys;

	for (uint32_t c = 0; c < p->dims; c++) {
		struct fleet_metric *m;

		if (!(shares[c] > 0) || !keys[c])
			continue;
		if (2 * (f->used + 1) > f->room && grow(f))
			return -ENOMEM;
		m = find(f->metrics, f->room, keys[c]);
		f->used += !m->key;
		if (m->round != f->round)
			m->sum = 0;
		m->key = keys[c];
		m->round = f->round;
		m->sum += shares[c];
	}
	return 0;
}

static void compete(struct analyse_fleet *f, struct analyse_pipeline *p, struct analyse_verdict *v,
		    uint32_t pods)
{
	float *shares = p->blame, sum = 0;

	for (uint32_t c = 0; c < p->dims; c++) {
		float mine = shares[c], others;

		if (!(mine > 0) || !p->keys[c])
			continue;
		others = find(f->metrics, f->room, p->keys[c])->sum - mine;
		others = others > 0 ? others / (float)(pods - 1) : 0;
		shares[c] = mine * mine / (mine + ANALYSE_FLEET_RIVALRY * others);
		sum += shares[c];
	}
	v->common = v->raw > sum ? v->raw - sum : 0;
}

/*
 * Measures how much pods differ; each threshold then lies between the pod's own and the shared one.
 */
static void look_around(struct analyse_fleet *f, struct analyse_pipeline *const *pods, uint32_t n)
{
	struct analyse_calibration_spread step = {0}, run = {0};

	for (uint32_t i = 0; i < n; i++) {
		if (pods[i]->thresholds == &pods[i]->own)
			continue;
		analyse_calibration_compare(&step, &pods[i]->own.step, &f->all.step);
		analyse_calibration_compare(&run, &pods[i]->own.run, &f->all.run);
	}
	analyse_calibration_compared(&step, &f->all.step);
	analyse_calibration_compared(&run, &f->all.run);
}

int analyse_fleet_judge(struct analyse_fleet *f, struct analyse_pipeline *const *pods,
			struct analyse_verdict *verdicts, uint32_t n)
{
	uint32_t comparable = 0;
	int err = 0;

	f->round++;
	for (uint32_t i = 0; i < n; i++)
		comparable += pods[i]->opts.detector->comparable;
	if (comparable >= ANALYSE_FLEET_MIN) {
		for (uint32_t i = 0; i < n && !err; i++)
			if (pods[i]->opts.detector->comparable && verdicts[i].raw > 0)
				err = sum_up(f, pods[i]);
		for (uint32_t i = 0; i < n && !err; i++)
			if (pods[i]->opts.detector->comparable && verdicts[i].raw > 0)
				compete(f, pods[i], &verdicts[i], comparable);
	}
	if (f->all.step.n >= f->all.step.compare_at)
		look_around(f, pods, n);
	for (uint32_t i = 0; i < n; i++)
		analyse_pipeline_settle(pods[i], &verdicts[i]);
	return err;
}

struct analyse_thresholds *analyse_fleet_thresholds(struct analyse_fleet *f)
{
	return &f->all;
}
