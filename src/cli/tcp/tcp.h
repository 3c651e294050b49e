/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.h - shared by the verbs of 'sidelight tcp': options, output, the screen, texts. */
#ifndef SL_CLI_TCP_TCP_H
#define SL_CLI_TCP_TCP_H

#include <stdio.h>
#include <termios.h>

#include "cli/common/common.h"
#include "cli/tcp/filter.h"
#include "source/tcp/layer.h"

/* A verb is a command named "tcp VERB"; ../cmd_tcp.c has the list. */

/* The options below, with their defaults. */
extern struct cli_tcp_common {
	bool json, csv, microbpf;
	uint64_t interval_ns; /* between two outputs */
	uint64_t duration_ns; /* 0: until interrupted */
	const char *output;   /* file; NULL: standard output */
	const char *sort;     /* first sort order of the screen; NULL: the verb's */
	int output_error;     /* errno of a failed write */
	uint32_t flows;	      /* room in the table */
	struct tcp_filter filter;
	struct base_strings avoid; /* names of hook types */
} cli_tcp_common;

/* Rows of a table of options: output, and selection of flows. */
#define CLI_TCP_OPTIONS_SHOW                                                                 \
	BASE_FLAG("json", 'j', &cli_tcp_common.json, "print JSON, one object per line"),     \
		BASE_FLAG("csv", 0, &cli_tcp_common.csv,                                     \
			  "print CSV (RFC 4180) with a header line"),                        \
		BASE_TIME("interval", 'i', &cli_tcp_common.interval_ns, 1e6, 3.6e12, "TIME", \
			  "time between two outputs"),                                       \
		BASE_TIME("duration", 'd', &cli_tcp_common.duration_ns, 0, 0, "TIME",        \
			  "end after this time; 0: when interrupted"),                       \
		CLI_TCP_OPTION_OUTPUT
#define CLI_TCP_OPTION_OUTPUT                                      \
	BASE_STRING("output", 'o', &cli_tcp_common.output, "FILE", \
		    "write to FILE instead of standard output")

#define CLI_TCP_OPTIONS_FILTER                                                 \
	CLI_OPTIONS_TCP_FILTER(&cli_tcp_common.filter),                        \
		BASE_UINT("flows", 0, &cli_tcp_common.flows, 64, 1 << 20, "N", \
			  "track at most this many connections")

/* Read by cli_tcp_screen_sort(). */
#define CLI_TCP_OPTION_SORT(names) \
	BASE_STRING("sort", 0, &cli_tcp_common.sort, "BY", "sort text output by " names)

/* Read by cli_tcp_avoid(). */
#define CLI_TCP_OPTION_AVOID                                 \
	BASE_LIST("avoid", 0, &cli_tcp_common.avoid, "TYPE", \
		  "use no hook of this type, as on a kernel without it; repeatable")

/* Sets *types to the types of --avoid, as bits. False after a line on stderr. */
bool cli_tcp_avoid(const struct base_command *cmd, uint32_t *types);

/* Options of tcp_open() from cli_tcp_common. */
struct tcp_opts cli_tcp_opts(void);

/*
 * Checks that at most one of --json, --csv and --format microbpf is given. format: of --format, or
 * NULL for a verb without. False after a line on stderr.
 */
bool cli_tcp_format(const struct base_command *cmd, const char *format);
/* When --duration is over, by base_now_ns(). */
uint64_t cli_tcp_end_ns(void);
/* Reports a failed tcp_open(). A filter that makes no sense is a usage error. */
int cli_tcp_not_opened(const struct base_command *cmd, int err, const char *why);
/* tcp_open() and tcp_attach(); an exit code, after a line on stderr unless BASE_EXIT_OK. */
int cli_tcp_open(const struct base_command *cmd, const struct tcp_opts *opts, struct tcp **tcp);

/* The file of --output, or standard output; NULL after one line on stderr. */
FILE *cli_tcp_output(const struct base_command *cmd);
/* BASE_EXIT_OK, or BASE_EXIT_FAILURE, which cli_tcp_output_end() explains. */
int cli_tcp_flush(FILE *out);
/* Flushes and closes the output. Returns code, or a failure of its own after a line on stderr. */
int cli_tcp_output_end(const struct base_command *cmd, FILE *out, int code);

/* Whether any option selects connections. */
bool cli_tcp_is_filtered(void);
/* A line on stderr after no output, so that an empty table is not taken for an answer. */
void cli_tcp_nothing_seen(const struct base_command *cmd);

/* ---- layers.c ---- */

const char *cli_tcp_role_name(enum sl_role role);
/* Opens the layers with the common filter: an exit code, after a line on stderr if it fails. */
int cli_tcp_layers_open(const struct base_command *self, uint32_t groups,
			struct tcp_layers **layers);
