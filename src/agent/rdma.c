// SPDX-License-Identifier: Apache-2.0
/* rdma.c - where regions are mapped, and how they are registered for remote reading. */
#include <errno.h>
#include <jansson.h>
#include <sys/mman.h>

#include "agent/internal.h"

int rdma_init(struct sl_agent *a, char *error, size_t bytes)
{
	(void)a;
	(void)error;
	(void)bytes;
	return 0;
}

void rdma_fini(struct sl_agent *a)
{
	(void)a;
}

void *rdma_map(struct sl_agent *a, int fd, uint64_t size)
{
	(void)a;
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

void rdma_unmap(struct sl_agent *a, void *map, uint64_t size)
{
	(void)a;
	munmap(map, size);
}

int rdma_add(struct sl_agent *a, struct region *r)
{
	(void)a;
	(void)r;
	return 0;
}

void rdma_remove(struct sl_agent *a, struct region *r)
{
	(void)a;
	(void)r;
}

void rdma_where(const struct sl_agent *a, const struct region *r, uint64_t *addr, uint32_t *rkey)
{
	(void)a;
	(void)r;
	*addr = 0;
	*rkey = 0;
}

void rdma_event(struct sl_agent *a)
{
	(void)a;
}

void rdma_timer_settle(struct sl_agent *a, struct timer *t)
{
	(void)a;
	(void)t;
}

void rdma_timer_release(struct sl_agent *a, struct timer *t)
{
	(void)a;
	(void)t;
}

const char *sl_agent_rdma(const struct sl_agent *a)
{
	(void)a;
	return NULL;
}

json_t *rdma_queues_json(const struct sl_agent *a, int64_t number)
{
	(void)a;
	return number < 0 ? json_pack("{s:b,s:[]}", "rdma", 0, "qps") : NULL;
}

json_t *rdma_connect_json(const struct sl_agent *a)
{
	(void)a;
	return json_null();
}

json_t *rdma_directory_json(const struct sl_agent *a)
{
	return json_pack("{s:I,s:I,s:I}", "address", (json_int_t)0, "length",
			 (json_int_t)a->dir.size, "rkey", (json_int_t)0);
}

size_t rdma_queue_count(const struct sl_agent *a)
{
	(void)a;
	return 0;
}
