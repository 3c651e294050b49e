// SPDX-License-Identifier: Apache-2.0
/* pipeline_model.c - saves, loads and merges what a pipeline has learned. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "analyse/pipeline_internal.h"

#define HEADER (8 + 4 + 4 + 8) /* magic, version, CRC-32 and length of what follows the header */

static void save_body(const struct analyse_pipeline *p, struct analyse_blob *b)
{
	char name[16] = {0};

	strncpy(name, p->opts.detector->name, sizeof(name) - 1);
	analyse_blob_put(b, name, sizeof(name));
	analyse_blob_put_u32(b, p->dims);
	analyse_blob_put_u64(b, p->opts.step_ns);
	analyse_blob_put_u64(b, p->stats.learned);
	for (uint32_t s = 0; s < p->dims; s++) {
		analyse_blob_put_u64(b, p->keys[s]);
		analyse_blob_put_u32(b, p->slots[s].counter);
		analyse_normaliser_save_column(&p->normaliser, s, b);
	}
	/* The shared thresholds, for a fleet that knows nothing yet, then the pod's own. */
	analyse_calibration_save(&p->thresholds->step, b);
	analyse_calibration_save(&p->thresholds->run, b);
	analyse_calibration_save(&p->own.step, b);
	analyse_calibration_save(&p->own.run, b);
	if (p->opts.detector->save)
		p->opts.detector->save(p->detector, b);
}

size_t analyse_pipeline_save_bytes(const struct analyse_pipeline *p)
{
	struct analyse_blob b = {.bytes = SIZE_MAX};

	save_body(p, &b);
	return HEADER + b.used;
}

int64_t analyse_pipeline_save(const struct analyse_pipeline *p, void *buf, size_t bytes)
{
	struct analyse_blob b = {.at = buf, .bytes = bytes}, head;

	if (!analyse_blob_take(&b, HEADER))
		return -ENOSPC;
	save_body(p, &b);
	if (b.failed)
		return -ENOSPC;
	head = (struct analyse_blob){.at = buf, .bytes = HEADER};
	analyse_blob_put_u64(&head, ANALYSE_MODEL_MAGIC);
	analyse_blob_put_u32(&head, ANALYSE_MODEL_VERSION);
	analyse_blob_put_u32(&head, (uint32_t)crc32_z(0, (uint8_t *)buf + HEADER, b.used - HEADER));
	analyse_blob_put_u64(&head, b.used - HEADER);
	return (int64_t)b.used;
}

static void reset_detector(struct analyse_pipeline *p)
{
	void *fresh = analyse_pipeline_new_detector(p, p->opts.detector);

	/* Out of memory, the half-loaded state stays: its fields were checked, so it is safe. */
	if (!fresh)
		return;
	analyse_detector_destroy(p->opts.detector, p->detector);
	p->detector = fresh;
}

static void reset(struct analyse_pipeline *p)
{
	for (uint32_t s = 0; s < p->dims; s++) {
		analyse_normaliser_forget(&p->normaliser, s);
		memset(&p->slots[s], 0, sizeof(p->slots[s]));
		p->keys[s] = 0;
		p->slots[s].last = NAN;
		p->column_of[s] = ANALYSE_NONE;
		p->slot_of[s] = ANALYSE_NONE;
	}
	p->used = 0;
	p->layout = 0;
	p->begun = false;
	analyse_pipeline_forget(p);
	p->step_scored = p->drift = false;
	analyse_pipeline_init_thresholds(p, &p->own);
	memset(&p->stats, 0, sizeof(p->stats));
	reset_detector(p);
}