/* The same, delivering records as tcp_layers_trace() does. */
int cli_tcp_layers_trace(const struct base_command *self, uint32_t kinds,
			 void (*record)(void *context, const struct tcp_layer_record *r),
			 void *context, struct tcp_layers **layers);

/* ---- screen.c ---- */

struct cli_tcp_column {
	const char *name;
	uint8_t width; /* characters; the last left-aligned one takes the rest */
	bool left;
	uint8_t drop; /* on a narrow terminal, the highest is left out first; 0: never */
};

/* Keys that are no character. */
enum cli_tcp_key { CLI_TCP_KEY_UP = 0x100, CLI_TCP_KEY_DOWN, CLI_TCP_KEY_OTHER };

/*
 * A table of text, redrawn in place and cut to size if out is a terminal; else printed below the
 * previous one. Between begin and end, print lines by cli_tcp_screen_line() or cells by column. On
 * a terminal for input too, q ends, and < and > change the sort order.
 */
struct cli_tcp_screen {
	const struct base_command *cmd;
	FILE *out;
	bool terminal, keys;
	bool again; /* a key asks for a redraw */
	unsigned int rows, columns, used;
	const char *const *orders; /* sort orders, ended by NULL; or NULL */
	unsigned int order;
	const struct cli_tcp_column *column;
	size_t n, next;	 /* number of columns; the column of the next cell */
	uint32_t shown;	 /* columns, as bits */
	char line[1024]; /* of the cells up to now */
	struct termios was;
	/* Is offered each key first, and returns whether it was for it, which causes a redraw. May
	 * be NULL. */
	bool (*typed)(void *context, int key);
	void *context;
	const char *style; /* of the next line, as SGR parameters: "1;31"; NULL: none */
};
/* Sets the order that --sort names. False after a line on stderr. */
bool cli_tcp_screen_sort(struct cli_tcp_screen *screen, const struct base_command *cmd,
			 const char *by, const char *const *orders);
/* A terminal that is for input, too, is restored also when a signal stops or ends this process. */
void cli_tcp_screen_open(struct cli_tcp_screen *screen, const struct base_command *cmd, FILE *out);
/* Restores the terminal. */
void cli_tcp_screen_close(struct cli_tcp_screen *screen);
/* Waits as base_stop_wait() does, and handles keys; returns false when one came. */
bool cli_tcp_screen_wait(struct cli_tcp_screen *screen, int stop, int ms);
void cli_tcp_screen_begin(struct cli_tcp_screen *screen);
/* Prints a line, given without newline; none below the last row. The text must be safe. */
void cli_tcp_screen_line(struct cli_tcp_screen *screen, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Chooses the columns that fit, and prints their names. columns must stay valid. */
void cli_tcp_screen_columns(struct cli_tcp_screen *screen, const struct cli_tcp_column *columns,
			    size_t n);
/* The cell of the next column, shown or not; the last one ends the line. */
void cli_tcp_screen_cell(struct cli_tcp_screen *screen, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void cli_tcp_screen_end(struct cli_tcp_screen *screen);

/*
 * "ready KEY=VALUE ..." on stderr, as stdout has the rows. Blocks the signals to stop first: one
 * that comes at once stays pending for base_stop_fd().
 */
void cli_tcp_ready(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Opens the screen, says that slots are ready, and calls show() after each interval until the
 * duration is over, a signal comes or q is pressed; the last time with last true. show() returns 0
 * to continue, or an exit code. Returns that, or BASE_EXIT_OK.
 */
int cli_tcp_repeat(const struct base_command *cmd, struct cli_tcp_screen *screen, FILE *out,
		   uint32_t slots, int (*show)(void *context, bool last), void *context);

/* Copies untrusted text, without control characters. */
void cli_tcp_safe(char *out, size_t bytes, const char *text);
#define CLI_TCP_ENDPOINT 64
/*
 * "192.0.2.1:443", "[2001:db8::1]:443"; "*" for a port that is 0; below 0: the address alone.
 * address: IPv4 ones mapped. Returns out.
 */
const char *cli_tcp_endpoint(char out[CLI_TCP_ENDPOINT], const uint8_t address[16], int port);
/* "7.05ms": three digits. Returns out. */
const char *cli_tcp_short_time(char out[16], uint64_t ns);
/* In quotes, for CSV. */
void cli_tcp_csv_text(FILE *out, const char *text);
/* Sets a member to untrusted text; "?" if it is not UTF-8. */
void cli_tcp_json_text(json_t *o, const char *key, const char *text);
/* Sets members to the known names and ids of a container. */
struct tcp_cgroup_identity;
void cli_tcp_json_identity(json_t *o, const struct tcp_cgroup_identity *who);

#endif
