/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/attach.h - the protocol of the agent's unix sockets: over one, publishers hand over
 * their regions; over the other, consumers on the same host get regions to read.
 * sidelight-attach(7) is normative.
 *
 * SOCK_SEQPACKET; a packet is one struct sl_msg and its payload, little-endian. File descriptors
 * travel as SCM_RIGHTS, at most one per packet. The first packet of a connection decides its role:
 * PUBLISH a publisher, SUBSCRIBE a consumer, STATUS one question and one answer. A publisher may
 * send more PUBLISH packets for more regions. A publisher whose connection hangs up without CLOSE
 * is dead.
 *
 * VERDICT travels from a consumer by the agent to the publisher of the region; there is no answer.
 * A consumer over RDMA writes a struct sl_board_line into the agent's verdict board instead.
 *
 * An answer carries the serial of its question. A malformed packet is answered by REFUSED, and the
 * connection is closed.
 */
#ifndef SIDELIGHT_ATTACH_H
#define SIDELIGHT_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include <sidelight/region.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_SOCKET_DEFAULT "/run/sidelight/agent.sock"
#define SL_SOCKET_ENV	  "SIDELIGHT_SOCKET"
#define SL_SOCKET_CONSUME ".consume" /* behind its path: the socket of consumers */

#define SL_MSG_MAGIC	  0x314d4c53u /* "SLM1" */
#define SL_MSG_MAX	  4096u	      /* bytes of a packet, header included */

enum sl_msg_type {
	SL_MSG_PUBLISH = 1,    /* sl_msg_publish + the region's memfd, of fixed size, read-write */
	SL_MSG_ADMITTED = 2,   /* sl_msg_admitted */
	SL_MSG_REFUSED = 3,    /* sl_msg_refused */
	SL_MSG_CLOSE = 4,      /* sl_msg_id (region instance): an orderly end; no answer */
	SL_MSG_SUBSCRIBE = 16, /* no payload */
	SL_MSG_WELCOME = 17,   /* sl_msg_welcome + the directory's memfd, read-only */
	SL_MSG_OPEN = 18,      /* sl_msg_id (entry id) */
	SL_MSG_REGION = 19,    /* sl_msg_region + the region's memfd, read-only */
	SL_MSG_VERDICT = 20, /* sl_msg_verdict: consumer to agent, agent to publisher; no answer */
	SL_MSG_STATUS = 32,  /* no payload */
	SL_MSG_STATUS_IS = 33, /* sl_msg_status + a memfd of JSON, read-only */
};

struct sl_msg {
	uint32_t magic;
	uint16_t type; /* enum sl_msg_type */
	uint16_t reserved;
	uint32_t length; /* bytes of payload */
	uint32_t serial; /* chosen by the asking side, repeated in the answer */
};

struct sl_msg_publish {
	uint64_t instance; /* must equal the header's */
	uint64_t size;	   /* must equal the memfd's */
};

struct sl_msg_admitted {
	uint64_t id; /* of the directory entry */
	uint64_t agent_instance;
};

struct sl_msg_refused {
	int32_t error;	  /* a positive errno: ENOSPC regions or memory used up, EPERM seals,
			   * EBADMSG malformed, E2BIG too large, ENOENT no such id, ... */
	char reason[252]; /* readable text, NUL-terminated */
};

struct sl_msg_id {
	uint64_t id;
};

struct sl_msg_welcome {
	uint64_t agent_instance; /* instance in the directory's header */
	uint64_t size;		 /* of the directory */
};

struct sl_msg_region {
	uint64_t id;
	uint64_t instance;
	uint64_t size;
};

struct sl_msg_status {
	uint64_t bytes; /* of JSON */
};

#define SL_VERDICT_ANOMALOUS 1u
#define SL_VERDICT_FLAGS     1u /* all flags */
#define SL_VERDICT_TTL_MAX   3600000000000ull

/* The verdict of an analysis on a region. It expires unless it is renewed. */
struct sl_msg_verdict {
	uint64_t instance; /* of the region */
	uint64_t flags;	   /* SL_VERDICT_... */
	uint64_t ttl_ns;   /* until it expires: 1 .. SL_VERDICT_TTL_MAX */
	int64_t time_ns;   /* of the verdict, the collector's CLOCK_REALTIME */
	double score;	   /* >= 0, finite; 1 is the threshold */
	uint64_t reader;   /* the consumer, a number drawn at its start; 0 to a publisher */
	uint64_t reserved; /* 0; ignored */
};

/*
 * A line of the verdict board, one per directory entry, at the entry's index. A plain line
 * (region.h): one that is torn, or that two consumers write at once, does not verify.
 */
struct sl_board_line {
	struct sl_msg_verdict verdict;
	uint64_t check; /* sl_line_check() of the seven words before */
};

/* A verdict from another process is within its bounds. */
static inline bool sl_verdict_sound(const struct sl_msg_verdict *v)
{
	return v->instance && !(v->flags & ~(uint64_t)SL_VERDICT_FLAGS) && v->ttl_ns &&
	       v->ttl_ns <= SL_VERDICT_TTL_MAX && v->score >= 0 && v->score <= 1e300;
}

SL_STATIC_ASSERT(sizeof(struct sl_msg) == 16, "sl_msg");
SL_STATIC_ASSERT(sizeof(struct sl_msg_publish) == 16, "sl_msg_publish");
SL_STATIC_ASSERT(sizeof(struct sl_msg_admitted) == 16, "sl_msg_admitted");
SL_STATIC_ASSERT(sizeof(struct sl_msg_refused) == 256, "sl_msg_refused");
SL_STATIC_ASSERT(sizeof(struct sl_msg_welcome) == 16, "sl_msg_welcome");
SL_STATIC_ASSERT(sizeof(struct sl_msg_region) == 24, "sl_msg_region");
SL_STATIC_ASSERT(sizeof(struct sl_msg_verdict) == 56, "sl_msg_verdict");
SL_STATIC_ASSERT(sizeof(struct sl_board_line) == 64, "sl_board_line");

#ifdef __cplusplus
}
#endif
#endif
