/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - reports as packets: our format 1 and both forms of the original's. Normative:
 * docs/dta-wire.md. All of it is pure; big-endian on the wire.
 *
 * A packet of format 1: 32 bytes of header, blocks, and with authentication 16 bytes of MAC. A block:
 * 12 bytes of header and count items of one shape, key and value without padding, one behind the other.
 * One sequence number a report, not a packet: a gap says how many reports are missing. An incarnation
 * begins at sequence 0.
 *
 * wire.c is compiled into libsidelight, whose reporters build packets by it, and so into all of us.
 */
#ifndef SL_DTA_WIRE_WIRE_H
#define SL_DTA_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_DTA_PORT 40040	 /* reports */
#define SL_DTA_PORT_ANSWER 40044 /* ACK and NACK go to the reporter's address, at this port or, in
				  * format 1, to the port that the packet came from */
#define SL_DTA_MAGIC 0xd7	 /* the first byte; the original's first byte is an opcode, 1 to 4 */
#define SL_DTA_VERSION 1
#define SL_DTA_PACKET_MAX 65507u /* bytes of a UDP datagram's payload */
#define SL_DTA_MAC_BYTES 16u	 /* AES-CMAC-128 over all before it */

enum sl_dta_opcode {
	SL_DTA_KEYWRITE = 1,  /* key 4..64, value 4..256 */
	SL_DTA_APPEND = 2,    /* key: u32 list; value 4..256 */
	SL_DTA_INCREMENT = 3, /* key 4..64, value: u64 addend */
	SL_DTA_POSTCARD = 4,  /* key 4..64, value: u8 hop (0 ..), u8 hops of the path, u16 0, u32 data */
	SL_DTA_SKETCH = 5,    /* key: u32 epoch, u32 row, u32 column of the first cell; value: cells
			       * (u64 big-endian each, or HLL registers), up to 1024 bytes */
	SL_DTA_SKETCH_END = 6,/* key: u32 epoch; value: u32 items that this reporter sent of it */
	SL_DTA_OPCODE_END
};

#define SL_DTA_SKETCH_VALUE_MAX 1024u
#define SL_DTA_REPORTS_MAX 8192u /* of a packet; the smallest item has 8 bytes */
#define SL_DTA_ITEM_MAX (12u + SL_DTA_SKETCH_VALUE_MAX)

enum sl_dta_packet_flag {
	SL_DTA_AUTHENTICATED = 1, /* a MAC follows the blocks */
	SL_DTA_AGAIN = 2,	  /* was sent before */
	SL_DTA_ACK_WANTED = 4,
};

enum sl_dta_block_flag {
	SL_DTA_IMMEDIATE = 1, /* wakes the application beside the store */
	SL_DTA_ESSENTIAL = 2, /* the reporter keeps it to send it again */
};

