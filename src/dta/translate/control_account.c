/* SPDX-License-Identifier: Apache-2.0 */
/* control_account.c - converts a translator's account to and from JSON, and adds accounts */
#include "dta/translate/control.h"

#include <stddef.h>
#include <string.h>

/* Returns false if out of memory. */
static bool put_number(json_t *j, const char *name, uint64_t v)
{
	return !json_object_set_new(j, name, json_integer((json_int_t)v));
}

/* ---- parts: a table of names and offsets per part, for both directions ---- */

struct control_account_field {
	const char *name;
	size_t at;
};

#define FIELD(type, name)                          \
	{                                          \
#name, offsetof(struct type, name) \
	}
#define T(name) FIELD(dta_translate_account, name)
#define L(name) FIELD(dta_loss_stats, name)
#define E(name) FIELD(dta_engine_stats, name)
#define O(name) FIELD(dta_output_stats, name)
#define D(name) FIELD(dta_device_stats, name)
#define M(name) FIELD(dta_map_stats, name)

static const struct control_account_field
	top[] = {T(packets),	      T(packets_taken),	 T(refused_tenant),
		 T(refused_reporter), T(refused_source), T(socket_drops),
		 T(handover_drops),   T(unread),	 T(slowed),
		 T(reports),	      T(fresh),		 T(maybe_twice),
		 T(unreplicated),     T(held_back),	 {0}},
	loss[] = {L(expected), L(arrived),   L(duplicates), L(late),	  L(reordered),
		  L(missing),  L(lost),	     L(recovered),  L(nacks),	  L(restarts),
		  L(refused),  L(reporters), L(forgotten),  L(unordered), L(collisions),
		  L(jumps),    {0}},
	engine[] = {E(in),     E(stored),	  E(waiting), E(merged),
		    E(units),  E(operations),	  E(paths),   E(paths_partial),
		    E(blocks), E(blocks_partial), E(evicted), E(immediates),
		    {0}},
	decoder[] = {D(datagrams), D(records),	 D(options),   D(lost),
		     D(restarts),  D(exporters), D(templates), {0}},
	map[] = {M(reports), M(unmapped), M(saturated), {0}},
	output[] = {O(writes), O(adds),	 O(immediates), O(bytes),   O(completed), O(unconfirmed),
		    O(failed), O(again), O(naks),	O(resyncs), O(connects),  O(disconnects),
		    {0}};

/* Returns NULL if out of memory. */
static json_t *part_json(const struct control_account_field *f, const void *of)
{
	json_t *j = json_object();

	for (; j && f->name; f++) {
		uint64_t v;

		memcpy(&v, (const char *)of + f->at, sizeof(v));
		if (!put_number(j, f->name, v)) {
			json_decref(j);
			return NULL;
		}
	}
	return j;
}

static void part_of(const json_t *j, const struct control_account_field *f, void *to)
{
	for (; f->name; f++) {
		const uint64_t v = dta_control_number(j, f->name);

		memcpy((char *)to + f->at, &v, sizeof(v));
	}
}

/* Converts the account of one kind of input. Returns NULL if out of memory. */
static json_t *device_json(const struct dta_device_account *d)
{
	json_t *j = part_json(decoder, &d->decoder), *reports = part_json(map, &d->map);
	json_t *refused = json_object();
	bool whole = !json_object_update(j, reports);

	json_decref(reports);
	for (int r = DTA_DEVICE_FINE + 1; r < DTA_DEVICE_REFUSALS; r++)
		whole &= put_number(refused, dta_device_refusal_name((enum dta_device_refusal)r),
				    d->decoder.refused[r]);
	whole &= put_number(j, "unproven", d->unproven);
	whole &= !json_object_set_new(j, "refused", refused);
	if (whole)
		return j;
	json_decref(j);
	return NULL;
}

