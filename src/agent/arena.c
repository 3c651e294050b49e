// SPDX-License-Identifier: Apache-2.0
#include "agent/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNMAPPED MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE

static uint64_t round_to_pages(const struct agent_arena *a, uint64_t bytes)
{
	return (bytes + a->page - 1) & ~(a->page - 1);
}

static struct agent_block *block_new(char *at, uint64_t bytes)
{
	struct agent_block *b = calloc(1, sizeof(*b));

	if (b)
		*b = (struct agent_block){.at = at, .bytes = bytes};
	return b;
}

/* First fit keeps the arena dense, so that regions have neighbours. */
struct agent_block *agent_arena_take(struct agent_arena *a, uint64_t bytes)
{
	struct agent_block *b, *rest;

	bytes = round_to_pages(a, bytes);
	TAILQ_FOREACH(b, &a->blocks, link)
	if (!b->used && b->bytes >= bytes)
		break;
	if (!b)
		return NULL;
	if (b->bytes > bytes) {
		rest = block_new(b->at + bytes, b->bytes - bytes);
		if (!rest)
			return NULL;
		b->bytes = bytes;
		TAILQ_INSERT_AFTER(&a->blocks, b, rest, link);
	}
	b->used = true;
	return b;
}

static void join_blocks(struct agent_arena *a, struct agent_block *one, struct agent_block *next)
{
	if (!one || !next || one->used || next->used)
		return;
	one->bytes += next->bytes;
	TAILQ_REMOVE(&a->blocks, next, link);
	free(next);
}

void agent_arena_give(struct agent_arena *a, struct agent_block *b)
{
	struct agent_block *before = TAILQ_PREV(b, agent_block_list, link);

	b->used = false;
	b->region = NULL;
	join_blocks(a, b, TAILQ_NEXT(b, link));
	join_blocks(a, before, b);
}

struct agent_block *agent_arena_at(const struct agent_arena *a, const void *at)
{
	struct agent_block *b;

	TAILQ_FOREACH(b, &a->blocks, link)
	if (b->at == at)
		return b;
	return NULL;
}

void agent_arena_unmap(struct agent_arena *a, void *at)
{
	struct agent_block *b = agent_arena_at(a, at);

	/* Reserve the range again, so that no other mmap() is placed there. */
	mmap(at, b->bytes, PROT_NONE, UNMAPPED | MAP_FIXED, -1, 0);
	agent_arena_give(a, b);
}

int agent_arena_init(struct agent_arena *a, uint64_t bytes)
{
	struct agent_block *all;

	TAILQ_INIT(&a->blocks);
	a->page = (uint64_t)sysconf(_SC_PAGESIZE);
	a->bytes = round_to_pages(a, bytes);
	a->at = mmap(NULL, a->bytes, PROT_NONE, UNMAPPED, -1, 0);
	all = a->at != MAP_FAILED ? block_new(a->at, a->bytes) : NULL;
	if (!all)
		return -ENOMEM;
	TAILQ_INSERT_HEAD(&a->blocks, all, link);
	return 0;
}

void agent_arena_fini(struct agent_arena *a)
{
	struct agent_block *b;

	while ((b = TAILQ_FIRST(&a->blocks))) {
		TAILQ_REMOVE(&a->blocks, b, link);
		free(b);
	}
	if (a->at != MAP_FAILED)
		munmap(a->at, a->bytes);
}
