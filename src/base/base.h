/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - what every daemon and command needs and no metric: log lines, settings from the
 * command line and from YAML, time, sizes. Knows nothing of regions, fabrics or HTTP.
 */
#ifndef SL_BASE_BASE_H
#define SL_BASE_BASE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes of every subcommand. */
#define BASE_EXIT_OK	  0
#define BASE_EXIT_FAILURE 1 /* it was asked rightly, and could not */
#define BASE_EXIT_USAGE	  2 /* it was asked wrongly: unknown option, bad value */

/* ---- log: "LEVEL component: message key=value ..." on stderr, one write(2) a line ---- */

enum base_level { BASE_ERROR = 0, BASE_WARN, BASE_INFO, BASE_DEBUG };
extern enum base_level base_log_level; /* default BASE_INFO */
void base_logf(enum base_level level, const char *component, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* At most one line a second from this place; says how many were left out. */
#define base_log_limited(level, component, ...)                   \
	do {                                                      \
		static struct base_log_limit limit_;              \
		if (base_log_allow(&limit_))                      \
			base_logf(level, component, __VA_ARGS__); \
	} while (0)
struct base_log_limit {
	uint64_t last_ns;
	uint64_t suppressed;
};
bool base_log_allow(struct base_log_limit *limit);

/* ---- arithmetic ---- */

#define BASE_MIN(a, b) ((a) < (b) ? (a) : (b))
#define BASE_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- time ---- */

uint64_t base_now_ns(void);	 /* CLOCK_MONOTONIC */
uint64_t base_realtime_ns(void); /* CLOCK_REALTIME */

/* ---- parsing: 0, or -EINVAL / -ERANGE ---- */

void base_print_duration(char *out, size_t bytes, uint64_t ns); /* "500us", as one would write it */
int base_parse_duration(const char *s, uint64_t *ns); /* "250us" "1ms" "1.5s" "2m" "1h", "0" */
int base_parse_size(const char *s, uint64_t *bytes);  /* "4096" "64K" "16M" "1G", binary */
int base_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);
/* "HOST:PORT", ":PORT", "[V6]:PORT"; HOST may be empty. Buffers are host[256]. */
int base_parse_address(const char *s, char *host, size_t host_bytes, uint16_t *port);

/* ---- options: one table for getopt_long, --config YAML, --help ---- */

enum base_option_type {
	BASE_OPT_FLAG,	 /* bool */
	BASE_OPT_STRING, /* const char * (owned by the table's arena) */
	BASE_OPT_WORD,	 /* const char *: "" if it is given without a value. The next word is the
			  * value   if it is no option: for commands without operands */
	BASE_OPT_LIST,	 /* struct base_strings: repeatable, YAML sequence */
	BASE_OPT_U32,
	BASE_OPT_U64,
	BASE_OPT_I32,
	BASE_OPT_F64,
	BASE_OPT_DURATION, /* uint64_t nanoseconds */
	BASE_OPT_SIZE,	   /* uint64_t bytes */
};

struct base_strings {
	const char **v;
	size_t n;
};

struct base_option {
	const char *name; /* long option, and the key in YAML */
	char letter;	  /* or 0 */
	enum base_option_type type;
	void *to;	      /* holds the default at the start */
	const char *argument; /* metavariable in --help: "PATH" */
	const char *help;
	double min, max; /* numbers; both 0: unchecked */
};

struct base_command {
	const char *name;     /* "agent" */
	const char *synopsis; /* "[OPTION]... FILE" */
	const char *summary;  /* one line */
	int (*run)(const struct base_command *self, int argc, char **argv);
};

/*
 * Parses argv[1..] by the table (ended by a zero name), then --config's file for what the command
 * line did not say. --help (prints, returns BASE_HELP_SHOWN) and --config are added by itself.
 * Returns the index of the first operand, or BASE_HELP_SHOWN, or BASE_USAGE_ERROR after one clear
 * line on stderr. Unknown keys in the file are errors with their line.
 */
#define BASE_HELP_SHOWN	 -1
#define BASE_USAGE_ERROR -2
int base_options_parse(const struct base_command *cmd, const struct base_option *table, int argc,
		       char **argv);
/*
 * The same for a command that takes no operands. True: go on. False: return *code, as there was
 * help to show, or something wrong that was said.
 */
bool base_options_only(const struct base_command *cmd, const struct base_option *table, int argc,
		       char **argv, int *code);
/* One line on stderr, "sidelight NAME: ...", and returns BASE_EXIT_USAGE. */
int base_usage(const struct base_command *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Looks for the word that was meant: true if candidate is nearer to word than what was seen before,
 * whose distance is in *least; that starts with BASE_NOT_NEAR. The beginning of a word is nearest.
 */
#define BASE_NOT_NEAR UINT_MAX
bool base_nearer(const char *word, const char *candidate, unsigned *least);

/* ---- stopping: SIGTERM, SIGINT and SIGHUP as a file descriptor ---- */

/* Blocks the signals (SIGHUP unless it is ignored, as by nohup) in this and all later threads; poll
 * the descriptor. -errno on failure. */
int base_stop_fd(void);
/*
 * Before it: SIGHUP asks for something else than to stop, namely to read files again. A descriptor
 * that gives a struct signalfd_siginfo for it, without waiting. -errno on failure.
 */
int base_reload_fd(void);
/* Waits until one comes or timeout_ms went by (-1: for ever). True if asked to stop. */
bool base_stop_wait(int fd, int timeout_ms);
/* "ready KEY=VALUE ...": one line on stdout, flushed; also sd_notify(READY=1). */
void base_ready(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
