// SPDX-License-Identifier: Apache-2.0
/* fleet.c - see fleet.h. */
#include <errno.h>
#include <stdlib.h>

#include "analyse/fleet.h"

struct metric {
	uint64_t key, round;
	float sum; /* of all pods' shares in this round */
};

struct sl_fleet {
	struct sl_thresholds all;
	struct metric *metrics; /* open addressing; room is a power of two, at most half full */
	uint32_t room, used;
	uint64_t round;
};

struct sl_fleet *sl_fleet_create(double q, uint64_t seed)
{
	struct sl_fleet *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	if (sl_thresholds_init(&f->all, q, true, SL_TAIL_LOG_P, seed)) {
		free(f);
		errno = EINVAL;
		return NULL;
	}
	return f;
}

void sl_fleet_free(struct sl_fleet *f)
{
	if (f)
		free(f->metrics);
	free(f);
}

void sl_fleet_join(struct sl_fleet *f, struct sl_pipeline *p)
{
	if (sl_pipeline_detector(p)->comparable)
		sl_pipeline_share(p, &f->all);
}

static struct metric *find(struct metric *metrics, uint32_t room, uint64_t key)
{
	uint32_t i = (uint32_t)(key ^ key >> 32) & (room - 1);

	while (metrics[i].key && metrics[i].key != key)
		i = (i + 1) & (room - 1);
	return &metrics[i];
}

/* Rooms for new names are made on their first round alone, and those not seen lately go then. */
static int grow(struct sl_fleet *f)
{
	uint32_t room = 256, live = 0;
	struct metric *more;

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

static int sum_up(struct sl_fleet *f, struct sl_pipeline *p)
{
	uint32_t dims = sl_pipeline_dims(p);
	const float *shares = sl_pipeline_shares(p);
	const uint64_t *keys = sl_pipeline_keys(p);

	for (uint32_t c = 0; c < dims; c++) {
		struct metric *m;

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

static void compete(struct sl_fleet *f, struct sl_pipeline *p, struct sl_verdict *v, uint32_t pods)
{
	const uint64_t *keys = sl_pipeline_keys(p);
	float *shares = sl_pipeline_shares(p), sum = 0;
	uint32_t dims = sl_pipeline_dims(p);

	for (uint32_t c = 0; c < dims; c++) {
		float mine = shares[c], others;

		if (!(mine > 0) || !keys[c])
			continue;
		others = find(f->metrics, f->room, keys[c])->sum - mine;
		others = others > 0 ? others / (float)(pods - 1) : 0;
		shares[c] = mine * mine / (mine + SL_FLEET_RIVALRY * others);
		sum += shares[c];
	}
	v->common = v->raw > sum ? v->raw - sum : 0;
}

/* How much pods differ, so that each has a threshold between its own and that of all. */
static void look_around(struct sl_fleet *f, struct sl_pipeline *const *pods, uint32_t n)
{
	struct sl_calibration_spread step = {0}, run = {0};

	for (uint32_t i = 0; i < n; i++) {
		const struct sl_thresholds *own = sl_pipeline_thresholds(pods[i]);

		if (!own)
			continue;
		sl_calibration_compare(&step, &own->step, &f->all.step);
		sl_calibration_compare(&run, &own->run, &f->all.run);
	}
	sl_calibration_compared(&step, &f->all.step);
	sl_calibration_compared(&run, &f->all.run);
}

int sl_fleet_judge(struct sl_fleet *f, struct sl_pipeline *const *pods, struct sl_verdict *verdicts,
		   uint32_t n)
{
	uint32_t comparable = 0;
	int err = 0;

	f->round++;
	for (uint32_t i = 0; i < n; i++)
		comparable += sl_pipeline_detector(pods[i])->comparable;
	if (comparable >= SL_FLEET_MIN) {
		for (uint32_t i = 0; i < n && !err; i++)
			if (sl_pipeline_detector(pods[i])->comparable && verdicts[i].raw > 0)
				err = sum_up(f, pods[i]);
		for (uint32_t i = 0; i < n && !err; i++)
			if (sl_pipeline_detector(pods[i])->comparable && verdicts[i].raw > 0)
				compete(f, pods[i], &verdicts[i], comparable);
	}
	if (f->all.step.n >= f->all.step.compare_at)
		look_around(f, pods, n);
	for (uint32_t i = 0; i < n; i++)
		sl_pipeline_settle(pods[i], &verdicts[i]);
	return err;
}

struct sl_thresholds *sl_fleet_thresholds(struct sl_fleet *f)
{
	return &f->all;
}
