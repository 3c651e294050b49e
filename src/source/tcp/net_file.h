/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_file.h - one host's records in a file, to be matched with another's later. Input is
 * untrusted: lengths, checksums and numbers are validated.
 *
 *   head    struct tcp_net_file_head
 *   frames  { u32 type; u32 bytes; } and bytes bytes, a multiple of 8:
 *     1 SEGMENT  a record as in the ring (sidelight/nic.h)
 *     2 GAP      u64 records missed, u64 CLOCK_MONOTONIC ns when noticed
 *     3 LAYERS   struct tcp_layer_record of a request or of a segment
 *     4 END      u64 CLOCK_MONOTONIC ns, u64 headless packets, u64 fragments, u64 calls that the
 *                kernel skipped (tcp_net_left_out()); last
 *
 * Little-endian.
 */
#ifndef SL_SOURCE_TCP_NET_FILE_H
#define SL_SOURCE_TCP_NET_FILE_H

#include <stdio.h>

#include "region/nic.h"
#include "source/tcp/bpf/layer_shared.h"

#define TCP_NET_FILE_MAGIC   "SLNICREC"
#define TCP_NET_FILE_VERSION 1u

struct tcp_net_file_head {
	uint8_t magic[8];
	uint32_t version, bytes; /* of this head */
	uint8_t boot_id[16];
	uint64_t start_ns;	/* CLOCK_MONOTONIC */
	uint64_t start_real_ns; /* CLOCK_REALTIME at the same moment */
	char host[64];		/* NUL-terminated host name */
	uint64_t check;		/* FNV-1a over the fields before */
};

enum tcp_net_frame_type {
	TCP_NET_SEGMENT = 1,
	TCP_NET_GAP = 2,
	TCP_NET_LAYERS = 3,
	TCP_NET_END = 4
};

struct tcp_net_frame {
	enum tcp_net_frame_type type;
	union {
		struct region_nic_record segment;
		struct {
			uint64_t records, now_ns;
		} gap;
		struct tcp_layer_record layers;
		struct {
			uint64_t now_ns, headless, fragments, left_out;
		} end;
	};
};

/* Writing. 0 or -errno; stream errors may show only when it is closed. */
int tcp_net_file_begin(FILE *to, const uint8_t boot_id[16]);
int tcp_net_file_put(FILE *to, enum tcp_net_frame_type type, const void *data); /* as above */

/* Reading: 0; -EINVAL: another kind of file, with one line in why[]; -errno of the stream. */
int tcp_net_file_head(FILE *from, struct tcp_net_file_head *head, char *why, size_t bytes);
/*
 * 1: a frame; 0: end of file, also inside a frame; -EINVAL: invalid, with one line in why[]. A file
 * without END was truncated; earlier frames are valid.
 */
int tcp_net_file_next(FILE *from, struct tcp_net_frame *frame, char *why, size_t bytes);

#endif
