/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/attach.h - the agent's unix socket: how a publisher hands its region over, and how a
 * consumer on the same host gets regions to read. The normative text is sidelight-attach(7).
 *
 * SOCK_SEQPACKET; a packet is one struct sl_msg and its payload, little-endian. File descriptors
 * travel as SCM_RIGHTS, at most one a packet. The first packet of a connection decides what it
 * is: PUBLISH makes it a publisher's, SUBSCRIBE a consumer's, STATUS a question with one answer.
 * A publisher may send further PUBLISH packets for further regions. The hang-up of a publisher's
 * connection is its death, unless CLOSE came first.
 *
 * Answers carry the serial of the question. A packet that can't be understood is answered by
 * REFUSED and the connection is closed.
 */
#ifndef SIDELIGHT_ATTACH_H
#define SIDELIGHT_ATTACH_H

#include <stdint.h>

#include <sidelight/region.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_SOCKET_DEFAULT "/run/sidelight/agent.sock"
#define SL_SOCKET_ENV "SIDELIGHT_SOCKET"

#define SL_MSG_MAGIC 0x314d4c53u /* "SLM1" */
#define SL_MSG_MAX 4096u         /* bytes of a packet, header included */

enum sl_msg_type {
	SL_MSG_PUBLISH = 1,   /* sl_msg_publish + the region's memfd, sealed, read-write */
	SL_MSG_ADMITTED = 2,  /* sl_msg_admitted */
	SL_MSG_REFUSED = 3,   /* sl_msg_refused */
	SL_MSG_CLOSE = 4,     /* sl_msg_id (region instance): goodbye, not a death; no answer */
	SL_MSG_SUBSCRIBE = 16,/* no payload */
	SL_MSG_WELCOME = 17,  /* sl_msg_welcome + the directory's memfd, read-only */
	SL_MSG_OPEN = 18,     /* sl_msg_id (entry id) */
	SL_MSG_REGION = 19,   /* sl_msg_region + the region's memfd, read-only */
	SL_MSG_STATUS = 32,   /* no payload */
	SL_MSG_STATUS_IS = 33,/* sl_msg_status + a memfd that holds JSON, read-only */
};

struct sl_msg {
	uint32_t magic;
	uint16_t type;    /* enum sl_msg_type */
	uint16_t reserved;
	uint32_t length;  /* bytes of payload */
	uint32_t serial;  /* chosen by the asking side, repeated by the answer */
};

struct sl_msg_publish {
	uint64_t instance; /* must equal the header's */
	uint64_t size;     /* must equal the memfd's */
};

struct sl_msg_admitted {
	uint64_t id;             /* of the directory entry */
	uint64_t agent_instance;
};

struct sl_msg_refused {
	int32_t error;    /* a positive errno: ENOSPC regions or memory used up, EPERM seals,
			   * EBADMSG malformed, E2BIG too large, ENOENT no such id, ... */
	char reason[252]; /* for a human, NUL-terminated */
};

struct sl_msg_id {
	uint64_t id;
};

struct sl_msg_welcome {
	uint64_t agent_instance; /* instance in the directory's header */
	uint64_t size;           /* of the directory */
};

struct sl_msg_region {
	uint64_t id;
	uint64_t instance;
	uint64_t size;
};

struct sl_msg_status {
	uint64_t bytes; /* of JSON */
};

SL_STATIC_ASSERT(sizeof(struct sl_msg) == 16, "sl_msg");
SL_STATIC_ASSERT(sizeof(struct sl_msg_publish) == 16, "sl_msg_publish");
SL_STATIC_ASSERT(sizeof(struct sl_msg_admitted) == 16, "sl_msg_admitted");
SL_STATIC_ASSERT(sizeof(struct sl_msg_refused) == 256, "sl_msg_refused");
SL_STATIC_ASSERT(sizeof(struct sl_msg_welcome) == 16, "sl_msg_welcome");
SL_STATIC_ASSERT(sizeof(struct sl_msg_region) == 24, "sl_msg_region");

#ifdef __cplusplus
}
#endif
#endif
