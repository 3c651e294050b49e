/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_ops.h - the operations of a passive side, implemented by verbs (host.c) and TCP
 * (tcp_host.c). Included only by src/fabric/. The functions correspond to those in host.h.
 */
#ifndef SL_FABRIC_HOST_OPS_H
#define SL_FABRIC_HOST_OPS_H

#include "fabric/gate.h"
#include "fabric/host.h"

struct fabric_host_ops {
	struct fabric_host *(*open)(const struct fabric_host_opts *opts, char *error,
				    size_t error_bytes);
	void (*close)(struct fabric_host *h);
	int (*add)(struct fabric_host *h, void *map, size_t bytes, struct fabric_host_key *key);
	void (*remove)(struct fabric_host *h, struct fabric_host_key *key);
	int (*let_notify)(struct fabric_host *h, void *map, size_t bytes,
			  void (*notice)(void *arg, uint32_t entry), void *arg);
	void (*set_directory)(struct fabric_host *h, const struct fabric_host_hello *hello);
	int (*fd)(const struct fabric_host *h);
	void (*dispatch)(struct fabric_host *h);
	size_t (*queues)(const struct fabric_host *h, struct fabric_host_queue *out, size_t max);
	void (*stats)(const struct fabric_host *h, struct fabric_host_stats *out);
};

/* The first member of each implementation's structure. */
struct fabric_host {
	const struct fabric_host_ops *ops;
};

extern const struct fabric_host_ops fabric_host_verbs, fabric_host_tcp;

#endif
