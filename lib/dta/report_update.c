// SPDX-License-Identifier: Apache-2.0
/*
 * report_update.c - when a packet is settled before older packets, copies its values into them.
 * Otherwise, resending an older packet to a translator that does not know the newer one, because it
 * restarted or is a different translator, would bring back old values.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

#include "dta/wire/endian.h"
#include "report.h"

/* A block in one of our own packets. */
struct update_block {
	const uint8_t *header;
	uint32_t at; /* offset of the block's header; the items follow it */
	uint32_t count, store;
	uint32_t key_bytes, value_bytes; /* the hop of a postcard counts as part of the key */
	bool writes;
};

static bool next_block(const uint8_t *p, uint32_t bytes, uint32_t *at, struct update_block *b)
{
	const uint8_t *h = p + *at;
	bool hop;

	if (*at + DTA_BLOCK_BYTES > bytes)
		return false;
	hop = h[0] == DTA_POSTCARD;
	*b = (struct update_block){.header = h,
				   .at = *at,
				   .count = dta_get16(h + 2),
				   .key_bytes = h[5] + hop,
				   .value_bytes = dta_get16(h + 6) - hop,
				   .store = dta_get16(h + 8),
				   .writes = hop || h[0] == DTA_KEYWRITE};
	*at += DTA_BLOCK_BYTES + b->count * (b->key_bytes + b->value_bytes);
	return true;
}

static uint8_t *item_of(uint8_t *p, const struct update_block *b, uint32_t i)
{
	return p + b->at + DTA_BLOCK_BYTES + i * (b->key_bytes + b->value_bytes);
}

/*
 * Finds the hash table entry of a key. An entry holds the offsets of the block's header and of the
 * item, 16 bits each; 0 means free.
 */
static uint32_t *place_of(const struct sl_reporter *r, uint8_t *p, const struct update_block *b,
			  const uint8_t *key)
{
	uint64_t i = XXH3_64bits_withSeed(key, b->key_bytes, b->store);

	for (;; i++) {
		uint32_t *place = &r->place[i & r->place_mask];
		const uint8_t *h = p + (*place >> 16);

		/* Compare opcode, lengths and store. */
		if (!*place || (h[0] == b->header[0] && !memcmp(h + 5, b->header + 5, 5) &&
				!memcmp(p + (*place & 0xffff), key, b->key_bytes)))
			return place;
	}
}

static bool index_items(const struct sl_reporter *r, uint8_t *p, uint32_t bytes)
{
	uint32_t at = DTA_HEADER_BYTES;
	struct update_block b;
	bool any = false;

	memset(r->place, 0, (r->place_mask + 1) * sizeof(*r->place));
	while (next_block(p, bytes, &at, &b))
		for (uint32_t i = 0; b.writes && i < b.count; i++) {
			const uint8_t *item = item_of(p, &b, i);

			*place_of(r, p, &b, item) = b.at << 16 | (uint32_t)(item - p);
			any = true;
		}
	return any;
}

static void update_older(const struct sl_reporter *r, uint8_t *from, const struct sl__backup *older)
{
	uint8_t *to = sl__report_packet(r, older);
	uint32_t at = DTA_HEADER_BYTES;
	struct update_block b;
	bool changing = false;

	while (next_block(to, older->bytes, &at, &b))
		for (uint32_t i = 0; b.writes && i < b.count; i++) {
			uint8_t *item = item_of(to, &b, i);
			const uint32_t place = *place_of(r, from, &b, item);

			if (!place)
				continue;
			if (!changing)
				sl__report_file_changing(r, older);
			changing = true;
			memcpy(item + b.key_bytes, from + (place & 0xffff) + b.key_bytes,
			       b.value_bytes);
		}
	if (changing)
		sl__report_file_changed(r, older);
}

void sl__report_update(const struct sl_reporter *r, const struct sl__backup *newer)
{
	uint8_t *from = sl__report_packet(r, newer);
	bool entered = false;

	for (uint32_t i = 0; i < r->kept; i++) {
		const struct sl__backup *older = sl__report_backup(r, i);

		if (older == newer)
			return;
		if (!older->bytes)
			continue;
		if (!entered && !index_items(r, from, newer->bytes))
			return;
		entered = true;
		update_older(r, from, older);
	}
}
