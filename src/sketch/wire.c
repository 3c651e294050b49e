// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <string.h>

#include "sketch/wire.h"

#define MAGIC 0x4b534c53u /* "SLSK" */

static void put(struct sketch_wire *w, uint64_t v, size_t n)
{
	if ((size_t)(w->end - w->at) < n) {
		w->bad = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		*w->at++ = (uint8_t)(v >> 8 * i);
}

static uint64_t take(struct sketch_wire_in *r, size_t n)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->at) < n) {
		r->bad = true;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)*r->at++ << 8 * i;
	return v;
}

void sketch_put_u32(struct sketch_wire *w, uint32_t v)
{
	put(w, v, 4);
}
void sketch_put_u64(struct sketch_wire *w, uint64_t v)
{
	put(w, v, 8);
}

void sketch_put_f32(struct sketch_wire *w, float v)
{
	uint32_t bits;

	memcpy(&bits, &v, 4);
	put(w, bits, 4);
}

void sketch_put_f64(struct sketch_wire *w, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, 8);
	put(w, bits, 8);
}

void sketch_put_bytes(struct sketch_wire *w, const void *p, size_t n)
{
	if ((size_t)(w->end - w->at) < n) {
		w->bad = true;
		return;
	}
	if (n)
		memcpy(w->at, p, n);
	w->at += n;
}

uint32_t sketch_take_u32(struct sketch_wire_in *r)
{
	return (uint32_t)take(r, 4);
}
uint64_t sketch_take_u64(struct sketch_wire_in *r)
{
	return take(r, 8);
}

float sketch_take_f32(struct sketch_wire_in *r)
{
	uint32_t bits = (uint32_t)take(r, 4);
	float v;

	memcpy(&v, &bits, 4);
	return v;
}

double sketch_take_f64(struct sketch_wire_in *r)
{
	uint64_t bits = take(r, 8);
	double v;

	memcpy(&v, &bits, 8);
	return v;
}

void sketch_take_bytes(struct sketch_wire_in *r, void *p, size_t n)
{
	if ((size_t)(r->end - r->at) < n) {
		r->bad = true;
		memset(p, 0, n);
		return;
	}
	if (n)
		memcpy(p, r->at, n);
	r->at += n;
}

bool sketch_wire_done(const struct sketch_wire_in *r)
{
	return !r->bad && r->at == r->end;
}

int sketch_wire_begin(struct sketch_wire *w, void *buf, size_t bytes, size_t total,
		      enum sketch_kind kind)
{
	if (bytes < total || total < SKETCH_FRAME)
		return -ENOSPC;
	w->at = buf;
	w->end = w->at + total - 8;
	w->bad = false;
	put(w, MAGIC, 4);
	put(w, SKETCH_VERSION, 2);
	put(w, kind, 2);
	put(w, total, 8);
	return 0;
}

int64_t sketch_wire_end(struct sketch_wire *w, void *buf)
{
	size_t n = (size_t)(w->end - (uint8_t *)buf);

	if (w->bad || w->at != w->end)
		return -EINVAL;
	w->end += 8;
	put(w, XXH3_64bits(buf, n), 8);
	return (int64_t)n + 8;
}

int sketch_wire_open(struct sketch_wire_in *r, const void *buf, size_t bytes, enum sketch_kind kind)
{
	struct sketch_wire_in sum;
	uint64_t version;

	r->at = buf;
	r->end = r->at + bytes;
	r->bad = false;
	if (bytes < SKETCH_FRAME || take(r, 4) != MAGIC)
		return -EINVAL;
	version = take(r, 2);
	if (version != SKETCH_VERSION)
		return -EPROTONOSUPPORT;
	if (take(r, 2) != (uint64_t)kind || take(r, 8) != bytes)
		return -EINVAL;
	r->end -= 8;
	sum = (struct sketch_wire_in){.at = r->end, .end = r->end + 8};
	return take(&sum, 8) == XXH3_64bits(buf, bytes - 8) ? 0 : -EINVAL;
}

void sketch_wire_seal(void *buf, size_t bytes)
{
	uint8_t *sum = (uint8_t *)buf + bytes - 8;
	struct sketch_wire w = {.at = sum, .end = sum + 8};

	if (bytes >= SKETCH_FRAME)
		put(&w, XXH3_64bits(buf, bytes - 8), 8);
}
