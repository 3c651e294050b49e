/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - reports as packets: our format 1 and both forms of the original's. Normative:
 * docs/dta-wire.md. All of it is pure; big-endian on the wire.
 *
 * A packet of format 1: 32 bytes of header, blocks, and with authentication 16 bytes of MAC. A
 * block: 12 bytes of header and count items of one shape, key and value without padding, one behind
 * the other. One sequence number a report, not a packet: a gap says how many reports are missing.
 * An incarnation begins at sequence 0.
 *
 * wire.c is compiled into libsidelight, whose reporters build packets by it, and so into all of us.
 */
#ifndef SL_DTA_WIRE_WIRE_H
#define SL_DTA_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTA_PORT 40040 /* reports */
#define DTA_PORT_ANSWER                                                                       \
	40044		    /* ACK and NACK go to the reporter's address, at this port or, in \
			     * format 1, to the port that the packet came from */
#define DTA_MAGIC      0xd7 /* the first byte; the original's first byte is an opcode, 1 to 4 */
#define DTA_VERSION    1
#define DTA_PACKET_MAX 65507u /* bytes of a UDP datagram's payload */
#define DTA_MAC_BYTES  16u    /* AES-CMAC-128 over all before it */

enum dta_opcode {
	DTA_KEYWRITE = 1,  /* key 4..64, value 4..256 */
	DTA_APPEND = 2,	   /* key: u32 list; value 4..256 */
	DTA_INCREMENT = 3, /* key 4..64, value: u64 addend */
	DTA_POSTCARD =
		4,	/* key 4..64, value: u8 hop (0 ..), u8 hops of the path, u16 0, u32 data */
	DTA_SKETCH = 5, /* key: u32 epoch, u32 row, u32 column of the first cell; value: cells
			 * (u64 big-endian each, or HLL registers), up to 1024 bytes */
	DTA_SKETCH_END = 6, /* key: u32 epoch; value: u32 items that this reporter sent of it */
	DTA_OPCODE_END
};

#define DTA_SKETCH_VALUE_MAX 1024u
#define DTA_REPORTS_MAX	     8192u /* of a packet; the smallest item has 8 bytes */
#define DTA_ITEM_MAX	     (12u + DTA_SKETCH_VALUE_MAX)

enum dta_packet_flag {
	DTA_AUTHENTICATED = 1, /* a MAC follows the blocks */
	DTA_AGAIN = 2,	       /* was sent before */
	DTA_ACK_WANTED = 4,
};

enum dta_block_flag {
	DTA_IMMEDIATE = 1, /* wakes the application beside the store */
	DTA_ESSENTIAL = 2, /* the reporter keeps it to send it again */
};

struct dta_header {	      /* in host order */
	uint8_t flags;	      /* 2; 0 is the magic, 1 the version */
	uint8_t blocks;	      /* 3 */
	uint16_t tenant;      /* 4 */
	uint16_t length;      /* 6: header and blocks, without the MAC */
	uint32_t reporter;    /* 8 */
	uint32_t sequence;    /* 12: of the first report in the packet */
	uint64_t time_ns;     /* 16: CLOCK_REALTIME, 0 none */
	uint32_t incarnation; /* 24: another one says that the reporter began anew */
	uint32_t reports;     /* 28: in the packet, all blocks together */
};
#define DTA_HEADER_BYTES 32u

struct dta_block {	      /* in host order, pointing into the packet */
	uint8_t opcode;	      /* 0 */
	uint8_t flags;	      /* 1 */
	uint16_t count;	      /* 2: items */
	uint8_t copies;	      /* 4: key-write, increment, postcard: N, 1 to 8; else 0 */
	uint8_t key_bytes;    /* 5 */
	uint16_t value_bytes; /* 6 */
	uint16_t store;	      /* 8; 10: 0 */
	const uint8_t *items; /* 12: count * (key_bytes + value_bytes) */
};
#define DTA_BLOCK_BYTES 12u

/* Why a packet was refused: counted each for itself. */
enum dta_refusal {
	DTA_FINE = 0,
	DTA_TRUNCATED, /* shorter than it says */
	DTA_OVERSIZED, /* longer than it says */
	DTA_BAD_VERSION,
	DTA_BAD_OPCODE,
	DTA_BAD_COPIES,
	DTA_BAD_KEY,   /* its length */
	DTA_BAD_VALUE, /* its length, or what it says (hop beyond the path) */
	DTA_BAD_COUNT, /* no items, or reports is not their sum */
	DTA_BAD_FLAGS, /* a flag or a reserved field that is not 0 */
	DTA_BAD_MAC,   /* forged, or no MAC where one is required */
	DTA_REPLAYED,
	DTA_REFUSALS
};
const char *dta_refusal_name(enum dta_refusal r); /* as in metrics: "truncated", ... */

