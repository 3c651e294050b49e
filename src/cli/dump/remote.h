/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli_dump_remote.h - regions that the kernel writes, out of an agent here or elsewhere, as
 * 'sidelight dump' shows them: READ one-sided, like a collector does.
 */
#ifndef SL_CLI_DUMP_REMOTE_H
#define SL_CLI_DUMP_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"

struct cli_dump_remote_opts {
	const char *target; /* of fabric_open() */
	const char *device; /* for RDMA; NULL: by route */
	int gid, ib_port;
	const char *kind; /* "flows", "layers", "tasks"; NULL: all */
	uint64_t id;	  /* of the region; 0: all of the kind */
	bool json;
};

/* Exit code; what is wrong is said on stderr. */
int cli_dump_remote(const struct cli_dump_remote_opts *opts);

/* ---- between cli_dump_remote.c, which READs, and cli_dump_kernel.c, which prints ---- */

struct cli_remote {
	struct fabric *fabric;
	struct fabric_remote region;
	void *buffer;
	size_t bytes; /* of it: what one READ may have */
	uint64_t reads, retries, unsettled;
	int error;
};
/* READs into r->buffer, at most r->bytes. False: r->error. */
bool cli_remote_read(struct cli_remote *r, uint64_t offset, uint32_t length);

/*
 * Connects to an agent, waits for it for a while, and finds the region of this kind, or with this
 * id, that is in use: it is mapped, and its header in r->buffer. False: why[] says it in a line;
 * close it all the same.
 */
bool cli_remote_find(struct cli_remote *r, const struct cli_dump_remote_opts *opts, uint32_t kind,
		     char *why, size_t bytes);
void cli_remote_close(struct cli_remote *r);

/* Prints all of the region, whose header is in r->buffer. False: r->error, or what was said on
 * stderr. */
bool cli_dump_kernel(struct cli_remote *r, bool json);

#endif
