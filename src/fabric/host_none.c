// SPDX-License-Identifier: Apache-2.0
/* host_none.c - replaces host.c in builds without libibverbs or librdmacm: there is no host. */
#include <errno.h>

#include "fabric/host.h"

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
