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

/* 0, or -1 after one line on stderr. */
int cli_replay_load(struct cli_replay_data *d, const char *folder);
void cli_replay_free(struct cli_replay_data *d);

/* One line on stderr. Returns -1. */
#define cli_replay_say(...) \
	base_complain(&(const struct base_command){.name = "replay"}, -1, __VA_ARGS__)

/* Cuts the next line at *at, without its end; NULL after the last. end must be writable. */
char *cli_replay_line(char **at, const char *end);

struct cli_replay_verdict {
	int64_t unix_ns;
	uint32_t pod;
	float score;
	bool anomalous;
};

/*
 * Decides on each trace of the file, and writes trace_id,kept,reason in its order. Verdicts are
 * sorted by time. 0, or -1 after one line on stderr.
 */
int cli_replay_traces(const struct cli_replay_data *d, const char *path,
		      const struct cli_replay_verdict *verdicts, size_t n, double budget,
		      bool latency, FILE *out);

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
