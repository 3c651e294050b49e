// SPDX-License-Identifier: Apache-2.0
/* rdma_json.c - describes queue pairs and memory registrations in JSON, for REST. */
#include <stdlib.h>

#include "agent/internal.h"

#define QUEUES_SHOWN 1024u

size_t agent_rdma_queue_count(const struct agent *a)
{
	struct fabric_host *h = agent_rdma_host(a);

	return h ? fabric_host_queues(h, NULL, 0) : 0;
}

json_t *agent_rdma_queues_json(struct agent *a)
{
	struct fabric_host_queue *q = calloc(QUEUES_SHOWN, sizeof(*q));
	struct fabric_host *h = agent_rdma_host(a);
	json_t *all = json_array();
	size_t n = 0;

	if (q && h)
		n = fabric_host_queues(h, q, QUEUES_SHOWN);
	for (size_t i = 0; i < n && i < QUEUES_SHOWN; i++)
		json_array_append_new(all,
				      json_pack("{s:i,s:s,s:s,s:I}", "qp_num", (int)q[i].qp_num,
						"peer", q[i].peer, "state", q[i].state,
						"connected_ns", (json_int_t)q[i].connected_ns));
	free(q);
	return json_pack("{s:b,s:o}", "rdma", a->rdma != NULL, "qps", all);
}

json_t *agent_rdma_connect_json(const struct agent *a)
{
	struct fabric_host *h = agent_rdma_host(a);
	struct fabric_host_stats s;

	if (!h)
		return json_null();
	fabric_host_stats(h, &s);
	return json_pack(
		"{s:s,s:s,s:i,s:s,s:s,s:i,s:i,s:b,s:{s:s,s:i,s:s}}", "by", "rdma_cm", "address",
		s.address, "port", (int)s.port, "device", s.device, "gid", s.gid, "gid_index",
		s.gid_index, "ib_port", s.ib_port, "secret", a->o.fabric.secret != NULL,
		"private_data", "of", "rdma_accept", "bytes", (int)sizeof(struct fabric_host_hello),
		"fields",
		"u32 magic \"SLH1\", u32 version 1, u64 agent_instance, u64 "
		"directory_addr, u64 directory_length, u32 directory_rkey, u32 board_rkey, u64 "
		"board_addr");
}
