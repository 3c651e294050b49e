/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - a reserved range of addresses in which regions are mapped next to each other. */
#ifndef SL_AGENT_ARENA_H
#define SL_AGENT_ARENA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct agent_region;

/* A block is mapped (perhaps without a region yet) or free. The list is sorted by address. */
struct agent_block {
	char *at;
	uint64_t bytes; /* whole pages */
	bool used;
	struct agent_region *region;
	TAILQ_ENTRY(agent_block) link;
};

struct agent_arena {
	char *at;
	uint64_t bytes;
	/* page size of this machine: 4, 16 or 64 KiB; addresses for mmap() are multiples of it */
	uint64_t page;
	TAILQ_HEAD(agent_block_list, agent_block) blocks;
};

int agent_arena_init(struct agent_arena *a, uint64_t bytes); /* returns 0 or -errno */
void agent_arena_fini(struct agent_arena *a);
/* Reserves room for `bytes` bytes, to be mapped with MAP_FIXED. Returns NULL if there is none. */
struct agent_block *agent_arena_take(struct agent_arena *a, uint64_t bytes);
/* returns the range of a block that is not mapped */
void agent_arena_give(struct agent_arena *a, struct agent_block *b);
void agent_arena_unmap(struct agent_arena *a, void *at);
struct agent_block *agent_arena_at(const struct agent_arena *a, const void *at);

#endif
