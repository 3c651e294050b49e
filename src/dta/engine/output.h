/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - how a translator writes to the memory of stores. Providers: shm (a mapping), verbs (RC
 * WRITE, WRITE with immediate, FETCH_ADD), raw (RoCEv2 frames of our own). Single-threaded.
 * Operations on one object take effect in the order given.
 */
#ifndef SL_DTA_ENGINE_OUTPUT_H
#define SL_DTA_ENGINE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dta_output;

/* An object (sidelight/store.h), as the store server announces it. */
struct dta_object {
	uint32_t number; /* unique per store server */
	uint32_t rkey;
	uint64_t addr; /* verbs, raw: of its first byte */
	uint64_t bytes;
	uint8_t *map; /* shm: its mapping; else NULL */
};

enum dta_output_state {
	DTA_OUTPUT_DOWN = 0, /* operations fail with -ENOTCONN */
	DTA_OUTPUT_CONNECTING,
	DTA_OUTPUT_UP,
};

struct dta_output_stats {
	uint64_t writes, adds, immediates, bytes; /* accepted */
	uint64_t completed;			  /* operations that took effect */
	uint64_t unconfirmed; /* FETCH_ADDs in flight when the connection was lost, which may have
				 taken effect. WRITEs are repeated instead */
	uint64_t failed;      /* operations that the peer refused */
	uint64_t again;	      /* retransmitted after a NAK or a loss */
	uint64_t naks, resyncs, connects, disconnects;
	char last_error[160];
};

struct dta_output_ops {
	/*
	 * 0; -EAGAIN: full, call drive() and retry; -ENOTCONN; -ERANGE: outside the object. Copies
	 * data. immediate: wakes the store server with this number; or NULL.
	 */
	int (*write)(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		     const void *data, uint32_t bytes, const uint32_t *immediate);
	int (*add)(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		   uint64_t addend);
	/*
	 * Sends queued operations with one doorbell or system call. Called after each batch of
	 * packets.
	 */
	void (*flush)(struct dta_output *o);
	/* Handles completions, timeouts and connecting. Never waits. */
	enum dta_output_state (*drive)(struct dta_output *o, uint64_t now_ns);
	void (*close)(struct dta_output *o);
};

struct dta_output { /* the first member of a provider's structure */
	const struct dta_output_ops *ops;
	struct dta_output_stats stats;
	uint64_t outstanding; /* operations accepted but not completed */
};

/* Sets stats.last_error. */
#define DTA_OUTPUT_FAILED(o, ...) \
	base_fail((o)->stats.last_error, sizeof((o)->stats.last_error), 0, __VA_ARGS__)

/* Adds counters: structures of nothing but uint64_t. */
static inline void dta_add_counters(void *to, const void *from, size_t bytes)
{
	const uint64_t *n = from;
	uint64_t *sum = to;

	for (size_t i = 0; i < bytes / sizeof(*sum); i++)
		sum[i] += n[i];
}

/* The output for mappings: an operation is complete when it returns. */
struct dta_output *dta_output_shm(void (*immediate)(void *arg, uint32_t number), void *arg);
bool dta_output_is_shm(const struct dta_output *o);
/* Counts operations that the engine itself did on mappings. */
void dta_output_shm_account(struct dta_output *o, uint64_t writes, uint64_t adds, uint64_t bytes);

#endif
