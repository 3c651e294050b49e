/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/store.h - a region of kind SL_REGION_STORE: memory that translators fill with reports
 * by one-sided WRITE and FETCH_ADD, and that queries read. docs/dta-store.md is normative.
 *
 *   0      header            as in every region; labels: store (its name), tenant (a number)
 *   4096   configuration     SL_SECTION_STORE: struct sl_store_config, immutable
 *   4352   epoch line        SL_SECTION_STORE_EPOCHS: enum sl_store_epoch_cell, a plain line that
 *                            only the store server writes
 *   8192   banks             SL_SECTION_STORE_BANKS: sl_store_bank_stride() each, page-aligned.
 *                            Epoch e is in bank e % banks. The stride of the section is a page, as
 *                            the size of a bank may exceed 32 bits
 *
 * Translators write into banks only. The store server zeroes a bank when no translator holds it,
 * and does not touch a held one: the CPU and an adapter's FETCH_ADD never change a word at the same
 * time.
 *
 * A store object never changes its sizes. A resized store continues in a new object with its next
 * epoch.
 *
 * The location of a unit depends on its key or number alone. Its check word covers key and data: a
 * half-written unit, or that of another key, does not verify. A unit of zeros was never written.
 * Little-endian. C11 and C++17.
 */
#ifndef SIDELIGHT_STORE_H
#define SIDELIGHT_STORE_H

#include <sidelight/region.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_STORE_CONFIG_OFFSET 4096u
#define SL_STORE_EPOCHS_OFFSET 4352u
#define SL_STORE_BANKS_OFFSET  8192u

/* Maximum bytes of an object, replacing SL_REGION_SIZE_MAX. */
#define SL_STORE_SIZE_MAX (1ull << 46)
#define SL_STORE_KEY_MIN  4u
#define SL_STORE_KEY_MAX  64u
/* A mark in a key log: a zero byte, and a u32 with the epoch (low half) of the keys that follow. */
#define SL_STORE_KEYLOG_MARK_BYTES 5u
#define SL_STORE_VALUE_MIN	   4u
#define SL_STORE_VALUE_MAX	   256u
#define SL_STORE_COPIES_MAX	   8u
#define SL_STORE_BATCH_MAX	   64u
#define SL_STORE_HOPS_MAX	   64u
#define SL_STORE_LANES_MAX	   64u
#define SL_STORE_LISTS_MAX	   65536u
#define SL_STORE_BANKS_MAX	   16u
/* maximum reporters of a sketch: bits of the map in struct sl_store_complete */
#define SL_STORE_REPORTERS_MAX 1024u

enum sl_store_kind {
	SL_STORE_KEYWRITE = 1,
	SL_STORE_APPEND = 2,
	SL_STORE_INCREMENT = 3,
	SL_STORE_POSTCARD = 4,
	SL_STORE_SKETCH = 5,
};

enum sl_store_sketch {
	SL_STORE_COUNT_MIN = 1,	   /* cells are u64, merged by sum */
	SL_STORE_COUNT_SKETCH = 2, /* cells are i64 in two's complement, merged by sum */
	SL_STORE_HLL = 3,	   /* cells are u8 registers, merged by maximum; one row */
};

struct sl_store_config { /* 256 bytes */
	uint32_t kind;	 /* enum sl_store_kind */
	uint16_t tenant;
	uint16_t id;	      /* number of the store within its tenant */
	uint64_t seed;	      /* seed of all hashes of this store */
	uint64_t first_epoch; /* first epoch in this object */
	/*
	 * key-write, postcard: number of slots; increment, sketch: number of columns (cells per
	 * row); append: blocks per ring
	 */
	uint64_t slots;
	uint32_t rows;	      /* increment, sketch: number of rows; otherwise 1 */
	uint32_t value_bytes; /* key-write, append: bytes of one value; otherwise 0 */
	uint32_t batch;	      /* append: items per block, 1 to 64 */
	uint32_t lists;	      /* append: number of lists, 0 .. lists-1 */
	/* append, sketch: number of lanes; each translator writes its own lane only */
	uint32_t lanes;
	uint32_t hops;	    /* postcard: maximum length of a path, 1 to 64 */
	uint32_t sketch;    /* enum sl_store_sketch */
	uint32_t reporters; /* sketch: number of reporters in a complete epoch */
	uint32_t banks;	    /* number of banks, 1 to 16; append: 1, as its rings have no epochs */
	/*
	 * key-write, postcard: maximum copies per report; 1 to 8. Increment: minimum rows per
	 * report, as omitting a row makes sums too low; 0 means 1
	 */
	uint32_t copies;
	/*
	 * key-write, increment, postcard: 1 + the number of an append store of the same tenant.
	 * That store logs keys not seen recently, as { u8 bytes; key; zeros } after a mark per
	 * epoch, unless they exceed its value size. 0 means no log
	 */
	uint32_t keylog;
	uint32_t keylog_list; /* number of the list in that store, used by this store alone */
	uint32_t reserved[41];
	uint64_t check; /* FNV-1a 64 of the preceding 248 bytes */
};
SL_STATIC_ASSERT(sizeof(struct sl_store_config) == 256, "fixed by the format");

enum sl_store_epoch_cell {
	SL_STORE_EPOCH = 0,	   /* the epoch being written; 0, 1, 2, ... */
	SL_STORE_EPOCH_OLDEST = 1, /* the oldest epoch that can be queried: its bank is intact */
	SL_STORE_EPOCH_SINCE = 2,  /* start of the epoch being written, CLOCK_REALTIME ns */
	SL_STORE_EPOCH_STATE = 3,  /* enum sl_region_state of this object */
};