/* The header and the first fields. */
static int load_info(struct analyse_blob *b, struct analyse_model_info *info)
{
	uint64_t magic = analyse_blob_u64(b), length;
	uint32_t version = analyse_blob_u32(b), crc = analyse_blob_u32(b);
	const void *at;

	memset(info, 0, sizeof(*info));
	length = analyse_blob_u64(b);
	if (b->failed || magic != ANALYSE_MODEL_MAGIC)
		return -EINVAL;
	if (version != ANALYSE_MODEL_VERSION)
		return -EPROTONOSUPPORT;
	if (length != b->bytes - b->used || crc != (uint32_t)crc32_z(0, b->at + HEADER, length))
		return -EINVAL;
	at = analyse_blob_take(b, sizeof(info->detector));
	if (at)
		memcpy(info->detector, at, sizeof(info->detector) - 1);
	info->columns = analyse_blob_u32(b);
	info->step_ns = analyse_blob_u64(b);
	info->learned = analyse_blob_u64(b);
	return b->failed ? -EINVAL : 0;
}

int analyse_pipeline_model_info(const void *buf, size_t bytes, struct analyse_model_info *info)
{
	struct analyse_blob b = {.at = (uint8_t *)(uintptr_t)buf, .bytes = bytes};

	return load_info(&b, info);
}

int analyse_pipeline_load(struct analyse_pipeline *p, const void *buf, size_t bytes)
{
	struct analyse_blob b = {.at = (uint8_t *)(uintptr_t)buf, .bytes = bytes};
	struct analyse_thresholds all = p->own;
	struct analyse_model_info info;
	uint32_t dims = p->dims;
	int err = load_info(&b, &info);

	if (err)
		return err;
	reset(p);
	err = -EINVAL;
	if (strcmp(info.detector, p->opts.detector->name) || info.columns != dims ||
	    info.step_ns != p->opts.step_ns)
		goto bad;
	for (uint32_t s = 0; s < dims && !b.failed; s++) {
		p->keys[s] = analyse_blob_u64(&b);
		p->slots[s].counter = analyse_blob_u32(&b);
		analyse_normaliser_load_column(&p->normaliser, s, &b);
	}
	if (b.failed)
		goto bad;
	if (analyse_calibration_load(&all.step, &b) || analyse_calibration_load(&all.run, &b) ||
	    analyse_calibration_load(&p->own.step, &b) || analyse_calibration_load(&p->own.run, &b))
		goto bad;
	err = 0;
	if (!err && p->opts.detector->load)
		err = p->opts.detector->load(p->detector, &b);
	if (!err && (b.failed || b.used != b.bytes))
		err = -EINVAL;
	if (err)
		goto bad;
	/* A fleet that knows nothing yet starts from the model's thresholds. */
	if (p->thresholds != &p->own && !p->thresholds->step.n) {
		double step = p->thresholds->step.q, run = p->thresholds->run.q;

		*p->thresholds = all;
		/* With equal budgets they stay as saved, bit for bit. */
		if (step != all.step.q)
			analyse_calibration_budget(&p->thresholds->step, step);
		if (run != all.run.q)
			analyse_calibration_budget(&p->thresholds->run, run);
	}
	p->stats.learned = info.learned;
	return 0;
bad:
	reset(p);
	return err;
}

int analyse_pipeline_merge(struct analyse_pipeline *p, const struct analyse_pipeline *other)
{
	int err;

	if (p == other || p->dims != other->dims || p->opts.detector != other->opts.detector ||
	    p->opts.step_ns != other->opts.step_ns)
		return -EINVAL;
	for (uint32_t s = 0; s < p->dims; s++)
		if (p->keys[s] != other->keys[s] || p->slots[s].counter != other->slots[s].counter)
			return -EINVAL;
	if (p->opts.detector->merge) {
		err = p->opts.detector->merge(p->detector, other->detector);
		if (err)
			return err;
	}
	for (uint32_t s = 0; s < p->dims; s++)
		if (p->keys[s])
			analyse_normaliser_merge_column(&p->normaliser, s, &other->normaliser, s);
	analyse_calibration_merge(&p->thresholds->step, &other->thresholds->step);
	analyse_calibration_merge(&p->thresholds->run, &other->thresholds->run);
	p->stats.learned += other->stats.learned;
	return 0;
}
