// SPDX-License-Identifier: Apache-2.0
/*
 * hold.c - stores held by queries. No thread waits for a query: memory that is replaced while
 * queries hold it is retired, and freed when those that may use it have ended.
 */
#include "dta/store_server/internal.h"

#include <string.h>

bool dta_store_server_hold(struct dta_store_server *o, const char *name, struct dta_held *held)
{
	const struct dta_server_store *s = dta_store_server_store(o, name);

	*held = (struct dta_held){0};
	if (!s)
		return false;
	pthread_mutex_lock(&o->maps);
	for (const struct dta_store_object *at = s->objects; at && held->count < DTA_HELD_MAX;
	     at = at->older)
		held->view[held->count++] = &at->view;
	held->values = s->spec->values;
	held->value_count = s->spec->value_count;
	held->turn = o->turn;
	held->next = o->held;
	o->held = held;
	pthread_mutex_unlock(&o->maps);
	held->keylog = s->spec->keylog;
	memcpy(held->layout, s->spec->layout, sizeof(held->layout));
	held->since_ns = s->begins_ns;
	return true;
}

/* Frees what was retired before the oldest running query began. Unlocks `maps` to do so. */
static void free_retired(struct dta_store_server *o)
{
	struct dta_store_object *objects = NULL, **at = &o->retired;
	struct dta_stores_config *configs = NULL, **old = &o->replaced;
	uint64_t turn = o->turn;

	/* The list is ordered newest first. */
	for (const struct dta_held *h = o->held; h; h = h->next)
		turn = h->turn;
	/* Both lists are ordered newest first as well. */
	while (*at && (*at)->turn > turn)
		at = &(*at)->older;
	objects = *at;
	*at = NULL;
	while (*old && (*old)->turn > turn)
		old = &(*old)->next;
	configs = *old;
	*old = NULL;
	pthread_mutex_unlock(&o->maps);
	while (objects) {
		struct dta_store_object *gone = objects;

		objects = gone->older;
		dta_store_object_let_go(gone);
		dta_store_object_free(gone, true);
	}
	while (configs) {
		struct dta_stores_config *gone = configs;

		configs = gone->next;
		dta_stores_config_free(gone);
	}
}

void dta_store_server_release(struct dta_store_server *o, struct dta_held *held)
{
	struct dta_held **at = &o->held;

	pthread_mutex_lock(&o->maps);
	while (*at != held)
		at = &(*at)->next;
	*at = held->next;
	free_retired(o);
}

void dta_store_server_retire_object(struct dta_store_server *o, struct dta_store_object *gone)
{
	dta_store_server_object_unregister(o, gone);
	pthread_mutex_lock(&o->maps);
	gone->turn = ++o->turn;
	gone->older = o->retired;
	o->retired = gone;
	free_retired(o);
}

void dta_store_server_retire_config(struct dta_store_server *o, struct dta_stores_config *gone)
{
	pthread_mutex_lock(&o->maps);
	gone->turn = ++o->turn;
	gone->next = o->replaced;
	o->replaced = gone;
	free_retired(o);
}

uint64_t dta_store_server_retired_bytes(struct dta_store_server *o)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&o->maps);
	for (const struct dta_store_object *at = o->retired; at; at = at->older)
		bytes += at->map_bytes;
	pthread_mutex_unlock(&o->maps);
	return bytes;
}
