/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.h - the interface between the subcommands of 'sidelight tcp': options, output, screen, text.
 */
#ifndef SL_CLI_TCP_TCP_H
#define SL_CLI_TCP_TCP_H

#include <stdio.h>
#include <termios.h>

#include "cli/common/common.h"
#include "cli/tcp/filter.h"
#include "region/flows.h"
#include "source/tcp/layer.h"

/* A subcommand is a struct base_command named "tcp VERB"; ../cmd_tcp.c lists them. */

/* Values of the options that the subcommands share, with their defaults. */
extern struct cli_tcp_common {
	bool json, csv, microbpf;
	uint64_t interval_ns; /* time between two outputs */
	uint64_t duration_ns; /* time to run; 0 means run until interrupted */
	const char *output;   /* name of the output file; NULL means standard output */
	/* initial sort order of the screen; NULL means the subcommand's default */
	const char *sort;
	int output_error; /* errno of a failed write; 0 if none */
	uint32_t flows;	  /* capacity of the flow table */
	struct tcp_filter filter;
	struct base_strings avoid; /* names of the hook types of --avoid */
} cli_tcp_common;

/* Option rows for the output and the selection of flows. */
#define CLI_TCP_OPTIONS_SHOW                                                                 \
	CLI_TCP_OPTIONS_FORMAT,                                                              \
		BASE_TIME("interval", 'i', &cli_tcp_common.interval_ns, 1e6, 3.6e12, "TIME", \
			  "time between two updates"),                                       \
		CLI_TCP_OPTION_DURATION, CLI_TCP_OPTION_OUTPUT
#define CLI_TCP_OPTIONS_FORMAT                                                           \
	BASE_FLAG("json", 'j', &cli_tcp_common.json, "print JSON, one object per line"), \
		BASE_FLAG("csv", 0, &cli_tcp_common.csv,                                 \
			  "print CSV (RFC 4180) with a header line")
#define CLI_TCP_OPTION_DURATION                                               \
	BASE_TIME("duration", 'd', &cli_tcp_common.duration_ns, 0, 0, "TIME", \
		  "exit after this time; 0: when interrupted")
#define CLI_TCP_OPTION_OUTPUT                                      \
	BASE_STRING("output", 'o', &cli_tcp_common.output, "FILE", \
		    "write to FILE instead of standard output")

#define CLI_TCP_OPTIONS_FILTER                                                 \
	CLI_OPTIONS_TCP_FILTER(&cli_tcp_common.filter),                        \
		BASE_UINT("flows", 0, &cli_tcp_common.flows, 64, 1 << 20, "N", \
			  "track at most this many connections")

/* Option row of --sort; cli_tcp_screen_sort() evaluates it. */
#define CLI_TCP_OPTION_SORT(names) \
	BASE_STRING("sort", 0, &cli_tcp_common.sort, "BY", "sort text output by " names)

/* Option row of --avoid; cli_tcp_avoid() evaluates it. */
#define CLI_TCP_OPTION_AVOID                                 \
	BASE_LIST("avoid", 0, &cli_tcp_common.avoid, "TYPE", \
		  "do not use hooks of this type, as if the kernel had none; repeatable")

/* Sets *types to a bit mask of the hook types of --avoid. Returns false after printing an error. */
bool cli_tcp_avoid(const struct base_command *cmd, uint32_t *types);

/* Returns the options for tcp_open() that cli_tcp_common implies. */
struct tcp_opts cli_tcp_opts(void);

/*
 * Checks that at most one of --json, --csv and --format microbpf is given. format: the value of
 * --format, or NULL if the subcommand has no such option. Returns false after printing an error.
 */
bool cli_tcp_format(const struct base_command *cmd, const char *format);
/* Returns the time, on the clock of base_now_ns(), at which --duration is over. */
uint64_t cli_tcp_end_ns(void);
/* Reports a failure of tcp_open(). An invalid filter is a usage error. Returns an exit code. */
int cli_tcp_not_opened(const struct base_command *cmd, int err, const char *why);
/*
 * Calls tcp_open() and tcp_attach(). Returns an exit code; prints an error unless it is
 * BASE_EXIT_OK.
 */
int cli_tcp_open(const struct base_command *cmd, const struct tcp_opts *opts, struct tcp **tcp);

/* Opens the file of --output, or returns standard output. Returns NULL after printing an error. */
FILE *cli_tcp_output(const struct base_command *cmd);
/*
 * Flushes out. Returns BASE_EXIT_OK or BASE_EXIT_FAILURE; cli_tcp_output_end() prints the reason.
 */
