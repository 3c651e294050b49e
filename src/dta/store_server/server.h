/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the store server: makes the objects of stores, announces them to translators over the
 * control channel (control.h), rotates epochs and resizes. It takes no part in writing: its thread
 * sleeps but for messages and epochs.
 */
#ifndef SL_DTA_STORE_SERVER_SERVER_H
#define SL_DTA_STORE_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "dta/store/store.h"

struct dta_store_server;

/* Reads the file of stores, opens or makes them, and listens. NULL with one line in error. */
struct dta_store_server *dta_store_server_new(const char *path, char *error, size_t error_bytes);
/*
 * Opens the RDMA device, if the file names one, after any change of credentials (agent_rdma_start()
 * says why), and serves. 0, or -errno with one line in error.
 */
int dta_store_server_start(struct dta_store_server *o, char *error, size_t error_bytes);
/*
 * Before the start: bounds the memory of all objects that resizing may lead to. 0: half of what the
 * machine has, and of what the limits of its cgroups leave.
 */
void dta_store_server_bound(struct dta_store_server *o, uint64_t max_bytes);
/*
 * Before the start: reloads whenever a signal can be read from this descriptor (base_reload_fd()),
 * which stays the caller's.
 */
void dta_store_server_reload_on(struct dta_store_server *o, int fd);
/* Disconnects translators and ends. Files stay. No query may be running. */
void dta_store_server_free(struct dta_store_server *o);
/*
 * The i-th listening address, "unix:PATH" or "HOST:PORT" with the real port; NULL beyond the last.
 */
const char *dta_store_server_address(const struct dta_store_server *o, size_t i);

/* ---- queries: any thread ---- */

/*
 * Holds a store: its objects stay mapped until they are released. Hold briefly, as a resize waits
 * for it.
 */
/* False: no such store. */
bool dta_store_server_hold(struct dta_store_server *o, const char *name, struct dta_held *held);
void dta_store_server_release(struct dta_store_server *o);

/* ---- status and commands: any thread ---- */

/*
 * The status {"stores":[...],"translators":[...],"account":{...}}, without the load of stores,
 * which requires scanning them. NULL: out of memory.
 */
json_t *dta_store_server_json(struct dta_store_server *o);
/*
 * {"reporters":[{"translator","connected","told_seconds","tenant","reporter",...}],"more":N}: those
 * that each translator heard last, as it told; more: others. NULL: out of memory.
 */
json_t *dta_store_server_reporters(struct dta_store_server *o);
/*
 * The load of a store (dta_query_load_json()) with its measured success. A measurement takes place
 * when this is called, at most once per second and for at most 1 % of a CPU. NULL: no such store,
 * or of another kind.
 */
json_t *dta_store_server_load_json(struct dta_store_server *o, const char *name);
/*
 * Moves the store to an object of this many slots (columns; append: blocks per ring) from its next
 * epoch on. Older data stays readable for as many epochs as the store has. 0: begun, -ENOENT,
 * -EINVAL with one line in error, -EBUSY: translators still write to memory that would be freed,
 * -ENOSPC: over dta_store_server_bound(), -ENOMEM.
 */
int dta_store_server_resize(struct dta_store_server *o, const char *name, uint64_t slots,
			    char *error, size_t error_bytes);
/*
 * Begins the next epoch, now or once no translator writes to the bank it needs. -ENOENT, -EINVAL: a
 * store of one epoch.
 */
int dta_store_server_rotate(struct dta_store_server *o, const char *name);
/*
 * Reads the file again and applies changed sizes, epoch lengths, values, tenants' rates and keys,
 * secret and drain; translators are notified. Any other change, or an invalid file, is refused in
 * one line, counted, and changes nothing: -EINVAL. A refused size returns as
 * dta_store_server_resize(), with the sizes before it in the file applied.
 */
int dta_store_server_reload(struct dta_store_server *o, char *error, size_t error_bytes);

#endif
