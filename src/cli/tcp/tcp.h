/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.h - what the verbs of 'sidelight tcp' share: options, output, the screen. */
#ifndef SL_CLI_TCP_TCP_H
#define SL_CLI_TCP_TCP_H

#include <stdio.h>
#include <termios.h>

#include <jansson.h>

#include "base/base.h"
#include "cli/tcp/filter.h"

/* A verb is a command of its own, named "tcp VERB", in a tcp_VERB.c; cmd_tcp.c has the list. */

/* What the options below set, with its defaults. */
extern struct tcp_common {
	bool json, csv;
	uint64_t interval_ns; /* between two outputs */
	uint64_t duration_ns; /* 0: until interrupted */
	const char *output;   /* a file in place of standard output */
	const char *sort;     /* how the screen is sorted first; NULL: as the verb would */
	int output_error;     /* errno of what could not be written */
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

/* A row for those that sort; tcp_screen_sort() reads it. */
#define TCP_OPTION_SORT(names)                                                                     \
	{.name = "sort",                                                                           \
	 .type = SL_OPT_STRING,                                                                    \
	 .to = &tcp_common.sort,                                                                   \
	 .argument = "BY",                                                                         \
	 .help = "what comes first as text: " names}

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
/* SL_EXIT_OK; or SL_EXIT_FAILURE, of which tcp_output_end() will say why. */
int tcp_flush(FILE *out);
/* Flushes and closes what tcp_output() gave: SL_EXIT_OK, or SL_EXIT_FAILURE after a line on stderr. */
int tcp_output_end(const struct sl_command *cmd, FILE *out);

/* Some option says which connections. */
bool tcp_is_filtered(void);
/* At the end of a verb that had nothing to show: a line on stderr, lest an empty table be taken for an answer. */
void tcp_nothing_seen(const struct sl_command *cmd);

/* ---- tcp_screen.c --------------------------------------------------------------------------------- */

#define TCP_COLUMNS 16

struct tcp_column {
	const char *name;
	uint8_t width; /* characters; of the last one on the left whatever is left */
	bool left;
	uint8_t drop; /* where the terminal is too narrow, the highest is left out first; 0: never */
};

/*
 * A table of text that is drawn again and again in place where out is a terminal, cut to its size;
 * else one under the other. Between begin and end, print lines with tcp_screen_line(), or in columns.
 * On a terminal that can also be read, q ends, and < and > choose how it is sorted.
 */
struct tcp_screen {
	const struct sl_command *cmd;
	FILE *out;
	bool terminal, keys;
	bool again; /* a key wants it to be drawn at once */
	unsigned int rows, columns, used;
	const char *const *orders; /* by what it may be sorted, up to NULL; or NULL */
	unsigned int order;
	const struct tcp_column *column;
	size_t n;
	uint32_t shown; /* columns, as bits */
	struct termios was;
};
/* The order that --sort names, of those. False after a line on stderr. */
bool tcp_screen_sort(struct tcp_screen *screen, const struct sl_command *cmd, const char *by,
		     const char *const *orders);
void tcp_screen_open(struct tcp_screen *screen, const struct sl_command *cmd, FILE *out);
/* The terminal is as it was. */
void tcp_screen_close(struct tcp_screen *screen);
/* Waits as sl_stop_wait() does, and looks at keys; also returns, with false, when one came. */
bool tcp_screen_wait(struct tcp_screen *screen, int stop, int ms);
void tcp_screen_begin(struct tcp_screen *screen);
/* One line without its newline; left out below the last row. Text of strangers must be safe already. */
void tcp_screen_line(struct tcp_screen *screen, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Chooses those that there is room for, and prints their names. They must stay. */
void tcp_screen_columns(struct tcp_screen *screen, const struct tcp_column *columns, size_t n);
/* A line of a text for each column, shown or not. */
void tcp_screen_cells(struct tcp_screen *screen, const char *const *cells);
void tcp_screen_end(struct tcp_screen *screen);

/*
 * "ready KEY=VALUE ..." on stderr, as stdout has the rows. Who reads it may ask to stop at once: from here on that is
 * kept for sl_stop_fd(), and ends nobody unawares.
 */
void tcp_ready(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Calls show() at the end of each interval until the duration is over, a signal or q came; the last
 * time with last true. show() returns 0 to go on, or an exit code. Returns that,
 * or SL_EXIT_OK.
 */
int tcp_repeat(const struct sl_command *cmd, struct tcp_screen *screen,
	       int (*show)(void *context, bool last), void *context);

/* Text of a stranger: in out, nothing of it steers a terminal. */
void tcp_safe(char *out, size_t bytes, const char *text);
/* "192.0.2.1:443", "[2001:db8::1]:443"; "*" for a port that is 0. address: IPv4 ones mapped. */
void tcp_endpoint(char *out, size_t bytes, const uint8_t address[16], uint16_t port);
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
