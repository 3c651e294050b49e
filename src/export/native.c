// SPDX-License-Identifier: Apache-2.0
#include "export/native.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "export/pb.h"

bool export_native_fits(const struct export_native_buckets *b)
{
	int64_t last = (int64_t)b->first_bucket + (int64_t)b->count;

	/* schemas start at -4; indices have 32 bits */
	return b->count && b->scale >= -4 && b->scale < 32 && b->first_bucket > -(1 << 30) &&
	       last < 1 << 30;
}

static bool reserve_room(struct export_native *n, size_t buckets)
{
	const size_t room = 3 * buckets + 2; /* a gap of two buckets adds two deltas */

	return base_grow(&n->delta, &n->delta_room, room, sizeof(*n->delta)) &&
	       base_grow(&n->span, &n->span_room, room, sizeof(*n->span));
}

/*
 * Encodes the non-empty buckets in spans. A gap of up to two empty buckets takes less space as
 * zeros than as a new span. The overflow bucket gets the first index above all others, because its
 * upper end is unknown.
 */
bool export_native_make(struct export_native *n, const struct export_native_buckets *b)
{
	/* the highest schema is 8: merge groups of 2^merge buckets */
	int merge = b->scale > 8 ? b->scale - 8 : 0;
	uint64_t before = 0, count;
	int64_t next = 0, at;

	if (!reserve_room(n, b->count))
		return false;
	n->schema = b->scale - merge;
	n->sum = b->sum;
	n->zero_threshold = b->zero_threshold;
	n->count = n->zero_count = b->bucket[0];
	n->spans = n->deltas = n->delta_bytes = 0;
	for (size_t i = 1; i < b->count;) {
		at = ((b->first_bucket + (int64_t)i - 2) >> merge) + 1;
		for (count = 0;
		     i < b->count && ((b->first_bucket + (int64_t)i - 2) >> merge) + 1 == at; i++)
			count += b->bucket[i];
		if (!count)
			continue;
		n->count += count;
		if (!n->spans || at - next > 2) {
			n->span[n->spans++] = (struct export_native_span){.offset = at - next};
			next = at;
		}
		for (; next < at; next++, before = 0) {
			n->delta[n->deltas++] = (int64_t)-before;
			n->span[n->spans - 1].length++;
		}
		n->delta[n->deltas++] = (int64_t)(count - before);
		n->span[n->spans - 1].length++;
		before = count;
		next = at + 1;
	}
	if (!n->spans) /* otherwise an empty histogram would not be recognised as native */
		n->span[n->spans++] = (struct export_native_span){.offset = 0};
	for (size_t i = 0; i < n->deltas; i++)
		n->delta_bytes += export_pb_varint_bytes(export_pb_zigzag(n->delta[i]));
	return true;
}

void export_native_free(struct export_native *n)
{
	free(n->span);
	free(n->delta);
	memset(n, 0, sizeof(*n));
}

size_t export_native_bytes(const struct export_native *n)
{
	return 96 + 24 * n->spans + n->delta_bytes;
}

uint8_t *export_native_put(uint8_t *p, const struct export_native *n,
			   const struct export_native_fields *f)
{
	p = export_pb_u64(p, f->count, n->count);
	p = export_pb_f64(p, f->sum, n->sum);
	p = export_pb_u64(p, f->schema, export_pb_zigzag(n->schema));
	p = export_pb_f64(p, f->zero_threshold, n->zero_threshold);
	p = export_pb_u64(p, f->zero_count, n->zero_count);
	for (size_t i = 0; i < n->spans; i++) {
		const struct export_native_span *s = &n->span[i];

		p = export_pb_head(p, f->span,
				   2 + export_pb_varint_bytes(export_pb_zigzag(s->offset)) +
					   export_pb_varint_bytes(s->length));
		p = export_pb_u64(p, 1, export_pb_zigzag(s->offset));
		p = export_pb_u64(p, 2, s->length);
	}
	if (!n->deltas)
		return p;
	p = export_pb_head(p, f->delta, n->delta_bytes); /* a packed field */
	for (size_t i = 0; i < n->deltas; i++)
		p = export_pb_varint(p, export_pb_zigzag(n->delta[i]));
	return p;
}
