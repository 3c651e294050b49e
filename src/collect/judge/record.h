/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - writes what the judge was given, for sidelight-replay(1):
 *
 *	DIR/metrics/POD.csv  the unix time in seconds, then one column per feature
 *	DIR/events.csv       "start,DETECTOR,SHADOW,FALSE_ALARMS,WARM_UP_NS,EVERY_NS,STEP_NS";
 *			     "layout,MOMENT,NS,INSTANCE,COLUMNS,FILE,POD,SERVICE,LABEL" before the
 *			     rows of these columns; LABEL tells pods of one name apart, and was
 *			     left out by earlier versions; "gone,MOMENT,INSTANCE"
 *			     "models,FILE" after a start: those that it began with; "kept,MOMENT":
 *			     those of the pods were kept for pods to come
 *	DIR/models-NS	     models of a start, in the format of models.h
 *	DIR/verdicts.csv     what the judge found
 *
 * The judge's thread copies into memory; another thread writes.
 */
#ifndef SL_COLLECT_JUDGE_RECORD_H
#define SL_COLLECT_JUDGE_RECORD_H

#include <stdio.h>

#include "collect/judge/judge.h"

struct collect_record;

/*
 * Makes DIR and DIR/metrics if needed, and adds to what is there. models: those that the judge
 * begins with, or NULL. NULL: error has one line.
 */
struct collect_models;
struct collect_record *collect_record_new(const char *dir, const char *options,
					  struct collect_models *models, char *error,
					  size_t error_bytes);

/*
 * Writes a name for replay: without commas, and with the suffix by which it recognizes counters.
 * out has eight bytes more than name. Returns the bytes with the NUL.
 */
size_t collect_record_name(char *out, const char *name, bool counter);

/* Prints a name of events.csv, or restores it in place. */
void collect_record_print(FILE *f, const char *name);
void collect_record_restore(char *name);

/* ---- the judge ---- */

/* The columns, named by collect_record_name(). False: no room now; give no rows. */
bool collect_record_layout(struct collect_record *r, int64_t moment,
			   const struct collect_judge_pod *pod,
			   const struct analyse_column *columns, uint32_t n);
void collect_record_row(struct collect_record *r, uint64_t instance, int64_t ns,
			const double *value, uint32_t n);
void collect_record_gone(struct collect_record *r, int64_t moment, uint64_t instance);
/* An entry of kind COLLECT_ROWS_TRACE. */
struct collect_rows_entry;
void collect_record_trace(struct collect_record *r, const struct collect_rows_entry *e,
			  const uint8_t *bytes);
void collect_record_kept(struct collect_record *r, int64_t moment);
void collect_record_verdict(struct collect_record *r, const char *line); /* with its newline */
/* Hands all over, unless the writer is far behind. */
void collect_record_hand_over(struct collect_record *r);

/* ---- the writer ---- */

void collect_record_write(struct collect_record *r);
/* Rows and lines not written: out of memory or disk. Any thread. */
uint64_t collect_record_lost(const struct collect_record *r);
/* After the judge: writes the rest. 0, or -EIO if rows were lost. NULL is fine. */
int collect_record_free(struct collect_record *r);

#endif
