// SPDX-License-Identifier: Apache-2.0
/* pipeline_model.c - saves, loads and merges the learned state of a pipeline. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analyse/pipeline_internal.h"

#define HEADER (8 + 4 + 4 + 8) /* magic, version, CRC-32, and length of the rest */

struct pipeline_model {
	uint64_t magic, bytes; /* length after the header */
	uint32_t version, crc;
	char detector[16];
	uint32_t dims;
	uint64_t step_ns, learned;
};

static void header_io(struct pipeline_model *m, struct sketch_blob *b)
{
	sketch_blob_u64(b, &m->magic);
	sketch_blob_u32(b, &m->version);
	sketch_blob_u32(b, &m->crc);
	sketch_blob_u64(b, &m->bytes);
}

static void info_io(struct pipeline_model *m, struct sketch_blob *b)
{
	sketch_blob_bytes(b, m->detector, sizeof(m->detector));
	sketch_blob_u32(b, &m->dims);
	sketch_blob_u64(b, &m->step_ns);
	sketch_blob_u64(b, &m->learned);
}

static int thresholds_io(struct analyse_thresholds *t, bool kinds, struct sketch_blob *b)
{
	int err = analyse_calibration_io(&t->step, b) ?: analyse_calibration_io(&t->run, b);

	/* The calibrations by kind belong to the fleet, not to a pod. */
	for (uint32_t k = 0; kinds && k < ANALYSE_KINDS && !err; k++)
		err = analyse_calibration_io(&t->kind[k], b);
	return err;
}

/*
 * Saves or loads the columns, the fleet's thresholds, the pod's own thresholds and the detector. A
 * fleet that has no thresholds yet adopts the loaded ones.
 */
static int learned_io(struct analyse_pipeline *p, struct analyse_thresholds *shared,
		      struct sketch_blob *b)
{
	for (uint32_t s = 0; s < p->dims && !b->failed; s++) {
		uint32_t counter = p->slots[s].counter;

		sketch_blob_u64(b, &p->keys[s]);
		sketch_blob_u32(b, &counter);
		p->slots[s].counter = counter;
		sketch_blob_f32(b, &p->slots[s].errors.events, 0, 1e15f);
		sketch_blob_f32(b, &p->slots[s].errors.seconds, 0, ANALYSE_COUNT_MEMORY);
		analyse_normaliser_io(&p->normaliser, s, b);
	}
	if (b->failed || thresholds_io(shared, true, b) || thresholds_io(&p->own, false, b))
		return -EINVAL;
	return p->opts.detector->io ? p->opts.detector->io(p->detector, b) : 0;
}

static void save_model(const struct analyse_pipeline *p, struct sketch_blob *b)
{
	struct pipeline_model m = {
		.dims = p->dims, .step_ns = p->opts.step_ns, .learned = p->stats.learned};

	strncpy(m.detector, p->opts.detector->name, sizeof(m.detector) - 1);
	info_io(&m, b);
	/* saving only reads */
	learned_io((struct analyse_pipeline *)(uintptr_t)p, p->thresholds, b);
}

/* Returns the size of *buf, or -ENOMEM. */
static int64_t save_new(const struct analyse_pipeline *p, void **buf)
{
	struct pipeline_model m = {.magic = ANALYSE_MODEL_MAGIC, .version = ANALYSE_MODEL_VERSION};
	struct sketch_blob b = {.bytes = SIZE_MAX}, head = {.bytes = HEADER};

	save_model(p, &b);
	m.bytes = b.used;
	*buf = head.at = malloc(HEADER + m.bytes);
	if (!*buf)
		return -ENOMEM;
	b = (struct sketch_blob){.at = head.at + HEADER, .bytes = m.bytes};
	save_model(p, &b);
	m.crc = (uint32_t)crc32_z(0, b.at, m.bytes);
	header_io(&m, &head);
	return (int64_t)(HEADER + m.bytes);
}

static void reset_detector(struct analyse_pipeline *p)
{
	void *fresh = analyse_pipeline_new_detector(p, p->opts.detector);

	/*
	 * If out of memory, the partly loaded state remains. It is safe to use, because its fields
	 * were checked.
	 */
	if (!fresh)
		return;
	analyse_detector_destroy(p->opts.detector, p->detector);
	p->detector = fresh;
}

static void reset_model(struct analyse_pipeline *p)
{
	for (uint32_t s = 0; s < p->dims; s++) {
		analyse_normaliser_forget(&p->normaliser, s);
		memset(&p->slots[s], 0, sizeof(p->slots[s]));
		p->keys[s] = 0;
		p->slots[s].counted = NAN;
		analyse_reading_place(&p->reading, s, false);
		p->column_of[s] = ANALYSE_NONE;
		p->slot_of[s] = ANALYSE_NONE;
	}
	p->used = p->witnesses = 0;
	p->layout = 0;
	p->begun = false;
	analyse_pipeline_forget(p);
	p->step_scored = p->drift = false;
	analyse_pipeline_init_thresholds(p, &p->own);
	memset(&p->stats, 0, sizeof(p->stats));
	reset_detector(p);
}

