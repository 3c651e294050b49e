// SPDX-License-Identifier: Apache-2.0
/* sketch.c - see sketch.h. Answers are checked before they are used. */
#include "cli/query/sketch.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/text.h"
#include "dta/query/json.h"

static const char *word(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

static json_int_t number(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

/* dta/query/json.c gives numbers beyond 63 bits as digits. */
static uint64_t seed_of(const json_t *j)
{
	uint64_t seed;

	if (!base_parse_u64(word(j, "seed"), 0, UINT64_MAX, &seed))
		return seed;
	return (uint64_t)number(j, "seed");
}

static bool config_of(const json_t *a, struct sl_store_config *c)
{
	char error[160];

	if (number(a, "columns") <= 0 || number(a, "rows") <= 0 || number(a, "rows") > 64)
		return false;
	*c = (struct sl_store_config){.kind = SL_STORE_SKETCH,
				      .sketch = dta_store_sketch_of(word(a, "sketch")),
				      .seed = seed_of(a),
				      .slots = (uint64_t)number(a, "columns"),
				      .rows = (uint32_t)number(a, "rows"),
				      .lanes = 1,
				      .banks = 1,
				      .reporters = 1};
	return !dta_store_config_check(c, error, sizeof(error)) &&
	       c->slots * c->rows * sl_store_cell_bytes(c) <= DTA_ASK_CELLS_MAX;
}

/* Joins the reporters that ended the epoch. False: malformed. */
static bool add_reporters(json_t *all, const json_t *a)
{
	uint64_t map[SL_STORE_REPORTERS_MAX / 64], more[SL_STORE_REPORTERS_MAX / 64];
	json_int_t ended = 0, expected = number(all, "expected");

	if (base_unhex(map, word(all, "map"), sizeof(map)) ||
	    base_unhex(more, word(a, "map"), sizeof(more)))
		return false;
	for (size_t i = 0; i < SL_STORE_REPORTERS_MAX / 64; i++) {
		map[i] |= more[i];
		ended += __builtin_popcountll(map[i]);
	}
	if (number(a, "expected") > expected)
		expected = number(a, "expected");
	json_object_set_new(all, "map", dta_query_hex(map, sizeof(map)));
	json_object_set_new(all, "reporters", json_integer(ended));
	json_object_set_new(all, "expected", json_integer(expected));
	json_object_set_new(all, "complete", json_boolean(ended >= expected));
	json_object_set_new(all, "cells_merged",
			    json_integer(number(all, "cells_merged") + number(a, "cells_merged")));
	return true;
}

static bool merged(json_t *all, const json_t *a, const char *key)
{
	struct sl_store_config c, other;
	struct dta_sketch_estimate e;
	uint8_t bytes_of_key[SL_STORE_KEY_MAX];
	int n = key ? dta_query_key(key, bytes_of_key) : 0;
	void *cells, *more;
	uint64_t bytes;
	bool ok;

	if (!config_of(all, &c) || !config_of(a, &other) || memcmp(&c, &other, sizeof(c)))
		return false;
	bytes = c.slots * c.rows * sl_store_cell_bytes(&c);
	cells = malloc(sl_pad8(bytes));
	more = malloc(sl_pad8(bytes));
	ok = cells && more && !base_unhex(cells, word(all, "cells"), bytes) &&
	     !base_unhex(more, word(a, "cells"), bytes) && add_reporters(all, a);
	if (ok) {
		dta_sketch_merge(&c, cells, more);
		json_object_set_new(all, "cells", dta_query_hex(cells, bytes));
		if (!dta_sketch_estimate(&c, cells, n > 0 ? bytes_of_key : NULL,
					 n > 0 ? (size_t)n : 0, &e)) {
			json_object_set_new(all, "estimate", json_real(e.value));
			json_object_set_new(all, "error", json_real(e.error));
		}
	}
	free(cells);
	free(more);
	return ok;
}

void cli_query_add_sketch(json_t *all, const json_t *a, const char *key, bool says_more)
{
	const bool both = !strcmp(word(a, "result"), "found") &&
			  !strcmp(word(all, "result"), "found");

	if (both && number(a, "epoch") == number(all, "epoch"))
		says_more = !merged(all, a, key) &&
			    number(a, "reporters") > number(all, "reporters");
	else if (both)
		says_more = number(a, "epoch") > number(all, "epoch");
	if (!says_more)
		return;
	json_object_clear(all);
	json_object_update(all, (json_t *)(uintptr_t)a);
}

void cli_query_end_sketch(json_t *all)
{
	static const char *const of_cells[] = {"rows", "columns", "seed", "map", "cells"};

	for (size_t i = 0; i < sizeof(of_cells) / sizeof(*of_cells); i++)
		json_object_del(all, of_cells[i]);
}
