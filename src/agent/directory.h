/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_AGENT_DIRECTORY_H
#define SL_AGENT_DIRECTORY_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/host.h"

/* Slot of the directory's own entry, used with --rdma. */
#define AGENT_DIRECTORY_SLOT 0u

struct agent;
struct region_tenant;

struct agent_directory {
	int fd; /* read-only descriptor, passed to consumers */
	void *map;
	size_t size;
	uint64_t instance;
	uint64_t hot[8];	/* copy of the hot line in the map */
	uint64_t (*entry)[8];	/* array of entries in the map */
	uint64_t (*tenant)[16]; /* tenant of each entry, in the map */
	uint64_t (*names)[SL_NAMES_SIZE / 8];
	struct fabric_host_key key;
};

int agent_directory_init(struct agent *a, char *error, size_t bytes);
void agent_directory_fini(struct agent *a);
void agent_directory_set(struct agent *a, uint32_t slot, const uint64_t cells[7]);
void agent_directory_tenant(struct agent *a, uint32_t slot, const struct region_tenant *tenant);
void agent_directory_hot(struct agent *a); /* writes the counts of live and refused regions */

#endif
