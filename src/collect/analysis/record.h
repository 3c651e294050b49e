/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - the rows that analysis sees, as files that sidelight-replay(1) reads:
 * DIR/metrics/POD.csv, the time in unix seconds first, then a column a feature. Workers only copy
 * rows into memory that they hand over when nobody has it; a thread of its own kind writes.
 */
#ifndef SL_COLLECT_ANALYSIS_RECORD_H
#define SL_COLLECT_ANALYSIS_RECORD_H

#include "collect/analysis/features.h"

struct collect_record;

/* Makes DIR and DIR/metrics if they are not there. NULL with one line in error. */
struct collect_record *collect_record_new(const char *dir, unsigned int workers, char *error,
					  size_t error_bytes);

/*
 * What the columns of this pod's rows are from now on. By its worker, as the following. False: no
 * room now, so its rows are not to be given.
 */
bool collect_record_layout(struct collect_record *r, unsigned int worker, uint64_t instance,
			   const char *pod, const struct collect_features *f);
void collect_record_row(struct collect_record *r, unsigned int worker, uint64_t instance,
			int64_t ns, const struct collect_features *f);
/* Hands over what there is, unless somebody is about it. */
void collect_record_hand_over(struct collect_record *r, unsigned int worker);

/* Writes what was handed over. One thread. */
void collect_record_write(struct collect_record *r);
/* Rows that were not written: no memory, no disk. Any thread. */
uint64_t collect_record_lost(const struct collect_record *r);
/* After all workers: writes the rest. 0 or -EIO if rows were lost. NULL is let pass. */
int collect_record_free(struct collect_record *r);

#endif
