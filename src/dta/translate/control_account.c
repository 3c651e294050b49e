/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_account.c - converts a translator's account to and from JSON, and adds accounts. The same
 * functions convert in both directions, so that each field is named once.
 */
#include "dta/translate/control.h"

#include <stddef.h>
#include <string.h>

struct conversion {
	bool reads;  /* true: from JSON; false: to JSON */
	bool failed; /* out of memory */
};

static void convert_number(struct conversion *c, json_t *j, const char *name, uint64_t *v)
{
	if (c->reads)
		*v = dta_control_number(j, name);
	else
		c->failed |= json_object_set_new(j, name, json_integer((json_int_t)*v)) != 0;
}

/* Returns the member object with this name: a new one in j, or NULL if j is read and has none. */
static json_t *part_of(struct conversion *c, json_t *j, const char *name)
{
	if (!c->reads)
		c->failed |= json_object_set_new(j, name, json_object()) != 0;
	return json_object_get(j, name);
}

/* ---- a table of names and offsets per part ---- */

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
	output[] = {
		O(writes),	O(adds),	O(immediates),	   O(bytes),	      O(completed),
		O(unconfirmed), O(failed),	O(again),	   O(naks),	      O(resyncs),
		O(connects),	O(disconnects), O(interface_gone), O(interface_down), {0}};

static void convert_fields(struct conversion *c, json_t *j, const struct control_account_field *f,
			   void *of)
{
	for (; f->name; f++)
		convert_number(c, j, f->name, (uint64_t *)(void *)((char *)of + f->at));
}

static void convert_device(struct conversion *c, json_t *j, struct dta_device_account *d)
{
	json_t *refused;

	convert_fields(c, j, decoder, &d->decoder);
	convert_fields(c, j, map, &d->map);
	convert_number(c, j, "unproven", &d->unproven);
	refused = part_of(c, j, "refused");
	for (int r = DTA_DEVICE_FINE + 1; r < DTA_DEVICE_REFUSALS; r++)
		convert_number(c, refused, dta_device_refusal_name((enum dta_device_refusal)r),
			       &d->decoder.refused[r]);
}

/* Converts everything except last_error. */
static void convert_account(struct conversion *c, json_t *j, struct dta_translate_account *a)
{
	json_t *part;

	convert_fields(c, j, top, a);
	part = part_of(c, j, "refused");
	for (int r = DTA_FINE + 1; r < DTA_REFUSALS; r++)
		convert_number(c, part, dta_refusal_name((enum dta_refusal)r), &a->refused[r]);
	convert_fields(c, part_of(c, j, "loss"), loss, &a->loss);
	/*
	 * Include only kinds with at least one datagram, because most translators have no such
	 * input.
	 */
	part = part_of(c, j, "devices");
	for (int d = 0; d < DTA_DEVICES; d++)
		if (c->reads || a->device[d].decoder.datagrams)
			convert_device(c, part_of(c, part, dta_device_name((enum dta_device)d)),
				       &a->device[d]);
	part = part_of(c, j, "engine");
	convert_fields(c, part, engine, &a->engine);
	part = part_of(c, part, "dropped");
	for (int d = 0; d < DTA_DROPS; d++)
		convert_number(c, part, dta_engine_drop_name((enum dta_engine_drop)d),
			       &a->engine.dropped[d]);
	convert_fields(c, part_of(c, j, "output"), output, &a->output);
}

json_t *dta_account_json(const struct dta_translate_account *a)
{
	struct dta_translate_account copy = *a;
	struct conversion c = {.reads = false};
	json_t *j = json_object();
	const char *error = copy.output.last_error;

	convert_account(&c, j, &copy);
	c.failed |= json_object_set_new(
			    json_object_get(j, "output"), "last_error",
			    json_stringn_nocheck(
				    error, strnlen(error, sizeof(copy.output.last_error)))) != 0;
	if (!c.failed)
		return j;
	json_decref(j);
	return NULL;
}

void dta_account_of_json(const json_t *j, struct dta_translate_account *a)
{
	struct conversion c = {.reads = true};
	const char *error =
		json_string_value(json_object_get(json_object_get(j, "output"), "last_error"));

	memset(a, 0, sizeof(*a));
	convert_account(&c, (json_t *)(uintptr_t)j, a);
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
