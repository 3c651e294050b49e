/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - the serialised form of sketches. Each has the same little-endian frame:
 *
 *	 0  u32  magic "SLSK"
 *	 4  u16  version, 1
 *	 6  u16  kind, enum sketch_kind
 *	 8  u64  length of the whole, frame included
 *	16  ...  fields of the sketch
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
#define SKETCH_FRAME   24u /* bytes of header and checksum */

enum sketch_kind {
	SKETCH_FD = 1,
	SKETCH_HLL = 4,
	SKETCH_COUNT_MIN = 5,
	SKETCH_COUNT_SKETCH = 6,
};

/* A cursor. `at` never passes `end`; a field that does not fit sets `bad`. */
struct sketch_wire {
	uint8_t *at, *end;
	bool bad;
};

struct sketch_wire_in {
	const uint8_t *at, *end;
	bool bad;
};

/*
 * To write, begin with a buffer of `bytes`, put the fields, and end. `total` is the length of the
 * whole. sketch_wire_begin() returns 0 or -ENOSPC; sketch_wire_end() returns total, or -EINVAL
 * unless the fields filled it exactly.
 */
int sketch_wire_begin(struct sketch_wire *w, void *buf, size_t bytes, size_t total,
		      enum sketch_kind kind);
int64_t sketch_wire_end(struct sketch_wire *w, void *buf);
void sketch_put_u32(struct sketch_wire *w, uint32_t v);
void sketch_put_u64(struct sketch_wire *w, uint64_t v);
void sketch_put_f32(struct sketch_wire *w, float v);
void sketch_put_f64(struct sketch_wire *w, double v);
void sketch_put_bytes(struct sketch_wire *w, const void *p, size_t n);

/*
 * To read, open, which checks the frame and the checksum, and take the fields. 0; -EINVAL: not a
 * sketch of this kind, truncated or damaged; -EPROTONOSUPPORT: another version.
 */
int sketch_wire_open(struct sketch_wire_in *r, const void *buf, size_t bytes,
		     enum sketch_kind kind);
uint32_t sketch_take_u32(struct sketch_wire_in *r);
uint64_t sketch_take_u64(struct sketch_wire_in *r);
float sketch_take_f32(struct sketch_wire_in *r);
double sketch_take_f64(struct sketch_wire_in *r);
void sketch_take_bytes(struct sketch_wire_in *r, void *p, size_t n);
/* True if every field was read and nothing is left. */
bool sketch_wire_done(const struct sketch_wire_in *r);
/* Recomputes the checksum of a frame, so that fuzzers reach the checks behind it. */
void sketch_wire_seal(void *buf, size_t bytes);

#endif
