/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - recorded data for sidelight replay, as rows in memory. Of a folder, only
 * metrics/POD.csv and traces.csv are read.
 */
#ifndef SL_CLI_REPLAY_REPLAY_H
#define SL_CLI_REPLAY_REPLAY_H

#include "analyse/pipeline.h"
#include "base/base.h"

#define REPLAY_PODS_MAX 10000u
#define REPLAY_FILE_MAX (1u << 30)

struct cli_replay_pod {
	char *name;
	char *text; /* the file; names of columns point into it */
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
	uint64_t rows_backwards;  /* not later than the row before, and left out */
	uint64_t clocks_repaired; /* files that took the others' clock */
	uint64_t columns_refused;
};

struct cli_replay_data {
	struct cli_replay_pod *pods;
	uint32_t n_pods;
	struct cli_replay_losses losses;
	int64_t step_ns; /* the median distance of rows */
};

/*
 * 0, or -1 after one line on stderr. live: a recording of sidelight collect, whose rows stay as
 * they are; those of other sources have clocks that need repair.
 */
int cli_replay_load(struct cli_replay_data *d, const char *folder, bool live);
void cli_replay_free(struct cli_replay_data *d);

/* One line on stderr. Returns -1. */
#define cli_replay_say(...) \
	base_complain(&(const struct base_command){.name = "replay"}, -1, __VA_ARGS__)

/* Cuts the next line at *at, without its end; NULL after the last. end must be writable. */
char *cli_replay_line(char **at, const char *end);

struct cli_replay_verdict {
	int64_t unix_ns;
	uint32_t pod;
	float score, suspicion;
	bool anomalous;
};

/*
 * Decides on each trace of the file, and writes trace_id,kept,reason in its order. Verdicts are
 * sorted by time. 0, or -1 after one line on stderr.
 */
int cli_replay_traces(const struct cli_replay_data *d, const char *path,
		      const struct cli_replay_verdict *verdicts, size_t n, double budget,
		      bool latency, FILE *out);

/* The workload that names a pod: "shop" of "shop-7d9fb8c6-x2x9z" and of "shop-0". */
void cli_replay_service(const char *pod, char *service, size_t bytes);

/* A file of spans: spans.c. */
struct analyse_graph;
struct analyse_selftime;
struct cli_replay_spans;

/* Adds its traces to the graph. NULL after one line on stderr. */
struct cli_replay_spans *cli_replay_spans(const struct cli_replay_data *d, struct analyse_graph *g,
					  const char *path);
void cli_replay_spans_free(struct cli_replay_spans *s); /* accepts NULL */
/* The next trace is the first that ends after ns. */
void cli_replay_spans_seek(struct cli_replay_spans *s, int64_t ns);
/* Adds the times of the traces up to ns; pods have the numbers of the data. 0 or -ENOMEM. */
int cli_replay_spans_until(struct cli_replay_spans *s, struct analyse_selftime *to, int64_t ns);
/* Says on stderr what was left out. */
void cli_replay_spans_say(const struct cli_replay_spans *s);

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
bool cli_replay_is_live(const char *folder);
/* 0, or -1 after one line on stderr. */
int cli_replay_live(const char *folder, const struct cli_replay_live_opts *opts);

/* Prints unix seconds, with decimals if there are any. */
void cli_replay_print_time(FILE *out, int64_t ns);

/* The scored rows that would be sent on: sample.c. */
struct cli_replay_sampler;

/* every_ns 0: sends all. Writes CSV to out. NULL with errno ENOMEM. */
struct cli_replay_sampler *cli_replay_sampler_new(const struct cli_replay_data *d,
						  uint64_t every_ns, uint64_t around_ns, FILE *out);
/* Takes the verdict on a row. 0 or -errno. */
int cli_replay_sampler_row(struct cli_replay_sampler *s, uint32_t pod, uint64_t row,
			   const struct analyse_verdict *v);
/* All rows of one moment have been judged. */
void cli_replay_sampler_moment(struct cli_replay_sampler *s);
void cli_replay_sampler_end(struct cli_replay_sampler *s);
void cli_replay_sampler_free(struct cli_replay_sampler *s);

#endif
