// SPDX-License-Identifier: Apache-2.0
/*
 * sketch.c - merges sketches of one epoch from several collectors; they are split when translators
 * fail over. Reporters number the epochs, so the same number means the same epoch everywhere.
 * Answers are validated before use.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/common/common.h"
#include "cli/query/query.h"
#include "base/text.h"
#include "dta/query/json.h"

/* dta/query/json.c writes integers of more than 63 bits as strings. */
static uint64_t seed_of(const json_t *j)
{
	uint64_t seed;

	if (!base_parse_u64(cli_json_text(j, "seed"), 0, UINT64_MAX, &seed))
		return seed;
	return (uint64_t)cli_json_integer(j, "seed");
}

static bool config_of(const json_t *a, struct sl_store_config *c)
{
	char error[160];

	if (cli_json_integer(a, "columns") <= 0 || cli_json_integer(a, "rows") <= 0 ||
	    cli_json_integer(a, "rows") > 64)
		return false;
	*c = (struct sl_store_config){.kind = SL_STORE_SKETCH,
				      .sketch = dta_store_sketch_of(cli_json_text(a, "sketch")),
				      .seed = seed_of(a),
				      .slots = (uint64_t)cli_json_integer(a, "columns"),
				      .rows = (uint32_t)cli_json_integer(a, "rows"),
				      .lanes = 1,
				      .banks = 1,
				      .reporters = 1};
	return !dta_store_config_check(c, error, sizeof(error)) &&
	       c->slots * c->rows * sl_store_cell_bytes(c) <= DTA_ASK_CELLS_MAX;
}

/* Merges the set of reporters that finished the epoch. Returns false if malformed. */
static bool add_reporters(json_t *all, const json_t *a)
{
	uint64_t map[SL_STORE_REPORTERS_MAX / 64], more[SL_STORE_REPORTERS_MAX / 64];
	json_int_t ended = 0, expected = cli_json_integer(all, "expected");

	if (base_unhex(map, cli_json_text(all, "map"), sizeof(map)) ||
	    base_unhex(more, cli_json_text(a, "map"), sizeof(more)))
		return false;
	for (size_t i = 0; i < SL_STORE_REPORTERS_MAX / 64; i++) {
		map[i] |= more[i];
		ended += __builtin_popcountll(map[i]);
	}
	expected = BASE_MAX(expected, cli_json_integer(a, "expected"));
	return !json_object_update_new(all, json_pack("{s:o,s:I,s:I,s:b,s:I}", "map",
						      dta_query_hex(map, sizeof(map)), "reporters",
						      ended, "expected", expected, "complete",
						      ended >= expected, "cells_merged",
						      cli_json_integer(all, "cells_merged") +
							      cli_json_integer(a, "cells_merged")));
}

static bool merge_cells(json_t *all, const json_t *a, const char *key)
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
	ok = cells && more && !base_unhex(cells, cli_json_text(all, "cells"), bytes) &&
	     !base_unhex(more, cli_json_text(a, "cells"), bytes) && add_reporters(all, a);
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
	const bool both = cli_json_is(a, "result", "found") && cli_json_is(all, "result", "found");

	if (both && cli_json_integer(a, "epoch") == cli_json_integer(all, "epoch"))
		says_more = !merge_cells(all, a, key) &&
			    cli_json_integer(a, "reporters") > cli_json_integer(all, "reporters");
	else if (both)
		says_more = cli_json_integer(a, "epoch") > cli_json_integer(all, "epoch");
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
