/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - kernel tables of an agent on any host, READ one-sided as a collector does. */
#ifndef SL_CLI_COMMON_REMOTE_H
#define SL_CLI_COMMON_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "fabric/fabric.h"
#include "region/decode.h"

struct cli_dump_remote_opts {
	const char *target; /* of fabric_open() */
	const char *device; /* for RDMA; NULL: by route */
	int gid, ib_port;
	const void *secret;
	size_t secret_bytes;
	uint32_t kind; /* SL_REGION_FLOWS and so on; 0: all */
	uint64_t id;   /* of one region; 0: all of the kind */
	bool json;
};

/* Returns an exit code; errors go to stderr. */
int cli_dump_remote(const struct base_command *self, const struct cli_dump_remote_opts *opts);

/* ---- between remote.c, which READs, and kernel.c, which prints ---- */

struct cli_remote {
	struct fabric *fabric;
	struct fabric_remote region;
	void *buffer;
	size_t bytes; /* bytes of the buffer, the longest READ */
	uint64_t reads, retries, unsettled;
	int error;
	uint64_t entries; /* of the directory: offset */
	uint32_t entry_count, entry_next;
};
/* READs at most r->bytes into r->buffer. False: r->error. */
bool cli_remote_read(struct cli_remote *r, uint64_t offset, uint32_t length);

#define CLI_REMOTE_TRIES 200
/* READs until parse, an expression on r->buffer, settles. A fault; that of a READ is MEMORY. */
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
 * Connects to an agent, waiting a while for it, and maps the region of this kind or id that is in
 * use, with its header in r->buffer. NULL, or one line that says why not. Close it in either case.
 */
const char *cli_remote_find(struct cli_remote *r, const struct cli_dump_remote_opts *opts,
			    uint32_t kind);
void cli_remote_close(struct cli_remote *r);

/* Prints the region whose header is in r->buffer. False: r->error, or a line on stderr. */
bool cli_dump_kernel(struct cli_remote *r, bool json);

#endif
