/* SPDX-License-Identifier: Apache-2.0 */
/* rdma.h - maps and registers regions. Without --rdma, they are plain mappings without keys. */
#ifndef SL_AGENT_RDMA_H
#define SL_AGENT_RDMA_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/host.h"

struct agent;
struct agent_region;
struct agent_timer;

/* agent_rdma_start() is declared in agent.h. */
int agent_rdma_init(struct agent *a, char *error, size_t bytes);
void agent_rdma_fini(struct agent *a);
/* Returns MAP_FAILED with errno on failure. */
void *agent_rdma_map(struct agent *a, int fd, uint64_t size, bool writable);
void agent_rdma_unmap(struct agent *a, void *map, uint64_t size);
/* a number of -1 means all queue pairs */
json_t *agent_rdma_queues_json(const struct agent *a, int64_t number);
json_t *agent_rdma_connect_json(const struct agent *a);
json_t *agent_rdma_directory_json(const struct agent *a);
size_t agent_rdma_queue_count(const struct agent *a);
/* returns -ENODATA if the region has holes */
int agent_rdma_add(struct agent *a, struct agent_region *r);
void agent_rdma_remove(struct agent *a, struct agent_region *r);
void agent_rdma_event(struct agent *a);
/* Updates counters from the host's. Returns the CPU time of the thread that serves READs, in ns. */
uint64_t agent_rdma_count(struct agent *a);
void agent_rdma_timer_settle(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_release(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_age(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_left(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_renew(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_reopen(struct agent *a, struct agent_timer *t);
void agent_rdma_retire(struct agent *a, struct agent_region *r);
struct fabric_host *agent_rdma_host(const struct agent *a); /* returns NULL if no device is open */
uint32_t agent_rdma_mr_count(const struct agent *a);
/* Returns address and rkey of a region, 0 while it has none. */
struct fabric_host_key agent_rdma_key(const struct agent *a, const struct agent_region *r);

#endif
