/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/attach.h - the protocol of the agent's two unix sockets. Publishers hand over their
 * regions through one; consumers on the same host receive regions to read through the other.
 * sidelight-attach(7) is normative.
 *
 * The sockets are of type SOCK_SEQPACKET. A packet is one struct sl_msg followed by its payload,
 * little-endian. File descriptors travel as SCM_RIGHTS, at most one per packet. The first packet of
 * a connection decides its role: PUBLISH for a publisher, SUBSCRIBE for a consumer, STATUS for a
 * single question and answer. A publisher may send more PUBLISH packets for more regions. A
 * publisher that hangs up without CLOSE is considered dead.
 *
 * A consumer sends VERDICT to the agent, which forwards it to the region's publisher; there is no
 * answer. A consumer over RDMA writes a struct sl_board_line into the agent's verdict board
 * instead.
 *
 * An answer carries the serial number of its question. The agent answers a malformed packet with
 * REFUSED and closes the connection.
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
/* suffix of the agent's socket path: the socket for consumers */
#define SL_SOCKET_CONSUME ".consume"

#define SL_MSG_MAGIC	  0x314d4c53u /* "SLM1" */
#define SL_MSG_MAX	  4096u	      /* maximum bytes of a packet, including the header */

enum sl_msg_type {
	SL_MSG_PUBLISH = 1,  /* sl_msg_publish and the region's memfd, of fixed size, read-write */
	SL_MSG_ADMITTED = 2, /* sl_msg_admitted */
	SL_MSG_REFUSED = 3,  /* sl_msg_refused */
	SL_MSG_CLOSE = 4,    /* sl_msg_id (region instance): orderly end; no answer */
	SL_MSG_SUBSCRIBE = 16, /* no payload */
	SL_MSG_WELCOME = 17,   /* sl_msg_welcome and the directory's memfd, read-only */
	SL_MSG_OPEN = 18,      /* sl_msg_id (id of a directory entry) */
	SL_MSG_REGION = 19,    /* sl_msg_region and the region's memfd, read-only */
	/* sl_msg_verdict, from consumer to agent and from agent to publisher; no answer */
	SL_MSG_VERDICT = 20,
	SL_MSG_STATUS = 32,    /* no payload */
	SL_MSG_STATUS_IS = 33, /* sl_msg_status and a memfd with JSON, read-only */
};

struct sl_msg {
	uint32_t magic;
	uint16_t type; /* enum sl_msg_type */
	uint16_t reserved;
	uint32_t length; /* bytes of payload */
	uint32_t serial; /* chosen by the sender of a question, repeated in the answer */
};

struct sl_msg_publish {
	uint64_t instance; /* must equal the instance in the region's header */
	uint64_t size;	   /* must equal the size of the memfd */
};

struct sl_msg_admitted {
	uint64_t id; /* id of the directory entry */
	uint64_t agent_instance;
};

struct sl_msg_refused {
	/*
	 * a positive errno: ENOSPC (regions or memory exhausted), EPERM (seals), EBADMSG
	 * (malformed), E2BIG (too large), ENOENT (no such id), ...
	 */
	int32_t error;
	char reason[252]; /* explanation, NUL-terminated */
};

struct sl_msg_id {
	uint64_t id;
};

struct sl_msg_welcome {
	uint64_t agent_instance; /* instance in the directory's header */
	uint64_t size;		 /* size of the directory in bytes */
};

struct sl_msg_region {
	uint64_t id;
	uint64_t instance;
	uint64_t size;
};

struct sl_msg_status {
	uint64_t bytes; /* bytes of JSON */
};

#define SL_VERDICT_ANOMALOUS 1u
#define SL_VERDICT_FLAGS     1u /* mask of all flags */
#define SL_VERDICT_TTL_MAX   3600000000000ull

/* An analysis's verdict on a region. It expires unless it is renewed. */
struct sl_msg_verdict {
	uint64_t instance; /* instance of the region */
	uint64_t flags;	   /* SL_VERDICT_... */
	uint64_t ttl_ns;   /* time until it expires: 1 to SL_VERDICT_TTL_MAX */
	int64_t time_ns;   /* time of the verdict, by the collector's CLOCK_REALTIME */
	double score;	   /* a number >= 0, where 1 is the threshold */
	/* the consumer's number, chosen when it starts; 0 in messages to a publisher */
	uint64_t reader;
	uint64_t reserved; /* set to 0; ignored by the receiver */
};

/*
 * A line of the verdict board. There is one per directory entry, at the entry's index. It is a
 * plain line (region.h): a torn line, or one written by two consumers at once, does not verify.
 */
struct sl_board_line {
	struct sl_msg_verdict verdict;
	uint64_t check; /* sl_line_check() of the seven words above */
};

/* True if a verdict from another process is within bounds. */
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
