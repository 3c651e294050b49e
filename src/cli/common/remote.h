/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - READs the kernel tables of an agent on any host, one-sided like a collector. */
#ifndef SL_CLI_COMMON_REMOTE_H
#define SL_CLI_COMMON_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "fabric/fabric.h"
#include "region/decode.h"

struct cli_dump_remote_opts {
	const char *target; /* target of fabric_open() */
	struct fabric_opts fabric;
	uint32_t kind; /* kind of table: SL_REGION_FLOWS, ...; 0 means all kinds */
	uint64_t id;   /* ID of the region; 0 means all regions of the kind */
	bool json;
};

/* Prints the tables. Returns an exit code; errors go to stderr. */
int cli_dump_remote(const struct base_command *self, const struct cli_dump_remote_opts *opts);

/* The interface between remote.c, which READs, and kernel.c, which prints */

struct cli_remote {
	struct fabric *fabric;
	struct fabric_remote region;
	void *buffer;
	size_t bytes; /* size of the buffer, which limits the size of a READ */
	uint64_t reads, retries, unsettled;
	int error;
	uint64_t entries; /* offset of the directory's entries */
	uint32_t entry_count, entry_next;
};
/*
 * READs length bytes, at most r->bytes, into r->buffer. Returns false on an error, which is in
 * r->error.
 */
bool cli_remote_read(struct cli_remote *r, uint64_t offset, uint32_t length);

#define CLI_REMOTE_TRIES 200
/*
 * READs until parse, an expression on r->buffer, reports a settled state. Evaluates to an enum
 * region_fault; MEMORY if a READ fails.
 */
#define CLI_REMOTE_SETTLE(r, offset, length, parse)                                         \
	({                                                                                  \
		enum region_fault fault_ = REGION_FAULT_UNSETTLED;                          \
		for (int i_ = 0; i_ < CLI_REMOTE_TRIES && fault_ == REGION_FAULT_UNSETTLED; \
		     i_++) {                                                                \
			(r)->retries += i_ > 0;                                             \
			fault_ = cli_remote_read(r, offset, length) ? (parse)               \
								    : REGION_FAULT_MEMORY;  \
		}                                                                           \
		fault_;                                                                     \
	})

/*
 * Connects to an agent, which may take a while, and maps its region of this kind or ID that is in
 * use. The header is then in r->buffer. Returns NULL or a one-line error. Call cli_remote_close()
 * in either case.
 */
const char *cli_remote_find(struct cli_remote *r, const struct cli_dump_remote_opts *opts,
			    uint32_t kind);
void cli_remote_close(struct cli_remote *r);

/*
 * Prints the region whose header is in r->buffer. Returns false on an error, which is in r->error
 * or already printed.
 */
bool cli_dump_kernel(struct cli_remote *r, bool json);

#endif
