/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - a reserved range of addresses, in which regions are mapped next to each other. */
#ifndef SL_AGENT_ARENA_H
#define SL_AGENT_ARENA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct agent_region;

/* Mapped (perhaps without a region yet) or free; the list is sorted by address. */
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
	uint64_t page; /* of this machine: 4, 16 or 64 KiB; mmap() takes no other address */
	TAILQ_HEAD(agent_block_list, agent_block) blocks;
};

int agent_arena_init(struct agent_arena *a, uint64_t bytes); /* 0 or -errno */
void agent_arena_fini(struct agent_arena *a);
/* Room for that many bytes, to be mapped there by MAP_FIXED; NULL: none. */
struct agent_block *agent_arena_take(struct agent_arena *a, uint64_t bytes);
void agent_arena_give(struct agent_arena *a, struct agent_block *b); /* not mapped */
void agent_arena_unmap(struct agent_arena *a, void *at);
struct agent_block *agent_arena_at(const struct agent_arena *a, const void *at);

#endif
