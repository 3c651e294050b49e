/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_file.h - stores one host's segment records in a file, to be matched later with the records of
 * another host. Input is untrusted: lengths, checksums and numbers are validated.
 *
 * The file starts with struct tcp_net_file_head. Frames follow, each with a header { u32 type; u32
 * bytes; } and a payload of that many bytes, a multiple of 8. All fields are little-endian. Types:
 * - 1 SEGMENT: a record as in the ring (sidelight/nic.h)
 * - 2 GAP: u64 number of records missed, u64 CLOCK_MONOTONIC ns of the detection
 * - 3 LAYERS: struct tcp_layer_record of a request or of a segment
 * - 4 END, the last frame: u64 CLOCK_MONOTONIC ns, u64 packets without a TCP header, u64 fragments,
 *   u64 calls that the kernel skipped (tcp_net_left_out())
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
	uint32_t version, bytes; /* bytes: size of this header */
	uint8_t boot_id[16];
	uint64_t start_ns;	/* CLOCK_MONOTONIC */
	uint64_t start_real_ns; /* CLOCK_REALTIME at the same moment as start_ns */
	char host[64];		/* NUL-terminated host name */
	uint64_t check;		/* FNV-1a over the preceding fields */
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

/* Writes the header. Returns 0 or -errno. Some errors only appear when the file is closed. */
int tcp_net_file_begin(FILE *to, const uint8_t boot_id[16]);
/* returns the same */
int tcp_net_file_put(FILE *to, enum tcp_net_frame_type type, const void *data);

/*
 * Reads the header. Returns 0; -EINVAL, with one line in why[], for another kind of file; or -errno
 * of the stream.
 */
int tcp_net_file_head(FILE *from, struct tcp_net_file_head *head, char *why, size_t bytes);
/*
 * Reads the next frame. Returns 1; 0 at end of file, even within a frame; or -EINVAL with one line
 * in why[] if the frame is invalid. A file without an END frame was truncated, but its earlier
 * frames are valid.
 */
int tcp_net_file_next(FILE *from, struct tcp_net_frame *frame, char *why, size_t bytes);

#endif
