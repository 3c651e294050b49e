// SPDX-License-Identifier: Apache-2.0
/* host_admit.c - decides which requests get a queue pair; gate.c judges readers and notifiers. */
#include <errno.h>
#include <string.h>

#include "fabric/host_internal.h"

/* True for a printable, terminated name. */
static bool is_name(const char name[FABRIC_HOST_NAME_MAX])
{
	size_t n = strnlen(name, FABRIC_HOST_NAME_MAX);

	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	return n && n < FABRIC_HOST_NAME_MAX;
}

bool fabric_host_admits(struct fabric_verbs_host *h, const struct rdma_cm_id *id,
			const struct fabric_host_request *r, enum fabric_refusal *cause,
			struct fabric_verbs_refusal *say)
{
	const struct fabric_verbs_request *q = &r->plain;
	bool notifies = q->flags & FABRIC_VERBS_NOTIFY;
	bool writes = q->flags & FABRIC_VERBS_STORE;
	uint32_t held[2] = {0};

	if (!fabric_gate_request_fits(r))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_MALFORMED, EPROTO);
	if ((!h->gate.hello.magic && !writes) || h->gate.stats.lost ||
	    id->verbs != h->listener->verbs)
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_SYSTEM, EAGAIN);
	if ((notifies && !h->notice) || (writes && !h->writers.came))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_SYSTEM, EOPNOTSUPP);
	if (writes && !is_name(q->name))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_MALFORMED, EPROTO);
	if (writes && q->instance != h->writers.instance)
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_PROOF, EACCES);
	for (const struct fabric_conn *c = h->conns; c; c = c->next)
		if (!memcmp(c->address, r->address, sizeof(c->address))) {
			held[0]++;
			held[1] += c->notifies;
		}
	return fabric_gate_admits(&h->gate, r, held, cause, say);
}