/* ---- units, by kind. pad8(n): n rounded up to a multiple of 8 ---- */

static inline uint64_t sl_pad8(uint64_t bytes)
{
	return (bytes + 7) & ~7ull;
}

/*
 * key-write: { u64 check; value; zeros up to a multiple of 8 }, slot i of the bank. The check word
 * covers the value without the zeros.
 */
static inline uint64_t sl_store_slot_bytes(const struct sl_store_config *c)
{
	return 8 + sl_pad8(c->value_bytes);
}

/*
 * append: a ring of blocks per list and lane, list-major. Block number b (0, 1, 2, ...) is at b %
 * slots: { batch * value; zeros up to a multiple of 8; u64 tail }. The writer stores the tail last:
 *
 *   bits 63-40  lap + 1 mod 2^24, lap = b / slots (skipping 0: 2^24 - 1 is followed by 1). 0 means
 *               never written
 *   bits 39-32  items in the block, 1 .. batch; the rest are zeros
 *   bits 31-0   upper half of XXH3_64 over the block without its tail, seeded by list, lane, block
 */
static inline uint64_t sl_store_block_bytes(const struct sl_store_config *c)
{
	return sl_pad8((uint64_t)c->batch * c->value_bytes) + 8;
}

static inline uint64_t sl_store_ring_offset(const struct sl_store_config *c, uint32_t list,
					    uint32_t lane)
{
	return ((uint64_t)list * c->lanes + lane) * c->slots * sl_store_block_bytes(c);
}

/* increment: rows of u64 counters; copy r of a key counts in row r. There are no check words. */
static inline uint64_t sl_store_counter_offset(const struct sl_store_config *c, uint32_t row,
					       uint64_t column)
{
	return ((uint64_t)row * c->slots + column) * 8;
}

/*
 * postcard: one u64 per hop. The low half is the hop's value; the high half is a hash of key, hop
 * and value plus the number of hops of the path. Each word verifies itself, so the hops of a path
 * may be written separately, by several translators or late.
 */
static inline uint64_t sl_store_path_bytes(const struct sl_store_config *c)
{
	return 8ull * c->hops;
}

/*
 * sketch, per lane: struct sl_store_complete, then rows * slots cells, padded to 64 bytes. A query
 * merges the lanes. A translator writes the sums so far in whole rows, and struct sl_store_complete
 * last.
 */
struct sl_store_complete { /* 192 bytes */
	uint64_t check;	   /* seeded XXH3_64 of the following bytes; 0 means never written */
	uint64_t epoch;
	uint32_t expected;   /* number of reporters this lane waits for; 0 means as configured */
	uint32_t ended;	     /* number of bits set in the map */
	uint64_t columns;    /* number of cells merged, over all reporters */
	uint64_t rows_check; /* seeded XXH3_64 of the rows */
	uint64_t reserved[3];
	/* reporters that ended: by index in the configuration, or by id if below 1024 */
	uint64_t map[SL_STORE_REPORTERS_MAX / 64];
};
SL_STATIC_ASSERT(sizeof(struct sl_store_complete) == 192, "fixed by the format");

static inline uint64_t sl_store_cell_bytes(const struct sl_store_config *c)
{
	return c->sketch == SL_STORE_HLL ? 1 : 8;
}

static inline uint64_t sl_store_lane_bytes(const struct sl_store_config *c)
{
	return sizeof(struct sl_store_complete) +
	       (((uint64_t)c->rows * c->slots * sl_store_cell_bytes(c) + 63) & ~63ull);
}

/* Returns the bytes of one bank, before rounding up to pages. Returns 0 for an unknown kind. */
static inline uint64_t sl_store_bank_bytes(const struct sl_store_config *c)
{
	switch (c->kind) {
	case SL_STORE_KEYWRITE:
		return c->slots * sl_store_slot_bytes(c);
	case SL_STORE_APPEND:
		return (uint64_t)c->lists * c->lanes * c->slots * sl_store_block_bytes(c);
	case SL_STORE_INCREMENT:
		return (uint64_t)c->rows * c->slots * 8;
	case SL_STORE_POSTCARD:
		return c->slots * sl_store_path_bytes(c);
	case SL_STORE_SKETCH:
		return c->lanes * sl_store_lane_bytes(c);
	}
	return 0;
}

/* Returns the distance in bytes from one bank to the next. */
static inline uint64_t sl_store_bank_stride(const struct sl_store_config *c)
{
	return (sl_store_bank_bytes(c) + 4095) & ~4095ull;
}

SL_STATIC_ASSERT(offsetof(struct sl_store_config, kind) == 0, "kind");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, tenant) == 4, "tenant");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, id) == 6, "id");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, seed) == 8, "seed");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, first_epoch) == 16, "first_epoch");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, slots) == 24, "slots");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, rows) == 32, "rows");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, value_bytes) == 36, "value_bytes");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, batch) == 40, "batch");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, lists) == 44, "lists");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, lanes) == 48, "lanes");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, hops) == 52, "hops");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, sketch) == 56, "sketch");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, reporters) == 60, "reporters");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, banks) == 64, "banks");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, copies) == 68, "copies");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, keylog) == 72, "keylog");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, keylog_list) == 76, "keylog_list");
SL_STATIC_ASSERT(offsetof(struct sl_store_config, check) == 248, "check");

#ifdef __cplusplus
}
#endif
#endif
