/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.h - one-sided operations from a collector's worker to one host. A provider is a
 * struct sl_fabric_ops; nothing outside src/fabric/ knows which one is in use.
 *
 * A connection belongs to one thread. READs are posted in batches and completed in any order; a
 * worker posts to all of its hosts first and polls afterwards, so that a slow host delays nobody.
 */
#ifndef SL_FABRIC_FABRIC_H
#define SL_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_fabric;

/* Memory on the host, as its directory names it. */
struct sl_remote {
	uint64_t id;     /* directory entry id; 0 is the directory itself */
	uint64_t addr;   /* verbs: address in the host's registration; shm: ignored */
	uint64_t length;
	uint32_t rkey;   /* verbs */
	void *local;     /* provider's own: shm keeps its mapping here */
};

struct sl_fabric_opts {
	const char *device;       /* verbs: ibv device name, NULL: by route */
	int gid_index;            /* -1: by route */
	int ib_port;              /* 0: 1 */
	uint32_t queue_depth;     /* outstanding work requests, 0: 128 */
	uint32_t connect_timeout_ms; /* 0: 2000 */
	uint32_t answer_timeout_ms;  /* shm: how long sl_fabric_map() may wait, 0: 200 */
	size_t buffer_bytes;      /* registered landing memory, 0: 4 MiB */
	bool notify;              /* for sl_fabric_notify(), and not for READs */
};

struct sl_read {
	const struct sl_remote *remote;
	uint64_t offset;          /* from the start of the region */
	uint32_t length;
	void *to;                 /* inside sl_fabric_buffer() */
	uint64_t tag;             /* the caller's own */
	int status;               /* out: 0, or -errno: -ETIMEDOUT, -EIO, -EACCES, -ENOTCONN, -ERANGE */
};

enum sl_fabric_state {
	SL_FABRIC_DOWN = 0,   /* not connected, sl_fabric_drive() will try again at retry_ns */
	SL_FABRIC_CONNECTING,
	SL_FABRIC_UP,
};

struct sl_fabric_stats {
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
struct sl_fabric *sl_fabric_open(const char *target, const struct sl_fabric_opts *opts);
/* Why the last sl_fabric_open() of this thread failed: one line, static storage. */
const char *sl_fabric_error(void);
void sl_fabric_close(struct sl_fabric *f);
const char *sl_fabric_name(const struct sl_fabric *f);   /* "shm" or "verbs" */
const char *sl_fabric_target(const struct sl_fabric *f);

/*
 * Moves the connection on: connects, notices a hang-up, backs off (50 ms doubling to 1 s, reset by
 * success). Never waits; a step of connecting over verbs costs some hundred microseconds in the
 * driver, anything else next to nothing. Call it once a round. A new connection after a loss
 * raises the epoch: everything known of the host's memory is then void.
 */
enum sl_fabric_state sl_fabric_drive(struct sl_fabric *f, uint64_t now_ns, uint64_t *epoch);

/* The directory of the connected host; valid while state is UP and the epoch has not changed. */
const struct sl_remote *sl_fabric_directory(struct sl_fabric *f);

/*
 * Makes a region readable (shm: asks for its memfd and maps it read-only; verbs: nothing to do).
 * 0, or -errno: -ENOENT no such id any more, -ENOTCONN, -EMFILE, -EINVAL size mismatch.
 */
int sl_fabric_map(struct sl_fabric *f, struct sl_remote *remote);
void sl_fabric_unmap(struct sl_fabric *f, struct sl_remote *remote);

/* Landing memory, registered where that matters; 64-byte aligned. Lives as long as f. */
void *sl_fabric_buffer(struct sl_fabric *f, size_t *bytes);

/*
 * Posts up to count READs as one chain with one doorbell, in which contiguous ones (same rkey,
 * adjacent in the host's memory and at the landing) travel as one work request. Returns how many
 * were taken (fewer when the queue is full: poll, then post the rest) or -ENOTCONN. reads[] and
 * what they point to must stay until completed. Small gaps between READs of one region are read
 * along where that is cheaper, so that reads[] is best sorted by remote and offset.
 */
int sl_fabric_post(struct sl_fabric *f, struct sl_read *reads, uint32_t count);

/*
 * Collects completions without blocking: fills done[] with up to max finished READs, status set.
 * READs older than timeout_ns (0: never) complete with -ETIMEDOUT and the connection is reset,
 * as it is after any other failure; READs that were not at fault then complete with -ENOTCONN.
 * Returns the number, >= 0.
 */
int sl_fabric_poll(struct sl_fabric *f, struct sl_read **done, uint32_t max, uint64_t now_ns,
		   uint64_t timeout_ns);
/*
 * Tells the host what is thought of one of its regions; entry is the region's index in the
 * directory. One-sided over verbs: a WRITE into the host's board. On a connection that was opened
 * with notify, so that a host that does not listen holds up no READ. 0, or -errno: -ENOTCONN,
 * -EAGAIN too many are on the way (as when the host does not listen; it connects anew), -EOPNOTSUPP.
 * That it arrived is not told: say it again when it matters.
 */
struct sl_msg_verdict;
int sl_fabric_notify(struct sl_fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict);

uint32_t sl_fabric_outstanding(const struct sl_fabric *f);

void sl_fabric_stats(const struct sl_fabric *f, struct sl_fabric_stats *out);

#endif
