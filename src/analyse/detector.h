/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detector.h - the interface of a detector: a row of normalised metrics in, a score and each
 * metric's share of it out. A new detector is one file and one line of the table in detectors.c.
 * Detectors do not depend on sockets, clocks, files, pods or thresholds: calibrate.h turns scores
 * into decisions.
 */
#ifndef SL_ANALYSE_DETECTOR_H
#define SL_ANALYSE_DETECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sketch/blob.h"

/* Rows are padded with NaN to a multiple of this, so that loops have no remainder. */
#define ANALYSE_ROW_LANES 16u
#define ANALYSE_ROW_MAX	  1024u /* maximum columns per pod */
#define ANALYSE_GROUPS	  8u

struct analyse_row {
	uint32_t dims;	/* length of the row, a multiple of ANALYSE_ROW_LANES */
	const float *z; /* (value - mean) / deviation, long-term; NaN means missing */
	/* distance from the recent baselines in units of usual moves; NaN means missing */
	const float *move;
	/*
	 * Kind of evidence of each metric, below ANALYSE_GROUPS. NULL means that all are of one
	 * kind.
	 */
	const uint8_t *group;
};

/* Options of a detector; 0 or NULL selects the default. */
struct analyse_detector_opts {
	uint32_t dims; /* length of all rows; a multiple of ANALYSE_ROW_LANES */
	uint64_t seed; /* random seed: equal seeds give equal results */
	/* fd: rows of the sketch, directions of the basis; default floor(sqrt(dims)) */
	uint32_t l, k;
	double limit; /* threshold: only |z| above this counts; default 3 */
};

/*
 * The state has a fixed size and is used by one thread at a time. score() is called once per row,
 * in order; it learns nothing, but may advance running sums and scratch memory. A score is finite,
 * >= 0, and 0 while nothing is known.
 */
struct analyse_detector_ops {
	const char *name;    /* "fd" */
	const char *summary; /* one line */
	/*
	 * True if scores are comparable across pods because they are sums of approximate -log p of
	 * each metric: pods then share one threshold (fleet.h), and the tail is assumed exponential
	 * while little is known (calibrate.h).
	 */
	bool comparable;
	/* Returns NULL with errno EINVAL or ENOMEM on failure. */
	void *(*create)(const struct analyse_detector_opts *opts);
	void (*destroy)(void *state); /* NULL means use free() */
	/* Scores a row. blame[dims] receives each metric's share, >= 0, in any unit. */
	float (*score)(void *state, const struct analyse_row *row, float *blame);
	/* Learns a row considered normal. NULL means the detector does not learn. */
	void (*learn)(void *state, const struct analyse_row *row);
	/*
	 * Saves or loads the learned state; NULL means none. Sets b->failed, or returns -errno, for
	 * input that cannot have been saved.
	 */
	int (*io)(void *state, struct sketch_blob *b);
	/* Adds the learned state of another detector. Returns -EINVAL if the shapes differ. */
	int (*merge)(void *state, const void *other);
};

extern const struct analyse_detector_ops analyse_detector_combined, analyse_detector_fd,
	analyse_detector_threshold, analyse_detector_autoencoder;
/* All detectors, NULL-terminated. The first one is the default. */
extern const struct analyse_detector_ops *const analyse_detectors[];

void analyse_detector_destroy(const struct analyse_detector_ops *ops,
			      void *state); /* accepts NULL */
/* Returns NULL for an unknown name. */
const struct analyse_detector_ops *analyse_detector_find(const char *name);
/* Like analyse_detector_find(), but if the name is unknown, lists the known names in error. */
const struct analyse_detector_ops *analyse_detector_named(const char *name, char *error,
							  size_t bytes);

#endif
