/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - how a sketch is kept in bytes. All of them have the same frame, little-endian:
 *
 *	 0  u32  magic "SLSK"
 *	 4  u16  version, 1
 *	 6  u16  kind, enum sketch_kind
 *	 8  u64  length of everything, frame included
 *	16  ...  the sketch's own fields
 *	-8  u64  XXH3 of all bytes before it
 *
 * The checksum finds damage, not malice: a loader checks every field as well.
 */
#ifndef SL_SKETCH_WIRE_H
#define SL_SKETCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKETCH_VERSION 1u
#define SKETCH_FRAME   24u /* bytes of head and checksum together */

enum sketch_kind {
	SKETCH_FD = 1,
	SKETCH_DDSKETCH = 2,
	/* 3 was KLL */
	SKETCH_HLL = 4,
	SKETCH_COUNT_MIN = 5,
	SKETCH_COUNT_SKETCH = 6,
	SKETCH_SPACE_SAVING = 7,
};

/* Puts and takes fields in turn. `at` never passes `end`: what does not fit sets `bad`. */
struct sketch_wire {
	uint8_t *at, *end;
	bool bad;
};

struct sketch_wire_in {
	const uint8_t *at, *end;
	bool bad;
};

/*
 * Writing: begin with a buffer of `bytes`, put fields, end. `total` is the length of everything and
 * known beforehand. sketch_wire_end() returns total, or -EINVAL if the fields did not fill it.
 */
int sketch_wire_begin(struct sketch_wire *w, void *buf, size_t bytes, size_t total,
		      enum sketch_kind kind);
int64_t sketch_wire_end(struct sketch_wire *w, void *buf);
void sketch_put_u8(struct sketch_wire *w, uint8_t v);
void sketch_put_u32(struct sketch_wire *w, uint32_t v);
void sketch_put_u64(struct sketch_wire *w, uint64_t v);
void sketch_put_f32(struct sketch_wire *w, float v);
void sketch_put_f64(struct sketch_wire *w, double v);
void sketch_put_bytes(struct sketch_wire *w, const void *p, size_t n);

/*
 * Reading: checks frame and checksum. 0; -EINVAL: no such sketch, cut short or damaged;
 * -EPROTONOSUPPORT: of another version. Afterwards at..end are the sketch's own fields.
 */
int sketch_wire_open(struct sketch_wire_in *r, const void *buf, size_t bytes,
		     enum sketch_kind kind);
uint8_t sketch_take_u8(struct sketch_wire_in *r);
uint32_t sketch_take_u32(struct sketch_wire_in *r);
uint64_t sketch_take_u64(struct sketch_wire_in *r);
float sketch_take_f32(struct sketch_wire_in *r);
double sketch_take_f64(struct sketch_wire_in *r);
void sketch_take_bytes(struct sketch_wire_in *r, void *p, size_t n);
/* True if all was taken, and nothing missed. */
bool sketch_wire_done(const struct sketch_wire_in *r);
/* Makes the checksum of a frame right again: for fuzzers, which otherwise never get past it. */
void sketch_wire_seal(void *buf, size_t bytes);

#endif
