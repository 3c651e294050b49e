/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detector.h - what a detector is: a row of normalised metrics in, a score and the share of each
 * metric in it out. A new one is one file and one line of the table in detector.c. May not know
 * sockets, clocks, files, pods or thresholds: it says how unusual a row is in its own units, and
 * calibrate.h makes a decision of it.
 */
#ifndef SL_ANALYSE_DETECTOR_H
#define SL_ANALYSE_DETECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/blob.h"

/* Rows are padded with NaN to a multiple of this, so that loops have no tail. */
#define ANALYSE_ROW_LANES 16u
#define ANALYSE_ROW_MAX	  1024u /* columns of one pod */

struct analyse_row {
	uint32_t dims;	   /* a multiple of ANALYSE_ROW_LANES */
	const float *z;	   /* (value - location) / scale of the long run; NaN: missing */
	const float *move; /* how far from its recent levels, in its usual moves; NaN: missing */
};

/* 0 or NULL: the default of the detector. */
struct analyse_detector_opts {
	uint32_t dims; /* of all rows to come; a multiple of ANALYSE_ROW_LANES */
	uint64_t seed; /* of what is random in it: equal seeds, equal results */
	uint32_t l,
		k; /* fd: rows of the sketch, directions of the basis; default floor(sqrt(dims)) */
	double limit; /* threshold: counts as unusual above; default 3 */
};

/*
 * State is made at creation and fixed in size. One state is used by one thread at a time. score()
 * is called once for each row, in order: it changes nothing learned, but may advance running sums
 * and scratch memory. A score is >= 0, finite, and 0 if nothing is known yet.
 */
struct analyse_detector_ops {
	const char *name;    /* "fd" */
	const char *summary; /* one line */
	/*
	 * True if its scores mean the same for every pod, because they are sums of what is already
	 * -log p of each metric, about: pods then share one threshold (fleet.h), and the tail is
	 * thought to be exponential while little is known (calibrate.h).
	 */
	bool comparable;
	/* NULL: errno EINVAL or ENOMEM. */
	void *(*create)(const struct analyse_detector_opts *opts);
	void (*destroy)(void *state); /* NULL: free() */
	/* blame[dims] >= 0: each metric's share, in any unit. */
	float (*score)(void *state, const struct analyse_row *row, float *blame);
	/* This row is taken as normal. NULL: nothing is learned. */
	void (*learn)(void *state, const struct analyse_row *row);
	/* Of what was learned; NULL if nothing is. load: -EINVAL for what can't have been saved. */
	void (*save)(const void *state, struct analyse_blob *to);
	int (*load)(void *state, struct analyse_blob *from);
	/* Adds what another learned. -EINVAL: of another shape. */
	int (*merge)(void *state, const void *other);
};

extern const struct analyse_detector_ops analyse_detector_threshold, analyse_detector_mad,
	analyse_detector_ewma, analyse_detector_cusum, analyse_detector_fd,
	analyse_detector_autoencoder, analyse_detector_combined;

void analyse_detector_destroy(const struct analyse_detector_ops *ops,
			      void *state); /* NULL is fine */
/* NULL: there is none of the name. */
const struct analyse_detector_ops *analyse_detector_find(const char *name);
/* The i-th of the table; NULL after the last. */
const struct analyse_detector_ops *analyse_detector_at(unsigned int i);

#endif
