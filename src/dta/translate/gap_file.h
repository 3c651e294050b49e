/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gap_file.h - counts the reports that each collector missed. The counts are in a mapped file of
 * fixed size, so they survive even if the translator is killed at any instruction. Each worker has
 * its own part of the file.
 */
#ifndef SL_DTA_TRANSLATE_GAP_FILE_H
#define SL_DTA_TRANSLATE_GAP_FILE_H

#include <stddef.h>
#include <stdint.h>

/* With replicas: the reports that a collector missed while it was absent. */
struct dta_translate_gap {
	uint64_t collector;	   /* in a file, this is a hash of the collector's name */
	uint64_t from_ns, reports; /* from_ns: CLOCK_REALTIME; 0 means no gap */
};

struct dta_gap_file;

/*
 * Opens or creates the file. Returns NULL with one line in error if another translator uses the
 * file or if it is a different kind of file.
 */
struct dta_gap_file *dta_gap_file_open(const char *path, uint32_t workers, char *error,
				       size_t error_bytes);
/*
 * Returns a worker's gaps, one per collector in the given order, with the counts found in the file.
 * Logs and drops the gap of a collector that is no longer listed.
 */
struct dta_translate_gap *dta_gap_file_take(struct dta_gap_file *f, uint32_t worker,
					    const char *const *collectors, uint32_t n);
void dta_gap_file_close(struct dta_gap_file *f); /* NULL is ignored */

#endif
