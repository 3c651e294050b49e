/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.h - runs the eBPF programs in a separate process, so that this process can drop its
 * privileges. The loader opens, loads and attaches the programs, passes descriptors of their
 * tables, and drops the privileges it no longer needs. Afterwards it changes filters, catches up
 * with missed connections and names cgroups. When its socket is closed, the loader exits, and
 * everything that it loaded is removed.
 *
 * A struct tcp_loader must be used by one thread at a time.
 */
#ifndef SL_SOURCE_TCP_LOADER_H
#define SL_SOURCE_TCP_LOADER_H

#include "source/tcp/cpu.h"
#include "source/tcp/feature.h"
#include "source/tcp/layer.h"
#include "source/tcp/net.h"
#include "source/tcp/tcp.h"

struct tcp_loader_opts {
	unsigned int parts;	 /* parts to load: bit i stands for enum tcp_part i */
	struct tcp_opts flows;	 /* .filter in these options applies to all parts */
	struct tcp_net_opts net; /* .filter in these options is not used */
	bool unconfined;	 /* let the loader keep all privileges */
};

struct tcp_loader_table {
	int fd; /* an eBPF array to map; -1 if this part was left out (a log line says why) */
	int read_only; /* descriptor for consumers, or -errno (see tcp_region_read_only()) */
	uint64_t bytes;
};

struct tcp_loader;

/*
 * Forks the spawners of loaders (base/child.h). Call this function before there are threads,
 * secrets and other descriptors: a loader gets a copy of all memory, and no descriptor except
 * standard error. opts must stay valid. Returns 0 or -errno.
 */
int tcp_loader_fork(const struct tcp_loader_opts *opts, struct tcp_loader **loader);
/*
 * Starts a loader, which then loads the programs: wait with tcp_loader_loaded(). Returns 0 or
 * -errno.
 */
int tcp_loader_start(struct tcp_loader *l);
/*
 * Waits until the programs are loaded. The caller owns the descriptors in tables. Returns 0, or
 * -errno with one line in why[], like tcp_open(). Applies the last filter again; if the loader
 * refuses it, no connections are recorded until another filter is set.
 */
int tcp_loader_loaded(struct tcp_loader *l, struct tcp_loader_table tables[TCP_PARTS], char *why,
		      size_t bytes);
/* When this is readable, call tcp_loader_loaded() the first time, and then tcp_loader_event(). */
int tcp_loader_fd(const struct tcp_loader *l);
/* Returns 0, or -EPIPE if the loader has exited, which removes all programs. */
int tcp_loader_event(struct tcp_loader *l);
/*
 * Call when the loader has exited: starts another, like tcp_loader_start(). Returns false if this
 * process is about to exit instead (base/child.h).
 */
bool tcp_loader_again(struct tcp_loader *l);
/* Number of flow program calls that the kernel skipped, as of a few seconds ago. */
uint64_t tcp_loader_missed(const struct tcp_loader *l);
/* Number of restarted loaders that have refused the last filter. */
uint64_t tcp_loader_filters_refused(const struct tcp_loader *l);
/*
 * Requests another filter of all parts, without waiting: the loader walks all sockets. Call only if
 * tcp_loader_answer() does not return -EINPROGRESS. Returns 0, or -errno with one line in why[].
 */
int tcp_loader_filter(struct tcp_loader *l, const struct tcp_filter *filter, char *why,
		      size_t bytes);
/*
 * Returns -EINPROGRESS while the last filter is unanswered: tcp_loader_event() receives the answer.
 * Then returns 0, or -errno with one line in why[].
 */
int tcp_loader_answer(const struct tcp_loader *l, char *why, size_t bytes);
/* Stops the loader and waits for it to exit. l may be NULL. */
void tcp_loader_stop(struct tcp_loader *l);

#endif
