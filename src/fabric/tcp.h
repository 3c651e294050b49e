/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.h - READs over TCP, for hosts without RDMA: the messages of tcp.c (the reader) and tcp_host.c
 * (the host). Numbers are little-endian. With a secret, everything is encrypted (base/psk.h).
 *
 *   reader -> host   fabric_verbs_request           asks to read or to send verdicts (gate.h)
 *   host -> reader   fabric_tcp_reply               welcome, or refusal before hanging up
 *   reader -> host   fabric_tcp_ask, ranges         READs; several asks may be in flight
 *   host -> reader   fabric_tcp_answer, bytes       the bytes of all ranges; in the asks' order
 *   notifier -> host fabric_tcp_notice              a verdict; the host does not answer
 *
 * The address of a range is its offset within the registered memory plus FABRIC_TCP_BASE, because
 * address 0 in the directory means that there is none.
 */
#ifndef SL_FABRIC_TCP_H
#define SL_FABRIC_TCP_H

#include <sidelight/attach.h>

#include "base/psk.h"
#include "fabric/gate.h"

#define FABRIC_TCP_BASE	      4096u
#define FABRIC_TCP_RANGES_MAX 256u /* per ask */

/*
 * First byte of every message. No TLS record begins with it, so it identifies a peer that does not
 * use TLS.
 */
#define FABRIC_TCP_FIRST 'S'

union fabric_tcp_reply {
	struct fabric_host_hello hello;
	struct fabric_verbs_refusal refusal;
	uint8_t room[64];
};

#define FABRIC_TCP_ASK 0x31514c53u /* "SLQ1" */
struct fabric_tcp_ask {
	uint32_t magic;
	uint32_t count; /* number of ranges that follow: 1 to FABRIC_TCP_RANGES_MAX */
};

struct fabric_tcp_range {
	uint64_t addr;
	uint32_t rkey;
	uint32_t bytes;
};

/*
 * number of asks of the maximum size that a reader may have in flight, and a host receives at once
 */
#define FABRIC_TCP_ASKS 4u
#define FABRIC_TCP_ASK_BYTES \
	(sizeof(struct fabric_tcp_ask) + FABRIC_TCP_RANGES_MAX * sizeof(struct fabric_tcp_range))

#define FABRIC_TCP_ANSWER 0x31414c53u /* "SLA1" */
struct fabric_tcp_answer {
	uint32_t magic;
	uint32_t error; /* 0, or a positive errno: no bytes follow, and the host hangs up */
	uint32_t count; /* as in the ask; on error, the index of the range that failed */
	uint32_t reserved;
	uint64_t bytes; /* total size of the ranges */
};

#define FABRIC_TCP_NOTICE 0x314e4c53u /* "SLN1" */
struct fabric_tcp_notice {
	uint32_t magic;
	uint32_t entry;
	struct sl_board_line line;
};

extern const struct base_psk_use fabric_tcp_use;

#endif
