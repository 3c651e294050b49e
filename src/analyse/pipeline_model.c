// SPDX-License-Identifier: Apache-2.0
/* pipeline_model.c - what was learned, as bytes: saved, loaded, merged. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "analyse/pipeline_internal.h"

#define HEADER (8 + 4 + 4 + 8) /* magic, version, CRC-32 of what follows the header, its length */

static void save_body(const struct sl_pipeline *p, struct sl_blob *b)
{
	char name[16] = {0};

	strncpy(name, p->opts.detector->name, sizeof(name) - 1);
	sl_blob_put(b, name, sizeof(name));
	sl_blob_put_u32(b, p->dims);
	sl_blob_put_u64(b, p->opts.step_ns);
	sl_blob_put_u64(b, p->stats.learned);
	for (uint32_t s = 0; s < p->dims; s++) {
		sl_blob_put_u64(b, p->keys[s]);
		sl_blob_put_u32(b, p->slots[s].counter);
		sl_normaliser_save_column(&p->normaliser, s, b);
	}
	/* What all know, for a fleet that knows nothing yet, and what it knows of itself. */
	sl_calibration_save(&p->thresholds->step, b);
	sl_calibration_save(&p->thresholds->run, b);
	sl_calibration_save(&p->own.step, b);
	sl_calibration_save(&p->own.run, b);
	if (p->opts.detector->save)
		p->opts.detector->save(p->detector, b);
}

size_t sl_pipeline_save_bytes(const struct sl_pipeline *p)
{
	struct sl_blob b = {.bytes = SIZE_MAX};

	save_body(p, &b);
	return HEADER + b.used;
}

int64_t sl_pipeline_save(const struct sl_pipeline *p, void *buf, size_t bytes)
{
	struct sl_blob b = {.at = buf, .bytes = bytes}, head;

	if (!sl_blob_take(&b, HEADER))
		return -ENOSPC;
	save_body(p, &b);
	if (b.failed)
		return -ENOSPC;
	head = (struct sl_blob){.at = buf, .bytes = HEADER};
	sl_blob_put_u64(&head, SL_MODEL_MAGIC);
	sl_blob_put_u32(&head, SL_MODEL_VERSION);
	sl_blob_put_u32(&head, (uint32_t)crc32_z(0, (uint8_t *)buf + HEADER, b.used - HEADER));
	sl_blob_put_u64(&head, b.used - HEADER);
	return (int64_t)b.used;
}

static void reset_detector(struct sl_pipeline *p)
{
	void *fresh = pipeline_new_detector(p, p->opts.detector);

	/* Without memory the half-loaded one stays: its fields were checked, so it is safe. */
	if (!fresh)
		return;
	sl_detector_destroy(p->opts.detector, p->detector);
	p->detector = fresh;
}

static void reset(struct sl_pipeline *p)
{
	for (uint32_t s = 0; s < p->dims; s++) {
		sl_normaliser_forget(&p->normaliser, s);
		memset(&p->slots[s], 0, sizeof(p->slots[s]));
		p->keys[s] = 0;
		p->slots[s].last = NAN;
		p->column_of[s] = SL_NOBODY;
		p->slot_of[s] = SL_NOBODY;
	}
	p->used = 0;
	p->layout = 0;
	p->begun = false;
	pipeline_forget(p);
	p->step_scored = p->drift = false;
	pipeline_init_thresholds(p, &p->own);
	memset(&p->stats, 0, sizeof(p->stats));
	reset_detector(p);
}

/* Header and what comes first. */
static int load_info(struct sl_blob *b, struct sl_model_info *info)
{
	uint64_t magic = sl_blob_u64(b), length;
	uint32_t version = sl_blob_u32(b), crc = sl_blob_u32(b);
	const void *at;

	memset(info, 0, sizeof(*info));
	length = sl_blob_u64(b);
	if (b->failed || magic != SL_MODEL_MAGIC)
		return -EINVAL;
	if (version != SL_MODEL_VERSION)
		return -EPROTONOSUPPORT;
	if (length != b->bytes - b->used || crc != (uint32_t)crc32_z(0, b->at + HEADER, length))
		return -EINVAL;
	at = sl_blob_take(b, sizeof(info->detector));
	if (at)
		memcpy(info->detector, at, sizeof(info->detector) - 1);
	info->columns = sl_blob_u32(b);
	info->step_ns = sl_blob_u64(b);
	info->learned = sl_blob_u64(b);
	return b->failed ? -EINVAL : 0;
}

int sl_pipeline_model_info(const void *buf, size_t bytes, struct sl_model_info *info)
{
	struct sl_blob b = {.at = (uint8_t *)(uintptr_t)buf, .bytes = bytes};

	return load_info(&b, info);
}

int sl_pipeline_load(struct sl_pipeline *p, const void *buf, size_t bytes)
{
	struct sl_blob b = {.at = (uint8_t *)(uintptr_t)buf, .bytes = bytes};
	struct sl_thresholds all = p->own;
	struct sl_model_info info;
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
		p->keys[s] = sl_blob_u64(&b);
		p->slots[s].counter = sl_blob_u32(&b);
		sl_normaliser_load_column(&p->normaliser, s, &b);
	}
	if (b.failed)
		goto bad;
	if (sl_calibration_load(&all.step, &b) || sl_calibration_load(&all.run, &b) ||
	    sl_calibration_load(&p->own.step, &b) || sl_calibration_load(&p->own.run, &b))
		goto bad;
	err = 0;
	if (!err && p->opts.detector->load)
		err = p->opts.detector->load(p->detector, &b);
	if (!err && (b.failed || b.used != b.bytes))
		err = -EINVAL;
	if (err)
		goto bad;
	/* A fleet that knows nothing yet begins with what the model knows. */
	if (p->thresholds != &p->own && !p->thresholds->step.n) {
		double step = p->thresholds->step.q, run = p->thresholds->run.q;

		*p->thresholds = all;
		/* Of the same budget they are as they were saved, to the bit. */
		if (step != all.step.q)
			sl_calibration_budget(&p->thresholds->step, step);
		if (run != all.run.q)
			sl_calibration_budget(&p->thresholds->run, run);
	}
	p->stats.learned = info.learned;
	return 0;
bad:
	reset(p);
	return err;
}

int sl_pipeline_merge(struct sl_pipeline *p, const struct sl_pipeline *other)
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
			sl_normaliser_merge_column(&p->normaliser, s, &other->normaliser, s);
	sl_calibration_merge(&p->thresholds->step, &other->thresholds->step);
	sl_calibration_merge(&p->thresholds->run, &other->thresholds->run);
	p->stats.learned += other->stats.learned;
	return 0;
}
