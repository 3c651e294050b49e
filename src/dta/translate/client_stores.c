// SPDX-License-Identifier: Apache-2.0
/* client_stores.c - the objects and stores announced in a session, and their rotations */
#include "dta/translate/client_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/text.h"
#include "dta/store/guard.h"
#include "dta/store/store.h"

#define LOG "translate"

static struct dta_client_object *find_object(struct dta_client *c, uint32_t number)
{
	for (uint32_t i = 0; i < c->objects; i++)
		if (c->object[i]->o.number == number && c->object[i]->session == c->session)
			return c->object[i];
	return NULL;
}

static void drop_object(struct dta_client *c, uint32_t i)
{
	struct dta_client_object *o = c->object[i];

	if (o->o.map) {
		dta_guard_remove(o->o.map);
		munmap(o->o.map, o->o.bytes);
	}
	free(o);
	c->object[i] = c->object[--c->objects];
}

/* Frees objects that no store uses, except objects of this session that no store has used yet. */
void dta_client_sweep(struct dta_client *c)
{
	for (uint32_t i = c->objects; i-- > 0;) {
		bool used = false;

		for (uint32_t s = 0; s < c->stores; s++)
			used |= c->store[s].object == c->object[i];
		if (!used && (c->object[i]->used || c->object[i]->session != c->session))
			drop_object(c, i);
	}
}

bool dta_client_taken_away(const struct dta_client *c)
{
	for (uint32_t i = 0; i < c->objects; i++)
		if (c->object[i]->o.map && c->object[i]->session == c->session &&
		    dta_guard_faults(c->object[i]->o.map))
			return true;
	return false;
}

const char *dta_client_add_object(struct dta_client *c, const json_t *m, int fd)
{
	const json_int_t number = json_integer_value(json_object_get(m, "number"));
	const json_int_t bytes = json_integer_value(json_object_get(m, "bytes"));
	struct dta_client_object *o;
	struct stat st;

	if (number < 0 || number > UINT32_MAX || bytes < 4096 ||
	    (uint64_t)bytes > SL_STORE_SIZE_MAX)
		return "an object has an invalid number or size";
	if (find_object(c, (uint32_t)number))
		return "two objects have the same number";
	if (c->objects == CLIENT_OBJECTS_MAX)
		return "too many objects";
	o = calloc(1, sizeof(*o));
	if (!o)
		return "no memory";
	o->session = c->session;
	o->o.number = (uint32_t)number;
	o->o.bytes = (uint64_t)bytes;
	o->o.addr = (uint64_t)json_integer_value(json_object_get(m, "addr"));
	o->o.rkey = (uint32_t)json_integer_value(json_object_get(m, "rkey"));
	if (c->opts.output == DTA_CLIENT_SHM) {
		if (fd < 0 || fstat(fd, &st) || st.st_size < bytes) {
			free(o);
			return "an object has no descriptor, or is shorter than announced";
		}
		o->o.map = dta_store_map(fd, (uint64_t)bytes, true);
		if (o->o.map == MAP_FAILED || dta_guard_add(o->o.map, o->o.bytes, fd, -1)) {
			if (o->o.map != MAP_FAILED)
				munmap(o->o.map, o->o.bytes);
			free(o);
			return "an object cannot be mapped";
		}
	}
	c->object[c->objects++] = o;
	return NULL;
}

/* Returns the next block of each list. Returns NULL, with *why NULL, if the message has none. */
static uint64_t *next_blocks(const json_t *m, uint32_t lists, const char **why)
{
	const json_t *all = json_object_get(m, "next");
	uint64_t *next;

	*why = NULL;
	if (!all)
		return NULL;
	if (json_array_size(all) != lists) {
		*why = "the number of next blocks of a store differs from its number of lists";
		return NULL;
	}
	next = calloc(lists, sizeof(*next));
	if (!next) {
		*why = "no memory";
		return NULL;
	}
	for (uint32_t i = 0; i < lists; i++) {
		const json_int_t v = json_integer_value(json_array_get(all, i));

		next[i] = v > 0 ? (uint64_t)v : 0;
	}
	return next;
}

static struct dta_client_store *known_store(struct dta_client *c, uint16_t tenant, uint16_t id)
{
	for (uint32_t i = 0; i < c->stores; i++)
		if (c->store[i].tenant == tenant && c->store[i].id == id)
			return &c->store[i];
	return NULL;
}

