/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gap_file.h - what collectors missed, in a file of fixed size that survives the translator, killed
 * at any instruction: it is mapped, and each worker counts in its own part.
 */
#ifndef SL_DTA_TRANSLATE_GAP_FILE_H
#define SL_DTA_TRANSLATE_GAP_FILE_H

#include <stddef.h>
#include <stdint.h>

/* What a collector missed while it was away, with replicas. */
struct dta_translate_gap {
	uint64_t collector;	   /* in a file: a hash of its name */
	uint64_t from_ns, reports; /* CLOCK_REALTIME; 0: none */
};

struct dta_gap_file;

/* Makes it if it is not there. NULL with one line in error: another translator has it, or it is
 * another file. */
struct dta_gap_file *dta_gap_file_open(const char *path, uint32_t workers, char *error,
				       size_t error_bytes);
/*
 * The gaps of a worker, one per collector in this order, with what the file has of them. One whose
 * collector is not named any more is dropped, after a line in the log.
 */
struct dta_translate_gap *dta_gap_file_take(struct dta_gap_file *f, uint32_t worker,
					    const char *const *collectors, uint32_t n);
void dta_gap_file_close(struct dta_gap_file *f); /* NULL is ignored */

#endif
