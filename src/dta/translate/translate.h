/* SPDX-License-Identifier: Apache-2.0 */
/*
 * translate.h - a translator's worker: packets in, checked, authenticated, told apart from those
 * that came before, and given to the engine of the collector that has their keys. Workers share
 * nothing: each has its own sockets (the kernel spreads reporters over them), connections, engines
 * and lanes.
 */
#ifndef SL_DTA_TRANSLATE_TRANSLATE_H
#define SL_DTA_TRANSLATE_TRANSLATE_H

#include <stdatomic.h>

#include "dta/translate/client.h"
#include "dta/io/input.h"

#define DTA_TRANSLATE_INPUTS 16u

struct dta_translate_opts {
	const char *const *collectors; /* several: keys are spread by hash_ring.h */
	uint32_t n_collectors;
	struct dta_client_opts client; /* collector and callbacks are filled in */
	struct dta_loss_opts loss;
	enum dta_legacy legacy;
	uint8_t legacy_hops; /* of the original's paths; 0: 5 */
	uint64_t idle_ns; /* after so long without packets a worker looks round more rarely; 0: 100
			     ms */
};

struct dta_worker;

/* Owns the inputs, also if it fails. NULL with errno and one line in error. */
struct dta_worker *dta_worker_new(const struct dta_translate_opts *opts, const char *name,
				  struct dta_input **inputs, uint32_t n_inputs, char *error,
				  size_t error_bytes);
/*
 * Works until stop_fd is readable (base_stop_fd()), or until the inputs have ended; then lets
 * nothing new in, takes what its sockets hold, for 1 s at most, counts what is left, flushes, waits
 * up to 2 s for what is on the way, and tells the collectors the last account. The other functions,
 * but for dta_worker_ready(), are for before and after.
 */
void dta_worker_run(struct dta_worker *w, int stop_fd);
/* All collectors are ready. Any thread. */
bool dta_worker_ready(const struct dta_worker *w);
/* Adds to all. Of several collectors the outputs are added up. others: packets that an input passed
 * over. */
void dta_worker_account(const struct dta_worker *w, struct dta_translate_account *all,
			uint64_t *others);
/* What the inputs themselves count, by name; what one counts that many inputs have is said several
 * times. */
void dta_worker_detail(const struct dta_worker *w,
		       void (*say)(void *arg, const char *name, uint64_t value), void *arg);
void dta_worker_free(struct dta_worker *w);

#endif
