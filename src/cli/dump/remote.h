/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump_remote.h - regions that the kernel writes, out of an agent here or elsewhere, as 'sidelight dump' shows
 * them: READ one-sided, like a collector does.
 */
#ifndef SL_CLI_DUMP_REMOTE_H
#define SL_CLI_DUMP_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"

struct dump_remote_opts {
	const char *target; /* of sl_fabric_open() */
	const char *device; /* for RDMA; NULL: by route */
	int gid, ib_port;
	const char *kind; /* "flows", "layers", "tasks"; NULL: all */
	uint64_t id;	  /* of the region; 0: all of the kind */
	bool json;
};

/* Exit code; what is wrong is said on stderr. */
int dump_remote(const struct dump_remote_opts *opts);

/* ---- between dump_remote.c, which READs, and dump_kernel.c, which prints --------------------------- */

struct remote {
	struct sl_fabric *fabric;
	struct sl_remote region;
	void *buffer;
	size_t bytes; /* of it: what one READ may have */
	uint64_t reads, retries, unsettled;
	int error;
};
/* READs into r->buffer, at most r->bytes. False: r->error. */
bool remote_read(struct remote *r, uint64_t offset, uint32_t length);

/*
 * Connects to an agent, waits for it for a while, and finds the region of this kind, or with this id, that is in
 * use: it is mapped, and its header in r->buffer. False: why[] says it in a line; close it all the same.
 */
bool remote_find(struct remote *r, const struct dump_remote_opts *opts, uint32_t kind, char *why,
		 size_t bytes);
void remote_close(struct remote *r);

/* Prints all of the region, whose header is in r->buffer. False: r->error, or what was said on stderr. */
bool dump_kernel(struct remote *r, bool json);

#endif
