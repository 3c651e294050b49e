/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - a recording of sidelight collect (collect/analysis/record.h) in memory, for sidelight
 * replay
 */
#ifndef SL_CLI_REPLAY_REPLAY_H
#define SL_CLI_REPLAY_REPLAY_H

#include "analyse/pipeline.h"
#include "base/base.h"

#define REPLAY_PODS_MAX 10000u
#define REPLAY_FILE_MAX (1u << 30)

struct cli_replay_pod {
	char *name;
	const char *service; /* NULL: not known */
	char *text;	     /* the file; names of columns point into it */
	struct analyse_column *columns;
	uint32_t n_columns;
	uint64_t rows;
	int64_t *t;	/* unix ns, ascending */
	double *values; /* rows x n_columns, NaN: missing */
};

struct cli_replay_losses {
	uint64_t files_empty;	   /* only a header, or empty */
	uint64_t rows_malformed;   /* wrong number of fields, or no time */
	uint64_t values_malformed; /* not a number; counts as missing */
	uint64_t values_missing;
	uint64_t rows_backwards; /* not later than the row before, and left out */
	uint64_t columns_refused;
};

struct cli_replay_data {
	struct cli_replay_pod *pods;
	uint32_t n_pods;
	struct cli_replay_losses losses;
	int64_t step_ns; /* the median distance of rows */
	char *events;
	char **trace; /* into events: SERVICE:PARENT[:POD:OPERATION:BEGIN_NS:END_NS];... */
	size_t traces;
};

/*
 * 0, or -1 after one line on stderr. live: rows whose time goes backwards stay, and events are left
 * to the caller.
 */
int cli_replay_load(struct cli_replay_data *d, const char *folder, bool live);
void cli_replay_free(struct cli_replay_data *d);

/* One line on stderr. Returns -1. */
#define cli_replay_say(...) \
	base_complain(&(const struct base_command){.name = "replay"}, -1, __VA_ARGS__)

/* Cuts the next line at *at, without its end; NULL after the last. end must be writable. */
char *cli_replay_line(char **at, const char *end);
/* Cuts a line into at most n fields. Returns their number; n + 1: there are more. */
size_t cli_replay_cut(char *line, char **field, size_t n);
/* The text of events.csv. NULL after one line on stderr. */
char *cli_replay_events(const char *folder, size_t *bytes);
/* The pod whose rows are in this file of metrics/, or NULL. */
struct cli_replay_pod *cli_replay_file(const struct cli_replay_data *d, const char *file);

/* The traces of a recording: traces.c. */
struct analyse_graph;
struct analyse_selftime;
struct cli_replay_traces;

/* Adds the traces to the graph. NULL after one line on stderr. */
struct cli_replay_traces *cli_replay_traces_new(struct cli_replay_data *d, struct analyse_graph *g);
void cli_replay_traces_free(struct cli_replay_traces *t); /* accepts NULL */
/* The number of spans with times. */
size_t cli_replay_traces_timed(const struct cli_replay_traces *t);
/* The next trace is the first that ends after ns. */
void cli_replay_traces_seek(struct cli_replay_traces *t, int64_t ns);
/* Adds the times of the traces up to ns; pods have the numbers of the data. 0 or -ENOMEM. */
int cli_replay_traces_until(struct cli_replay_traces *t, struct analyse_selftime *to, int64_t ns);

/*
 * Judges a recording of sidelight collect as the collector did, and writes its verdicts. Options
 * that are set replace the collector's.
 */
struct cli_replay_live_opts {
	const char *detector, *shadow; /* NULL: as recorded */
	double false_alarms;	       /* 0: as recorded */
	const char *model; /* in place of those that the collector began with, or NULL */
	FILE *verdicts;	   /* or NULL */
};
/* 0, or -1 after one line on stderr. */
int cli_replay_live(const char *folder, const struct cli_replay_live_opts *opts);

#endif
