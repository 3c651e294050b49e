/* SPDX-License-Identifier: Apache-2.0 */
/*
 * translate.h - a translator's worker: receives packets, checks, authenticates and deduplicates
 * them, and passes reports to the engine of the collector of their keys. Workers share nothing but
 * which one keeps an authenticated reporter's window (steer.h) and the rates of tenants: each has
 * its own sockets (the kernel spreads reporters over them), connections, engines and lanes.
 */
#ifndef SL_DTA_TRANSLATE_TRANSLATE_H
#define SL_DTA_TRANSLATE_TRANSLATE_H

#include <stdatomic.h>

#include "dta/translate/client.h"
#include "dta/io/input.h"
#include "dta/translate/steer.h"

#define DTA_TRANSLATE_INPUTS 16u

struct dta_translate_opts {
	const char *const *collectors; /* several: keys are spread by hash_ring.h */
	uint32_t n_collectors;
	uint32_t replicas; /* collectors that a report is written to, if that many are up; 0: 1 */
	struct dta_gap_file *gaps;     /* gap_file.h: of replicas; or NULL */
	struct dta_client_opts client; /* collector and callbacks are filled in */
	const char *name;	       /* of the translator, which packets may be meant for */
	struct dta_loss_opts loss;     /* the callbacks are filled in */
	struct dta_steer *steer;       /* NULL: one worker */
	uint32_t worker;	       /* its number there */
	enum dta_legacy legacy;
	uint8_t legacy_hops; /* of the original's paths; 0: 5 */
	/* What each input brings: DTA_DEVICES: reports. map: of what devices send; shared. */
	enum dta_device device[DTA_TRANSLATE_INPUTS];
	const struct dta_map *map;
};

struct dta_worker;

/* Takes over the inputs, also on failure. NULL with errno and one line in error. */
struct dta_worker *dta_worker_new(const struct dta_translate_opts *opts, const char *name,
				  struct dta_input **inputs, uint32_t n_inputs, char *error,
				  size_t error_bytes);
/*
 * Runs until stop_fd is readable (base_stop_fd()) or the inputs end; then stops the intake, drains
 * the sockets for at most 1 s, counts the rest, flushes, waits up to 2 s for operations in flight,
 * and sends the last account. Other functions than dta_worker_ready() and dta_worker_turns() are
 * for before and after.
 */
void dta_worker_run(struct dta_worker *w, int stop_fd);
/* All collectors are ready. Any thread. */
bool dta_worker_ready(const struct dta_worker *w);
/* A number that is another one once it went on. Any thread. */
uint64_t dta_worker_turns(const struct dta_worker *w);
/* Adds the worker's account to all. others: packets that an input ignored. */
void dta_worker_account(const struct dta_worker *w, struct dta_translate_account *all,
			uint64_t *others);
/* The inputs' own counters by name; each input reports its own. */
void dta_worker_detail(const struct dta_worker *w,
		       void (*say)(void *arg, const char *name, uint64_t value), void *arg);
void dta_worker_free(struct dta_worker *w);

#endif
