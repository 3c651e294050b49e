/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - what every daemon and command needs: log lines, settings from the command line and from
 * YAML, time, signals. Knows nothing of regions, fabrics or HTTP.
 */
#ifndef SL_BASE_BASE_H
#define SL_BASE_BASE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Exit codes of every subcommand. */
#define BASE_EXIT_OK	  0
#define BASE_EXIT_FAILURE 1
#define BASE_EXIT_USAGE	  2 /* unknown option, bad value, bad file of settings */

/* Each argument is evaluated once. Not to be nested. */
#define BASE_MIN(a, b)                  \
	({                              \
		__typeof__(a) a_ = (a); \
		__typeof__(b) b_ = (b); \
		a_ < b_ ? a_ : b_;      \
	})
#define BASE_MAX(a, b)                  \
	({                              \
		__typeof__(a) a_ = (a); \
		__typeof__(b) b_ = (b); \
		a_ > b_ ? a_ : b_;      \
	})

/* ---- log: "LEVEL component: message key=value ..." on stderr, one write(2) per line ---- */

enum base_level { BASE_ERROR = 0, BASE_WARN, BASE_INFO, BASE_DEBUG };
extern enum base_level base_log_level; /* default BASE_INFO */
void base_logf(enum base_level level, const char *component, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* At most one line per second from this call site; the next line counts those left out. */
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

/*
 * Binary search: sets at, a size_t, to the first index in [first, end) for which before, an
 * expression of at, is false.
 */
#define BASE_LOWER_BOUND(at, first, end, before)          \
	do {                                              \
		size_t low_ = (first), high_ = (end);     \
		while (low_ < high_) {                    \
			(at) = low_ + (high_ - low_) / 2; \
			if (before)                       \
				low_ = (at) + 1;          \
			else                              \
				high_ = (at);             \
		}                                         \
		(at) = low_;                              \
	} while (0)

/* ---- errors ---- */

/* Writes one line on an error, which it returns. */
int base_fail(char *why, size_t bytes, int error, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- files ---- */

/*
 * A regular file of at most max bytes, to be freed, with a NUL behind it. NULL with errno: EINVAL,
 * not regular; EFBIG.
 */
char *base_read_file(const char *path, size_t max, size_t *bytes);
/*
 * Opens a file for one process at a time, or makes it with mode 0600; of any type. A descriptor or
 * -errno; -EBUSY: another process has it.
 */
int base_open_locked(const char *path);

#define BASE_FDS_MAX 253 /* of a packet: SCM_MAX_FD of the kernel */
struct base_fds {
	unsigned int count;
	/* MSG_TRUNC: the packet; MSG_CTRUNC: descriptors, for want of room in the process's table
	 */
	int truncated;
	int fd[BASE_FDS_MAX];
};
/*
 * Sends n parts as one packet (of a stream: what the socket takes), with the descriptors, which
 * stay the caller's. Never SIGPIPE. Bytes or -errno; at most 2 GiB.
 */
int base_send_fds(int sock, const struct iovec *parts, size_t n, const int *fds, size_t count,
		  int flags);
/* Receives one packet with all its descriptors. Bytes or -errno. */
ssize_t base_receive_fds(int sock, void *to, size_t bytes, int flags, struct base_fds *fds);

/*
 * Receives one packet, and in *fd the descriptor that came with it, or -1. Bytes or -errno;
 * -EPROTO: truncated, -EMFILE: no room for the descriptor.
 */
ssize_t base_receive_fd(int sock, void *to, size_t bytes, int flags, int *fd);

/*
 * Listens at a unix socket of this type (SOCK_STREAM) and mode, whose folder it makes; replaces one
 * where no server answers. The descriptor does not block. -errno with one line in error:
 * EADDRINUSE, a server answers; EEXIST, not a socket.
 */
int base_listen_unix(const char *path, int type, unsigned int mode, char *error, size_t bytes);
/*
 * Ends one that strangers may connect to. It stays open until the process ends: closing it would
 * close what connections that were not accepted bring, and that may hang (SO_LINGER); at the end of
 * a process, the kernel does not wait. One that the service manager passed goes on listening there.
 */
void base_unlisten_unix(int fd);

/* ---- time ---- */

uint64_t base_now_ns(void);	 /* CLOCK_MONOTONIC */
uint64_t base_realtime_ns(void); /* CLOCK_REALTIME */
/* A condition whose timed waits end by base_now_ns(). */
void base_cond_init(pthread_cond_t *c);

/* ---- parsing: 0, or -EINVAL / -ERANGE ---- */

void base_print_duration(char *out, size_t bytes,
			 uint64_t ns); /* "500us": the largest unit that divides it */
int base_parse_duration(const char *s, uint64_t *ns); /* "250us" "1ms" "1.5s" "2m" "1h", "0" */
int base_parse_size(const char *s, uint64_t *bytes);  /* "4096" "64K" "16M" "1G", binary */
int base_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);
/* "HOST:PORT", ":PORT", "[V6]:PORT"; HOST may be empty. Buffers are host[256]. */
int base_parse_address(const char *s, char *host, size_t host_bytes, uint16_t *port);

/* ---- options: one table for getopt_long, --config YAML, --help ---- */

enum base_option_type {
	BASE_OPT_FLAG,
	BASE_OPT_STRING,
	BASE_OPT_WORD,
	BASE_OPT_LIST,
	BASE_OPT_UINT,
	BASE_OPT_INT,
	BASE_OPT_F64,
	BASE_OPT_DURATION,
	BASE_OPT_SIZE,
};

struct base_strings {
	const char **v;
	size_t n;
};

/* Made by the macros below; a table ends with {0}. */
struct base_option {
	const char *name; /* long option, and the key in YAML */
	char letter;	  /* or 0 */
	enum base_option_type type;
	void *to; /* holds the default at the start, which --help shows */
	size_t bytes;
	const char *argument; /* metavariable in --help: "PATH" */
	const char *help;
	double min, max; /* both 0: unchecked */
};

/* The conditional makes the compiler check the type of the variable. */
#define BASE_OPTION(type_, c_type, name_, letter_, to_, min_, max_, argument_, help_) \
	{                                                                             \
		.name = (name_), .letter = (letter_), .type = (type_),                \
		.to = 1 ? (to_) : (c_type *)NULL, .bytes = sizeof(*(to_)),            \
		.argument = (argument_), .help = (help_), .min = (double)(min_),      \
		.max = (double)(max_)                                                 \
	}
#define BASE_FLAG(name, letter, to, help) \
	BASE_OPTION(BASE_OPT_FLAG, bool, name, letter, to, 0, 0, NULL, help)
/* Strings live as long as the process. */
#define BASE_STRING(name, letter, to, argument, help) \
	BASE_OPTION(BASE_OPT_STRING, const char *, name, letter, to, 0, 0, argument, help)
/* A string that is "" if the option has no value. The next word is the value if it is no option:
 * for commands without operands. */
#define BASE_WORD(name, letter, to, argument, help) \
	BASE_OPTION(BASE_OPT_WORD, const char *, name, letter, to, 0, 0, argument, help)
/* Repeatable; a sequence in YAML. */
#define BASE_LIST(name, letter, to, argument, help) \
	BASE_OPTION(BASE_OPT_LIST, struct base_strings, name, letter, to, 0, 0, argument, help)
/* Into an unsigned integer of any width, which bounds it as well. */
#define BASE_UINT(name, letter, to, min, max, argument, help) \
	BASE_OPTION(BASE_OPT_UINT, typeof(*(to)), name, letter, to, min, max, argument, help)
#define BASE_INT(name, letter, to, min, max, argument, help) \
	BASE_OPTION(BASE_OPT_INT, int32_t, name, letter, to, min, max, argument, help)
#define BASE_F64(name, letter, to, min, max, argument, help) \
	BASE_OPTION(BASE_OPT_F64, double, name, letter, to, min, max, argument, help)
/* Nanoseconds. */
#define BASE_TIME(name, letter, to, min, max, argument, help) \
	BASE_OPTION(BASE_OPT_DURATION, uint64_t, name, letter, to, min, max, argument, help)
/* Bytes. */
#define BASE_SIZE(name, letter, to, min, max, argument, help) \
	BASE_OPTION(BASE_OPT_SIZE, uint64_t, name, letter, to, min, max, argument, help)

struct base_command {
	const char *name;     /* "agent" */
	const char *synopsis; /* "[OPTION]... FILE" */
	const char *summary;  /* one line */
	int (*run)(const struct base_command *self, int argc, char **argv);
};

/*
 * Parses argv[1..] by the table, then --config's file for options that the command line does not
 * set. Adds --help and --config. Returns the index of the first operand, or -1 with *code to exit
 * with: BASE_EXIT_OK after --help, BASE_EXIT_USAGE after one line on stderr. Unknown keys in the
 * file are errors with their line.
 */
int base_options_parse(const struct base_command *cmd, const struct base_option *table, int argc,
		       char **argv, int *code);
/*
 * The arguments that set what the options hold, behind an argv[0] that is NULL, and NULL at the
 * end. They live as long as the process. NULL: out of memory.
 */
char **base_options_print(const struct base_option *table);
/* For a command without operands. False: return *code. */
bool base_options_only(const struct base_command *cmd, const struct base_option *table, int argc,
		       char **argv, int *code);
/* One line on stderr, "sidelight NAME: ...", and returns code. */
int base_complain(const struct base_command *cmd, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define base_usage(cmd, ...)   base_complain(cmd, BASE_EXIT_USAGE, __VA_ARGS__)
#define base_failure(cmd, ...) base_complain(cmd, BASE_EXIT_FAILURE, __VA_ARGS__)

/*
 * For "did you mean": true if candidate is nearer to word than *least, the distance of the best one
 * up to now, which is updated. Start with BASE_NOT_NEAR. A prefix is nearest.
 */
#define BASE_NOT_NEAR UINT_MAX
bool base_nearer(const char *word, const char *candidate, unsigned *least);

/* ---- stopping: SIGTERM, SIGINT and SIGHUP as a file descriptor ---- */

/* Blocks the signals (SIGHUP unless it is ignored, as by nohup) in this and all later threads.
 * Returns a descriptor to poll, or -errno. */
int base_stop_fd(void);
/* Called before base_stop_fd(): SIGHUP asks to read files again, not to stop. Returns a
 * non-blocking signalfd, or -errno. */
int base_reload_fd(void);
/* Waits for a signal, at most timeout_ms (-1: no limit). True if asked to stop. */
bool base_stop_wait(int fd, int timeout_ms);
/* "ready KEY=VALUE ...": one line on stdout, flushed; also sd_notify(READY=1). */
void base_ready(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * The service manager's watchdog (WatchdogSec=): it wants base_alive() this often, half of its
 * time, from the thread that knows that work goes on. 0: it does not watch.
 */
uint64_t base_alive_ns(void);
void base_alive(void);

#endif
