/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provider.h - the interface that a fabric provider implements, and the functions of fabric.c for
 * providers. Included only by src/fabric/. A provider's connection begins with struct fabric. All
 * calls on one connection come from one thread; connections share nothing.
 */
#ifndef SL_FABRIC_PROVIDER_H
#define SL_FABRIC_PROVIDER_H

#include <stdint.h>

#include "fabric/fabric.h"

/* Maximum number of READs posted and not yet returned; sizes every provider's tables. */
#define FABRIC_READS_MAX 4096u

/* Bytes after the landing buffer that belong to the provider. */
#define FABRIC_BUFFER_TAIL    4096u

#define FABRIC_BACKOFF_MIN_NS 50000000ull
#define FABRIC_BACKOFF_MAX_NS 1000000000ull

struct fabric_ops {
	const char *name;
	bool (*takes)(const char *target);
	const char *absent; /* why this build lacks the provider, which has no other members then */

	/* Initialises all except the base, which fabric.c fills in first. */
	size_t bytes; /* size of the provider's structure */
	int (*open)(struct fabric *f, const char *target);
	void (*close)(struct fabric *f);

	/* Advances from f->state; calls fabric_went_up() and fabric_went_down(). */
	void (*drive)(struct fabric *f, uint64_t now_ns);
	/*
	 * map and unmap may both be NULL: then any region with a valid address of at least
	 * first_addr can be read.
	 */
	int (*map)(struct fabric *f, struct fabric_remote *remote);
	uint64_t first_addr;
	void (*unmap)(struct fabric *f, struct fabric_remote *remote);

	/*
	 * Called while the fabric is up, with READs within bounds, and no more of them than there
	 * is space for. Passes each READ that it takes to fabric_finish() exactly once, now or
	 * later. Returns the number of READs taken.
	 */
	uint32_t (*post)(struct fabric *f, struct fabric_read *reads, uint32_t count);
	/*
	 * Finishes READs that completed or exceeded timeout_ns. NULL means that post finishes all
	 * READs.
	 */
	void (*poll)(struct fabric *f, uint64_t now_ns, uint64_t timeout_ns);
	/* Called while up, with opts.notify. See fabric_notify(). */
	int (*notify)(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict);
};

/* READs for which a provider has sent one request. */
struct fabric_request {
	struct fabric_read *first; /* pointer into the posted array */
	uint32_t reads;		   /* number of READs; 0 means the request is a notice */
	uint32_t bytes;		   /* tcp: bytes of the answer */
	uint64_t posted_ns;
};

struct fabric {
	const struct fabric_ops *ops;
	char *target;
	struct fabric_opts opts; /* options with the defaults filled in */
	enum fabric_state state;
	uint64_t epoch;
	uint64_t retry_ns, backoff_ns;
	struct fabric_remote directory;
	/* landing buffer of opts.buffer_bytes and the tail, page-aligned, zeroed */
	uint8_t *buffer;
	/* Outstanding requests are [head, tail), indexed by number & mask; numbers wrap at 2^32. */
	struct fabric_request *requests; /* NULL if the provider has none */
	uint32_t head, tail, mask;
	uint32_t outstanding;	       /* READs taken by post and not yet returned by poll */
	struct fabric_read **finished; /* ring of FABRIC_READS_MAX finished READs */
	uint32_t finished_head, finished_count;
	struct fabric_stats stats;
};

/*
 * Sets the one-line description of a failure, shown by fabric_stats(), or by fabric_error() while
 * opening.
 */
void fabric_failed(struct fabric *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void fabric_went_up(struct fabric *f, const struct fabric_remote *directory);
/*
 * Ends all requests, with -ETIMEDOUT if they have waited for timeout_ns (0 means no limit) or
 * longer and with -ENOTCONN otherwise. Schedules the next attempt after the back-off, which doubles
 * until the next success.
 */
void fabric_went_down(struct fabric *f, uint64_t now_ns, uint64_t timeout_ns);

/* Makes room for at least count requests; fabric.c frees it. Returns false if out of memory. */
bool fabric_make_requests(struct fabric *f, uint32_t count);
/* Finishes the oldest request and its READs. */
void fabric_finish_oldest(struct fabric *f, int status);
/*
 * True if the oldest request has waited for timeout_ns or longer (0 means no limit). Then also
 * records the failure; the caller must close the connection.
 */
bool fabric_got_no_answer(struct fabric *f, uint64_t now_ns, uint64_t timeout_ns);

/* Returns a READ to the caller, exactly once, and counts it. */
void fabric_finish(struct fabric *f, struct fabric_read *read, int status);

/*
 * bpf_array.c: reads an eBPF array through a read-only descriptor. Such a descriptor cannot be
 * mapped: the kernel treats a shared mapping of a file that is not open for writing as private
 * (mm/mmap.c, do_mmap()), and maps do not support private mappings (kernel/bpf/syscall.c,
 * bpf_map_mmap()). So bpf(2) copies, without any capability since Linux 5.19. As in an RDMA READ,
 * words may be torn: check words reveal it.
 */

struct fabric_bpf_array {
	int fd;
	uint32_t value, entries; /* bytes per element; number of elements */
	uint8_t *scratch;	 /* buffer for one element */
};

/*
 * fd comes from the agent; it is duplicated, and the caller keeps it. Returns 0 or -errno: -EINVAL
 * if it is not an array, or has another size; -EPERM if the kernel does not let this process read
 * maps.
 */
int fabric_bpf_array_open(struct fabric_bpf_array *a, int fd, uint64_t size);
void fabric_bpf_array_close(struct fabric_bpf_array *a);

/*
 * Reads [offset, offset + length) within size; zeros beyond the last element. Returns 0 or -errno.
 */
int fabric_bpf_array_read(const struct fabric_bpf_array *a, uint64_t offset, uint64_t length,
			  void *to);

#endif
