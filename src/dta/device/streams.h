/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.h - detects lost datagrams in numbered streams from devices. Anyone can forge a sender
 * address. The table is therefore bounded, each address can use only part of it, and a new stream
 * may replace a silent one. Single-threaded.
 */
#ifndef SL_DTA_DEVICE_STREAMS_H
#define SL_DTA_DEVICE_STREAMS_H

#include <netinet/in.h>
#include <stdint.h>

#include "device.h"

#define DTA_STREAM_WAYS 8u
#define DTA_STREAM_SETS 64u /* sets that the streams of one address can use */
/* a stream silent for this long may be replaced */
#define DTA_STREAM_SILENT_NS UINT64_C(10000000000)
/* a stream silent for this long is forgotten */
#define DTA_STREAM_FORGET_NS UINT64_C(600000000000)
#define DTA_STREAM_LATE	     64u /* window of sequence numbers that may still arrive out of order */
#define DTA_STREAM_JUMP	     65536u /* a larger gap is a restart of the numbering, not loss */

struct dta_stream {
	struct in6_addr address;
	uint64_t id;
	uint64_t heard_ns; /* time of the last datagram; 0 means a free entry */
	/* bit i: number next - 1 - i arrived, or precedes the first number seen */
	uint64_t seen;
	uint32_t next, drops;
};

struct dta_streams {
	uint64_t seed, aged_ns;
	uint32_t sets; /* a power of two */
	uint32_t known;
	struct dta_stream place[];
};

/* Returns NULL if out of memory. */
struct dta_streams *dta_streams_make(uint32_t places);
/*
 * Finds or adds a stream; a new stream has seen == 0. Returns NULL if all slots that the stream
 * may use are taken by other streams that are still active.
 */
struct dta_stream *dta_streams_find(struct dta_streams *s, const struct in6_addr *address,
				    uint64_t id, uint64_t now_ns);
/*
 * Processes a sequence number with the given number of bits. Adds the missing numbers before it to
 * lost, and also the increase of drops (the device's own counter of unsent datagrams). Adds 1 to
 * restarts if the numbering started again. A late number is subtracted from lost.
 */
void dta_stream_take(struct dta_stream *s, uint32_t number, unsigned int bits, uint32_t drops,
		     uint64_t *lost, uint64_t *restarts);

#endif
