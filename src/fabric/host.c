/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/host.h"

struct sl_host *sl_host_open(const struct sl_host_opts *opts, char *error, size_t error_bytes)
{
	(void)opts;
	snprintf(error, error_bytes, "this sidelight was built without RDMA");
	errno = EOPNOTSUPP;
	return NULL;
}

void sl_host_close(struct sl_host *h)
{
	(void)h;
}

int sl_host_register(struct sl_host *h, void *map, size_t bytes, struct sl_host_key *key)
{
	(void)h, (void)map, (void)bytes, (void)key;
	return -EOPNOTSUPP;
}

void sl_host_unregister(struct sl_host *h, struct sl_host_key *key)
{
	(void)h, (void)key;
}

void sl_host_set_directory(struct sl_host *h, const struct sl_host_key *key, uint64_t length,
			   uint64_t agent_instance)
{
	(void)h, (void)key, (void)length, (void)agent_instance;
}

int sl_host_fd(const struct sl_host *h)
{
	(void)h;
	return -1;
}
void sl_host_dispatch(struct sl_host *h)
{
	(void)h;
}

size_t sl_host_queues(const struct sl_host *h, struct sl_host_queue *out, size_t max)
{
	(void)h, (void)out, (void)max;
	return 0;
}

void sl_host_stats(const struct sl_host *h, struct sl_host_stats *out)
{
	(void)h;
	memset(out, 0, sizeof(*out));
}
