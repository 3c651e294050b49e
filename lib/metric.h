/* SPDX-License-Identifier: Apache-2.0 */
/* metric.h - metrics and their schema records: between record.c and metric.c. */
#ifndef SL_LIB_METRIC_H
#define SL_LIB_METRIC_H

#include <sys/queue.h>

#include "internal.h"

/* A name, and the kind that all metrics of this name have. */
struct sl__family {
	struct sl__family *next;
	enum sl_metric_kind kind;
	uint64_t hash;
	struct sl__metric *model; /* of sl_..._family_create(); NULL: none */
	uint32_t id;		  /* of the model, in sl_publisher.models */
	char name[];
};

TAILQ_HEAD(sl__metric_queue, sl__metric);

/*
 * Replaceable records that were removed, of one shape, the oldest first. What takes the place of
 * one has the same shape, and fits.
 */
struct sl__vacancy {
	struct sl__vacancy *next;
	uint32_t kind, cells, bounds, length;
	struct sl__metric_queue queue;
};

/* A metric with a private copy of its record, as the region is never read back. A model is one
 * without labels and cells, which the metrics of a family are copied from. */
struct sl__metric {
	struct sl__metric *next;     /* of the same hash bucket */
	struct sl__metric *next_new; /* in the order of their records */
	uint64_t hash;
	const struct sl__buckets *buckets;
	struct sl__region *region;
	uint64_t created;    /* given by the options, ns since 1970; 0: when it is created */
	uint64_t removed_ns; /* CLOCK_MONOTONIC; 0: it is there */
	uint32_t uses;	     /* times that the record was created */
	uint32_t schema_at;  /* offset of the record in the schema */
	struct sl__vacancy *vacancy; /* removed, and replaceable: its queue; else NULL */
	TAILQ_ENTRY(sl__metric) vacant;
	bool utf8;	    /* of a model: see sl_metric_opts */
	uint32_t labels_at; /* offset of the labels in the record */
	uint32_t name_at;
	struct sl_schema_record record; /* its bounds and strings follow it */
};

static inline uint8_t *sl__metric_text(const struct sl__metric *m, uint32_t at)
{
	return (uint8_t *)m + offsetof(struct sl__metric, record) + at;
}

static inline const char *sl__metric_name(const struct sl__metric *m)
{
	return (const char *)sl__metric_text(m, m->name_at);
}

/* A string of spans has a record, but is no metric and has names of its own. */
static inline bool sl__is_string(uint32_t kind)
{
	return kind == SL_KIND_STRING;
}

static inline bool sl__is_histogram(uint32_t kind)
{
	return kind == SL_KIND_HISTOGRAM || kind == SL_KIND_HISTOGRAM_EXP ||
	       kind == SL_KIND_GAUGE_HISTOGRAM || kind == SL_KIND_GAUGE_HISTOGRAM_EXP;
}

/* The kind without the bit that says that the record may be replaced. */
static inline uint32_t sl__metric_kind(const struct sl__metric *m)
{
	return m->record.kind & ~SL_KIND_REPLACEABLE;
}

/* metric.c */
SL__HIDDEN bool sl__metric_same(const struct sl__metric *a, const struct sl__metric *b);
SL__HIDDEN void sl__metric_link(struct sl_publisher *p, struct sl__metric *m);
SL__HIDDEN void sl__metric_write(struct sl__metric *m);
/* The model of a family, and its publisher; NULL: the handle is refused, or of another kind. */
SL__HIDDEN const struct sl__metric *sl__family_model(uint64_t bits, uint32_t kind,
						     struct sl_publisher **p);

/* remove.c; under the lock */
SL__HIDDEN void sl__metric_created(struct sl__metric *m);
/* Gives a removed metric back, from 0. */
SL__HIDDEN void sl__metric_restore(struct sl__metric *m, uint64_t created);
/* A removed metric whose record and cells this one may take; NULL: none. */
SL__HIDDEN struct sl__metric *sl__vacancy_find(const struct sl_publisher *p,
					       const struct sl__metric *m);
/* Turns it into this one, whose record it takes over. */
SL__HIDDEN void sl__vacancy_fill(struct sl__metric *old, const struct sl__metric *m);
SL__HIDDEN void sl__vacancies_free(struct sl__region *r);
/* Not under the lock. 0 or -errno. */
SL__HIDDEN int sl__family_remove(uint64_t bits, uint32_t kind, const struct sl_label *labels,
				 size_t count);
SL__HIDDEN int sl__family_clear(uint64_t bits, uint32_t kind);
SL__HIDDEN int sl__metric_remove(struct sl_publisher *p, const struct sl__metric *model,
				 const struct sl_label *labels, size_t count);

/* record.c */
/* The model of these options, copied to *o, and 0; or the reason why there is none. */
SL__HIDDEN int sl__model_of(const struct sl_publisher *p, uint32_t kind,
			    const struct sl_metric_opts *opts, struct sl_metric_opts *o,
			    struct sl__metric **model);
/*
 * The metric of a model and labels, and 0; or the reason why there is none. Those of a family, and
 * those with names in UTF-8, have replaceable records.
 */
SL__HIDDEN int sl__metric_of(const struct sl__metric *model, const struct sl_label *labels,
			     size_t count, bool family, struct sl__metric **metric);

#endif