#define DTA_BLOCKS_MAX 255u

/* A packet that was checked as a whole: every block and item lies in it and has a permitted shape.
 */
struct dta_packet {
	struct dta_header header;
	struct dta_block block[DTA_BLOCKS_MAX]; /* header.blocks of them */
	uint8_t scratch[32];			/* for what had to be converted: legacy items */
};

/*
 * Looks at all but the MAC, which auth.h checks: of a packet that is refused nothing may be used.
 * out points into the packet.
 */
enum dta_refusal dta_parse(const void *packet, size_t bytes, struct dta_packet *out);

/* The original's: which form is in use can't be seen, and is configuration. */
enum dta_legacy {
	DTA_LEGACY_NONE = 0,
	DTA_LEGACY_A, /* 2 bytes of base header */
	DTA_LEGACY_B, /* 3 bytes, with a sequence number of 8 bits */
};
/*
 * Bits that the original leaves unset are not looked at. One report a packet; becomes a packet of
 * one block and one item: tenant 0, the store of that opcode's number, reporter 0 (the caller knows
 * the address), sequence: B's 8 bits. Values keep their 4, 12 or 28 bytes. Hops 1..5 become 0..4 of
 * hops, and its path has one copy. B's "retransmitable" is DTA_ESSENTIAL and DTA_ACK_WANTED.
 */
enum dta_refusal dta_parse_legacy(const void *packet, size_t bytes, enum dta_legacy form,
				  uint8_t hops, struct dta_packet *out);
/* The original's ACK or NACK: 2 bytes. */
void dta_legacy_answer(uint8_t sequence, bool nack, uint8_t out[2]);

/* ---- building ---- */

struct dta_builder {
	uint8_t *packet;
	size_t room, bytes; /* without the MAC; room leaves space for one */
	size_t block;	    /* offset of the open block, 0: none */
	struct dta_header header;
};

/* room: of the packet's buffer, at least 64. header: flags, tenant, reporter, sequence,
 * incarnation, time. */
void dta_begin(struct dta_builder *b, void *packet, size_t room, const struct dta_header *header);
/*
 * Adds one report, to the open block if it has the same shape. shape: as in struct dta_block,
 * without count and items. 0; -ENOSPC: it no longer fits, end this packet and begin another;
 * -EMSGSIZE: it would not fit into an empty one either; -EINVAL: not what dta_parse() takes.
 */
int dta_put(struct dta_builder *b, const struct dta_block *shape, const void *key,
	    const void *value);
/*
 * Fills in what is known at the end. Bytes of the packet without its MAC (for dta_mac_put(),
 * auth.h, if it has one), 0 if it holds nothing. b->header then says how many blocks and reports.
 */
size_t dta_end(struct dta_builder *b);

/*
 * Makes a finished packet one that is sent again: its flags, its time. The MAC, if it has one, is
 * to be put anew.
 */
void dta_again(void *packet, uint64_t time_ns);
/* Makes it one of another incarnation. The same holds of its MAC. */
void dta_renumber(void *packet, uint32_t sequence, uint32_t incarnation);
/*
 * One report in a form of the original: shape as for dta_put(), with a key of 4 bytes and a value
 * of 4, 12 or 28 (key-write), 4 (append), 8 (others). Its store can't be said, and sequence in form
 * A neither. Bytes, 0: not what the original knows, or no room (40 bytes are enough).
 */
size_t dta_build_legacy(enum dta_legacy form, uint8_t sequence, const struct dta_block *shape,
			const void *key, const void *value, void *out, size_t room);

/* ---- answers ---- */

/*
 * A translator's answer: { u8 magic, u8 version, u8 type, u8 ranges, u32 reporter, u32 incarnation,
 * u32 next (all before it arrived, or can't be taken any more), u32 credits (reports that may be on
 * the way behind the newest that is known to have arrived; ~0: any), u32 0 } and ranges of { u32
 * first, u32 count }, then the MAC if the reporter's packets had one.
 */
enum dta_answer_type {
	DTA_ACK = 1,  /* the ranges arrived, as did everything before next */
	DTA_NACK = 2, /* the ranges are missing */
};
#define DTA_ANSWER_BYTES 24u
#define DTA_RANGES_MAX	 64u
struct dta_answer {
	uint8_t type, ranges;
	uint32_t reporter, incarnation, next, credits;
	struct {
		uint32_t first, count;
	} range[DTA_RANGES_MAX];
};
/* Bytes without a MAC; 0: too many ranges, or no room. */
size_t dta_answer_build(const struct dta_answer *a, void *out, size_t room);
/* A MAC behind it is passed over: bytes are then DTA_MAC_BYTES more than the answer's. */
enum dta_refusal dta_answer_parse(const void *packet, size_t bytes, struct dta_answer *out);

#endif
