/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.h - what the verbs of 'sidelight tcp' share: options, output, the screen. */
#ifndef SL_CLI_TCP_H
#define SL_CLI_TCP_H

#include <stdio.h>

#include <jansson.h>

#include "base/base.h"
#include "cli/tcp_wanted.h"

/* A verb is a command of its own, named "tcp VERB", in a tcp_VERB.c; cmd_tcp.c has the list. */

/* What the options below set, with its defaults. */
extern struct tcp_common {
	bool json, csv;
	uint64_t interval_ns; /* between two outputs */
	uint64_t duration_ns; /* 0: until interrupted */
	const char *output;   /* a file in place of standard output */
	uint32_t flows;       /* room in the table */
	struct sl_tcp_wanted wanted;
	struct sl_strings avoid; /* names of types of hooks */
} tcp_common;

/* Rows of a table of options: how it is shown, and which flows. */
#define TCP_OPTIONS_SHOW                                                                           \
	{.name = "json",                                                                           \
	 .letter = 'j',                                                                            \
	 .type = SL_OPT_FLAG,                                                                      \
	 .to = &tcp_common.json,                                                                   \
	 .help = "print JSON, an object a line"},                                                  \
		{.name = "csv",                                                                    \
		 .type = SL_OPT_FLAG,                                                              \
		 .to = &tcp_common.csv,                                                            \
		 .help = "print CSV (RFC 4180) with a line of names"},                             \
		{.name = "interval",                                                               \
		 .letter = 'i',                                                                    \
		 .type = SL_OPT_DURATION,                                                          \
		 .to = &tcp_common.interval_ns,                                                    \
		 .argument = "TIME",                                                               \
		 .help = "between two outputs",                                                    \
		 .min = 1e6,                                                                       \
		 .max = 3.6e12},                                                                   \
		{.name = "duration",                                                               \
		 .letter = 'd',                                                                    \
		 .type = SL_OPT_DURATION,                                                          \
		 .to = &tcp_common.duration_ns,                                                    \
		 .argument = "TIME",                                                               \
		 .help = "end after that; 0: when interrupted"},                                   \
		{.name = "output",                                                                 \
		 .letter = 'o',                                                                    \
		 .type = SL_OPT_STRING,                                                            \
		 .to = &tcp_common.output,                                                         \
		 .argument = "FILE",                                                               \
		 .help = "write to FILE"}

#define TCP_OPTIONS_WANTED                                                                         \
	SL_OPTIONS_TCP_WANTED(&tcp_common.wanted),                                                 \
		{.name = "flows",                                                                  \
		 .type = SL_OPT_U32,                                                               \
		 .to = &tcp_common.flows,                                                          \
		 .argument = "N",                                                                  \
		 .help = "room for so many connections",                                           \
		 .min = 64,                                                                        \
		 .max = 1 << 20}

/* A row for those that choose hooks; tcp_avoid() reads it. */
#define TCP_OPTION_AVOID                                                                           \
	{.name = "avoid",                                                                          \
	 .type = SL_OPT_LIST,                                                                      \
	 .to = &tcp_common.avoid,                                                                  \
	 .argument = "TYPE",                                                                       \
	 .help = "use no hook of this type, as on a kernel without; may be repeated"}

/* The types of --avoid, as bits, into *types; true, or false after a line on stderr. */
bool tcp_avoid(const struct sl_command *cmd, uint32_t *types);

/* tcp_common as options of sl_tcp_open(). */
struct sl_tcp_options tcp_options(void);

/* "sidelight tcp VERB: what" on stderr; SL_EXIT_FAILURE. */
int tcp_failed(const struct sl_command *cmd, const char *what);
/* Programs that could not be opened, with -errno and a line: a filter that makes no sense was asked wrongly. */
int tcp_not_opened(const struct sl_command *cmd, int err, const char *why);

/* The file of --output, or standard output; NULL after one line on stderr. */
FILE *tcp_output(const struct sl_command *cmd);
/* Flushes and closes what tcp_output() gave: SL_EXIT_OK, or SL_EXIT_FAILURE after a line on stderr. */
int tcp_output_end(const struct sl_command *cmd, FILE *out);

/*
 * A table of text that is drawn again and again in place where out is a terminal, cut to its size;
 * else one under the other. Between begin and end, print lines with tcp_screen_line().
 */
struct tcp_screen {
	FILE *out;
	bool terminal;
	unsigned int rows, columns, used;
};
void tcp_screen_open(struct tcp_screen *screen, FILE *out);
void tcp_screen_begin(struct tcp_screen *screen);
/* One line without its newline; left out below the last row. Text of strangers must be safe already. */
void tcp_screen_line(struct tcp_screen *screen, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void tcp_screen_end(struct tcp_screen *screen);

/*
 * "ready KEY=VALUE ..." on stderr, as stdout has the rows. Who reads it may ask to stop at once: from here on that is
 * kept for sl_stop_fd(), and ends nobody unawares.
 */
void tcp_ready(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Calls show() at the end of each interval until the duration is over or a signal came; the last
 * time with last true. show() returns 0 to go on, or an exit code. Returns that,
 * or SL_EXIT_OK.
 */
int tcp_repeat(const struct sl_command *cmd, int (*show)(void *context, bool last), void *context);

/* Text of a stranger: in out, nothing of it steers a terminal. */
void tcp_safe(char *out, size_t bytes, const char *text);
/* "7.05ms": three digits. */
void tcp_short_time(char out[16], uint64_t ns);
/* In quotes, for CSV. */
void tcp_csv_text(FILE *out, const char *text);
/* Text of a stranger in a JSON object; "?" if it is no UTF-8. */
void tcp_json_text(json_t *o, const char *key, const char *text);
/* The names and ids of a container that are known. */
struct sl_cgroup_identity;
void tcp_json_identity(json_t *o, const struct sl_cgroup_identity *who);

#endif
