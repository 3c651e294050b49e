// SPDX-License-Identifier: Apache-2.0
/* status.c - the agent's state as JSON, and a client that requests it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/build.h"
#include "agent/peer.h"
#include "agent/rdma.h"
#include "agent/region.h"
#include "agent/rest.h"
#include "agent/status.h"
#include "agent/verdict.h"
#include "base/text.h"
#include "fabric/fabric.h"

#define ANSWER_MS 10000 /* generous, because a single thread answers, and the host may be busy */

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
		"bytes", (json_int_t)r->info->size, "pid", (int)r->pid, "uid",
		(int)r->peer->tenant->id.uid, "slot", (int)r->slot, "admitted_ns",
		(json_int_t)r->admitted_ns, "changed_ns", (json_int_t)r->changed_ns, "connected",
		r->conn != NULL, "labels", labels, "by",
		r->self	    ? "agent"
		: r->kernel ? "kernel"
		: r->proxy  ? "rest"
			    : "publisher",
		"trusted", r->peer->tenant->trusted, "container", has_container ? container : NULL,
		"held", r->held ? "its end waits for its tenant's part of the time" : NULL, "kind",
		r->kernel ? json_number(r->info->kind) : NULL, "verdict",
		agent_verdict_combined(a, r, &v)
			? json_pack("{s:b,s:f,s:I}", "anomalous",
				    (int)(v.flags & SL_VERDICT_ANOMALOUS), "score", v.score,
				    "time_ns", (json_int_t)v.time_ns)
			: NULL,
		"address", a->rdma ? json_number(key.addr) : NULL, "rkey",
		a->rdma ? json_number(key.rkey) : NULL);
}

static json_t *counters_json(const struct agent *a)
{
	const struct agent_counters *n = &a->n;
	json_t *refused = json_object(), *dropped = json_object(), *j = json_object();
	json_t *rest = json_object(), *rdma = json_object();

	for (int i = 0; i < AGENT_COUNTERS; i++)
		json_object_set_new(
			j, agent_counter_table[i].name,
			json_number(*(const uint64_t *)((const char *)n +
							agent_counter_table[i].offset)));
	for (int i = 0; i < REFUSED_COUNT; i++)
		json_object_set_new(refused, agent_refusal_names[i], json_number(n->refused[i]));
	for (int i = 0; i < DROP_COUNT; i++)
		json_object_set_new(dropped, agent_drop_names[i], json_number(n->dropped[i]));
	for (int i = 0; i < HTTP_REFUSALS; i++)
		json_object_set_new(rest, http_refusal_names[i], json_number(n->rest_refused[i]));
	json_object_set_new(j, "rest_refused", rest);
	for (int i = 0; i < FABRIC_REFUSED_COUNT; i++)
		json_object_set_new(rdma, agent_rdma_refusal_names[i],
				    json_number(n->rdma_refused[i]));
	json_object_set_new(j, "rdma_refused", rdma);
	json_object_set_new(j, "refused", refused);
	json_object_set_new(j, "dropped", dropped);
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

/* ---- the client ---- */

/* Receives a packet; *fd is the descriptor that came with it, or -1. Returns its size or -errno. */
static ssize_t receive_answer(int sock, void *buf, size_t bytes, int *fd)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	int n = poll(&p, 1, ANSWER_MS);

	*fd = -1;
	if (n <= 0)
		return n ? -errno : -ETIMEDOUT;
	return base_receive_fd(sock, buf, bytes, 0, fd);
}

char *agent_ask_status(const char *path, char *error, size_t bytes)
{
	struct {
		struct sl_msg msg;
		union {
			struct sl_msg_status is;
			struct sl_msg_refused no;
		};
	} packet = {.msg = {.magic = SL_MSG_MAGIC, .type = SL_MSG_STATUS, .serial = 1}};
	struct sockaddr_un addr;
	char *text = NULL;
	int sock, fd = -1, err;
	ssize_t n;

	if (fabric_agent_address(path, &addr)) {
		snprintf(error, bytes, "socket path too long: %s", path);
		errno = ENAMETOOLONG;
		return NULL;
	}
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0 || connect(sock, (struct sockaddr *)&addr, sizeof(addr)) ||
	    send(sock, &packet.msg, sizeof(packet.msg), MSG_NOSIGNAL) < 0) {
		err = errno;
		snprintf(error, bytes, "no agent answers on %s: %s", path, strerror(err));
		goto out;
	}
	memset(&packet, 0, sizeof(packet));
	n = receive_answer(sock, &packet, sizeof(packet), &fd);
	err = n < 0 ? (int)-n : EBADMSG;
	if (n >= (ssize_t)sizeof(packet.msg) && packet.msg.type == SL_MSG_REFUSED) {
		err = packet.no.error;
		packet.no.reason[sizeof(packet.no.reason) - 1] = 0;
		snprintf(error, bytes, "%s refused: %s", path, packet.no.reason);
		goto out;
	}
	if (n < (ssize_t)(sizeof(packet.msg) + sizeof(packet.is)) ||
	    packet.msg.magic != SL_MSG_MAGIC || packet.msg.type != SL_MSG_STATUS_IS || fd < 0 ||
	    packet.is.bytes > 1u << 30) {
		snprintf(error, bytes, "%s does not answer like an agent: %s", path, strerror(err));
		goto out;
	}
	err = ENOMEM;
	text = malloc(packet.is.bytes + 1);
	if (text) {
		n = pread(fd, text, packet.is.bytes, 0);
		text[n > 0 ? n : 0] = 0;
	} else {
		snprintf(error, bytes, "out of memory");
	}
out:
	if (fd >= 0)
		close(fd);
	if (sock >= 0)
		close(sock);
	errno = err;
	return text;
}
