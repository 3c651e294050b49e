/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detector.h - the interface of a detector: a row of normalised metrics in, a score and each
 * metric's share of it out. A new detector is one file and one line of the table in detectors.c.
 * Detectors know no sockets, clocks, files, pods or thresholds: calibrate.h turns scores into
 * decisions.
 */
#ifndef SL_ANALYSE_DETECTOR_H
#define SL_ANALYSE_DETECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sketch/blob.h"

/* Rows are padded with NaN to a multiple of this, so that loops have no remainder. */
#define ANALYSE_ROW_LANES 16u
#define ANALYSE_ROW_MAX	  1024u /* columns per pod */
#define ANALYSE_GROUPS	  8u

struct analyse_row {
	uint32_t dims;	   /* a multiple of ANALYSE_ROW_LANES */
	const float *z;	   /* (value - mean) / deviation of the long run; NaN: missing */
	const float *move; /* distance from the recent baselines in usual moves; NaN: missing */
	/* Of what kind of evidence each metric is: below ANALYSE_GROUPS. NULL: all of one kind. */
	const uint8_t *group;
};

/* 0 or NULL selects the detector's default. */
struct analyse_detector_opts {
	uint32_t dims; /* of all rows; a multiple of ANALYSE_ROW_LANES */
	uint64_t seed; /* seeds its randomness: equal seeds give equal results */
	uint32_t l, k; /* fd: sketch rows, basis directions; default floor(sqrt(dims)) */
	double limit;  /* threshold: |z| beyond this scores; default 3 */
};

/*
 * State has a fixed size and is used by one thread at a time. score() is called once per row, in
 * order; it learns nothing, but may advance running sums and scratch memory. A score is finite, >=
 * 0, and 0 while nothing is known.
 */
struct analyse_detector_ops {
	const char *name;    /* "fd" */
	const char *summary; /* one line */
	/*
	 * True if scores compare across pods because they are sums of approximate -log p of each
	 * metric: pods then share one threshold (fleet.h), and the tail is assumed exponential
	 * while little is known (calibrate.h).
	 */
	bool comparable;
	/* NULL: errno EINVAL or ENOMEM. */
	void *(*create)(const struct analyse_detector_opts *opts);
	void (*destroy)(void *state); /* NULL: free() */
	/* blame[dims] >= 0: each metric's share, in any unit. */
	float (*score)(void *state, const struct analyse_row *row, float *blame);
	/* Learns a row taken as normal. NULL: the detector does not learn. */
	void (*learn)(void *state, const struct analyse_row *row);
	/*
	 * Saves or loads what was learned; NULL: nothing. Sets b->failed, or returns -errno, for
	 * what cannot have been saved.
	 */
	int (*io)(void *state, struct sketch_blob *b);
	/* Adds what another has learned. -EINVAL: different shape. */
	int (*merge)(void *state, const void *other);
};

extern const struct analyse_detector_ops analyse_detector_combined, analyse_detector_fd,
	analyse_detector_threshold, analyse_detector_autoencoder;
/* All, ended by NULL; the first is the default. */
extern const struct analyse_detector_ops *const analyse_detectors[];

void analyse_detector_destroy(const struct analyse_detector_ops *ops,
			      void *state); /* accepts NULL */
/* NULL: unknown name. */
const struct analyse_detector_ops *analyse_detector_find(const char *name);
/* The same; if it is unknown, error names those there are. */
const struct analyse_detector_ops *analyse_detector_named(const char *name, char *error,
							  size_t bytes);

#endif