const char *dta_client_add_store(struct dta_client *c, const json_t *m)
{
	const json_int_t number = json_integer_value(json_object_get(m, "object"));
	const json_int_t epoch = json_integer_value(json_object_get(m, "epoch"));
	const char *hex = json_string_value(json_object_get(m, "config")), *why;
	struct sl_store_config config;
	struct dta_client_object *o = NULL;
	struct dta_client_store *s;
	uint32_t lane = 0;
	uint64_t *next;
	int err;

	if (number >= 0 && number <= UINT32_MAX)
		o = find_object(c, (uint32_t)number);
	if (!o)
		return "a store is in an unknown object";
	if (!hex || base_unhex(&config, hex, sizeof(config)) || epoch < 0)
		return "a store has no configuration";
	if (dta_store_config_check(&config, c->said, sizeof(c->said)))
		return c->said;
	if (dta_store_object_bytes(&config) > o->o.bytes)
		return "a store is larger than its object";
	/*
	 * Lanes matter only to these kinds. In other stores all translators write to the same
	 * units.
	 */
	if (config.kind == SL_STORE_APPEND || config.kind == SL_STORE_SKETCH)
		lane = c->lane;
	if (lane >= config.lanes)
		return "the lane is beyond the store's number of lanes";
	s = known_store(c, config.tenant, config.id);
	if (!s && c->stores == CLIENT_STORES_MAX)
		return "too many stores";
	next = next_blocks(m, config.lists, &why);
	if (why)
		return why;
	err = dta_engine_store(c->engine, &config, &o->o, lane, (uint64_t)epoch, next);
	free(next);
	if (err)
		return err == -ENOMEM ? "out of memory for a store"
				      : "a store does not match its object";
	if (!s) {
		s = &c->store[c->stores++];
		s->tenant = config.tenant;
		s->id = config.id;
	}
	s->object = o;
	s->session = c->session;
	c->tenant[config.tenant / 64] |= 1ull << config.tenant % 64;
	o->used = true;
	dta_client_sweep(c);
	return NULL;
}

void dta_client_stores_ready(struct dta_client *c)
{
	for (uint32_t i = c->stores; i-- > 0;)
		if (c->store[i].session != c->session) {
			dta_engine_remove(c->engine, c->store[i].tenant, c->store[i].id);
			c->store[i] = c->store[--c->stores];
		}
	dta_client_sweep(c);
	c->ready = true;
	c->backoff_ns = CLIENT_BACKOFF_MIN_NS;
	base_logf(BASE_INFO, LOG, "started writing reports collector=%s stores=%u lane=%u",
		  c->opts.collector, c->stores, c->lane);
}

/* ---- rotation: confirmed only after earlier operations are complete ---- */

static uint64_t settled_operations(const struct dta_client *c)
{
	const struct dta_output_stats *s = &c->out->stats;

	return s->completed + s->failed + s->unconfirmed;
}

const char *dta_client_rotate(struct dta_client *c, const json_t *m)
{
	const json_int_t tenant = json_integer_value(json_object_get(m, "tenant"));
	const json_int_t store = json_integer_value(json_object_get(m, "store"));
	const json_int_t epoch = json_integer_value(json_object_get(m, "epoch"));
	struct dta_client_rotation *r;

	if (tenant < 0 || tenant > UINT16_MAX || store < 0 || store > UINT16_MAX || epoch < 0)
		return "the message about a new epoch is invalid";
	if (c->rotations == CLIENT_STORES_MAX)
		return "too many epoch rotations at once";
	/*
	 * A store that is not known has no pending operations, so its rotation is confirmed as
	 * well.
	 */
	dta_engine_rotate(c->engine, (uint16_t)tenant, (uint16_t)store, (uint64_t)epoch);
	c->out->ops->flush(c->out);
	r = &c->rotation[c->rotations++];
	r->tenant = (uint16_t)tenant;
	r->store = (uint16_t)store;
	r->epoch = (uint64_t)epoch;
	r->settled = settled_operations(c) + c->out->outstanding;
	return NULL;
}

bool dta_client_confirm_rotations(struct dta_client *c)
{
	for (uint32_t i = 0; i < c->rotations;) {
		const struct dta_client_rotation *r = &c->rotation[i];

		if (c->out->outstanding && settled_operations(c) < r->settled) {
			i++;
			continue;
		}
		if (!dta_client_send(c, json_pack("{s:s, s:i, s:i, s:I}", "type", "rotated",
						  "tenant", (int)r->tenant, "store", (int)r->store,
						  "epoch", (json_int_t)r->epoch)))
			return false;
		c->rotation[i] = c->rotation[--c->rotations];
	}
	return true;
}
