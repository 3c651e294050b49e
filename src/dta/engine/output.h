/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - the translator's access to store memory. Providers: shm (a mapping), verbs (RC WRITE,
 * WRITE with immediate, FETCH_ADD), raw (RoCEv2 frames built here). Single-threaded. Operations on
 * one object take effect in the order given.
 */
#ifndef SL_DTA_ENGINE_OUTPUT_H
#define SL_DTA_ENGINE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dta_output;

/* An object (sidelight/store.h) as announced by the store server. */
struct dta_object {
	uint32_t number; /* unique per store server */
	uint32_t rkey;
	uint64_t addr; /* address of the first byte, used by verbs and raw */
	uint64_t bytes;
	uint8_t *map; /* the mapping, used by shm; otherwise NULL */
};

enum dta_output_state {
	DTA_OUTPUT_DOWN = 0, /* operations fail with -ENOTCONN */
	DTA_OUTPUT_CONNECTING,
	DTA_OUTPUT_UP,
};

struct dta_output_stats {
	uint64_t writes, adds, immediates, bytes; /* accepted operations and bytes */
	uint64_t completed;			  /* operations that took effect */
	/*
	 * FETCH_ADDs that were in flight when the connection was lost and may have taken effect;
	 * WRITEs are repeated instead
	 */
	uint64_t unconfirmed;
	uint64_t failed; /* operations refused by the peer */
	uint64_t again;	 /* retransmissions after a NAK or a loss */
	uint64_t naks, resyncs, connects, disconnects;
	/* raw: how often the interface no longer existed, or was down, when frames were sent */
	uint64_t interface_gone, interface_down;
	char last_error[160];
};

struct dta_output_ops {
	/*
	 * Copies data. Returns 0; -EAGAIN if full (call drive() and retry); -ENOTCONN; or -ERANGE
	 * if outside the object. immediate: number that wakes the store server, or NULL.
	 */
	int (*write)(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		     const void *data, uint32_t bytes, const uint32_t *immediate);
	int (*add)(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		   uint64_t addend);
	/*
	 * Sends queued operations with one doorbell or system call. Call it after each batch of
	 * packets.
	 */
	void (*flush)(struct dta_output *o);
	/* Processes completions, timeouts and connection setup. Never waits. */
	enum dta_output_state (*drive)(struct dta_output *o, uint64_t now_ns);
	void (*close)(struct dta_output *o);
};

struct dta_output { /* first member of each provider's structure */
	const struct dta_output_ops *ops;
	struct dta_output_stats stats;
	uint64_t outstanding; /* operations accepted but not completed */
};

/* Sets stats.last_error. */
#define DTA_OUTPUT_FAILED(o, ...) \
	base_fail((o)->stats.last_error, sizeof((o)->stats.last_error), 0, __VA_ARGS__)

/* Adds counters. The structures contain only uint64_t. */
static inline void dta_add_counters(void *to, const void *from, size_t bytes)
{
	const uint64_t *n = from;
	uint64_t *sum = to;

	for (size_t i = 0; i < bytes / sizeof(*sum); i++)
		sum[i] += n[i];
}

/* The output for mappings. Operations complete before they return. */
struct dta_output *dta_output_shm(void (*immediate)(void *arg, uint32_t number), void *arg);
bool dta_output_is_shm(const struct dta_output *o);
/* Counts operations that the engine performed directly on mappings. */
void dta_output_shm_account(struct dta_output *o, uint64_t writes, uint64_t adds, uint64_t bytes);

#endif
