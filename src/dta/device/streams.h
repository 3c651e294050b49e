/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.h - detects lost datagrams in numbered streams of devices. Any sender can forge any
 * address. The table is therefore bounded, an address can use only a part of it, and a new stream
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
#define DTA_STREAM_JUMP	     65536u /* a larger gap is not loss but a restart of the numbering */

struct dta_stream {
	struct in6_addr address;
	uint64_t id;
	uint64_t heard_ns; /* time of the last datagram; 0: free */
	/* bit i: number next - 1 - i arrived, or precedes the first number that we saw */
	uint64_t seen;
	uint32_t next, drops;
};

struct dta_streams {
	uint64_t seed, aged_ns;
	uint32_t sets; /* a power of two */
	uint32_t known;
	struct dta_stream place[];
};

/* Returns NULL without memory. */
struct dta_streams *dta_streams_make(uint32_t places);
/*
 * Finds or adds a stream; a new one has seen == 0. Returns NULL if all its places hold other
 * streams that are not silent.
 */
struct dta_stream *dta_streams_find(struct dta_streams *s, const struct in6_addr *address,
				    uint64_t id, uint64_t now_ns);
/*
 * Processes a sequence number of the given number of bits. Adds the numbers missing before it, and
 * the growth of drops (the device's own counter of unsent datagrams), to lost; adds 1 to restarts
 * if the numbering started again. A late number is subtracted from lost again.
 */
void dta_stream_take(struct dta_stream *s, uint32_t number, unsigned int bits, uint32_t drops,
		     uint64_t *lost, uint64_t *restarts);

#endif
