/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.h - one-sided operations from a collector's worker to one host. A provider is a
 * struct fabric_ops; nothing outside src/fabric/ knows which one is in use.
 *
 * A connection belongs to one thread. READs are posted in batches and completed in any order; a
 * worker posts to all of its hosts first and polls afterwards, so that a slow host delays nobody.
 */
#ifndef SL_FABRIC_FABRIC_H
#define SL_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fabric;

/* Memory on the host, as its directory names it. */
struct fabric_remote {
	uint64_t id;   /* directory entry id; 0 is the directory itself */
	uint64_t addr; /* verbs: address in the host's registration; shm: ignored */
	uint64_t length;
	uint32_t rkey; /* verbs */
	void *local;   /* provider's own: shm keeps its mapping here */
};

struct fabric_opts {
	const char *device;	     /* verbs: ibv device name, NULL: by route */
	int gid_index;		     /* -1: by route */
	int ib_port;		     /* 0: 1 */
	uint32_t queue_depth;	     /* outstanding work requests, 0: 128 */
	uint32_t connect_timeout_ms; /* 0: 2000 */
	uint32_t answer_timeout_ms;  /* shm: how long fabric_map() may wait, 0: 200 */
	size_t buffer_bytes;	     /* registered landing memory, 0: 4 MiB */
	bool notify;		     /* for fabric_notify(), and not for READs */
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
	FABRIC_DOWN = 0, /* not connected, fabric_drive() will try again at retry_ns */
	FABRIC_CONNECTING,
	FABRIC_UP,
};

struct fabric_stats {
	uint64_t reads, bytes, work_requests, doorbells;
	uint64_t errors_timeout, errors_access, errors_other, wrong_id;
	uint64_t connects, disconnects;
	char last_error[160];
	uint64_t notices;
};

/*
 * target: a path ("/..." or "unix:...") for shm, HOST[:PORT] for verbs. Does not block and does
 * not connect yet. NULL with errno (EINVAL target, ENODEV device, ENOMEM, EOPNOTSUPP built
 * without verbs).
 */
struct fabric *fabric_open(const char *target, const struct fabric_opts *opts);
/* Why the last fabric_open() of this thread failed: one line, static storage. */
const char *fabric_error(void);
void fabric_close(struct fabric *f);
const char *fabric_name(const struct fabric *f); /* "shm" or "verbs" */

/*
 * Moves the connection on: connects, notices a hang-up, backs off (50 ms doubling to 1 s, reset by
 * success). Never waits; a step of connecting over verbs costs some hundred microseconds in the
 * driver, anything else next to nothing. Call it once a round. A new connection after a loss
 * raises the epoch: everything known of the host's memory is then void.
 */
enum fabric_state fabric_drive(struct fabric *f, uint64_t now_ns, uint64_t *epoch);

/* The directory of the connected host; valid while state is UP and the epoch has not changed. */
const struct fabric_remote *fabric_directory(struct fabric *f);

/*
 * Makes a region readable (shm: asks for its memfd and maps it read-only; verbs: nothing to do).
 * 0, or -errno: -ENOENT no such id any more, -ENOTCONN, -EMFILE, -EINVAL size mismatch.
 */
int fabric_map(struct fabric *f, struct fabric_remote *remote);
void fabric_unmap(struct fabric *f, struct fabric_remote *remote);

/* Landing memory, registered where that matters; 64-byte aligned. Lives as long as f. */
void *fabric_buffer(struct fabric *f, size_t *bytes);

/*
 * Posts up to count READs as one chain with one doorbell, in which contiguous ones (same rkey,
 * adjacent in the host's memory and at the landing) travel as one work request. Returns how many
 * were taken (fewer when the queue is full: poll, then post the rest) or -ENOTCONN. reads[] and
 * what they point to must stay until completed. Small gaps between READs of one region are read
 * along where that is cheaper, so that reads[] is best sorted by remote and offset.
 */
int fabric_post(struct fabric *f, struct fabric_read *reads, uint32_t count);

/*
 * Collects completions without blocking: fills done[] with up to max finished READs, status set.
 * READs older than timeout_ns (0: never) complete with -ETIMEDOUT and the connection is reset,
 * as it is after any other failure; READs that were not at fault then complete with -ENOTCONN.
 * Returns the number, >= 0.
 */
int fabric_poll(struct fabric *f, struct fabric_read **done, uint32_t max, uint64_t now_ns,
		uint64_t timeout_ns);
/*
 * Tells the host what is thought of one of its regions; entry is the region's index in the
 * directory. One-sided over verbs: a WRITE into the host's board. On a connection that was opened
 * with notify, so that a host that does not listen holds up no READ. 0, or -errno: -ENOTCONN,
 * -EAGAIN too many are on the way (as when the host does not listen; it connects anew),
 * -EOPNOTSUPP. That it arrived is not told: say it again when it matters.
 */
struct sl_msg_verdict;
int fabric_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict);

uint32_t fabric_outstanding(const struct fabric *f);

void fabric_stats(const struct fabric *f, struct fabric_stats *out);

#endif
