/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provider.h - what a fabric provider implements, and what fabric.c gives it. Included by
 * src/fabric/ alone.
 *
 * A provider's connection begins with struct sl_fabric. All calls on one connection come from one
 * thread; different connections share nothing.
 */
#ifndef SL_FABRIC_PROVIDER_H
#define SL_FABRIC_PROVIDER_H

#include "fabric/fabric.h"

/* READs posted and not yet handed back by poll, at most: bounds every provider's tables. */
#define SL_READS_MAX 4096u

/* Bytes behind the end of the landing buffer that are the provider's own. */
#define SL_BUFFER_TAIL 4096u

#define SL_BACKOFF_MIN_NS 50000000ull
#define SL_BACKOFF_MAX_NS 1000000000ull

struct sl_fabric_ops {
	const char *name;
	bool (*takes)(const char *target);

	/* Allocates and initialises all but the base, which fabric.c fills in before. */
	size_t bytes; /* of the provider's structure */
	int (*open)(struct sl_fabric *f, const char *target);
	void (*close)(struct sl_fabric *f);

	/* Moves on from f->state. Calls sl_fabric_went_up() and sl_fabric_went_down(). */
	void (*drive)(struct sl_fabric *f, uint64_t now_ns);
	int (*map)(struct sl_fabric *f, struct sl_remote *remote);
	void (*unmap)(struct sl_fabric *f, struct sl_remote *remote);

	/*
	 * Called while up, for reads that lie in their remote and land in the buffer, at most as
	 * many as there is room for. Each one taken is given to sl_fabric_finish() exactly once,
	 * now or later. Returns how many were taken.
	 */
	uint32_t (*post)(struct sl_fabric *f, struct sl_read *reads, uint32_t count);
	/* Finishes what has completed, and what is older than timeout_ns. NULL: nothing to do. */
	void (*poll)(struct sl_fabric *f, uint64_t now_ns, uint64_t timeout_ns);
	/* Called while up, on a connection with opts.notify. As sl_fabric_notify(). */
	int (*notify)(struct sl_fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict);
};

struct sl_fabric {
	const struct sl_fabric_ops *ops;
	char *target;
	struct sl_fabric_opts opts; /* with the defaults filled in */
	enum sl_fabric_state state;
	uint64_t epoch;
	uint64_t retry_ns, backoff_ns;
	struct sl_remote directory;
	uint8_t *buffer;            /* opts.buffer_bytes and the tail, page-aligned, zeroed */
	uint32_t outstanding;       /* taken by post, not yet handed out by poll */
	struct sl_read **finished;  /* ring of SL_READS_MAX */
	uint32_t finished_head, finished_count;
	struct sl_fabric_stats stats;
};

/* One line, for a human; shown by sl_fabric_stats(), or by sl_fabric_error() while opening. */
void sl_fabric_failed(struct sl_fabric *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void sl_fabric_went_up(struct sl_fabric *f, const struct sl_remote *directory);
/* The next attempt is due after the back-off, which doubles until the next success. */
void sl_fabric_went_down(struct sl_fabric *f, uint64_t now_ns);

/* Hands a READ back, exactly once, and counts it. */
void sl_fabric_finish(struct sl_fabric *f, struct sl_read *read, int status);

#endif
