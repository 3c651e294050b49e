/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gap_file.h - counts the reports that each collector missed. The counts are in a mapped file of
 * fixed size, which survives a translator killed at any instruction. Each worker has its own part.
 */
#ifndef SL_DTA_TRANSLATE_GAP_FILE_H
#define SL_DTA_TRANSLATE_GAP_FILE_H

#include <stddef.h>
#include <stdint.h>

/* The reports that a collector missed during an absence, with replicas. */
struct dta_translate_gap {
	uint64_t collector;	   /* in a file, this is a hash of the collector's name */
	uint64_t from_ns, reports; /* from_ns: CLOCK_REALTIME; 0: no gap */
};

struct dta_gap_file;

/*
 * Opens or creates the file. Returns NULL with one line in error: another translator uses it, or it
 * is a different kind of file.
 */
struct dta_gap_file *dta_gap_file_open(const char *path, uint32_t workers, char *error,
				       size_t error_bytes);
/*
 * Returns the gaps of a worker, one per collector in the given order, with the counts found in the
 * file. The gap of a collector that is no longer listed is logged and dropped.
 */
struct dta_translate_gap *dta_gap_file_take(struct dta_gap_file *f, uint32_t worker,
					    const char *const *collectors, uint32_t n);
void dta_gap_file_close(struct dta_gap_file *f); /* NULL is ignored */

#endif
