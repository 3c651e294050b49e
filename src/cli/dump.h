/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.h - what the parts of 'sidelight dump' share.
 *
 *   cmd_dump.c    the command line; where regions come from: files, processes, an agent
 *   dump_read.c   a snapshot of one region
 *   dump_print.c  a snapshot as text and as JSON
 */
#ifndef SL_CLI_DUMP_H
#define SL_CLI_DUMP_H

#include "region/decode.h"

/*
 * One region, read through a file descriptor by pread(2): a file that shrinks under the reader is
 * a short read and not a SIGBUS.
 */
struct dump {
	const char *source;          /* file name, "pid 12 fd 3", "agent id 7" */
	int fd;
	uint64_t file_size;
	struct sl_region_header header;
	struct sl_region_info info;
	enum sl_fault fault;         /* why it is not believed, or not all of it */
	const char *part;            /* which part that was: "header", "hot line", ... */
	uint64_t fault_at;           /* offset from the start of the region */
	int error;                   /* errno of a READ that failed */

	uint64_t hot_line[8];
	struct sl_hot hot;           /* metrics */
	struct sl_schema schema;
	struct sl_values values;
	uint64_t *flat;              /* schema.cells of them */
	bool *settled;               /* [stripe][line] */
	uint64_t (*raw)[8];          /* [stripe][line], as read last, verified or not */
	uint64_t unsettled;          /* lines that never verified */
	uint64_t retries;            /* that others took */

	struct sl_directory_hot directory;
	struct sl_entry *entries;    /* directory.entries_used of them */
	uint64_t (*entry_lines)[8];
	enum sl_fault *entry_faults;
};

/* Reads all of it. False if something is not as it should be: see fault, or error. */
bool dump_read(struct dump *d, const char *source, int fd);
void dump_free(struct dump *d);

void dump_print_text(const struct dump *d, bool raw_lines);
/* One object on one line. */
void dump_print_json(const struct dump *d, bool raw_lines);
/* "FILE: ok, ..." or "FILE: fault: ..." on one line. */
void dump_print_check(const struct dump *d);

#endif
