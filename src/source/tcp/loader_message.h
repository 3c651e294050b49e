/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader_message.h - messages between a loader and the process that started it, one per packet.
 * Neither process trusts the other: both check lengths, counts and strings.
 */
#ifndef SL_SOURCE_TCP_LOADER_MESSAGE_H
#define SL_SOURCE_TCP_LOADER_MESSAGE_H

#include <sys/types.h>

#include "source/tcp/loader.h"

#define LOADER_TEXT    256u
#define LOADER_FILTER  65536u /* maximum size of a filter message in bytes */
#define LOADER_STRINGS 256u   /* maximum number of strings of each kind in a filter */
#define LOADER_FDS     (2 * TCP_PARTS)

enum tcp_message_type {
	LOADER_LOADED = 1, /* from the loader, with descriptors: .error, .part, .text */
	LOADER_SET,	   /* to the loader: struct tcp_message_set and strings */
	LOADER_IS_SET,	   /* from the loader: .error, .serial, .text */
	LOADER_MISSED,	   /* from the loader: .missed */
};

/* A message from the loader. */
struct tcp_message {
	uint32_t type;
	int32_t error;
	uint32_t serial, pad; /* serial number of the request being answered */
	uint64_t missed;
	struct {
		uint64_t bytes; /* size of the part's table; 0 if the part was left out */
		/*
		 * 0 means a read-only descriptor follows the table's descriptor; otherwise -errno
		 */
		int32_t read_only;
		uint32_t pad;
	} part[TCP_PARTS];
	char text[LOADER_TEXT];
};

/* Followed by .bytes of NUL-terminated strings, each preceded by the letter of its kind. */
struct tcp_message_set {
	uint32_t type, bytes, serial, pid, sample;
};
#define LOADER_KINDS "pcgn" /* port, CIDR, cgroup, network namespace */

/* A filter whose strings point into the message. */
struct tcp_message_filter {
	struct tcp_filter filter;
	const char *strings[sizeof(LOADER_KINDS) - 1][LOADER_STRINGS];
};

/* Returns the size of the message in bytes, or -E2BIG. */
ssize_t tcp_message_filter_pack(const struct tcp_filter *filter, uint32_t serial,
				char to[LOADER_FILTER]);
/* Sets *serial even on failure, if the message contains it. Returns 0 or -EPROTO. */
int tcp_message_filter_unpack(const char *message, size_t bytes, struct tcp_message_filter *out,
			      uint32_t *serial);

/* Sends a packet with descriptors. Returns 0 or -errno. */
int tcp_message_send(int sock, const void *message, size_t bytes, const int *fds, size_t n);
/*
 * Receives a packet with at most LOADER_FDS descriptors and sets *n to their number. Returns the
 * packet's size, 0 at end of file, or -errno; in the last two cases, there are no descriptors.
 */
ssize_t tcp_message_receive(int sock, void *to, size_t bytes, int flags, int fds[LOADER_FDS],
			    size_t *n);

/* Main function of the loader process, in loader_serve.c. */
__attribute__((noreturn)) void tcp_loader_serve(int sock, const struct tcp_loader_opts *opts);

#endif
