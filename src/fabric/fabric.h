/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.h - one-sided operations from a collector's worker to one host. A provider is a struct
 * fabric_ops; code outside src/fabric/ does not know which provider is in use.
 *
 * A connection belongs to one thread. READs are posted in batches and complete in any order. A
 * worker posts to all of its hosts before it polls, so a slow host delays no other.
 */
#ifndef SL_FABRIC_FABRIC_H
#define SL_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fabric;

/* Memory on the host, as described by its directory. */
struct fabric_remote {
	uint64_t id;   /* id of the directory entry; 0 is the directory itself */
	uint64_t addr; /* verbs: address within the host's registration; shm: ignored */
	uint64_t length;
	uint32_t rkey; /* verbs only */
	void *local;   /* private to the provider: shm keeps its mapping here */
};

struct fabric_opts {
	const char *device;	     /* verbs: name of the ibv device; NULL means chosen by route */
	int gid_index;		     /* verbs: index of the GID; -1 means chosen by route */
	int ib_port;		     /* verbs: port of the device; 0 means 1 */
	uint32_t queue_depth;	     /* maximum number of outstanding work requests; 0 means 128 */
	uint32_t connect_timeout_ms; /* time limit for connecting; 0 means 2000 */
	uint32_t answer_timeout_ms;  /* shm: time limit for fabric_map(); 0 means 200 */
	bool map_later;		     /* shm: fabric_map() returns -EAGAIN instead of waiting */
	size_t buffer_bytes;	     /* size of the registered landing memory; 0 means 4 MiB */
	bool notify;		     /* the connection is for fabric_notify() instead of READs */
	/*
	 * shared secret with which both sides authenticate each other; NULL means no
	 * authentication; not used by shm. Must outlive f.
	 */
	const void *secret;
	size_t secret_bytes;
};

struct fabric_read {
	const struct fabric_remote *remote;
	uint64_t offset; /* offset from the start of the region */
	uint32_t length;
	void *to;     /* within fabric_buffer() */
	uint64_t tag; /* value for the caller's use */
	int status;   /* result: 0, or -ETIMEDOUT, -EIO, -EACCES, -ENOTCONN, -ERANGE */
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
	/* All members above this one are uint64_t counters. */
	char last_error[160];
	uint64_t last_error_ns; /* time of last_error by base_now_ns(); 0 if there was none */
};

/*
 * target: a path ("/..." or "unix:...") for shm; tcp://HOST[:PORT] for a host without RDMA;
 * HOST[:PORT] for verbs. Does not block and does not connect yet. On failure returns
 * NULL with errno set (EINVAL: target; ENODEV: device; ENOMEM; EOPNOTSUPP: built without verbs).
 */
struct fabric *fabric_open(const char *target, const struct fabric_opts *opts);
/* Reason for the last failure of fabric_open() in this thread: one line, static storage. */
const char *fabric_error(void);
void fabric_close(struct fabric *f);
bool fabric_is_far(const char *target);	  /* returns true for a host address, false for a path */
bool fabric_is_verbs(const char *target); /* returns true for a host address over RDMA */
const char *fabric_name(const struct fabric *f); /* returns "shm", "tcp" or "verbs" */

/*
 * Advances the connection: connects, detects a hang-up, backs off (50 ms doubling to 1 s, reset by
 * success). Never blocks; a step of connecting over verbs takes several hundred microseconds in the
 * driver. Call it once per round. A new connection after a loss increments the epoch, which
 * invalidates all knowledge of the host's memory.
 */
enum fabric_state fabric_drive(struct fabric *f, uint64_t now_ns, uint64_t *epoch);

/* The directory of the connected host; valid while the state is UP and the epoch is unchanged. */
const struct fabric_remote *fabric_directory(struct fabric *f);
/* Call when the directory's entry for itself shows that the host has registered it again. */
void fabric_directory_moved(struct fabric *f, uint64_t addr, uint32_t rkey);

/*
 * Makes a region readable (shm: requests its memfd and maps it read-only; verbs: no effect).
 * Returns 0 or -errno: -ENOENT (unknown id), -ENOTCONN, -EMFILE or -EINVAL (size mismatch). With
 * map_later, also -EAGAIN: the host has not answered yet; call again for the same region.
 */
int fabric_map(struct fabric *f, struct fabric_remote *remote);
void fabric_unmap(struct fabric *f, struct fabric_remote *remote);

/* Returns the landing memory, 64-byte aligned and registered by verbs. Lives as long as f. */
void *fabric_buffer(struct fabric *f, size_t *bytes);

/*
 * Posts up to count READs as one chain with one doorbell. Contiguous READs (same rkey, adjacent in
 * the host's memory and in the buffer) share a work request. Returns the number of READs taken
 * (fewer if the queue is full: poll, then post the rest) or -ENOTCONN. reads[] and the memory it
 * refers to must stay valid until completion.
 *
 * Small gaps between READs of one region are read as well if that is cheaper: sort reads[] by
 * remote and offset.
 */
int fabric_post(struct fabric *f, struct fabric_read *reads, uint32_t count);

/*
 * Collects completions without blocking: fills done[] with up to max finished READs and sets their
 * status. A READ older than timeout_ns (0 means no limit) completes with -ETIMEDOUT, and the
 * connection is reset, as after any other failure; the other READs then complete with -ENOTCONN.
 * Returns the number of READs, >= 0.
 */
int fabric_poll(struct fabric *f, struct fabric_read **done, uint32_t max, uint64_t now_ns,
		uint64_t timeout_ns);
/*
 * Sends a verdict on a region to its host; entry is the region's index in the directory. Over verbs
 * this is a WRITE into the host's verdict board, on a separate connection (opts.notify), so that a
 * host that does not respond delays no READ. Delivery is not confirmed: repeat important verdicts.
 * Returns 0 or -errno: -ENOTCONN, -EAGAIN (too many in flight; a host that stops responding is
 * reconnected) or -EOPNOTSUPP.
 */
struct sl_msg_verdict;
int fabric_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict);

void fabric_stats(const struct fabric *f, struct fabric_stats *out);

struct sockaddr_un;
/*
 * Determines the socket on which an agent serves consumers, from the path given to --agent: the
 * path with SL_SOCKET_CONSUME appended if that exists, otherwise the path itself. Returns 0 or
 * -ENAMETOOLONG.
 */
int fabric_agent_address(const char *path, struct sockaddr_un *to);

#endif
