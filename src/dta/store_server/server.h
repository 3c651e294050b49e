/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.h - who owns stores: makes their objects, hands them to translators over the control
 * channel (control.h), rotates epochs, resizes. It takes no part in what is written: a thread of
 * its own that sleeps but for messages and epochs.
 */
#ifndef SL_DTA_STORE_SERVER_SERVER_H
#define SL_DTA_STORE_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "dta/store/store.h"

struct dta_store_server;

/* Reads the file, makes or finds the stores, listens. NULL with one line in error. */
struct dta_store_server *dta_store_server_new(const char *path, char *error, size_t error_bytes);
int dta_store_server_start(struct dta_store_server *o); /* 0 or -errno */
/* Before it is started: reloads each time that a signal can be read from this descriptor
 * (base_reload_fd()); the caller's. */
void dta_store_server_reload_on(struct dta_store_server *o, int fd);
/* Tells translators "bye", and ends. Files stay. No query may be under way. */
void dta_store_server_free(struct dta_store_server *o);
/* Where it listens, "unix:PATH" or "HOST:PORT" with the real port; NULL beyond the last. */
const char *dta_store_server_address(const struct dta_store_server *o, size_t i);

/* ---- queries: any thread ---- */

/*
 * A store held: its objects, newest first, stay mapped until they are released. Hold briefly: a
 * resize waits for it. Epochs of the i-th are older than those of the one before.
 */
#define DTA_HELD_MAX 8u
struct dta_held {
	size_t count;
	const struct dta_store_view *view[DTA_HELD_MAX];
	const uint32_t *values; /* postcard: sorted, or NULL */
	size_t value_count;
	const char *keylog; /* "" or the name of its key log */
};
/* False: no such store. */
bool dta_store_server_hold(struct dta_store_server *o, const char *name, struct dta_held *held);
void dta_store_server_release(struct dta_store_server *o);

/* ---- status and orders: any thread ---- */

/*
 * {"stores":[...],"translators":[...],"account":{...}}: everything there is to know, but the load
 * of stores, for which they are to be looked through. NULL: out of memory.
 */
json_t *dta_store_server_json(struct dta_store_server *o);
/*
 * The load of a store as dta_query_load_json() has it, with its success, which is measured when
 * this is asked, but once a second at most, and seldom enough to take no more than 1 % of a CPU.
 * NULL: no such store, or of another kind.
 */
json_t *dta_store_server_load_json(struct dta_store_server *o, const char *name);
/*
 * The store goes on in an object of so many slots (columns; append: blocks of a ring) from its next
 * epoch on. What was before stays readable for as many epochs as the store has. 0 (it was begun),
 * -ENOENT, -EINVAL with a line, -EBUSY: translators still write what would have to go, -ENOMEM.
 */
int dta_store_server_resize(struct dta_store_server *o, const char *name, uint64_t slots,
			    char *error, size_t error_bytes);
/* Begins the next epoch now, or as soon as nobody writes into the bank that it needs. -ENOENT,
 * -EINVAL: has one. */
int dta_store_server_rotate(struct dta_store_server *o, const char *name);
/*
 * Reads the file again: what changed in sizes and lengths of epochs, values of hops, tenants' rates
 * and keys, secret and drain is done, and translators are told; anything else, and a wrong file, is
 * refused in one line and counted, and all stays as it was. -EINVAL; of sizes also as
 * dta_store_server_resize(), and then the sizes before it in the file are done.
 */
int dta_store_server_reload(struct dta_store_server *o, char *error, size_t error_bytes);

#endif
