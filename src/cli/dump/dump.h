/* SPDX-License-Identifier: Apache-2.0 */
/* dump.h - what the parts of 'sidelight dump' share but for kernel tables (remote.h). */
#ifndef SL_CLI_DUMP_DUMP_H
#define SL_CLI_DUMP_DUMP_H

#include "base/json.h"
#include "region/spans.h"

/*
 * One region, read through a file descriptor by pread(2): a file that shrinks under the reader is
 * a short read and not a SIGBUS.
 */
struct cli_dump {
	const char *source; /* file name, "pid 12 fd 3", "agent id 7" */
	int fd;
	uint64_t bytes; /* of the file */
	struct sl_region_header header;
	struct region_info info;
	enum region_fault fault; /* the first fault found */
	const char *part;	 /* of the fault: "header", "hot line", ... */
	uint64_t fault_at;	 /* offset from the start of the region */
	int error;		 /* errno of a READ that failed */

	uint64_t hot_line[8];
	struct region_hot hot; /* metrics */
	struct region_schema schema;
	struct region_values values;
	uint64_t *flat;	    /* schema.cells of them */
	bool *settled;	    /* [stripe][line] */
	uint64_t (*raw)[8]; /* [stripe][line], as read last, verified or not */
	uint64_t unsettled; /* lines whose check word never matched */
	uint64_t retries;   /* reads repeated for other lines */

	struct cli_dump_ring *ring; /* one per stripe in use; NULL: no spans */
	uint32_t rings;

	struct region_directory_hot directory;
	struct region_entry *entries; /* directory.entries_used of them */
	uint64_t (*entry_lines)[8];
	enum region_fault *entry_faults;
};

/* A ring of spans, read once. */
struct cli_dump_ring {
	struct region_span_head head;
	bool settled;	       /* the head */
	uint64_t first;	       /* number of the first line that was read */
	uint32_t lines, roots; /* the last ones, as many as were read */
	uint64_t (*line)[8], (*root)[8];
};

/* spans.c */
bool cli_dump_spans_read(struct cli_dump *d);
void cli_dump_spans_free(struct cli_dump *d);
void cli_dump_spans_text(const struct cli_dump *d);
/* The member "rings". */
void cli_dump_spans_json(struct base_json *j, const struct cli_dump *d);
/* read.c: all of it, or false with d->error. */
bool cli_dump_read_at(struct cli_dump *d, void *to, uint64_t bytes, uint64_t at);

/* Reads all of a region. False: see fault or error. */
bool cli_dump_read(struct cli_dump *d, const char *source, int fd);
void cli_dump_free(struct cli_dump *d);

/* The error or the fault in one line; "" if there is neither. */
const char *cli_dump_fault(const struct cli_dump *d, char *out, size_t bytes);
void cli_dump_print_text(const struct cli_dump *d, bool raw_lines);
/* One object on one line. */
void cli_dump_print_json(const struct cli_dump *d, bool raw_lines);
/* "FILE: ok, ..." or "FILE: fault: ..." on one line. */
void cli_dump_print_check(const struct cli_dump *d);

#endif
