// SPDX-License-Identifier: Apache-2.0
/* dta_sketch.c - sketches of reporters, and the estimates that the merged one must give. */
#include "cli/generate/dta.h"

#include <errno.h>
#include <stdlib.h>

#include "dta/query/query.h"

struct sl_store_config cli_dta_sketch_store(const struct cli_dta_settings *s)
{
	return (struct sl_store_config){.kind = SL_STORE_SKETCH,
					.sketch = s->hll	    ? SL_STORE_HLL
						  : s->count_sketch ? SL_STORE_COUNT_SKETCH
								    : SL_STORE_COUNT_MIN,
					.rows = s->rows,
					.slots = s->columns};
}

int cli_dta_sketch_open(struct cli_dta_load *l)
{
	const struct cli_dta_settings *s = l->s;
	const struct sl_store_config c = cli_dta_sketch_store(s);
	const uint64_t cells = (uint64_t)s->rows * s->columns;
	uint64_t keys = BASE_MIN(s->keys, GD_SKETCH_KEYS);
	uint8_t key[SL_STORE_KEY_MAX];

	for (uint32_t i = 0; i < GD_SKETCHES; i++) {
		struct dta_sketch_maker *m = dta_sketch_maker_new(&c);
		int err = m ? 0 : -ENOMEM;

		if (!l->cells_of[i])
			l->cells_of[i] = calloc(cells, 8);
		for (uint64_t n = 0; m && n < keys; n++) {
			if (n % GD_SKETCHES != i && n % GD_SKETCHES != (i + 1) % GD_SKETCHES)
				continue;
			cli_dta_key(s, n, key);
			dta_sketch_maker_add(m, key, s->key_bytes, 1 + (s->seed + n) % 100);
		}
		if (!err)
			err = l->cells_of[i] ? dta_sketch_maker_cells(m, l->cells_of[i]) : -ENOMEM;
		dta_sketch_maker_free(m);
		if (err)
			return err;
	}
	return 0;
}

int cli_dta_sketch_estimate(const struct cli_dta_load *l, const void *key,
			    struct dta_sketch_estimate *out)
{
	const struct cli_dta_settings *s = l->s;
	const struct sl_store_config c = cli_dta_sketch_store(s);
	uint8_t *registers;
	int err;

	if (!s->hll)
		return dta_sketch_estimate(&c, l->cell, key, s->key_bytes, out);
	registers = malloc(s->columns);
	if (!registers)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->columns; i++)
		registers[i] = (uint8_t)l->cell[i];
	err = dta_sketch_estimate(&c, registers, NULL, 0, out);
	free(registers);
	return err;
}
