/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - common code of daemons and commands: log lines, settings from the command line and from
 * YAML, time, signals. Independent of regions, fabrics and HTTP.
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
#define BASE_EXIT_USAGE	  2 /* unknown option, bad value, bad settings file */

/* Evaluates each argument once. Cannot be nested. */
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
/* Logs at most one line per second from this call site, with the number of suppressed lines. */
#define base_log_limited(level, component, ...)                   \
	do {                                                      \
		static struct base_log_limit limit_;              \
		if (base_log_allow(&limit_))                      \
			base_logf(level, component, __VA_ARGS__); \
	} while (0)
/*
 * Logs at most one line per second about each subject, a string such as a file or a host. Use it
 * for lines that name their subject, so that lines about one do not suppress those about another.
 */
#define base_log_each(level, component, subject, ...)             \
	do {                                                      \
		static struct base_log_limits limits_;            \
		if (base_log_allow_each(&limits_, subject))       \
			base_logf(level, component, __VA_ARGS__); \
	} while (0)
struct base_log_limit {
	uint64_t last_ns;
	uint64_t suppressed;
};
/* maximum number of subjects; a new one is not logged until another has been silent for a second */
#define BASE_LOG_SUBJECTS 1024u
struct base_log_limits {
	uint32_t used;
	struct base_log_subject {
		uint64_t hash;
		struct base_log_limit limit;
	} of[BASE_LOG_SUBJECTS];
};
bool base_log_allow(struct base_log_limit *limit);
bool base_log_allow_each(struct base_log_limits *limits, const char *subject);

/* ---- arithmetic ---- */

/*
 * Binary search: sets at, a size_t, to the first index in [first, end) for which `before`, an
 * expression that uses at, is false.
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

/* Formats one line into why. Returns error. */
int base_fail(char *why, size_t bytes, int error, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- files ---- */

/*
 * Reads a regular file of at most max bytes and appends a NUL. The caller frees the result. On
 * failure returns NULL with errno: EINVAL if it is not a regular file, EFBIG if it is larger.
 */
char *base_read_file(const char *path, size_t max, size_t *bytes) __attribute__((nonnull));
/*
 * Opens a regular file of this user for exclusive use by one process, creating it if necessary, and
 * makes its mode 0600. Returns a descriptor or -errno: -EBUSY if another process has it open;
 * -EPERM if it belongs to another user, who could change it at any time.
 */
int base_open_locked(const char *path);
/* Returns why base_open_locked() refused a file, as text to follow "PATH: ". */
const char *base_open_locked_error(int err);
/*
 * Creates an empty file of mode 0600 in place of any file or link at path. Write it, then rename
 * it. Returns NULL with errno set on failure.
 */
FILE *base_create_file(const char *path);

#define BASE_FDS_MAX 253 /* maximum per packet: SCM_MAX_FD of the kernel */
struct base_fds {
	unsigned int count;
	/*
	 * MSG_TRUNC if the packet was truncated; MSG_CTRUNC if descriptors were lost because the
	 * process's table is full
	 */
	int truncated;
	int fd[BASE_FDS_MAX];
};
/*
 * Sends n parts as one packet (on a stream socket, as much as the socket accepts), with
 * descriptors, which the caller keeps. Never raises SIGPIPE. Returns bytes or -errno; at most 2
 * GiB.
 */
int base_send_fds(int sock, const struct iovec *parts, size_t n, const int *fds, size_t count,
		  int flags);
/* Receives one packet with all its descriptors. Returns bytes or -errno. */
ssize_t base_receive_fds(int sock, void *to, size_t bytes, int flags, struct base_fds *fds);

/*
 * Receives one packet, and stores its descriptor, or -1, in *fd. Returns bytes or -errno: -EPROTO
 * if the packet was truncated; -EMFILE if the process has no free descriptor.
 */
ssize_t base_receive_fd(int sock, void *to, size_t bytes, int flags, int *fd);

/*
 * Listens on a unix socket of the given type (SOCK_STREAM) and mode, creating its directory.
 * Replaces a socket that no server listens on. The descriptor is non-blocking. Returns -errno with
 * one line in error: EADDRINUSE if a server listens, EEXIST if the path is not a socket.
 */
int base_listen_unix(const char *path, int type, unsigned int mode, char *error, size_t bytes);
/*
 * Removes a listening socket that untrusted processes may connect to. The descriptor stays open
 * until the process exits: closing it would also close descriptors in pending connections, which
 * may block (SO_LINGER); at process exit the kernel does not wait. If the service manager passed
 * the socket, the service manager keeps it listening.
 */
void base_unlisten_unix(int fd);

/* ---- time ---- */

uint64_t base_now_ns(void);	 /* CLOCK_MONOTONIC */
uint64_t base_realtime_ns(void); /* CLOCK_REALTIME */
/*
 * A condition variable whose timed waits use the clock of base_now_ns(): setting the time of day
 * neither shortens nor prolongs them. base_cond_wait() waits until ns by that clock, and returns
 * false if that time has passed.
 */
void base_cond_init(pthread_cond_t *c);
bool base_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t ns);

