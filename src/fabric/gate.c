// SPDX-License-Identifier: Apache-2.0
/* gate.c - admits connection requests by authentication and by the share of each address. */
#include "fabric/gate.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <sidelight/region.h>

#include "base/base.h"
#include "base/network.h"
#include "base/share.h"

/* ---- the host ---- */

void fabric_gate_share_of(const struct sockaddr *peer, uint8_t address[16])
{
	uint16_t port;
	const struct in6_addr at = base_mapped_of(peer, &port);

	memcpy(address, &at, 16);
	if (!IN6_IS_ADDR_V4MAPPED(&at) && !IN6_IS_ADDR_LINKLOCAL(&at))
		memset(address + 8, 0, 8);
}

bool fabric_gate_refuse(enum fabric_refusal *cause, struct fabric_verbs_refusal *say,
			enum fabric_refusal why, int error)
{
	*cause = why;
	say->error = error;
	return false;
}

bool fabric_gate_request_fits(const struct fabric_host_request *r)
{
	const uint32_t both = FABRIC_VERBS_NOTIFY | FABRIC_VERBS_STORE;

	return r->plain.magic == FABRIC_VERBS_REQUEST_MAGIC &&
	       r->plain.version == FABRIC_VERBS_VERSION && (r->plain.flags & both) != both;
}

void fabric_gate_count(struct fabric_gate *g, enum fabric_refusal cause,
		       const struct fabric_verbs_refusal *say)
{
	if (say && !say->error) {
		g->stats.challenged++;
		return;
	}
	g->stats.rejected++;
	g->stats.refused[cause]++;
}

static bool check_proof(struct fabric_gate *g, const struct fabric_host_request *r,
			enum fabric_refusal *cause, struct fabric_verbs_refusal *say)
{
	uint64_t now = base_now_ns();
	int err;

	if (!g->auth)
		return true;
	if (!(r->plain.flags & FABRIC_VERBS_PROOF))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_PROOF, ENOKEY);
	err = fabric_auth_check(g->auth, r->address, &r->proof, r->queue, now);
	if (err == -EAGAIN) {
		fabric_auth_challenge(g->auth, r->address, &r->proof, now, say->cookie);
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_PROOF, 0);
	}
	return !err || fabric_gate_refuse(cause, say, FABRIC_REFUSED_PROOF, -err);
}

/* With a secret, every peer is known, and no connections are reserved for known ones. */
static bool share_holds(const struct fabric_gate *g, uint32_t held, bool notifies)
{
	uint32_t most = notifies ? FABRIC_NOTIFIERS_MAX : g->queues_max;
	struct base_share s = {
		.capacity = most,
		.used = notifies ? g->notifiers : g->queues,
		.reserve = g->auth || g->known ? 0 : most / BASE_SHARE_RESERVE,
	};

	return base_share_may(&s, held, 1, false);
}

bool fabric_gate_admits(struct fabric_gate *g, const struct fabric_host_request *r,
			const uint32_t held[2], enum fabric_refusal *cause,
			struct fabric_verbs_refusal *say)
{
	bool notifies = r->plain.flags & FABRIC_VERBS_NOTIFY;
	bool writes = r->plain.flags &
		      FABRIC_VERBS_STORE; /* the control channel of a writer is authenticated */

	if (!writes && !check_proof(g, r, cause, say))
		return false;
	if (g->queues >= g->queues_max || (notifies && g->notifiers >= FABRIC_NOTIFIERS_MAX))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_FULL, ENOSPC);
	if (g->shares &&
	    (!share_holds(g, held[0], false) || (notifies && !share_holds(g, held[1], true))))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_SHARE, EDQUOT);
	return true;
}

/* ---- the collector ---- */

bool fabric_gate_hello_is_sound(const struct fabric_host_hello *h)
{
	return h->magic == FABRIC_VERBS_HELLO_MAGIC && h->version == FABRIC_VERBS_VERSION &&
	       h->directory_length >= SL_HEADER_SIZE && h->directory_length <= SL_REGION_SIZE_MAX &&
	       h->directory_addr && h->directory_addr <= UINT64_MAX - h->directory_length;
}

const char *fabric_gate_why(const struct fabric_verbs_refusal *r)
{
	static const struct {
		int error;
		const char *why;
	} told[] = {
		{ENOSPC, "refused: all queue pairs of the agent are in use"},
		{EDQUOT, "refused: this address has used up its share of the agent's queue pairs"},
		{EOPNOTSUPP, "the agent does not accept verdicts"},
		{ENOKEY, "refused: the agent requires a secret: use --rdma-secret"},
		{EKEYREJECTED, "refused: the agent has a different secret"},
		{EBUSY, "refused: too many simultaneous connections"},
		{0, "refused: the challenge was answered too late"},
	};

	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
		if (r->magic == FABRIC_VERBS_REFUSAL_MAGIC && r->error == told[i].error)
			return told[i].why;
	return NULL;
}

/* ---- addresses ---- */

void fabric_gate_set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

bool fabric_gate_split(const char *target, char host[256], char service[8])
{
	const char *colon = strchr(target, ':'), *end = strchr(target, ']');
	char whole[300];
	uint16_t port;
	int n;

	if (*target == '[' ? end && !end[1] : !colon)
		n = snprintf(whole, sizeof(whole), "%s:%u", target, FABRIC_VERBS_PORT);
	else if (*target != '[' && strchr(colon + 1, ':'))
		n = snprintf(whole, sizeof(whole), "[%s]:%u", target, FABRIC_VERBS_PORT);
	else
		n = snprintf(whole, sizeof(whole), "%s", target);
	if (n >= (int)sizeof(whole) || base_parse_address(whole, host, 256, &port) || !*host ||
	    !port)
		return false;
	snprintf(service, 8, "%u", port);
	return true;
}
