/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.h - the interface between the files of 'sidelight dump', except for kernel tables
 * (remote.h).
 */
#ifndef SL_CLI_DUMP_DUMP_H
#define SL_CLI_DUMP_DUMP_H

#include "base/json.h"
#include "region/spans.h"

/*
 * A region, read from a file descriptor with pread(2): if the file shrinks meanwhile, the result is
 * a short read instead of a SIGBUS.
 */
struct cli_dump {
	const char *source; /* origin of the region: a file name, "pid 12 fd 3" or "agent id 7" */
	int fd;
	uint64_t bytes; /* size of the file */
	struct sl_region_header header;
	struct region_info info;
	enum region_fault fault; /* first fault found */
	const char *part;	 /* location of the fault: "header", "hot line", ... */
	uint64_t fault_at;	 /* offset of the fault from the start of the region */
	int error;		 /* errno of a failed read */

	uint64_t hot_line[8];
	struct region_hot hot; /* hot line of a metrics region */
	struct region_schema schema;
	struct region_values values;
	uint64_t *flat;	    /* values of the metrics; schema.cells elements */
	bool *settled;	    /* [stripe][line]: true if the check word of the line matched */
	uint64_t (*raw)[8]; /* [stripe][line]: the line as last read, valid or not */
	uint64_t unsettled; /* number of lines whose check word never matched */
	uint64_t retries;   /* number of repeated reads because a check word did not match */

	struct cli_dump_ring *ring; /* one span ring per stripe in use; NULL means no spans */
	uint32_t rings;

	struct region_directory_hot directory;
	struct cli_dump_entry *entries; /* directory.entries_used elements */
};

/* An entry of a directory, and its line as last read. */
struct cli_dump_entry {
	uint64_t line[8];
	enum region_fault fault;
	struct region_entry parsed;
};

/* A copy of a span ring. */
struct cli_dump_ring {
	struct region_span_head head;
	bool settled;	/* true if the check word of the ring's head matched */
	uint64_t first; /* number of the first line in the copy */
	/* number of span lines and of root lines in the copy: the most recent ones */
	uint32_t lines, roots;
	uint64_t (*line)[8], (*root)[8];
};

/* spans.c */
bool cli_dump_spans_read(struct cli_dump *d);
void cli_dump_spans_free(struct cli_dump *d);
void cli_dump_spans_text(const struct cli_dump *d);
/* Writes the member "rings". */
void cli_dump_spans_json(struct base_json *j, const struct cli_dump *d);
/* Reads exactly this many bytes. Returns false and sets d->error on failure. Defined in read.c. */
bool cli_dump_read_at(struct cli_dump *d, void *to, uint64_t bytes, uint64_t at);

/* Reads a whole region. Returns false on failure; fault or error then describes it. */
bool cli_dump_read(struct cli_dump *d, const char *source, int fd);
void cli_dump_free(struct cli_dump *d);

/* Formats the error or fault as one line; "" if there is none. Returns out. */
const char *cli_dump_fault(const struct cli_dump *d, char *out, size_t bytes);
void cli_dump_print_text(const struct cli_dump *d, bool raw_lines);
/* Prints one JSON object on one line. */
void cli_dump_print_json(const struct cli_dump *d, bool raw_lines);
/* Prints "FILE: ok, ..." or "FILE: fault: ..." on one line. */
void cli_dump_print_check(const struct cli_dump *d);

#endif