int cli_tcp_flush(FILE *out);
/* Flushes and closes the output. Returns code, or BASE_EXIT_FAILURE after printing an error. */
int cli_tcp_output_end(const struct base_command *cmd, FILE *out, int code);

/* Returns true in the first call only: its caller must print the header. */
bool cli_tcp_first(void);
/* Returns true if any option selects connections. */
bool cli_tcp_is_filtered(void);
/*
 * Prints to stderr that no connection was seen, so that empty output is not mistaken for a result.
 */
void cli_tcp_nothing_seen(const struct base_command *cmd);

const char *cli_tcp_role_name(enum sl_role role);
/*
 * Opens the layers with the common filter, and delivers records like tcp_layers_trace(). Returns an
 * exit code; prints an error on failure.
 */
int cli_tcp_layers_trace(const struct base_command *self, uint32_t kinds,
			 void (*record)(void *context, const struct tcp_layer_record *r),
			 void *context, struct tcp_layers **layers);

struct cli_tcp_column {
	const char *name;
	/* width in characters; the last left-aligned column takes the remaining space */
	uint8_t width;
	bool left;
	/* order of removal on a narrow terminal, highest first; 0 means never removed */
	uint8_t drop;
};

/* Codes of keys that are not characters. */
enum cli_tcp_key {
	CLI_TCP_KEY_UP = 0x100,
	CLI_TCP_KEY_DOWN,
	CLI_TCP_KEY_PAGE_UP,
	CLI_TCP_KEY_PAGE_DOWN,
	CLI_TCP_KEY_HOME,
	CLI_TCP_KEY_END,
	CLI_TCP_KEY_OTHER
};

/* A line of a frame. */
struct cli_tcp_line {
	char *text;
	const char *style;
	/* head: the line stays in place; row: the line must pass the filter */
	bool head, row;
};

#define CLI_TCP_FILTER 64u

/*
 * A text table. On a terminal it is redrawn in place and cut to the terminal's size; otherwise each
 * table is printed below the previous one. Between begin and end, print lines with
 * cli_tcp_screen_line() or cells column by column. If input is a terminal too, keys sort, filter,
 * scroll and pause; see keys.c.
 */
struct cli_tcp_screen {
	const struct base_command *cmd;
	FILE *out;
	bool terminal, keys;
	bool plain; /* set before opening: lines scroll, as if the output were not a terminal */
	bool again; /* a key requested a redraw */
	unsigned int rows, columns, used;
	/* names of the sort orders, NULL-terminated; NULL if there are none */
	const char *const *orders;
	unsigned int order;
	const struct cli_tcp_column *column;
	size_t n, next;	 /* number of columns, and index of the next cell's column */
	uint32_t shown;	 /* bit mask of the visible columns */
	char line[1024]; /* text of the current line so far */
	/* The frame is kept, so that keys can show another part of it without new values. */
	struct cli_tcp_line *frame;
	size_t lines, room, scroll;
	bool columned; /* the frame already has its column names */
	/* state of the keys; typing means that the filter is being edited */
	bool helping, typing, paused;
	char filter[CLI_TCP_FILTER];
	/*
	 * Set by the owner. selects: the owner applies the filter itself, so keys that change it
	 * cause a redraw. help: the owner's keys, one per line, NULL-terminated; NULL if it has
	 * none.
	 */
	bool selects;
	const char *const *help;
	struct termios was;
	/*
	 * Receives each key first, unless the filter is being edited. Returns true if it handled
	 * the key, which causes a redraw. May be NULL.
	 */
	bool (*typed)(void *context, int key);
	void *context;
	/* style of the next line as SGR parameters, such as "1;31"; NULL means plain */
	const char *style;
};
/* Selects the sort order with the name `by`. Returns false after printing an error. */
bool cli_tcp_screen_sort(struct cli_tcp_screen *screen, const struct base_command *cmd,
			 const char *by, const char *const *orders);
/*
 * Opens the screen. If input is a terminal, its settings are restored even if a signal stops or
 * kills this process.
 */
void cli_tcp_screen_open(struct cli_tcp_screen *screen, const struct base_command *cmd, FILE *out);
/* Restores the terminal settings. */
void cli_tcp_screen_close(struct cli_tcp_screen *screen);
/* Waits like base_stop_wait(), and handles keys. Returns false after a key. */
bool cli_tcp_screen_wait(struct cli_tcp_screen *screen, int stop, int ms);
void cli_tcp_screen_begin(struct cli_tcp_screen *screen);
/*
 * Prints a line; fmt has no newline. Lines below the last row are dropped. Escape untrusted text
 * first.
 */
