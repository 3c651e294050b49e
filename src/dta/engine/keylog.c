// SPDX-License-Identifier: Apache-2.0
/*
 * keylog.c - the key log. A store of hashes can't list its keys, so keys not seen recently are
 * appended to an append store, which queries read. The filter keeps the latest hash per place. It
 * may log a key twice, and misses a key of the epoch only on a 64-bit collision.
 */
#include "dta/engine/impl.h"

void dta_engine_keylog_block(struct dta_engine *e, struct dta_engine_store *s,
			     const struct dta_block *b)
{
	struct dta_engine_store *log = dta_engine_find(e, s->c.tenant, (uint16_t)(s->c.keylog - 1));
	const uint8_t *key = b->items;

	if (!log || log->kind != &dta_engine_append || b->key_bytes >= log->c.value_bytes ||
	    s->c.keylog_list >= log->c.lists)
		return;
	if (!s->keylog->marked) {
		/* A mark has length 0 and states the epoch of the keys that follow. */
		const uint8_t value[SL_STORE_KEYLOG_MARK_BYTES] = {
			0, (uint8_t)s->epoch, (uint8_t)(s->epoch >> 8), (uint8_t)(s->epoch >> 16),
			(uint8_t)(s->epoch >> 24)};

		s->keylog->marked = dta_engine_append_logged(e, log, s->c.keylog_list, value,
							     sizeof(value));
		if (!s->keylog->marked)
			return; /* the log is full; the key is logged when it is next reported */
	}
	for (uint32_t i = 0; i < b->count; i++, key += b->key_bytes + b->value_bytes) {
		struct dta_hash h = dta_hash(key, b->key_bytes, s->c.seed);
		uint64_t *seen = &s->keylog->seen[h.hi % ENGINE_KEYLOG_PLACES],
			 mark = h.lo ? h.lo : 1;
		uint8_t value[2 + SL_STORE_KEY_MAX];
		uint32_t bytes = 2u + b->key_bytes;

		if (*seen == mark)
			continue;
		value[0] = b->key_bytes;
		memcpy(value + 1, key, b->key_bytes);
		value[1 + b->key_bytes] = b->copies;
		if (bytes > log->c.value_bytes)
			bytes = log->c.value_bytes;
		if (dta_engine_append_logged(e, log, s->c.keylog_list, value, bytes))
			*seen = mark;
	}
}