/* ---- parsing: return 0, -EINVAL or -ERANGE ---- */

void base_print_duration(char *out, size_t bytes,
			 uint64_t ns); /* such as "500us", in the largest unit that divides it */
/*
 * Examples: "250us" "1ms" "1.5s" "2m" "1h", "0". Values above INT64_MAX ns are refused, so that
 * adding a duration to a time cannot overflow 64 bits.
 */
int base_parse_duration(const char *s, uint64_t *ns);
/* examples: "4096" "64K" "16M" "1G", with binary prefixes */
int base_parse_size(const char *s, uint64_t *bytes);
int base_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);
/* Parses "HOST:PORT", ":PORT" or "[V6]:PORT"; HOST may be empty. Buffers are host[256]. */
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
	BASE_OPT_PART, /* not an option: BASE_PART() */
};

struct base_strings {
	const char **v;
	size_t n;
};

/* Use the macros below to define an option; a table ends with {0}. */
struct base_option {
	const char *name; /* long option, also the key in YAML */
	char letter;	  /* short option, or 0 */
	enum base_option_type type;
	void *to; /* variable to set; --help shows its initial value as the default */
	size_t bytes;
	const char *argument; /* placeholder of the value in --help: "PATH" */
	const char *help;
	double min, max; /* range of the value; both 0 means unchecked */
	/*
	 * set by base_options_parse(): the part that the option belongs to; NULL if every build has
	 * it
	 */
	const struct base_option *part;
};

/*
 * Begins the option rows of a part of the program; they end at the next such row. words: the part's
 * name; option: its meson option; present: whether this build has it. If not, --help omits the
 * part's options, and using one is an error that explains this. BASE_CORE begins rows that every
 * build has.
 */
#define BASE_PART(words, option, present)                                                      \
	{                                                                                      \
		.name = (words), .type = BASE_OPT_PART, .argument = (option), .max = (present) \
	}
#define BASE_CORE BASE_PART("", NULL, 1)

/* The conditional expression lets the compiler check the type of the variable. */
#define BASE_OPTION(type_, c_type, name_, letter_, to_, min_, max_, argument_, help_) \
	{                                                                             \
		.name = (name_), .letter = (letter_), .type = (type_),                \
		.to = 1 ? (to_) : (c_type *)NULL, .bytes = sizeof(*(to_)),            \
		.argument = (argument_), .help = (help_), .min = (double)(min_),      \
		.max = (double)(max_)                                                 \
	}
#define BASE_FLAG(name, letter, to, help) \
	BASE_OPTION(BASE_OPT_FLAG, bool, name, letter, to, 0, 0, NULL, help)
/* The string lives as long as the process. */
#define BASE_STRING(name, letter, to, argument, help) \
	BASE_OPTION(BASE_OPT_STRING, const char *, name, letter, to, 0, 0, argument, help)
/*
 * A string that is "" if the option has no value. The next word is the value unless it is an
 * option, so use this only in commands without operands.
 */
#define BASE_WORD(name, letter, to, argument, help) \
	BASE_OPTION(BASE_OPT_WORD, const char *, name, letter, to, 0, 0, argument, help)
/* A repeatable option; in YAML, a sequence. */
#define BASE_LIST(name, letter, to, argument, help) \
	BASE_OPTION(BASE_OPT_LIST, struct base_strings, name, letter, to, 0, 0, argument, help)
