/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the store server: creates the objects of stores, announces them to translators over
 * the control channel (control.h), rotates epochs and resizes stores. It is not involved in writing
 * reports; its thread sleeps except for messages and epochs.
 */
#ifndef SL_DTA_STORE_SERVER_SERVER_H
#define SL_DTA_STORE_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "dta/store/store.h"

struct dta_store_server;

/*
 * Reads the stores file, opens or creates the stores, and listens. Returns NULL with one line in
 * error.
 */
struct dta_store_server *dta_store_server_new(const char *path, char *error, size_t error_bytes);
/*
 * Opens the RDMA device if the stores file names one, and starts to serve. Call it after any change
 * of credentials (see agent_rdma_start()). Returns 0, or -errno with one line in error.
 */
int dta_store_server_start(struct dta_store_server *o, char *error, size_t error_bytes);
/*
 * Limits the total memory of objects after resizing. Call it before dta_store_server_start(). 0
 * means half of the machine's memory and half of what the limits of its cgroups leave.
 */
void dta_store_server_bound(struct dta_store_server *o, uint64_t max_bytes);
/*
 * Makes the server reload whenever a signal can be read from this descriptor (base_reload_fd()).
 * Call it before dta_store_server_start(). The caller keeps the descriptor.
 */
void dta_store_server_reload_on(struct dta_store_server *o, int fd);
/* Disconnects translators and stops. Files remain. No query may be running. */
void dta_store_server_free(struct dta_store_server *o);
/*
 * Returns the i-th listening address, "unix:PATH" or "HOST:PORT" with the actual port, or NULL
 * after the last.
 */
const char *dta_store_server_address(const struct dta_store_server *o, size_t i);

/* ---- queries: may be called by any thread ---- */

/*
 * Holds a store, so that its objects stay mapped until it is released. No thread waits for the
 * release, but memory that a resize replaces meanwhile is not freed before it. *held must not be
 * moved until then. Returns false if there is no such store.
 */
bool dta_store_server_hold(struct dta_store_server *o, const char *name, struct dta_held *held);
void dta_store_server_release(struct dta_store_server *o, struct dta_held *held);
/* Returns the name of the i-th store, or NULL after the last. */
const char *dta_store_server_name(const struct dta_store_server *o, size_t i);

/* ---- status and commands: may be called by any thread ---- */

/*
 * Returns the status {"stores":[...],"translators":[...],"account":{...}}, or NULL if out of
 * memory. The status excludes the load of stores, because they would have to be scanned.
 */
json_t *dta_store_server_json(struct dta_store_server *o);
/*
 * Returns
 * {"reporters":[{"translator","connected","told_seconds","tenant","reporter",...}],"more":N}: the
 * most recently active reporters of each translator, from its latest message. more: number of
 * reporters left out. Returns NULL if out of memory.
 */
json_t *dta_store_server_reporters(struct dta_store_server *o);
/*
 * Returns {"exporters":[{"translator","connected","told_seconds","input","address",...}]}: the
 * devices that send to each translator. The address "other" stands for all beyond
 * DTA_EXPORTERS_LISTED per input.
 */
json_t *dta_store_server_exporters(struct dta_store_server *o);
/*
 * Returns the load of a store (dta_query_load_json()) including its measured success. Measures
 * during the call, at most once per second and using at most 1 % of a CPU. Returns NULL if there is
 * no such store or it is of another kind.
 */
json_t *dta_store_server_load_json(struct dta_store_server *o, const char *name);
/*
 * Moves the store to an object with this many slots (columns; for append, blocks per ring),
 * starting with its next epoch. Older data stays readable for as many epochs as the store has.
 * Returns 0 if the resize has started; -ENOENT; -EINVAL with one line in error; -EBUSY if
 * translators still write to memory that would be freed, or the store is being zeroed or filled;
 * -ENOSPC if above the limit of dta_store_server_bound(); or -ENOMEM.
 */
int dta_store_server_resize(struct dta_store_server *o, const char *name, uint64_t slots,
			    char *error, size_t error_bytes);
/*
 * Starts the next epoch, immediately or as soon as no translator writes to the bank it needs.
 * Returns 0, -ENOENT, or -EINVAL for a store with a single epoch.
 */
int dta_store_server_rotate(struct dta_store_server *o, const char *name);
/*
 * Reads the stores file again and applies changed sizes, epoch lengths, values, tenants' rates and
 * keys, secret and drain; translators are notified. An invalid file, or one with any other change,
 * is refused as a whole and counted: returns -EINVAL with one line in error, or -EACCES if it would
 * admit any translator from other hosts. If a size is refused,
 * returns the error of dta_store_server_resize(); sizes that precede it in the file have been
 * applied.
 */
int dta_store_server_reload(struct dta_store_server *o, char *error, size_t error_bytes);

#endif