struct sl_dta_header { /* in host order */
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
#define SL_DTA_HEADER_BYTES 32u

struct sl_dta_block { /* in host order, pointing into the packet */
	uint8_t opcode;	      /* 0 */
	uint8_t flags;	      /* 1 */
	uint16_t count;	      /* 2: items */
	uint8_t copies;	      /* 4: key-write, increment, postcard: N, 1 to 8; else 0 */
	uint8_t key_bytes;    /* 5 */
	uint16_t value_bytes; /* 6 */
	uint16_t store;	      /* 8; 10: 0 */
	const uint8_t *items; /* 12: count * (key_bytes + value_bytes) */
};
#define SL_DTA_BLOCK_BYTES 12u

/* Why a packet was refused: counted each for itself. */
enum sl_dta_refusal {
	SL_DTA_FINE = 0,
	SL_DTA_TRUNCATED,  /* shorter than it says */
	SL_DTA_OVERSIZED,  /* longer than it says */
	SL_DTA_BAD_VERSION,
	SL_DTA_BAD_OPCODE,
	SL_DTA_BAD_COPIES,
	SL_DTA_BAD_KEY,	   /* its length */
	SL_DTA_BAD_VALUE,  /* its length, or what it says (hop beyond the path) */
	SL_DTA_BAD_COUNT,  /* no items, or reports is not their sum */
	SL_DTA_BAD_FLAGS,  /* a flag or a reserved field that is not 0 */
	SL_DTA_BAD_MAC,	   /* forged, or no MAC where one is required */
	SL_DTA_REPLAYED,
	SL_DTA_REFUSALS
};
const char *sl_dta_refusal_name(enum sl_dta_refusal r); /* as in metrics: "truncated", ... */

#define SL_DTA_BLOCKS_MAX 255u

/* A packet that was checked as a whole: every block and item lies in it and has a permitted shape. */
struct sl_dta_packet {
	struct sl_dta_header header;
	struct sl_dta_block block[SL_DTA_BLOCKS_MAX]; /* header.blocks of them */
	uint8_t scratch[32]; /* for what had to be converted: legacy items */
};

/*
 * Looks at all but the MAC, which auth.h checks: of a packet that is refused nothing may be used. out points
 * into the packet.
 */
enum sl_dta_refusal sl_dta_parse(const void *packet, size_t bytes, struct sl_dta_packet *out);

/* The original's: which form is in use can't be seen, and is configuration. */
enum sl_dta_legacy {
	SL_DTA_LEGACY_NONE = 0,
	SL_DTA_LEGACY_A, /* 2 bytes of base header */
	SL_DTA_LEGACY_B, /* 3 bytes, with a sequence number of 8 bits */
};
/*
 * Bits that the original leaves unset are not looked at. One report a packet; becomes a packet of one block and one item: tenant 0, the store of that
 * opcode's number, reporter 0 (the caller knows the address), sequence: B's 8 bits. Values keep
 * their 4, 12 or 28 bytes. Hops 1..5 become 0..4 of hops, and its path has one copy. B's "retransmitable" is
 * SL_DTA_ESSENTIAL and SL_DTA_ACK_WANTED.
 */
enum sl_dta_refusal sl_dta_parse_legacy(const void *packet, size_t bytes, enum sl_dta_legacy form, uint8_t hops,
					struct sl_dta_packet *out);
/* The original's ACK or NACK: 2 bytes. */
void sl_dta_legacy_answer(uint8_t sequence, bool nack, uint8_t out[2]);

/* ---- building ------------------------------------------------------------------------------------ */

struct sl_dta_builder {
	uint8_t *packet;
	size_t room, bytes;  /* without the MAC; room leaves space for one */
	size_t block;	     /* offset of the open block, 0: none */
	struct sl_dta_header header;
};

/* room: of the packet's buffer, at least 64. header: flags, tenant, reporter, sequence, incarnation, time. */
void sl_dta_begin(struct sl_dta_builder *b, void *packet, size_t room, const struct sl_dta_header *header);
/*
 * Adds one report, to the open block if it has the same shape. shape: as in struct sl_dta_block, without
 * count and items. 0; -ENOSPC: it no longer fits, end this packet and begin another; -EMSGSIZE: it would not
 * fit into an empty one either; -EINVAL: not what sl_dta_parse() takes.
 */
int sl_dta_put(struct sl_dta_builder *b, const struct sl_dta_block *shape, const void *key, const void *value);
/*
 * Fills in what is known at the end. Bytes of the packet without its MAC (for sl_dta_mac_put(), auth.h, if it
 * has one), 0 if it holds nothing. b->header then says how many blocks and reports.
 */
size_t sl_dta_end(struct sl_dta_builder *b);

/*
 * Makes a finished packet one that is sent again: its flags, its time. The MAC, if it has one, is to be put
 * anew.
 */
void sl_dta_again(void *packet, uint64_t time_ns);
/* Makes it one of another incarnation. The same holds of its MAC. */
void sl_dta_renumber(void *packet, uint32_t sequence, uint32_t incarnation);
/*
 * One report in a form of the original: shape as for sl_dta_put(), with a key of 4 bytes and a value of 4, 12
 * or 28 (key-write), 4 (append), 8 (others). Its store can't be said, and sequence in form A neither. Bytes, 0:
 * not what the original knows, or no room (40 bytes are enough).
 */
size_t sl_dta_build_legacy(enum sl_dta_legacy form, uint8_t sequence, const struct sl_dta_block *shape,
			   const void *key, const void *value, void *out, size_t room);

/* ---- answers ------------------------------------------------------------------------------------- */

/*
 * A translator's answer: { u8 magic, u8 version, u8 type, u8 ranges, u32 reporter, u32 incarnation, u32 next
 * (all before it arrived, or can't be taken any more), u32 credits (reports that may be on the way behind the newest
 * that is known to have arrived; ~0: any), u32 0 } and ranges of
 * { u32 first, u32 count }, then the MAC if the reporter's packets had one.
 */
enum sl_dta_answer_type {
	SL_DTA_ACK = 1,	 /* the ranges arrived, as did everything before next */
	SL_DTA_NACK = 2, /* the ranges are missing */
};
#define SL_DTA_ANSWER_BYTES 24u
#define SL_DTA_RANGES_MAX 64u
struct sl_dta_answer {
	uint8_t type, ranges;
	uint32_t reporter, incarnation, next, credits;
	struct {
		uint32_t first, count;
	} range[SL_DTA_RANGES_MAX];
};
/* Bytes without a MAC; 0: too many ranges, or no room. */
size_t sl_dta_answer_build(const struct sl_dta_answer *a, void *out, size_t room);
/* A MAC behind it is passed over: bytes are then SL_DTA_MAC_BYTES more than the answer's. */
enum sl_dta_refusal sl_dta_answer_parse(const void *packet, size_t bytes, struct sl_dta_answer *out);

#endif
