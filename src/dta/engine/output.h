/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - how a translator reaches the memory of stores. A provider is a struct dta_output_ops:
 * shm (a mapping), verbs (RC WRITE, WRITE with immediate, FETCH_ADD), raw (RoCEv2 frames of our
 * own). One thread owns an output, as it does the engine above it.
 *
 * Operations of one output on one object take effect in the order in which they were given.
 */
#ifndef SL_DTA_ENGINE_OUTPUT_H
#define SL_DTA_ENGINE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dta_output;

/* An object (see sidelight/store.h), as the collector's welcome names it. */
struct dta_object {
	uint32_t number; /* the collector's, never given twice by one collector */
	uint32_t rkey;
	uint64_t addr; /* verbs, raw: of the object's first byte */
	uint64_t bytes;
	uint8_t *map; /* shm: writable; else NULL */
};

enum dta_output_state {
	DTA_OUTPUT_DOWN = 0, /* what is given is refused with -ENOTCONN */
	DTA_OUTPUT_CONNECTING,
	DTA_OUTPUT_UP,
};

struct dta_output_stats {
	uint64_t writes, adds, immediates, bytes; /* given and taken */
	uint64_t completed;			  /* operations known to have taken effect */
	uint64_t unconfirmed; /* operations that were under way when the connection was lost and may
			       * or may not have taken effect; WRITEs are given again and so are
			       * never here */
	uint64_t failed;      /* operations that the other side refused */
	uint64_t again;	      /* sent anew after a NAK or a loss */
	uint64_t naks, resyncs, connects, disconnects;
	char last_error[160];
};

struct dta_output_ops {
	const char *name;
	/* 0; -EAGAIN: full, call drive() and try again; -ENOTCONN; -ERANGE: outside of the object.
	 * data is copied before it returns. */
	int (*write)(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		     const void *data, uint32_t bytes);
	/* The same, and wakes the collector with a number of its choice. */
	int (*write_immediate)(struct dta_output *o, const struct dta_object *to, uint64_t offset,
			       const void *data, uint32_t bytes, uint32_t immediate);
	int (*add)(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		   uint64_t addend);
	/* Sends what was gathered: one doorbell, one call. Called at the end of each batch of
	 * packets. */
	void (*flush)(struct dta_output *o);
	/* Completions, timeouts, connecting. Never waits. */
	enum dta_output_state (*drive)(struct dta_output *o, uint64_t now_ns);
	/* Operations that were taken and are not yet completed. */
	uint64_t (*outstanding)(const struct dta_output *o);
	void (*stats)(const struct dta_output *o, struct dta_output_stats *out);
	void (*close)(struct dta_output *o);
};

struct dta_output { /* a provider's structure begins with it */
	const struct dta_output_ops *ops;
};

/* Over mappings: each operation is done when it returns. */
struct dta_output *dta_output_shm(void (*immediate)(void *arg, uint32_t number), void *arg);

#endif
