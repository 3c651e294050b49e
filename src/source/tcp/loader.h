/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.h - the programs in a process of their own, for a process that gives up its privileges.
 * The loader opens, loads and attaches, hands over descriptors of its tables, and gives up what it
 * does not need any more. From then on it changes filters, catches up and names cgroups, and it
 * ends, with all that it loaded, when its socket is closed.
 *
 * One thread per struct tcp_loader.
 */
#ifndef SL_SOURCE_TCP_LOADER_H
#define SL_SOURCE_TCP_LOADER_H

#include "source/tcp/cpu.h"
#include "source/tcp/feature.h"
#include "source/tcp/layer.h"
#include "source/tcp/net.h"
#include "source/tcp/tcp.h"

struct tcp_loader_opts {
	unsigned int parts;	 /* bit i: enum tcp_part i */
	struct tcp_opts flows;	 /* .filter is that of all parts */
	struct tcp_net_opts net; /* .filter is not used */
	bool unconfined;	 /* keep all privileges */
};

struct tcp_loader_table {
	int fd;	       /* an eBPF array to map; -1: this part was left out, with a log line */
	int read_only; /* for consumers; or -errno: see tcp_region_read_only() */
	uint64_t bytes;
};

struct tcp_loader;

/*
 * Forks the loader, which waits. Before threads and other descriptors: it has copies of all
 * memory, and closes all descriptors but standard error. The options must stay valid. 0 or -errno.
 */
int tcp_loader_start(const struct tcp_loader_opts *opts, struct tcp_loader **loader);
/* Lets it load. The descriptors are the caller's. 0, or -errno with why[] as for tcp_open(). */
int tcp_loader_load(struct tcp_loader *l, struct tcp_loader_table tables[TCP_PARTS], char *why,
		    size_t bytes);
/* Readable: call tcp_loader_event(). */
int tcp_loader_fd(const struct tcp_loader *l);
/* 0, or -EPIPE: it has ended, and with it all programs. */
int tcp_loader_event(struct tcp_loader *l);
/* Calls of the flow programs that the kernel skipped, as of some seconds ago. */
uint64_t tcp_loader_missed(const struct tcp_loader *l);
/* Changes the filter of all parts. 0, or -errno with one line in why[]. */
int tcp_loader_filter(struct tcp_loader *l, const struct tcp_filter *filter, char *why,
		      size_t bytes);
/* Ends the loader, and waits for that. NULL is fine. */
void tcp_loader_stop(struct tcp_loader *l);

#endif
