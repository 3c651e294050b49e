/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manage.h - parts of Sidelight on this machine and on others, from one file. Everything is done by
 * shell scripts that a host's own sh reads from its standard input: here by running sh, there by
 * ssh. So what runs where differs in nothing else, and a host needs no more than sh, ps's /proc,
 * and the program.
 *
 * What is known of a running part lies on its host, in the file's directory: NAME.pid (process and
 * its start time, so that a number that was given again is nobody's), NAME.out, NAME.err. Hence any
 * later call, also from another shell, knows what is up.
 *
 * One thread. sidelight-manage(1) has the file's format.
 */
#ifndef SL_MANAGE_MANAGE_H
#define SL_MANAGE_MANAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct manage_host {
	const char *name;	/* "local" is always there */
	const char *const *ssh; /* arguments of ssh up to the host; NULL: this machine */
	const char *program;	/* sidelight there */
};

struct manage_part {
	const char *name;
	const struct manage_host *host;
	const char *const *run; /* arguments of the program; ${...} not yet replaced */
	uint64_t ready_ns, stop_ns;
	char *ready;  /* its line "ready KEY=VALUE ...", once it is up */
	bool started; /* by this call */
};

struct manage_step {
	const char *name;
	const struct manage_host *host;
	const char *const *run; /* arguments of the program, or */
	const char *shell;	/* a script, in which $SIDELIGHT is the program */
	uint64_t within_ns, exits, times;
	const char
		*prints; /* extended regular expression that one line must match; NULL: anything */
};

struct manage {
	char *path, *folder; /* of the file */
	const char *name, *directory;
	const char *const *files; /* copied to each host's directory */
	struct manage_host *host;
	struct manage_part *part;
	struct manage_step *test, *bench;
	size_t hosts, parts, tests, benches;
	struct base_yaml *yaml; /* holds the strings */
	void *kept;		/* and this the others */
	FILE *say;		/* what is started and stopped; stdout */
};

/* NULL with one line in error. program: ours, for the local host. */
struct manage *manage_read(const char *path, const char *program, char *error, size_t error_bytes);
void manage_free(struct manage *m);

/* What a script did. Free the texts. */
struct manage_result {
	int code; /* its exit code; -1: it could not be run, was killed or took too long: see why */
	char *out, *err; /* at most 1 MiB each; cut is set if there was more */
	bool cut;
	double seconds;
	char why[160];
};
/* Runs a script on a host for so long at most; interrupted by stop_fd (readable), too, if that is
 * >= 0. */
void manage_script(const struct manage_host *host, const char *script, uint64_t timeout_ns,
		   int stop_fd, struct manage_result *out);
void manage_result_free(struct manage_result *r);

/* A script that is written piece by piece. */
struct manage_text {
	char *text;
	size_t bytes;
	FILE *f;
};
bool manage_text_open(struct manage_text *t);
char *manage_text_close(struct manage_text *t); /* to be freed; NULL for want of memory */
/* One word in single quotes, whatever it holds. */
void manage_quote(FILE *f, const char *word);
/* The same, with ${PART.KEY} and ${directory} replaced; false with a line in error. */
bool manage_quote_filled(FILE *f, const struct manage *m, const char *word, char *error,
			 size_t error_bytes);

/* Each prints what it does, and returns an exit code. */
int manage_up(struct manage *m, int stop_fd);
int manage_down(struct manage *m, bool keep);
int manage_status(struct manage *m, bool json);
/* The steps, one after the other; what: "test" or "bench". */
int manage_steps(struct manage *m, const char *what, int stop_fd, bool json);

/* Fills in part->ready of those that are up; returns how many are. Complains of hosts that do not
 * answer. */
size_t manage_look(struct manage *m, bool *unreachable);

#endif