/* An unsigned integer of any width; its type also bounds the value. */
#define BASE_UINT(name, letter, to, min, max, argument, help) \
	BASE_OPTION(BASE_OPT_UINT, typeof(*(to)), name, letter, to, min, max, argument, help)
#define BASE_INT(name, letter, to, min, max, argument, help) \
	BASE_OPTION(BASE_OPT_INT, int32_t, name, letter, to, min, max, argument, help)
#define BASE_F64(name, letter, to, min, max, argument, help) \
	BASE_OPTION(BASE_OPT_F64, double, name, letter, to, min, max, argument, help)
/* A duration in nanoseconds. */
#define BASE_TIME(name, letter, to, min, max, argument, help) \
	BASE_OPTION(BASE_OPT_DURATION, uint64_t, name, letter, to, min, max, argument, help)
/* A size in bytes. */
#define BASE_SIZE(name, letter, to, min, max, argument, help) \
	BASE_OPTION(BASE_OPT_SIZE, uint64_t, name, letter, to, min, max, argument, help)

struct base_command {
	const char *name;     /* "agent" */
	const char *synopsis; /* example: "[OPTION]... FILE" */
	const char *summary;  /* one line */
	int (*run)(const struct base_command *self, int argc, char **argv);
};

/*
 * Parses argv[1..] according to the table, then the --config file for options that the command line
 * does not set. Adds --help and --config. Returns the index of the first operand, or -1 with the
 * exit code in *code: BASE_EXIT_OK after --help, BASE_EXIT_USAGE after one line on stderr. Unknown
 * keys in the file are errors, reported with their line.
 */
int base_options_parse(const struct base_command *cmd, const struct base_option *table, int argc,
		       char **argv, int *code);
/*
 * Returns the arguments that give the options their current values. The array is NULL-terminated
 * and argv[0] is left NULL for the caller to set. The arguments are never freed. Returns NULL if
 * out of memory.
 */
char **base_options_print(const struct base_option *table);
/* For commands without operands. If this returns false, the command must return *code. */
bool base_options_only(const struct base_command *cmd, const struct base_option *table, int argc,
		       char **argv, int *code);
/* Prints one line to stderr, "sidelight NAME: ...", and returns code. */
int base_complain(const struct base_command *cmd, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define base_usage(cmd, ...)   base_complain(cmd, BASE_EXIT_USAGE, __VA_ARGS__)
#define base_failure(cmd, ...) base_complain(cmd, BASE_EXIT_FAILURE, __VA_ARGS__)

/*
 * For "did you mean": returns true if candidate is closer to word than *least, the smallest
 * distance so far, and updates it. Start with BASE_NOT_NEAR. A prefix is closest.
 */
#define BASE_NOT_NEAR UINT_MAX
bool base_nearer(const char *word, const char *candidate, unsigned *least);

/* ---- stopping: SIGTERM, SIGINT and SIGHUP as a file descriptor ---- */

/*
 * Blocks the signals (SIGHUP unless it is ignored, as under nohup) in this and all later threads.
 * Returns a descriptor to poll, or -errno.
 */
int base_stop_fd(void);
/*
 * Call before base_stop_fd(): SIGHUP then means to reload files instead of stopping. Returns a
 * non-blocking signalfd, or -errno.
 */
int base_reload_fd(void);
/* Waits at most timeout_ms for a signal (-1 means no limit). Returns true if asked to stop. */
bool base_stop_wait(int fd, int timeout_ms);
/* Prints one line "ready KEY=VALUE ..." to stdout, and notifies the service manager. */
void base_ready(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * Sends a state of sd_notify(3) and a descriptor, or -1, to the service manager. Returns a positive
 * number if it was sent, 0 if there is no service manager, or -errno.
 */
int base_notify(const char *state, int fd);
/*
 * The service manager's watchdog (WatchdogSec=). The thread that knows that work makes progress
 * must call base_alive() at this interval, which is half the watchdog's interval. 0 means that
 * there is no watchdog.
 */
uint64_t base_alive_ns(void);
void base_alive(void);

/*
 * Finds a program of this installation by its file name, such as "sidelight-agent": first in the
 * folder of the running program, as in a build folder; then where "make install" puts programs,
 * relative to that folder; then in the configured folders. Returns 0, or -ENOENT if it is not
 * installed.
 */
int base_program_find(const char *name, char path[PATH_MAX]);

#endif
