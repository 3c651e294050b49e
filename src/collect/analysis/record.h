/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - writes the rows of analysis as files for sidelight-replay(1): DIR/metrics/POD.csv, the
 * unix time in seconds, then one column per feature. Workers copy rows into memory; another thread
 * writes them.
 */
#ifndef SL_COLLECT_ANALYSIS_RECORD_H
#define SL_COLLECT_ANALYSIS_RECORD_H

#include "collect/analysis/features.h"

struct collect_record;

/* Makes DIR and DIR/metrics if needed. NULL: error has one line. */
struct collect_record *collect_record_new(const char *dir, unsigned int workers, char *error,
					  size_t error_bytes);

/*
 * Sets the columns of this pod's rows. On its worker, like the following. False: no room now; give
 * no rows.
 */
bool collect_record_layout(struct collect_record *r, unsigned int worker, uint64_t instance,
			   const char *pod, const struct collect_features *f);
void collect_record_row(struct collect_record *r, unsigned int worker, uint64_t instance,
			int64_t ns, const struct collect_features *f);
/* Hands the rows over, unless the writer is busy. */
void collect_record_hand_over(struct collect_record *r, unsigned int worker);

/* Writes the rows handed over. One thread. */
void collect_record_write(struct collect_record *r);
/* Rows not written: out of memory or disk. Any thread. */
uint64_t collect_record_lost(const struct collect_record *r);
/* After all workers: writes the rest. 0, or -EIO if rows were lost. NULL is fine. */
int collect_record_free(struct collect_record *r);

#endif
