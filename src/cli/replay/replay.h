/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - a recording of sidelight collect (collect/judge/record.h) in memory, for sidelight
 * replay.
 */
#ifndef SL_CLI_REPLAY_REPLAY_H
#define SL_CLI_REPLAY_REPLAY_H

#include "analyse/pipeline.h"
#include "base/base.h"

#define REPLAY_PODS_MAX 10000u
#define REPLAY_FILE_MAX (1u << 30)

struct cli_replay_pod {
	char *name;
	char *service; /* preceded by its owner, as in traces; NULL means unknown */
	char *text;    /* contents of the file; the names of columns point into it */
	struct analyse_column *columns;
	uint32_t n_columns;
	uint64_t rows;
	int64_t *t;	/* times of the rows in Unix ns, ascending */
	double *values; /* rows x n_columns; NaN means missing */
};

struct cli_replay_losses {
	uint64_t files_empty; /* number of files that are empty or have only a header */
	/* number of rows without a time or with a wrong number of fields */
	uint64_t rows_malformed;
	uint64_t values_malformed; /* number of values that are not numbers; treated as missing */
	uint64_t values_missing;
	/* number of rows dropped because they are not later than the previous row */
	uint64_t rows_backwards;
	uint64_t columns_refused;
};

struct cli_replay_data {
	struct cli_replay_pod *pods;
	uint32_t n_pods;
	struct cli_replay_losses losses;
	int64_t step_ns; /* median interval between rows */
	char *events;
	char **trace; /* pointers into events: SERVICE:PARENT[:POD:OPERATION:BEGIN_NS:END_NS];... */
	size_t traces;
};

/*
 * Loads a recording. live: keep rows that go back in time, and leave events to the caller. Returns
 * 0, or -1 after printing an error.
 */
int cli_replay_load(struct cli_replay_data *d, const char *folder, bool live);
void cli_replay_free(struct cli_replay_data *d);

/* Prints one line to stderr. Evaluates to -1. */
#define cli_replay_say(...) \
	base_complain(&(const struct base_command){.name = "replay"}, -1, __VA_ARGS__)

/*
 * Returns the line at *at without its newline and advances *at; NULL after the last line. Writes
 * NULs; end must be writable.
 */
char *cli_replay_line(char **at, const char *end);
/* Splits a line into at most n fields. Returns their number, or n + 1 if there are more. */
size_t cli_replay_cut(char *line, char **field, size_t n);
/* Returns the contents of events.csv, or NULL after printing an error. */
char *cli_replay_events(const char *folder, size_t *bytes);
/* Returns the pod whose rows are in this file of metrics/, or NULL. */
struct cli_replay_pod *cli_replay_file(const struct cli_replay_data *d, const char *file);

/* The traces of a recording; see traces.c. */
struct analyse_graph;
struct analyse_selftime;
struct cli_replay_traces;

/* Adds the traces to the graph. Returns NULL after printing an error. */
struct cli_replay_traces *cli_replay_traces_new(struct cli_replay_data *d, struct analyse_graph *g);
void cli_replay_traces_free(struct cli_replay_traces *t); /* accepts NULL */
/* Returns the number of spans with times. */
size_t cli_replay_traces_timed(const struct cli_replay_traces *t);
/* Moves to the first trace that ends after ns. */
void cli_replay_traces_seek(struct cli_replay_traces *t, int64_t ns);
/*
 * Adds the times of the traces up to ns. Pods have the same numbers as in the data. Returns 0 or
 * -ENOMEM.
 */
int cli_replay_traces_until(struct cli_replay_traces *t, struct analyse_selftime *to, int64_t ns);

/*
 * Judges a recording as the collector did, and writes the verdicts. Options that are set override
 * the recorded ones.
 */
struct cli_replay_live_opts {
	const char *detector, *shadow; /* names of detectors; NULL means as recorded */
	double false_alarms;	       /* target rate of false alarms; 0 means as recorded */
	/* model file to use instead of the collector's initial models, or NULL */
	const char *model;
	FILE *verdicts; /* output for the verdicts, or NULL */
};
/* Returns 0, or -1 after printing an error. */
int cli_replay_live(const char *folder, const struct cli_replay_live_opts *opts);

#endif
