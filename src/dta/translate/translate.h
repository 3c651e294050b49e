/* SPDX-License-Identifier: Apache-2.0 */
/*
 * translate.h - a translator's worker: receives packets, checks, authenticates and deduplicates
 * them, and passes reports to the engine of the collector responsible for their keys. Each worker
 * has its own sockets (the kernel spreads reporters over them), connections, engines and lanes.
 * Workers share only the table of window owners (steer.h), the paths that INT reports are joined to
 * (device/paths.h) and the rates of tenants.
 */
#ifndef SL_DTA_TRANSLATE_TRANSLATE_H
#define SL_DTA_TRANSLATE_TRANSLATE_H

#include <stdatomic.h>

#include "dta/translate/client.h"
#include "dta/io/input.h"
#include "dta/translate/steer.h"

#define DTA_TRANSLATE_INPUTS 16u

struct dta_translate_opts {
	const char *const *collectors; /* if there are several, keys are spread by hash_ring.h */
	uint32_t n_collectors;
	uint32_t replicas;	       /* collectors per report, if that many are up; 0 means 1 */
	struct dta_gap_file *gaps;     /* gap file (gap_file.h) for replicas, or NULL */
	struct dta_client_opts client; /* what depends on the collector is filled in */
	struct dta_rates *rates;       /* of tenants, shared by workers; NULL means no limits */
	const char *name;	   /* the translator's name, to which packets may be addressed */
	struct dta_loss_opts loss; /* the callbacks are filled in */
	struct dta_steer *steer;   /* NULL means that this is the only worker */
	uint32_t worker;	   /* this worker's number in steer */
	enum dta_legacy legacy;
	uint8_t legacy_hops; /* number of hops per path in the original format; 0 means 5 */
	/*
	 * Kind of each input; DTA_DEVICES means reports. map: mapping for devices, shared by
	 * workers.
	 */
	enum dta_device device[DTA_TRANSLATE_INPUTS];
	const struct dta_map *map;
	struct dta_paths *paths; /* shared by workers; NULL means that this is the only one */
	/* accept packets only from these networks; if there are none, from everywhere */
	const struct base_network *allow;
	size_t n_allow;
};

struct dta_worker;

/* Takes over the inputs, even on failure. Returns NULL with one line in error. */
struct dta_worker *dta_worker_new(const struct dta_translate_opts *opts, const char *name,
				  struct dta_input **inputs, uint32_t n_inputs, char *error,
				  size_t error_bytes);
/*
 * Runs until stop_fd is readable (base_stop_fd()) or the inputs end. Then stops the intake, drains
 * the sockets for at most 1 s, counts the remaining packets, flushes, waits up to 2 s for
 * operations in flight, and sends the final account. While it runs, only dta_worker_ready() and
 * dta_worker_turns() may be called.
 */
void dta_worker_run(struct dta_worker *w, int stop_fd);
/* Whether all collectors are ready. Any thread may call it. */
bool dta_worker_ready(const struct dta_worker *w);
/* Returns a number that changes as long as the worker makes progress. Any thread may call it. */
uint64_t dta_worker_turns(const struct dta_worker *w);
/* Adds the worker's account to all. others: number of packets that the inputs ignored. */
void dta_worker_account(const struct dta_worker *w, struct dta_translate_account *all,
			uint64_t *others);
/* Reports the counters of each input, by name. */
void dta_worker_detail(const struct dta_worker *w,
		       void (*say)(void *arg, const char *name, uint64_t value), void *arg);
void dta_worker_free(struct dta_worker *w);

#endif
