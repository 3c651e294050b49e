// SPDX-License-Identifier: Apache-2.0
/* passive.c - dispatches calls of the passive side to verbs or to TCP. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "fabric/gate.h"

/* NULL if this build lacks them */
#define VERBS_OPS (HAVE_VERBS ? &fabric_host_verbs : NULL)
#define TCP_OPS	  (HAVE_FABRIC_TCP ? &fabric_host_tcp : NULL)

int fabric_host_parse(const char *text, char address[256], uint16_t *port)
{
	if (strncmp(text, "tcp:", 4) || base_parse_address(text + 4, address, 256, port))
		return -EINVAL;
	if (!*address)
		strcpy(address, "127.0.0.1");
	return 0;
}

struct fabric_host *fabric_host_open(const struct fabric_host_opts *opts, char *error,
				     size_t error_bytes)
{
	const struct fabric_host_ops *ops = opts->tcp ? TCP_OPS : VERBS_OPS;
	struct fabric_host *h;

	if (!ops) {
		snprintf(error, error_bytes, "%s", opts->tcp ? FABRIC_NO_TCP : FABRIC_NO_VERBS);
		errno = EOPNOTSUPP;
		return NULL;
	}
	h = ops->open(opts, error, error_bytes);
	if (h)
		h->ops = ops;
	return h;
}

void fabric_host_close(struct fabric_host *h)
{
	if (h)
		h->ops->close(h);
}

int fabric_host_register(struct fabric_host *h, void *map, size_t bytes,
			 struct fabric_host_key *key)
{
	return h->ops->add(h, map, bytes, key);
}

void fabric_host_unregister(struct fabric_host *h, struct fabric_host_key *key)
{
	if (key->mr)
		h->ops->remove(h, key);
	*key = (struct fabric_host_key){0};
}

int fabric_host_let_notify(struct fabric_host *h, void *map, size_t bytes,
			   void (*notice)(void *arg, uint32_t entry), void *arg)
{
	return h->ops->let_notify(h, map, bytes, notice, arg);
}

void fabric_host_set_directory(struct fabric_host *h, const struct fabric_host_key *key,
			       uint64_t length, uint64_t agent_instance)
{
	const struct fabric_host_hello hello = {
		.magic = FABRIC_VERBS_HELLO_MAGIC,
		.version = FABRIC_VERBS_VERSION,
		.agent_instance = agent_instance,
		.directory_addr = key->addr,
		.directory_length = length,
		.directory_rkey = key->rkey,
	};

	h->ops->set_directory(h, &hello);
}

int fabric_host_fd(const struct fabric_host *h)
{
	return h->ops->fd(h);
}

void fabric_host_dispatch(struct fabric_host *h)
{
	h->ops->dispatch(h);
}

size_t fabric_host_queues(const struct fabric_host *h, struct fabric_host_queue *out, size_t max)
{
	return h->ops->queues(h, out, max);
}

void fabric_host_stats(const struct fabric_host *h, struct fabric_host_stats *out)
{
	h->ops->stats(h, out);
}
