// SPDX-License-Identifier: Apache-2.0
/*
 * keylog.c - the key log. A store of hashes can't list its keys, so keys not seen recently are
 * appended to an append store, which queries read. The filter keeps some hashes per cache line. It
 * may log a key twice, and misses a key of the epoch only on a 64-bit collision.
 */
#include "dta/engine/impl.h"
#include "dta/store/hash_many.h"

static uint64_t *line_of(struct dta_engine_store *s, struct dta_hash h)
{
	const uintptr_t first = ((uintptr_t)s->keylog->seen + 63) & ~(uintptr_t)63;

	return (uint64_t *)first + h.hi % ENGINE_KEYLOG_LINES * ENGINE_KEYLOG_WAYS;
}

/* Returns whether the key's mark is in its line. */
static bool was_seen(const uint64_t line[ENGINE_KEYLOG_WAYS], uint64_t mark)
{
	bool seen = false;

	for (uint32_t i = 0; i < ENGINE_KEYLOG_WAYS; i++)
		seen |= line[i] == mark;
	return seen;
}

/*
 * Logs a mark, which has length 0 and states the epoch of the keys that follow. A ring may wrap
 * within an epoch, so the mark is repeated often enough for the ring to contain it.
 */
static bool log_mark(struct dta_engine *e, struct dta_engine_store *s, struct dta_engine_store *log)
{
	const uint8_t value[SL_STORE_KEYLOG_MARK_BYTES] = {
		0, (uint8_t)s->epoch, (uint8_t)(s->epoch >> 8), (uint8_t)(s->epoch >> 16),
		(uint8_t)(s->epoch >> 24)};

	if (!dta_engine_append_logged(e, log, s->c.keylog_list, value, sizeof(value)))
		return false;
	s->keylog->until_mark = 1 + log->c.slots / 4;
	return true;
}

static void log_key(struct dta_engine *e, struct dta_engine_store *s, struct dta_engine_store *log,
		    const struct dta_block *b, const uint8_t *key, struct dta_hash h)
{
	const uint64_t mark = h.lo ? h.lo : 1;
	uint64_t *line = line_of(s, h);
	uint8_t value[2 + SL_STORE_KEY_MAX];
	uint32_t bytes = 2u + b->key_bytes;

	if (was_seen(line, mark))
		return;
	if (!s->keylog->until_mark && !log_mark(e, s, log))
		return; /* the log is full; the key is logged when it is next reported */
	value[0] = b->key_bytes;
	memcpy(value + 1, key, b->key_bytes);
	value[1 + b->key_bytes] = b->copies;
	if (bytes > log->c.value_bytes)
		bytes = log->c.value_bytes;
	if (!dta_engine_append_logged(e, log, s->c.keylog_list, value, bytes))
		return;
	s->keylog->until_mark--;
	/* The oldest mark of the line is evicted. */
	memmove(line + 1, line, (ENGINE_KEYLOG_WAYS - 1) * sizeof(*line));
	line[0] = mark;
}

void dta_engine_keylog_block(struct dta_engine *e, struct dta_engine_store *s,
			     const struct dta_block *b)
{
	struct dta_engine_store *log = dta_engine_find(e, s->c.tenant, (uint16_t)(s->c.keylog - 1));
	const uint32_t step = (uint32_t)b->key_bytes + b->value_bytes;
	const uint8_t *key = b->items;
	struct dta_hashes h;

	if (!log || log->kind != &dta_engine_append || b->key_bytes >= log->c.value_bytes ||
	    s->c.keylog_list >= log->c.lists)
		return;
	for (uint32_t left = b->count, n; left; left -= n, key += (uint64_t)n * step) {
		n = left < DTA_MANY ? left : DTA_MANY;
		dta_hash_many(key, b->key_bytes, step, s->c.seed, n, &h);
		for (uint32_t i = 0; i < n; i++)
			__builtin_prefetch(line_of(s, dta_hash_of(&h, i)), 1);
		for (uint32_t i = 0; i < n; i++)
			log_key(e, s, log, b, key + (uint64_t)i * step, dta_hash_of(&h, i));
	}
}