void cli_tcp_screen_line(struct cli_tcp_screen *screen, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Selects the columns that fit and prints their names. columns must stay valid until the end call.
 */
void cli_tcp_screen_columns(struct cli_tcp_screen *screen, const struct cli_tcp_column *columns,
			    size_t n);
/*
 * Sets the cell of the next column; call this for hidden columns too. The last cell ends the line.
 */
void cli_tcp_screen_cell(struct cli_tcp_screen *screen, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void cli_tcp_screen_end(struct cli_tcp_screen *screen);
/* Draws the kept frame again. */
void cli_tcp_screen_draw(struct cli_tcp_screen *screen);

/* What a key requires. */
enum cli_tcp_todo { CLI_TCP_NOTHING, CLI_TCP_DRAW, CLI_TCP_AGAIN, CLI_TCP_QUIT };
/* keys.c: handles a key. */
enum cli_tcp_todo cli_tcp_key_typed(struct cli_tcp_screen *screen, int key);
/* Returns the key that begins at c[*i] of n bytes, and moves *i to its last byte. */
int cli_tcp_key_at(const char *c, ssize_t n, ssize_t *i);
/* Writes the first line of the screen, and the lines of the help. */
void cli_tcp_key_title(const struct cli_tcp_screen *screen, char *out, size_t bytes);
const char *cli_tcp_key_help(const struct cli_tcp_screen *screen, size_t line);

/*
 * Prints "ready KEY=VALUE ..." to stderr, because stdout carries the rows. Blocks the termination
 * signals first, so that an early signal stays pending for base_stop_fd().
 */
void cli_tcp_ready(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Opens the screen, prints the ready line with the number of slots, and calls show() after each
 * interval until the duration is over, a signal arrives or q is pressed. The final call has last
 * set. show() returns 0 to continue, or an exit code. Returns that exit code, or BASE_EXIT_OK.
 */
int cli_tcp_repeat(const struct base_command *cmd, struct cli_tcp_screen *screen, FILE *out,
		   uint32_t slots, int (*show)(void *context, bool last), void *context);

/* Copies untrusted text without its control characters. */
void cli_tcp_safe(char *out, size_t bytes, const char *text);
#define CLI_TCP_ENDPOINT 64
/*
 * Formats "192.0.2.1:443" or "[2001:db8::1]:443". Port 0 is printed as "*"; a negative port is
 * omitted. address: IPv6, or an IPv4-mapped address. Returns out.
 */
const char *cli_tcp_endpoint(char out[CLI_TCP_ENDPOINT], const uint8_t address[16], int port);
/* Formats a time with three digits, such as "7.05ms". Returns out. */
const char *cli_tcp_short_time(char out[16], uint64_t ns);
/* Prints text as a quoted CSV field. */
void cli_tcp_csv_text(FILE *out, const char *text);
/* Sets a member to untrusted text, or to "?" if the text is not valid UTF-8. */
void cli_tcp_json_text(json_t *o, const char *key, const char *text);
/* Sets members for the known names and IDs of a container. */
struct tcp_cgroup_identity;
void cli_tcp_json_identity(json_t *o, const struct tcp_cgroup_identity *who);

/* flows.c: the interface between flows.c, which reads the flow table, and flows_print.c. */

/* Print one flow with every statistic, as JSON or CSV. time_ns: CLOCK_REALTIME of the snapshot. */
void cli_flow_print_json(FILE *out, const struct region_flow *flow, uint64_t time_ns);
void cli_flow_print_csv_head(FILE *out);
void cli_flow_print_csv(FILE *out, const struct region_flow *flow, uint64_t time_ns);
/* Prints a flow as two lines in the format of MicroBPF's tools; prints nothing for a listener. */
void cli_flow_print_microbpf(FILE *out, const struct region_flow *flow);

/* Print a closed connection as one line. */
void cli_flow_print_closed_head(FILE *out);
void cli_flow_print_closed(FILE *out, const struct region_flow *flow, uint64_t time_ns);

/* A flow, and its change since the previous snapshot. */
struct cli_flow_row {
	struct region_flow flow;
	uint64_t sent, received; /* bytes since the previous snapshot */
	uint32_t retrans;
	/*
	 * true if the flow is older than the command and new to this table: the change is unknown
	 */
	bool first;
};
/* Names of the screen's sort orders, NULL-terminated. */
extern const char *const cli_flow_orders[];
/* Draws the screen. Sorts rows in place. */
void cli_flow_print_screen(struct cli_tcp_screen *screen, struct cli_flow_row *rows, size_t count,
			   const struct region_flows_hot *hot, uint64_t ns);

#endif
