// SPDX-License-Identifier: Apache-2.0
/* host_admit.c - which connection requests get a queue pair: proofs, and shares of addresses. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/base.h"
#include "base/share.h"
#include "fabric/host_internal.h"

void fabric_host_share_of(const struct sockaddr *peer, uint8_t address[16])
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)peer;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;

	memset(address, 0, 16);
	if (peer->sa_family == AF_INET)
		memcpy(address + 12, &v4->sin_addr, 4);
	else if (peer->sa_family == AF_INET6)
		memcpy(address, &v6->sin6_addr, IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? 16 : 8);
}

static bool refuse(enum fabric_refusal *cause, struct fabric_verbs_refusal *say,
		   enum fabric_refusal why, int error)
{
	*cause = why;
	say->error = error;
	return false;
}

/* Printable and terminated. */
static bool is_name(const char name[FABRIC_HOST_NAME_MAX])
{
	size_t n = strnlen(name, FABRIC_HOST_NAME_MAX);

	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	return n && n < FABRIC_HOST_NAME_MAX;
}

static bool proves(struct fabric_host *h, const struct fabric_host_request *r,
		   enum fabric_refusal *cause, struct fabric_verbs_refusal *say)
{
	uint64_t now = base_now_ns();
	int err;

	if (!h->auth)
		return true;
	if (!(r->plain.flags & FABRIC_VERBS_PROOF))
		return refuse(cause, say, FABRIC_REFUSED_PROOF, ENOKEY);
	err = fabric_auth_check(h->auth, r->address, &r->proof, r->queue, now);
	if (err == -EAGAIN) {
		fabric_auth_challenge(h->auth, r->address, &r->proof, now, say->cookie);
		return refuse(cause, say, FABRIC_REFUSED_PROOF, 0);
	}
	return !err || refuse(cause, say, FABRIC_REFUSED_PROOF, -err);
}

/* With a secret every peer is known, and nothing is kept back for those that are. */
static bool share_holds(const struct fabric_host *h, const struct fabric_host_request *r,
			bool notifies)
{
	uint32_t most = notifies ? NOTIFIERS_MAX : h->max_queues, held = 0;
	struct base_share s = {
		.capacity = most,
		.used = notifies ? h->notifiers : h->conn_count,
		.reserve = h->auth ? 0 : most / BASE_SHARE_RESERVE,
	};

	for (const struct fabric_conn *c = h->conns; c; c = c->next)
		if ((c->notifies || !notifies) &&
		    !memcmp(c->address, r->address, sizeof(c->address)))
			held++;
	return base_share_may(&s, held, 1, false);
}

bool fabric_host_admits(struct fabric_host *h, const struct rdma_cm_id *id,
			const struct fabric_host_request *r, enum fabric_refusal *cause,
			struct fabric_verbs_refusal *say)
{
	const struct fabric_verbs_request *q = &r->plain;
	bool notifies = q->flags & FABRIC_VERBS_NOTIFY;
	bool writes = q->flags & FABRIC_VERBS_STORE;

	if (q->magic != FABRIC_VERBS_REQUEST_MAGIC || q->version != FABRIC_VERBS_VERSION ||
	    (notifies && writes))
		return refuse(cause, say, FABRIC_REFUSED_MALFORMED, EPROTO);
	if ((!h->hello.magic && !writes) || h->stats.lost || id->verbs != h->listener->verbs)
		return refuse(cause, say, FABRIC_REFUSED_SYSTEM, EAGAIN);
	if ((notifies && !h->notice) || (writes && !h->writers.came))
		return refuse(cause, say, FABRIC_REFUSED_SYSTEM, EOPNOTSUPP);
	if (writes && !is_name(q->name))
		return refuse(cause, say, FABRIC_REFUSED_MALFORMED, EPROTO);
	if (writes && q->instance != h->writers.instance)
		return refuse(cause, say, FABRIC_REFUSED_PROOF, EACCES);
	if (!writes && !proves(h, r, cause, say))
		return false;
	if (h->conn_count >= h->max_queues || (notifies && h->notifiers >= NOTIFIERS_MAX))
		return refuse(cause, say, FABRIC_REFUSED_FULL, ENOSPC);
	if (h->shares && (!share_holds(h, r, false) || (notifies && !share_holds(h, r, true))))
		return refuse(cause, say, FABRIC_REFUSED_SHARE, EDQUOT);
	return true;
}
