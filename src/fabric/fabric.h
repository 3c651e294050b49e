/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.h - one-sided operations from a collector's worker to one host. A provider is a struct
 * fabric_ops; nothing outside src/fabric/ knows which one is in use.
 *
 * A connection belongs to one thread. READs are posted in batches and complete in any order; a
 * worker posts to all of its hosts before it polls, so that a slow host delays no other.
 */
#ifndef SL_FABRIC_FABRIC_H
#define SL_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fabric;

/* Memory on the host, as its directory describes it. */
struct fabric_remote {
	uint64_t id;   /* directory entry id; 0 is the directory itself */
	uint64_t addr; /* verbs: address in the host's registration; shm: ignored */
	uint64_t length;
	uint32_t rkey; /* verbs */
	void *local;   /* the provider's own: shm keeps its mapping here */
};

struct fabric_opts {
	const char *device;	     /* verbs: ibv device name, NULL: by route */
	int gid_index;		     /* -1: by route */
	int ib_port;		     /* 0: 1 */
	uint32_t queue_depth;	     /* outstanding work requests, 0: 128 */
	uint32_t connect_timeout_ms; /* 0: 2000 */
	uint32_t answer_timeout_ms;  /* shm: longest wait of fabric_map(), 0: 200 */
	size_t buffer_bytes;	     /* registered landing memory, 0: 4 MiB */
	bool notify;		     /* for fabric_notify() instead of READs */
	const void *secret;	     /* not shm: both sides prove it; NULL: neither. Outlives f */
	size_t secret_bytes;
};

struct fabric_read {
	const struct fabric_remote *remote;
	uint64_t offset; /* from the start of the region */
	uint32_t length;
	void *to;     /* inside fabric_buffer() */
	uint64_t tag; /* the caller's own */
	int status;   /* out: 0, or -errno: -ETIMEDOUT, -EIO, -EACCES, -ENOTCONN, -ERANGE */
};

enum fabric_state {
	FABRIC_DOWN = 0, /* not connected; fabric_drive() tries again at retry_ns */
	FABRIC_CONNECTING,
	FABRIC_UP,
};

struct fabric_stats {
	uint64_t reads, bytes, work_requests, doorbells;
	uint64_t errors_timeout, errors_access, errors_other, wrong_id;
	uint64_t connects, disconnects, notices;
	char last_error[160]; /* the counters, all uint64_t, come before it */
};

/*
 * target: a path ("/..." or "unix:...") for shm, NAME://HOST[:PORT] for a provider of libfabric,
 * tcp://HOST above all, HOST[:PORT] for verbs. Does not block or connect.
 * NULL with errno (EINVAL target, ENODEV device, ENOMEM, EOPNOTSUPP built without verbs).
 */
struct fabric *fabric_open(const char *target, const struct fabric_opts *opts);
/* Why the last fabric_open() of this thread failed: one line, static storage. */
const char *fabric_error(void);
void fabric_close(struct fabric *f);
bool fabric_is_far(const char *target);		 /* a host by its address; not a path */
bool fabric_is_verbs(const char *target);	 /* of these, one over RDMA */
const char *fabric_name(const struct fabric *f); /* "shm", "ofi" or "verbs" */

/*
 * Advances the connection: connects, detects a hang-up, backs off (50 ms doubling to 1 s, reset by
 * success). Never waits; a step of connecting over verbs costs some hundred microseconds in the
 * driver. Call it once per round. A new connection after a loss raises the epoch, which invalidates
 * all that is known of the host's memory.
 */
enum fabric_state fabric_drive(struct fabric *f, uint64_t now_ns, uint64_t *epoch);

/* The directory of the connected host; valid while state is UP and the epoch has not changed. */
const struct fabric_remote *fabric_directory(struct fabric *f);
/* The host registered its directory again, says the directory's entry of itself. */
void fabric_directory_moved(struct fabric *f, uint64_t addr, uint32_t rkey);

/*
 * Makes a region readable (shm: requests its memfd and maps it read-only; verbs: nothing). 0, or
 * -errno: -ENOENT unknown id, -ENOTCONN, -EMFILE, -EINVAL size mismatch.
 */
int fabric_map(struct fabric *f, struct fabric_remote *remote);
void fabric_unmap(struct fabric *f, struct fabric_remote *remote);

/* Landing memory, registered by verbs; 64-byte aligned. Lives as long as f. */
void *fabric_buffer(struct fabric *f, size_t *bytes);

/*
 * Posts up to count READs as one chain with one doorbell; contiguous ones (same rkey, adjacent in
 * the host's memory and in the buffer) share a work request. Returns how many were taken (fewer
 * when the queue is full: poll, then post the rest) or -ENOTCONN. reads[] and what they point to
 * must stay until they complete. Small gaps between READs of one region are read, too, where that
 * is cheaper: sort reads[] by remote and offset.
 */
int fabric_post(struct fabric *f, struct fabric_read *reads, uint32_t count);

/*
 * Collects completions without blocking: fills done[] with up to max finished READs, status set. A
 * READ older than timeout_ns (0: never) completes with -ETIMEDOUT, and the connection is reset, as
 * after any other failure; the other READs then complete with -ENOTCONN. Returns the number, >= 0.
 */
int fabric_poll(struct fabric *f, struct fabric_read **done, uint32_t max, uint64_t now_ns,
		uint64_t timeout_ns);
/*
 * Sends a verdict on a region to its host; entry is the region's index in the directory. Over
 * verbs, a WRITE into the host's verdict board, on a connection of its own (opts.notify) so that a
 * host that does not respond delays no READ. Delivery is not reported: repeat a verdict that
 * matters. 0, or -errno: -ENOTCONN, -EAGAIN too many in flight (a host that stops responding is
 * reconnected), -EOPNOTSUPP.
 */
struct sl_msg_verdict;
int fabric_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict);

void fabric_stats(const struct fabric *f, struct fabric_stats *out);

struct sockaddr_un;
/*
 * The socket on which an agent serves consumers, for the path that --agent names: that with
 * SL_SOCKET_CONSUME behind it if there is one, otherwise the path itself. 0 or -ENAMETOOLONG.
 */
int fabric_agent_address(const char *path, struct sockaddr_un *to);

#endif