static void device_of_json(const json_t *j, struct dta_device_account *d)
{
	const json_t *refused = json_object_get(j, "refused");

	part_of(j, decoder, &d->decoder);
	part_of(j, map, &d->map);
	d->unproven = dta_control_number(j, "unproven");
	for (int r = DTA_DEVICE_FINE + 1; r < DTA_DEVICE_REFUSALS; r++)
		d->decoder.refused[r] = dta_control_number(
			refused, dta_device_refusal_name((enum dta_device_refusal)r));
}

json_t *dta_account_json(const struct dta_translate_account *a)
{
	json_t *all = part_json(top, a), *refused = json_object(), *dropped = json_object();
	json_t *eng = part_json(engine, &a->engine), *out = part_json(output, &a->output);
	json_t *devices = json_object();
	bool whole = true;

	for (int r = DTA_FINE + 1; r < DTA_REFUSALS; r++)
		whole &= put_number(refused, dta_refusal_name((enum dta_refusal)r), a->refused[r]);
	for (int d = 0; d < DTA_DROPS; d++)
		whole &= put_number(dropped, dta_engine_drop_name((enum dta_engine_drop)d),
				    a->engine.dropped[d]);
	whole &= !json_object_set_new(eng, "dropped", dropped);
	whole &= !json_object_set_new(
		out, "last_error",
		json_stringn_nocheck(a->output.last_error,
				     strnlen(a->output.last_error, sizeof(a->output.last_error))));
	whole &= !json_object_set_new(all, "refused", refused);
	whole &= !json_object_set_new(all, "loss", part_json(loss, &a->loss));
	/*
	 * Include only kinds with at least one datagram, because most translators have no such
	 * input.
	 */
	for (int d = 0; d < DTA_DEVICES; d++)
		if (a->device[d].decoder.datagrams)
			whole &= !json_object_set_new(devices, dta_device_name((enum dta_device)d),
						      device_json(&a->device[d]));
	whole &= !json_object_set_new(all, "devices", devices);
	whole &= !json_object_set_new(all, "engine", eng);
	whole &= !json_object_set_new(all, "output", out);
	if (whole)
		return all;
	json_decref(all);
	return NULL;
}

void dta_account_of_json(const json_t *j, struct dta_translate_account *a)
{
	const json_t *refused = json_object_get(j, "refused"), *eng = json_object_get(j, "engine");
	const json_t *devices = json_object_get(j, "devices");
	const json_t *dropped = json_object_get(eng, "dropped"),
		     *out = json_object_get(j, "output");
	const char *error = json_string_value(json_object_get(out, "last_error"));

	memset(a, 0, sizeof(*a));
	part_of(j, top, a);
	part_of(json_object_get(j, "loss"), loss, &a->loss);
	part_of(eng, engine, &a->engine);
	part_of(out, output, &a->output);
	for (int r = DTA_FINE + 1; r < DTA_REFUSALS; r++)
		a->refused[r] = dta_control_number(refused, dta_refusal_name((enum dta_refusal)r));
	for (int d = 0; d < DTA_DROPS; d++)
		a->engine.dropped[d] =
			dta_control_number(dropped, dta_engine_drop_name((enum dta_engine_drop)d));
	for (int d = 0; d < DTA_DEVICES; d++)
		device_of_json(json_object_get(devices, dta_device_name((enum dta_device)d)),
			       &a->device[d]);
	if (error)
		strncpy(a->output.last_error, error, sizeof(a->output.last_error) - 1);
	/*
	 * The text is untrusted and possibly truncated within a character, so keep only printable
	 * ASCII.
	 */
	for (char *s = a->output.last_error; *s; s++)
		*s = *s < ' ' || *s > '~' ? '?' : *s;
}

void dta_account_add(struct dta_translate_account *to, const struct dta_translate_account *from)
{
	const size_t bytes = offsetof(struct dta_translate_account, output) +
			     offsetof(struct dta_output_stats, last_error);

	_Static_assert(offsetof(struct dta_translate_account, output) % 8 == 0, "only counters");
	dta_add_counters(to, from, bytes);
	if (from->output.last_error[0])
		memcpy(to->output.last_error, from->output.last_error,
		       sizeof(to->output.last_error));
}
