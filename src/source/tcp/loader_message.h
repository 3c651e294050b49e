/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader_message.h - what a loader and the process that started it tell each other, one message per
 * packet. Neither trusts the other: lengths, counts and strings are checked.
 */
#ifndef SL_SOURCE_TCP_LOADER_MESSAGE_H
#define SL_SOURCE_TCP_LOADER_MESSAGE_H

#include <sys/types.h>

#include "source/tcp/loader.h"

#define LOADER_TEXT    256u
#define LOADER_FILTER  65536u /* bytes of a filter's message */
#define LOADER_STRINGS 256u   /* of each kind in a filter */
#define LOADER_FDS     (2 * TCP_PARTS)

enum tcp_message_type {
	LOADER_LOAD = 1, /* to the loader: begin */
	LOADER_LOADED,	 /* from it: struct tcp_message_loaded, and descriptors */
	LOADER_SET,	 /* to it: struct tcp_message_set and strings */
	LOADER_IS_SET,	 /* from it: struct tcp_message_answer */
	LOADER_MISSED,	 /* from it: struct tcp_message_missed */
};

struct tcp_message_loaded {
	uint32_t type;
	int32_t error;
	struct {
		uint64_t bytes;	   /* 0: left out */
		int32_t read_only; /* 0: a descriptor follows the table's; or -errno */
		uint32_t pad;
	} part[TCP_PARTS];
	char text[LOADER_TEXT];
};

struct tcp_message_answer {
	uint32_t type;
	int32_t error;
	uint32_t serial, pad; /* of the question */
	char text[LOADER_TEXT];
};

struct tcp_message_missed {
	uint32_t type, pad;
	uint64_t missed;
};

/* Followed by .bytes of strings, each with a NUL: ports, cidrs, cgroups, netns if .netns is 1. */
struct tcp_message_set {
	uint32_t type, bytes, serial, pad;
	uint32_t ports, cidrs, cgroups, netns;
	uint32_t pid, sample;
};

/* A filter whose strings lie in the message. */
struct tcp_message_filter {
	struct tcp_filter filter;
	const char *strings[3 * LOADER_STRINGS];
};

/* Bytes of the message, or -E2BIG. */
ssize_t tcp_message_filter_pack(const struct tcp_filter *filter, uint32_t serial,
				char to[LOADER_FILTER]);
/* Sets *serial if it can. 0 or -EPROTO. */
int tcp_message_filter_unpack(const char *message, size_t bytes, struct tcp_message_filter *out,
			      uint32_t *serial);

/* Sends a packet with descriptors. 0 or -errno. */
int tcp_message_send(int sock, const void *message, size_t bytes, const int *fds, size_t n);
/*
 * Receives one with at most LOADER_FDS descriptors; *n is their number. Bytes, 0: the end, or
 * -errno; then no descriptor.
 */
ssize_t tcp_message_receive(int sock, void *to, size_t bytes, int flags, int fds[LOADER_FDS],
			    size_t *n);

/* loader_serve.c: the loader's process, which does not return. */
__attribute__((noreturn)) void tcp_loader_serve(int sock, const struct tcp_loader_opts *opts);

#endif
