// SPDX-License-Identifier: Apache-2.0
/* host_none.c - in place of host.c where libibverbs or librdmacm is missing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/host.h"

struct fabric_host *fabric_host_open(const struct fabric_host_opts *opts, char *error,
				     size_t error_bytes)
{
	(void)opts;
	snprintf(error, error_bytes,
		 "this sidelight was built without RDMA (libibverbs, librdmacm)");
	errno = EOPNOTSUPP;
	return NULL;
}

void fabric_host_close(struct fabric_host *h)
{
	(void)h;
}

int fabric_host_register(struct fabric_host *h, void *map, size_t bytes,
			 struct fabric_host_key *key)
{
	(void)h, (void)map, (void)bytes, (void)key;
	return -EOPNOTSUPP;
}

int fabric_host_let_notify(struct fabric_host *h, void *map, size_t bytes,
			   void (*notice)(void *arg, uint32_t entry), void *arg)
{
	(void)h, (void)map, (void)bytes, (void)notice, (void)arg;
	return -EOPNOTSUPP;
}

int fabric_host_register_writable(struct fabric_host *h, void *map, size_t bytes,
				  struct fabric_host_key *key)
{
	(void)h, (void)map, (void)bytes, (void)key;
	return -EOPNOTSUPP;
}

int fabric_host_let_write(struct fabric_host *h, const struct fabric_host_writers *writers)
{
	(void)h, (void)writers;
	return -EOPNOTSUPP;
}

int fabric_host_queue_end(struct fabric_host *h, uint64_t queue)
{
	(void)h, (void)queue;
	return -EOPNOTSUPP;
}

void fabric_host_unregister(struct fabric_host *h, struct fabric_host_key *key)
{
	(void)h, (void)key;
}

void fabric_host_set_directory(struct fabric_host *h, const struct fabric_host_key *key,
			       uint64_t length, uint64_t agent_instance)
{
	(void)h, (void)key, (void)length, (void)agent_instance;
}

int fabric_host_fd(const struct fabric_host *h)
{
	(void)h;
	return -1;
}

void fabric_host_dispatch(struct fabric_host *h)
{
	(void)h;
}

size_t fabric_host_queues(const struct fabric_host *h, struct fabric_host_queue *out, size_t max)
{
	(void)h, (void)out, (void)max;
	return 0;
}

void fabric_host_stats(const struct fabric_host *h, struct fabric_host_stats *out)
{
	(void)h;
	memset(out, 0, sizeof(*out));
}