static int load_model(struct sketch_blob *b, struct pipeline_model *m)
{
	header_io(m, b);
	if (b->failed || m->magic != ANALYSE_MODEL_MAGIC)
		return -EINVAL;
	if (m->version != ANALYSE_MODEL_VERSION)
		return -EPROTONOSUPPORT;
	if (m->bytes != b->bytes - b->used ||
	    m->crc != (uint32_t)crc32_z(0, b->at + HEADER, m->bytes))
		return -EINVAL;
	info_io(m, b);
	m->detector[sizeof(m->detector) - 1] = 0;
	return b->failed ? -EINVAL : 0;
}

int analyse_pipeline_model_info(const void *buf, size_t bytes, struct analyse_model_info *info)
{
	struct sketch_blob b = {.at = (uint8_t *)(uintptr_t)buf, .bytes = bytes, .load = true};
	struct pipeline_model m = {0};
	int err = load_model(&b, &m);

	*info = (struct analyse_model_info){
		.columns = m.dims, .step_ns = m.step_ns, .learned = m.learned};
	memcpy(info->detector, m.detector, sizeof(info->detector));
	return err;
}

/* Allocates space for loading a fleet's thresholds. Returns false if memory is exhausted. */
static bool make_shared(const struct analyse_pipeline *p, struct analyse_thresholds *all)
{
	size_t bytes = ANALYSE_KINDS * sizeof(*all->kind);

	*all = p->own;
	if (p->own.kind)
		return true;
	all->kind = malloc(bytes);
	if (all->kind)
		memcpy(all->kind, p->thresholds->kind, bytes);
	return all->kind;
}

/* Starts an untrained fleet from the model's thresholds. */
static void share_thresholds(struct analyse_pipeline *p, struct analyse_thresholds *all)
{
	struct analyse_thresholds *to = p->thresholds;
	struct analyse_calibration *kind = to->kind;

	if (to == &p->own || to->step.n)
		return;
	analyse_thresholds_budget(all, to);
	*to = *all;
	to->kind = kind;
	memcpy(kind, all->kind, ANALYSE_KINDS * sizeof(*kind));
}

static int load_learned(struct analyse_pipeline *p, struct analyse_thresholds *all,
			struct sketch_blob *b, const struct pipeline_model *m)
{
	int err;

	reset_model(p);
	if (strcmp(m->detector, p->opts.detector->name) || m->dims != p->dims ||
	    m->step_ns != p->opts.step_ns)
		return -EINVAL;
	err = learned_io(p, all, b);
	if (err || b->failed || b->used != b->bytes) {
		reset_model(p);
		return err ? err : -EINVAL;
	}
	share_thresholds(p, all);
	p->stats.learned = m->learned;
	return 0;
}

int analyse_pipeline_load(struct analyse_pipeline *p, const void *buf, size_t bytes)
{
	struct sketch_blob b = {.at = (uint8_t *)(uintptr_t)buf, .bytes = bytes, .load = true};
	struct analyse_thresholds all;
	struct pipeline_model m = {0};
	int err = load_model(&b, &m);

	if (err)
		return err;
	if (!make_shared(p, &all))
		return -ENOMEM;
	err = load_learned(p, &all, &b, &m);
	p->inherits = !err && !p->begun;
	if (all.kind != p->own.kind)
		free(all.kind);
	return err;
}

static void merge_thresholds(struct analyse_thresholds *t, const struct analyse_thresholds *from)
{
	analyse_calibration_merge(&t->step, &from->step);
	analyse_calibration_merge(&t->run, &from->run);
	for (uint32_t k = 0; t->kind && from->kind && k < ANALYSE_KINDS; k++)
		analyse_calibration_merge(&t->kind[k], &from->kind[k]);
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
		if (p->keys[s]) {
			analyse_normaliser_merge_column(&p->normaliser, s, &other->normaliser, s);
			analyse_count_learn(&p->slots[s].errors, other->slots[s].errors.events,
					    other->slots[s].errors.seconds);
		}
	/* Shared thresholds have already learned from both pods. */
	if (p->thresholds != other->thresholds)
		merge_thresholds(p->thresholds, other->thresholds);
	if (p->thresholds != &p->own)
		merge_thresholds(&p->own, &other->own);
	p->stats.learned += other->stats.learned;
	return 0;
}

uint32_t analyse_pipeline_width(const struct analyse_pipeline *p)
{
	return p->dims;
}

int64_t analyse_pipeline_save_all(struct analyse_pipeline *const *pods, uint32_t n, void **buf)
{
	int64_t bytes = save_new(pods[0], buf);
	struct analyse_pipeline *p;

	if (n == 1 || bytes < 0)
		return bytes;
	p = analyse_pipeline_create(&pods[0]->opts);
	if (p && !analyse_pipeline_load(p, *buf, (size_t)bytes)) {
		if (pods[0]->thresholds != &pods[0]->own) {
			free(p->own.kind);
			p->own.kind = NULL;
			p->thresholds = pods[0]->thresholds;
		}
		for (uint32_t i = 1; i < n; i++)
			/* fails if columns differ: skip the pod */
			analyse_pipeline_merge(p, pods[i]);
		free(*buf);
		bytes = save_new(p, buf);
	}
	analyse_pipeline_free(p);
	return bytes;
}
