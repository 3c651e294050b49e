// SPDX-License-Identifier: Apache-2.0
/* status.c - the agent's state as JSON. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/peer.h"
#include "agent/region.h"
#include "agent/rest.h"
#include "base/text.h"

static json_t *json_number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

json_t *agent_region_json(const struct agent *a, const struct agent_region *r)
{
	struct sl_msg_verdict v;
	const struct fabric_host_key key = agent_rdma_key(a, r);
	const struct agent_tenant_id *id = &r->peer->tenant->id;
	json_t *labels = json_object();
	char hex[24], container[33];
	bool has_container;

	base_hex(container, id->container, sizeof(id->container));
	has_container = strspn(container, "0") < 32;
	for (uint32_t i = 0; i < r->info->label_count; i++)
		json_object_set_new(labels, r->info->labels[i].key,
				    json_string(r->info->labels[i].value));
	snprintf(hex, sizeof(hex), "%016" PRIx64, r->instance);
	return json_pack(
		"{s:I,s:s,s:s,s:I,s:i,s:i,s:i,s:I,s:I,s:b,s:o,s:s,s:b,s:s*,s:s*,s:o*,s:o*,s:o*,"
		"s:o*}",
		"id", (json_int_t)r->id, "instance", hex, "state", region_state_name(r->state),
		"bytes", (json_int_t)r->info->size, "pid", (int)r->peer->pid, "uid",
		(int)r->peer->tenant->id.uid, "slot", (int)r->slot, "admitted_ns",
		(json_int_t)r->admitted_ns, "changed_ns", (json_int_t)r->changed_ns, "connected",
		r->conn != NULL, "labels", labels, "by",
		r->self	    ? "agent"
		: r->kernel ? "kernel"
		: r->proxy  ? "rest"
			    : "publisher",
		"trusted", r->peer->tenant->trusted, "container", has_container ? container : NULL,
		"held",
		r->held ? "its removal waits because its tenant has used up its share of "
			  "CPU time"
			: NULL,
		"kind", r->kernel ? json_number(r->info->kind) : NULL, "verdict",
		agent_verdict_combined(a, r, &v)
			? json_pack("{s:b,s:f,s:I}", "anomalous",
				    (int)(v.flags & SL_VERDICT_ANOMALOUS), "score", v.score,
				    "time_ns", (json_int_t)v.time_ns)
			: NULL,
		"address", a->rdma ? json_number(key.addr) : NULL, "rkey",
		a->rdma ? json_number(key.rkey) : NULL);
}

static json_t *causes_json(const char *const *names, const uint64_t *counts, int n)
{
	json_t *j = json_object();

	for (int i = 0; i < n; i++)
		json_object_set_new(j, names[i], json_number(counts[i]));
	return j;
}

static json_t *counters_json(const struct agent *a)
{
	const struct agent_counters *n = &a->n;
	json_t *j = json_object();

	for (int i = 0; i < AGENT_COUNTERS; i++)
		json_object_set_new(
			j, agent_counter_table[i].name,
			json_number(*(const uint64_t *)((const char *)n +
							agent_counter_table[i].offset)));
	json_object_set_new(j, "rest_refused",
			    causes_json(http_refusal_names, n->rest_refused, HTTP_REFUSALS));
	json_object_set_new(
		j, "rdma_refused",
		causes_json(agent_rdma_refusal_names, n->rdma_refused, FABRIC_REFUSED_COUNT));
	json_object_set_new(j, "refused",
			    causes_json(agent_refusal_names, n->refused, REFUSED_COUNT));
	json_object_set_new(j, "dropped", causes_json(agent_drop_names, n->dropped, DROP_COUNT));
	return j;
}

static json_t *status_json(const struct agent *a)
{
	json_t *regions = json_array();
	char hex[24];

	for (uint32_t i = 0; i < a->slot_count; i++)
		if (a->slots[i])
			json_array_append_new(regions, agent_region_json(a, a->slots[i]));
	snprintf(hex, sizeof(hex), "%016" PRIx64, a->dir.instance);
	return json_pack("{s:s,s:s,s:i,s:s,s:s,s:s,s:I,s:I,s:I,s:o,s:o,s:s*,s:s*,s:o*,s:o*,"
			 "s:{s:{s:I,s:I},s:{s:I,s:I},s:{s:I,s:I},s:I,s:I}}",
			 "version", SL_VERSION_STRING, "host", a->host, "pid", (int)getpid(),
			 "socket", a->listen[LISTEN_SOCKET].path, "consume_socket",
			 a->listen[LISTEN_CONSUME].path, "instance", hex, "started_ns",
			 (json_int_t)a->started_ns, "grace_ns", (json_int_t)a->o.grace_ns,
			 "lease_ns", (json_int_t)a->o.lease_ns, "counters", counters_json(a),
			 "regions", regions, "rest", agent_rest(a), "rdma", agent_rdma(a),
			 "queue_pairs", a->rdma ? json_number(agent_rdma_queue_count(a)) : NULL,
			 "memory_regions", a->rdma ? json_number(agent_rdma_mr_count(a)) : NULL,
			 "use", "regions", "used", (json_int_t)(a->region_count - a->own_count),
			 "max", (json_int_t)a->o.max_regions, "memory", "used",
			 (json_int_t)a->memory, "max", (json_int_t)a->o.max_memory, "connections",
			 "used", (json_int_t)a->conn_count, "max", (json_int_t)a->conn_max, "live",
			 (json_int_t)(a->state_count[SL_STATE_LIVE] - a->own_count), "consumers",
			 (json_int_t)a->consumer_conns);
}

int agent_status_memfd(struct agent *a, size_t *bytes)
{
	struct stat st;
	json_t *j;
	int fd, ro;

	agent_rest_count(a);
	j = status_json(a);
	if (!j)
		return -ENOMEM;
	fd = memfd_create("sidelight-status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		ro = -errno;
	else if (json_dumpfd(j, fd, JSON_COMPACT))
		ro = -EIO;
	else if (fstat(fd, &st) ||
		 fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		ro = -errno;
	else
		ro = agent_reopen_read_only(fd);
	json_decref(j);
	if (ro >= 0)
		*bytes = (size_t)st.st_size;
	if (fd >= 0)
		close(fd);
	return ro;
}
