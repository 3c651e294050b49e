/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - options and printing that several commands share. */
#ifndef SL_CLI_COMMON_H
#define SL_CLI_COMMON_H

#include <jansson.h>

#include "base/base.h"

/* Options: where on an RDMA device. by: meaning of index -1. */
#define CLI_OPTIONS_RDMA_PORT(gid_to, port_to, by)                          \
	BASE_INT("gid", 0, gid_to, -1, 255, "INDEX", "GID index; -1: " by), \
		BASE_INT("ib-port", 0, port_to, 1, 255, "N", "port of the RDMA device")

/*
 * Runs the command among n whose name is that of self and argv[1], or shows the help of self. -1:
 * there is none. names: of some, for the message that argv[1] is missing.
 */
int cli_run_kind(const struct base_command *self, const struct base_command *const *kinds, size_t n,
		 const char *names, int argc, char **argv);
/* "probe" of "tcp probe" */
const char *cli_kind_name(const struct base_command *kind);

/*
 * Prints on stdout, padded to width. Text of regions is untrusted: control characters become '?'.
 */
void cli_print_safe(const char *s, int width);

/* The index of word among names, which end with NULL; or -1. */
int cli_choice(const char *word, const char *const *names);
/* --legacy a or b: 1 or 2, as in enum dta_legacy; NULL: 0; else -1. */
int cli_legacy(const char *form);

/* Members of an object: "" or 0 if they are missing or of another type. */
const char *cli_json_text(const json_t *o, const char *key);
json_int_t cli_json_integer(const json_t *o, const char *key);
/* A count of a structure, a uint64_t, and its name in JSON. */
struct cli_count {
	const char *name;
	size_t at;
};
#define CLI_COUNT_AS(name, type, field)            \
	{                                          \
		name, offsetof(struct type, field) \
	}
#define CLI_COUNT(type, field) CLI_COUNT_AS(#field, type, field)
uint64_t cli_count_of(const void *from, const struct cli_count *c);
void cli_json_counts(json_t *to, const void *from, const struct cli_count *counts, size_t n);
/* Prints a document, which it takes over, and a newline. */
void cli_json_print(FILE *out, json_t *j, size_t flags);

#endif
