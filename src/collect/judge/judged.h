/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judged.h - the display data of a judged pod: its names and the names of its columns. Not
 * thread-safe.
 */
#ifndef SL_COLLECT_JUDGE_JUDGED_H
#define SL_COLLECT_JUDGE_JUDGED_H

#include "act/verdict.h"
#include "collect/judge/judge.h"
#include "collect/judge/rows.h"

/* What is known of the steps of an MPI rank (bindings/mpi), from a sample of its own work. */
enum {
	COLLECT_STEP_TIME,
	COLLECT_STEP_CPU,
	COLLECT_STEP_FAULTS,
	COLLECT_STEP_TURNS,
	COLLECT_STEPS
};

struct collect_judged {
	uint64_t instance;
	struct act_verdict_pod *shown;
	struct act_pod_name name;
	char label[ACT_POD_LABEL_BYTES + 16]; /* set by act_pod_label() */
	uint32_t columns;
	/*
	 * columns with their replay names; these names and the displayed names are stored in `text`
	 */
	struct analyse_column *column;
	struct {
		const char *metric;
		enum act_measure measure; /* what the metric measures */
		bool requests;		  /* true if it counts requests to the pod */
	} * shows;			  /* per column */
	char *text;
	bool recorded;	  /* the record has the pod's columns */
	double sum;	  /* sum of the last row's values */
	int64_t moved_ns; /* last row in which the sum changed */
	/* Current and usual requests per second. Anomalous rows do not change the usual rate. */
	struct {
		int64_t first_ns, ns; /* first row with these columns, and last row; 0 if none */
		double sum;	      /* sum of the columns that count requests */
		double now, usual;
		double row, seconds; /* requests per second in the last row, and its length */
	} load;
	struct {
		uint32_t column[COLLECT_STEPS], mean; /* mean: column of the mean step */
		bool known;			      /* the pod has these columns */
		int64_t first_ns, ns;		      /* first and last row; 0 if none */
		double seconds;			      /* between the last two rows */
		double last[COLLECT_STEPS], recent[COLLECT_STEPS]; /* recent: sums that decay */
		double usual[COLLECT_STEPS];			   /* per step */
	} step;
};

/*
 * Makes a pod from an entry of a worker's queue, of kind COLLECT_ROWS_LAYOUT. Returns NULL with
 * errno ENOSPC or ENOMEM.
 */
struct collect_judged *collect_judged_new(struct act_verdicts *verdicts,
					  const struct collect_rows_entry *e, const uint8_t *entry);
void collect_judged_free(struct collect_judged *p);
/*
 * Sets the column names for display and for replay from such an entry. If out of memory, returns
 * false, and the pod has no columns.
 */
bool collect_judged_columns(struct collect_judged *p, const struct collect_rows_entry *e,
			    const uint8_t *entry);
/* Publishes a finding of the pod, and logs a change of the pod's learning state. */
void collect_judged_show(struct collect_judged *p, const struct collect_judge_finding *is,
			 bool shadow);

#endif
