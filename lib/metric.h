/* SPDX-License-Identifier: Apache-2.0 */
/* metric.h - metrics and their schema records, for metric.c, record.c and remove.c. */
#ifndef SL_LIB_METRIC_H
#define SL_LIB_METRIC_H

#include <sys/queue.h>

#include "internal.h"

/* A metric name, and the kind common to all metrics with this name. */
struct sl__family {
	struct sl__family *next;
	enum sl_metric_kind kind;
	uint64_t hash;
	struct sl__metric *model; /* model from sl_..._family_create(), or NULL */
	uint32_t id;		  /* index of the model in sl_publisher.models */
	char name[];
};

TAILQ_HEAD(sl__metric_queue, sl__metric);

/* Removed replaceable records of one shape, the oldest first. A metric of this shape fits. */
struct sl__vacancy {
	struct sl__vacancy *next;
	uint32_t kind, cells, bounds, length;
	struct sl__metric_queue queue;
};

/*
 * A metric with a private copy of its record, as the library never reads back the region. A model
 * has no labels and no cells: it is the template for the metrics of a family.
 */
struct sl__metric {
	struct sl__metric *next;     /* next in the same hash bucket */
	struct sl__metric *next_new; /* next in the order of records */
	uint64_t hash;
	const struct sl__buckets *buckets;
	struct sl__region *region;
	/* creation time given by the options, ns since 1970; 0 means use the current time */
	uint64_t created;
	uint64_t removed_ns;	     /* CLOCK_MONOTONIC; 0 means not removed */
	uint32_t uses;		     /* number of times the record was created */
	uint32_t schema_at;	     /* offset of the record in the schema */
	struct sl__vacancy *vacancy; /* queue of a removed, replaceable record; NULL otherwise */
	TAILQ_ENTRY(sl__metric) vacant;
	bool utf8;	    /* models only: see sl_metric_opts */
	uint32_t labels_at; /* offset of the labels in the record */
	uint32_t name_at;
	struct sl_schema_record record; /* followed by its bounds and strings */
};

static inline uint8_t *sl__metric_text(const struct sl__metric *m, uint32_t at)
{
	return (uint8_t *)m + offsetof(struct sl__metric, record) + at;
}

static inline const char *sl__metric_name(const struct sl__metric *m)
{
	return (const char *)sl__metric_text(m, m->name_at);
}

/* A string of spans has a record, but it is not a metric, and has a separate name space. */
static inline bool sl__is_string(uint32_t kind)
{
	return kind == SL_KIND_STRING;
}

static inline bool sl__is_histogram(uint32_t kind)
{
	return kind == SL_KIND_HISTOGRAM || kind == SL_KIND_HISTOGRAM_EXP ||
	       kind == SL_KIND_GAUGE_HISTOGRAM || kind == SL_KIND_GAUGE_HISTOGRAM_EXP;
}

/* Returns the kind without SL_KIND_REPLACEABLE. */
static inline uint32_t sl__metric_kind(const struct sl__metric *m)
{
	return m->record.kind & ~SL_KIND_REPLACEABLE;
}

/* metric.c */
SL__HIDDEN bool sl__metric_same(const struct sl__metric *a, const struct sl__metric *b);
SL__HIDDEN void sl__metric_link(struct sl_publisher *p, struct sl__metric *m);
SL__HIDDEN void sl__metric_write(struct sl__metric *m);
/*
 * Returns the model of a family, and its publisher. Returns NULL if the family is refused, or the
 * handle is of another kind.
 */
SL__HIDDEN const struct sl__metric *sl__family_model(uint64_t bits, uint32_t kind,
						     struct sl_publisher **p);

/* remove.c; caller holds the lock */
SL__HIDDEN void sl__metric_created(struct sl__metric *m);
/* Restores a removed metric, starting from 0. */
SL__HIDDEN void sl__metric_restore(struct sl__metric *m, uint64_t created);
/* Finds a removed metric whose record and cells m may reuse, or NULL. */
SL__HIDDEN struct sl__metric *sl__vacancy_find(const struct sl_publisher *p,
					       const struct sl__metric *m);
/* Replaces the removed metric `old` with m, which takes over its record. */
SL__HIDDEN void sl__vacancy_fill(struct sl__metric *old, const struct sl__metric *m);
SL__HIDDEN void sl__vacancies_free(struct sl__region *r);
/* Caller does not hold the lock. Returns 0 or -errno. */
SL__HIDDEN int sl__family_remove(uint64_t bits, uint32_t kind, const struct sl_label *labels,
				 size_t count);
SL__HIDDEN int sl__family_clear(uint64_t bits, uint32_t kind);
SL__HIDDEN int sl__metric_remove(struct sl_publisher *p, const struct sl__metric *model,
				 const struct sl_label *labels, size_t count);

/* record.c */
/* Creates the model for these options, and copies the options to *o. Returns 0 or a refusal. */
SL__HIDDEN int sl__model_of(const struct sl_publisher *p, uint32_t kind,
			    const struct sl_metric_opts *opts, struct sl_metric_opts *o,
			    struct sl__metric **model);
/*
 * Creates a model's metric with these labels. Returns 0 or a refusal. Metrics of a family, and
 * those with UTF-8 names, have replaceable records.
 */
SL__HIDDEN int sl__metric_of(const struct sl__metric *model, const struct sl_label *labels,
			     size_t count, bool family, struct sl__metric **metric);

#endif
