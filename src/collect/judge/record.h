/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - records the input of the judge for sidelight-replay(1):
 *
 *	DIR/metrics/POD.csv  Unix time in seconds, then one column per feature
 *	DIR/events.csv       "start,DETECTOR,SHADOW,FALSE_ALARMS,WARM_UP_NS,EVERY_NS,STEP_NS,
 *			     HOLD_NS"; HOLD_NS is missing in recordings of earlier versions;
 *			     "layout,MOMENT,NS,INSTANCE,COLUMNS,FILE,POD,SERVICE,LABEL,OWNER" before
 *			     the rows of these columns; LABEL distinguishes pods of one name, and is
 *			     missing in recordings of earlier versions; OWNER is missing if it is
 *""; "gone,MOMENT,INSTANCE"; "accept,MOMENT,INSTANCE": the pod's behaviour was declared normal;
 *			     "models,FILE" after a start: the initial models; "kept,MOMENT":
 *			     the pods' models were kept for future pods
 *	DIR/models-NS	     models of a start, in the format of models.h
 *	DIR/verdicts.csv     the judge's findings
 *
 * The judge's thread copies its input into memory; another thread writes the files.
 */
#ifndef SL_COLLECT_JUDGE_RECORD_H
#define SL_COLLECT_JUDGE_RECORD_H

#include "collect/judge/judge.h"
#include "collect/judge/rows.h"

struct collect_record;

/*
 * Creates DIR and DIR/metrics if needed, and appends to existing files. models: the models that the
 * judge begins with, or NULL. Returns NULL with a one-line message in error.
 */
struct collect_models;
struct collect_record *collect_record_new(const char *dir, const char *options,
					  struct collect_models *models, char *error,
					  size_t error_bytes);

/*
 * Writes a name for replay: without commas, and with the suffix that marks counters. out must have
 * eight bytes more than name. Returns the number of bytes including the NUL.
 */
size_t collect_record_name(char *out, const char *name, bool counter);
/* Returns true if the name, without labels, has the suffix of an OpenMetrics counter. */
bool collect_record_is_counter(const char *name);

/* Restores a name from events.csv in place. */
void collect_record_restore(char *name);

/* ---- the judge ---- */

/*
 * Records the columns, named by collect_record_name(). Returns false if there is no room now; then
 * no rows may follow.
 */
bool collect_record_layout(struct collect_record *r, int64_t moment,
			   const struct collect_judge_pod *pod,
			   const struct analyse_column *columns, uint32_t n);
/* Records an entry of any other kind, with e->bytes bytes. */
void collect_record_entry(struct collect_record *r, const struct collect_rows_entry *e,
			  const void *bytes);
/* Hands all entries to the writer, unless it is far behind. */
void collect_record_hand_over(struct collect_record *r);

/* ---- the writer ---- */

void collect_record_write(struct collect_record *r);
/* Returns the number of rows and lines lost because memory or disk space ran out. Thread-safe. */
uint64_t collect_record_lost(const struct collect_record *r);
/*
 * Called after the judge has finished: writes the remaining data. Returns 0, or -EIO if rows were
 * lost. r may be NULL.
 */
int collect_record_free(struct collect_record *r);

#endif
