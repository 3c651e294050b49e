// SPDX-License-Identifier: Apache-2.0
/* layout.c - fields of keys and values (layout.h) */
#include "dta/query/layout.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/network.h"
#include "base/text.h"
#include "dta/query/json.h"

static bool add_field(struct dta_layout *l, const char *name, const char *size)
{
	const enum dta_field f = dta_field_find(name);
	const bool address = f < DTA_FIELD_ADDRESSES, text = f >= DTA_FIELD_NUMBERS;
	uint64_t bytes = 0;

	if (f == DTA_FIELDS || l->has & DTA_FIELD_BIT(f) || (address && size))
		return false;
	if (!address)
		bytes = dta_field_bytes(f);
	if (size && base_parse_u64(size, 1, text ? UINT8_MAX : 8, &bytes))
		return false;
	l->has |= DTA_FIELD_BIT(f);
	l->of[l->fields].field = (uint8_t)f;
	l->of[l->fields++].bytes = (uint8_t)bytes;
	return true;
}

bool dta_layout_read(const char *names, struct dta_layout *out)
{
	static const char *const tuple[] = {"source", "destination", "source-port",
					    "destination-port", "protocol"};
	char copy[512], *rest = copy, *name, *size;

	*out = (struct dta_layout){0};
	snprintf(copy, sizeof(copy), "%s", names ?: "");
	while (*copy && (name = strsep(&rest, ","))) {
		if (!strcmp(name, "5-tuple")) {
			for (size_t i = 0; i < sizeof(tuple) / sizeof(*tuple); i++)
				if (!add_field(out, tuple[i], NULL))
					return false;
			continue;
		}
		size = name;
		strsep(&size, "/");
		if (!add_field(out, name, size))
			return false;
	}
	return true;
}

/* Returns the total size if addresses have this size: 4 or 16 bytes. */
static uint32_t layout_bytes(const struct dta_layout *l, uint32_t address)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->fields; i++)
		n += l->of[i].bytes ? l->of[i].bytes : address;
	return n;
}

bool dta_layout_fits(char *const names[2], const struct sl_store_config *c, char *error,
		     size_t error_bytes)
{
	struct dta_layout key, value;

	if (dta_layout_read(names[0], &key) && dta_layout_read(names[1], &value) &&
	    layout_bytes(&key, 16) <= SL_STORE_KEY_MAX &&
	    (!value.fields || layout_bytes(&value, 16) == c->value_bytes))
		return true;
	snprintf(error, error_bytes,
		 "store %u of tenant %u: key and fields must name different fields of records "
		 "(docs/dta-devices.md), with at most %u bytes in a key and as many as value in "
		 "fields",
		 c->id, c->tenant, SL_STORE_KEY_MAX);
	return false;
}

bool dta_layout_take(const struct dta_layout *l, const uint8_t *bytes, size_t n,
		     struct dta_record *out)
{
	const uint32_t address = layout_bytes(l, 4) == n ? 4 : 16;

	out->has = 0;
	if (!l->fields || layout_bytes(l, address) != n)
		return false;
	for (uint32_t i = 0; i < l->fields; i++) {
		const uint32_t f = l->of[i].field;
		uint64_t number = 0;

		if (f < DTA_FIELD_ADDRESSES) {
			out->address[f] = base_mapped(bytes, address);
			bytes += address;
		}
		if (f >= DTA_FIELD_NUMBERS) {
			out->text[f - DTA_FIELD_NUMBERS] = (struct dta_text){bytes, l->of[i].bytes};
			bytes += l->of[i].bytes;
			continue;
		}
		for (uint32_t k = 0; k < l->of[i].bytes; k++)
			number = number << 8 | *bytes++;
		out->number[f] = number;
	}
	out->has = l->has;
	return true;
}

/* A text is padded with zeros. A device may send anything, even invalid UTF-8. */
static json_t *text_json(const struct dta_text *t)
{
	const char *at = (const char *)t->at;

	return json_stringn(at, strnlen(at, t->bytes)) ?: json_string("?");
}

static void put_fields(json_t *to, const struct dta_layout *l, const struct dta_record *r)
{
	char text[INET6_ADDRSTRLEN];

	for (uint32_t i = 0; i < l->fields; i++) {
		const enum dta_field f = l->of[i].field;

		dta_query_set(to, dta_field_name(f),
			      f < DTA_FIELD_ADDRESSES
				      ? json_string(base_address_text(&r->address[f], text))
			      : f >= DTA_FIELD_NUMBERS ? text_json(&r->text[f - DTA_FIELD_NUMBERS])
						       : dta_query_number(r->number[f]));
	}
}

static const char *const members[2] = {"key", "value"};

/* Adds the fields of an answer's key (i = 0) or value (i = 1) to an object. */
static bool add_fields(json_t *to, const json_t *answer, const struct dta_held *held, int i)
{
	const char *hex = json_string_value(json_object_get(answer, members[i]));
	const size_t n = hex ? strlen(hex) / 2 : 0;
	uint8_t bytes[SL_STORE_VALUE_MAX];
	struct dta_layout l;
	struct dta_record r;

	if (!held->layout[i] || !n || n > sizeof(bytes) || base_unhex(bytes, hex, n) ||
	    !dta_layout_read(held->layout[i], &l) || !dta_layout_take(&l, bytes, n, &r))
		return false;
	put_fields(to, &l, &r);
	return true;
}

void dta_layout_add(json_t *to, const struct dta_held *held)
{
	for (int i = 0; i < 2; i++)
		add_fields(to, to, held, i);
}

void dta_layout_answer(json_t *to, const struct dta_held *held)
{
	json_t *fields = json_object();

	if (add_fields(fields, to, held, 1))
		json_object_set(to, "fields", fields);
	json_decref(fields);
}

json_t *dta_layout_columns(const json_t *columns, const struct dta_held *held)
{
	json_t *all = json_array(), *column;
	struct dta_layout l;
	size_t i;
	int m;

	json_array_foreach(columns, i, column)
	{
		for (m = 0; m < 2 && strcmp(json_string_value(column) ?: "", members[m]); m++)
			;
		if (m == 2 || !held->layout[m] || !dta_layout_read(held->layout[m], &l)) {
			json_array_append(all, column);
			continue;
		}
		for (uint32_t k = 0; k < l.fields; k++)
			json_array_append_new(all, json_string(dta_field_name(l.of[k].field)));
	}
	return all;
}
