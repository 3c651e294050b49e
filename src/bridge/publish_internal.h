/* SPDX-License-Identifier: Apache-2.0 */
/* publish_internal.h - shared by the publish*.c files. */
#ifndef SL_BRIDGE_PUBLISH_INTERNAL_H
#define SL_BRIDGE_PUBLISH_INTERNAL_H

#include "base/table.h"
#include "bridge/publish.h"

/*
 * All exponential histograms of a target have the same buckets, with factor 2^(2^-scale). A
 * sender's buckets come and go and its scale decreases, whereas the buckets in a region are fixed.
 * Counts stay exact. The values are sum, count, the zero bucket, the buckets and the overflow
 * bucket; none is cumulative.
 */
/* number of octaves on each side of 1, unless that would exceed EXPONENTIAL_MAX */
#define EXPONENTIAL_OCTAVES 24
#define EXPONENTIAL_MAX	    2047u

struct bridge_publish_grid {
	int scale, octaves, first; /* first: index of the first bucket */
	uint32_t buckets, values;
};

static inline struct bridge_publish_grid bridge_publish_grid(int scale)
{
	int most = (int)(EXPONENTIAL_MAX >> scale);
	int octaves = most < EXPONENTIAL_OCTAVES ? most : EXPONENTIAL_OCTAVES;
	uint32_t buckets = (uint32_t)(2 * octaves) << scale;

	return (struct bridge_publish_grid){scale, octaves, -(octaves << scale) + 1, buckets,
					    BRIDGE_BUCKETS + buckets + 2};
}

struct bridge_publish_family {
	struct base_node node;
	enum bridge_type type;
	bool exponential;
	uint64_t shape;	   /* shape of the first series */
	char *name, *help; /* name and help of an info, for which the library has no family */
	union {
		struct sl_counter_f64_family counter;
		struct sl_gauge_f64_family gauge;
		struct sl_unknown_family unknown;
		struct sl_summary_family summary;
		struct sl_histogram_family histogram;
		struct sl_gauge_histogram_family gauge_histogram;
		struct sl_stateset_family stateset;
	};
};

struct bridge_publish_series {
	struct base_node node;
	char *labels; /* KEY NUL VALUE NUL ...; NULL means that this element is free */
	union {
		struct bridge_publish_family *family;
		struct bridge_publish_series *next_free; /* of a free element */
	};
	union {
		struct sl_counter_f64 counter;
		struct sl_gauge_f64 gauge;
		struct sl_unknown unknown;
		struct sl_summary summary;
		struct sl_histogram histogram;
		struct sl_gauge_histogram gauge_histogram;
		struct sl_stateset stateset;
	};
	uint32_t label_bytes;
	uint32_t bytes; /* size of the series' record and cells */
	uint64_t shape; /* hash of the bounds, quantiles or states */
	uint64_t round;
	uint64_t set_ns;
	uint64_t time_ns;    /* time of the last point; 0 means unknown */
	double *total;	     /* sum of the deltas; NULL if points are not deltas */
	uint64_t created_ns; /* creation time stated in the point; 0 means none */
	uint64_t exemplars;  /* hash of the previous exemplars */
};

/* The series of a point, in body order, and its number of values. */
struct bridge_publish_place {
	struct bridge_publish_series *series; /* NULL if the point was refused */
	size_t values;
};

struct bridge_publisher {
	struct bridge_sink sink; /* must be first */
	struct sl_publisher *publisher;
	size_t series_max;
	uint64_t bytes, bytes_max; /* total size of all records, and of families */
	struct bridge_publish_counts *counts, own_counts;

	struct base_table families;
	struct base_table series;
	struct bridge_publish_series *series_free;
	struct bridge_publish_place *order;
	size_t order_count, order_room, order_values;

	/* About the current body. */
	uint64_t round, now_ns;
	bool by_values;	  /* only the values of this body were passed */
	bool fresh_order; /* no point of this body has been passed yet */

	/* About the current family. */
	char *name, *help, *unit;
	enum bridge_type type;
	uint64_t announced;		      /* hash of name and type */
	struct bridge_publish_family *family; /* family of the last point, or NULL */
	bool skip;

	struct bridge_publish_grid grid;
	double *expanded; /* values of a point, converted to grid.values elements */
	char *scratch;
	size_t scratch_room;
	uint64_t *buckets;
	size_t bucket_room;
};

/* Writes a text and a NUL. Returns the end, or NULL if the text has a NUL itself. */
char *bridge_publish_put(char *to, struct bridge_text t);
/* Decodes labels. Returns their number. */
size_t bridge_publish_labels(const char *bytes, size_t n, struct sl_label *out);

/* ---- publish_set.c ---- */

/*
 * Creates a family from the announced name, help and type. Returns false if out of memory, or if
 * the library refuses it.
 */
bool bridge_publish_family_create(struct bridge_publisher *p, struct bridge_publish_family *f,
				  const struct bridge_point *t);
/* Creates the handle of a series. Returns false if the library refuses it. */
bool bridge_publish_series_create(struct bridge_publisher *p, const struct bridge_publish_family *f,
				  struct bridge_publish_series *s, const struct bridge_point *t);
/* Stores the point's exemplars unless they are unchanged. */
void bridge_publish_exemplars(const struct bridge_publisher *p,
			      const struct bridge_publish_family *f,
			      struct bridge_publish_series *s, const struct bridge_point *t);
void bridge_publish_remove(struct bridge_publisher *p, const struct bridge_publish_family *f,
			   const struct sl_label *labels, size_t n);
void bridge_publish_set(struct bridge_publisher *p, const struct bridge_publish_family *f,
			const struct bridge_publish_series *s, const double *values, size_t n);
/*
 * Computes the values of a point with exponential buckets. Returns false if the scale is not
 * supported.
 */
bool bridge_publish_expand(const struct bridge_publish_grid *g, const struct bridge_point *t,
			   double *out);
/* Returns the size of a series in a region. */
size_t bridge_publish_record_bytes(const struct bridge_publisher *p, const struct bridge_point *t,
				   size_t label_bytes);

#endif
