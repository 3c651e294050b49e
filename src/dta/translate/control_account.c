/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - a translator's account as JSON and back. */
#include "dta/translate/control.h"

#include <string.h>

static void put(json_t *j, const char *name, uint64_t v)
{
	json_object_set_new(j, name, json_integer((json_int_t)v));
}

static uint64_t get(const json_t *j, const char *name)
{
	const json_int_t v = json_integer_value(json_object_get(j, name));

	return v > 0 ? (uint64_t)v : 0;
}

/* ---- each part: a table of names and places, so that both ways say the same ------------------------- */

struct field {
	const char *name;
	size_t at;
};

#define FIELD(type, name)                          \
	{                                          \
#name, offsetof(struct type, name) \
	}

static const struct field top[] = {
	FIELD(sl_translate_account, packets),
	FIELD(sl_translate_account, packets_taken),
	FIELD(sl_translate_account, refused_tenant),
	FIELD(sl_translate_account, refused_reporter),
	FIELD(sl_translate_account, socket_drops),
	FIELD(sl_translate_account, unread),
	FIELD(sl_translate_account, slowed),
	FIELD(sl_translate_account, reports),
	FIELD(sl_translate_account, fresh),
	FIELD(sl_translate_account, maybe_twice),
	{0},
};

static const struct field loss[] = {
	FIELD(sl_loss_stats, expected),	  FIELD(sl_loss_stats, arrived),
	FIELD(sl_loss_stats, duplicates), FIELD(sl_loss_stats, late),
	FIELD(sl_loss_stats, reordered),  FIELD(sl_loss_stats, missing),
	FIELD(sl_loss_stats, lost),	  FIELD(sl_loss_stats, recovered),
	FIELD(sl_loss_stats, nacks),	  FIELD(sl_loss_stats, restarts),
	FIELD(sl_loss_stats, refused),	  FIELD(sl_loss_stats, reporters),
	FIELD(sl_loss_stats, forgotten),  {0},
};

static const struct field engine[] = {
	FIELD(sl_engine_stats, in),
	FIELD(sl_engine_stats, stored),
	FIELD(sl_engine_stats, waiting),
	FIELD(sl_engine_stats, merged),
	FIELD(sl_engine_stats, units),
	FIELD(sl_engine_stats, operations),
	FIELD(sl_engine_stats, paths),
	FIELD(sl_engine_stats, paths_partial),
	FIELD(sl_engine_stats, blocks),
	FIELD(sl_engine_stats, blocks_partial),
	FIELD(sl_engine_stats, evicted),
	FIELD(sl_engine_stats, immediates),
	{0},
};

static const struct field output[] = {
	FIELD(sl_output_stats, writes),
	FIELD(sl_output_stats, adds),
	FIELD(sl_output_stats, immediates),
	FIELD(sl_output_stats, bytes),
	FIELD(sl_output_stats, completed),
	FIELD(sl_output_stats, unconfirmed),
	FIELD(sl_output_stats, failed),
	FIELD(sl_output_stats, again),
	FIELD(sl_output_stats, naks),
	FIELD(sl_output_stats, resyncs),
	FIELD(sl_output_stats, connects),
	FIELD(sl_output_stats, disconnects),
	{0},
};

static json_t *part(const struct field *f, const void *of)
{
	json_t *j = json_object();

	for (; f->name; f++) {
		uint64_t v;

		memcpy(&v, (const char *)of + f->at, sizeof(v));
		put(j, f->name, v);
	}
	return j;
}

static void part_of(const json_t *j, const struct field *f, void *to)
{
	for (; f->name; f++) {
		const uint64_t v = get(j, f->name);

		memcpy((char *)to + f->at, &v, sizeof(v));
	}
}

json_t *sl_account_json(const struct sl_translate_account *a)
{
	json_t *all = part(top, a), *refused = json_object(), *dropped = json_object();
	json_t *eng = part(engine, &a->engine), *out = part(output, &a->output);

	for (int r = SL_DTA_FINE + 1; r < SL_DTA_REFUSALS; r++)
		put(refused, sl_dta_refusal_name((enum sl_dta_refusal)r), a->refused[r]);
	for (int d = 0; d < SL_DROPS; d++)
		put(dropped, sl_engine_drop_name((enum sl_engine_drop)d), a->engine.dropped[d]);
	json_object_set_new(eng, "dropped", dropped);
	json_object_set_new(
		out, "last_error",
		json_stringn_nocheck(a->output.last_error,
				     strnlen(a->output.last_error, sizeof(a->output.last_error))));
	json_object_set_new(all, "refused", refused);
	json_object_set_new(all, "loss", part(loss, &a->loss));
	json_object_set_new(all, "engine", eng);
	json_object_set_new(all, "output", out);
	return all;
}

void sl_account_of_json(const json_t *j, struct sl_translate_account *a)
{
	const json_t *refused = json_object_get(j, "refused"), *eng = json_object_get(j, "engine");
	const json_t *dropped = json_object_get(eng, "dropped"),
		     *out = json_object_get(j, "output");
	const char *error = json_string_value(json_object_get(out, "last_error"));

	memset(a, 0, sizeof(*a));
	part_of(j, top, a);
	part_of(json_object_get(j, "loss"), loss, &a->loss);
	part_of(eng, engine, &a->engine);
	part_of(out, output, &a->output);
	for (int r = SL_DTA_FINE + 1; r < SL_DTA_REFUSALS; r++)
		a->refused[r] = get(refused, sl_dta_refusal_name((enum sl_dta_refusal)r));
	for (int d = 0; d < SL_DROPS; d++)
		a->engine.dropped[d] = get(dropped, sl_engine_drop_name((enum sl_engine_drop)d));
	if (error)
		strncpy(a->output.last_error, error, sizeof(a->output.last_error) - 1);
}
