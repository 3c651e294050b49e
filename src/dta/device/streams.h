/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.h - numbered streams of what devices send, and which numbers never came. Any sender can
 * forge any address: the table is bounded, one address has a part of it, and a stream that is
 * silent gives its place to a new one. Single-threaded.
 */
#ifndef SL_DTA_DEVICE_STREAMS_H
#define SL_DTA_DEVICE_STREAMS_H

#include <netinet/in.h>
#include <stdint.h>

#include "device.h"

#define DTA_STREAM_WAYS	     8u
#define DTA_STREAM_SETS	     64u		    /* of one address */
#define DTA_STREAM_SILENT_NS UINT64_C(10000000000)  /* then its place may be taken */
#define DTA_STREAM_FORGET_NS UINT64_C(600000000000) /* then it is not known any more */
#define DTA_STREAM_LATE	     64u		    /* numbers that may still come out of order */
#define DTA_STREAM_JUMP	     65536u /* more numbers are not lost: another began to count */

struct dta_stream {
	struct in6_addr address;
	uint64_t id;
	uint64_t heard_ns; /* 0: free */
	uint64_t seen;	   /* bit i: next - 1 - i came, or is of before we listened */
	uint32_t next, drops;
};

struct dta_streams {
	uint64_t seed, aged_ns;
	uint32_t sets; /* power of two */
	uint32_t known;
	struct dta_stream place[];
};

/* NULL: no memory. */
struct dta_streams *dta_streams_make(uint32_t places);
/* NULL: the places for it are all of others that are not silent. A new one has seen 0. */
struct dta_stream *dta_streams_find(struct dta_streams *s, const struct in6_addr *address,
				    uint64_t id, uint64_t now_ns);
/*
 * Takes a number of this many bits. Adds to lost how many are missing before it, and what drops, a
 * counter of what the device could not send, grew by; to restarts if the numbers began anew. A
 * number that comes late is not lost any more.
 */
void dta_stream_take(struct dta_stream *s, uint32_t number, unsigned int bits, uint32_t drops,
		     uint64_t *lost, uint64_t *restarts);

#endif
