/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - packets of reports: format 2 and both formats of the original. docs/dta-wire.md is
 * normative. Pure functions; numbers are big-endian on the wire.
 *
 * A packet of format 2 is a header of 32 bytes, blocks, and a proof of 24 bytes if it is
 * authenticated: the translator that it is meant for, and a MAC. A block is a header of 12 bytes
 * and count items of one shape, key and value without padding. Sequence numbers count reports, not
 * packets, so that a gap tells how many are missing. An incarnation begins at sequence 0. A packet
 * without blocks is a heartbeat: what it says is its sequence number.
 */
#ifndef SL_DTA_WIRE_WIRE_H
#define SL_DTA_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTA_PORT	40040 /* reports */
#define DTA_PORT_ANSWER 40044 /* ACK and NACK; format 2: to the sender's port */
#define DTA_MAGIC	0xd7  /* first byte; the original's is an opcode, 1 to 4 */
#define DTA_VERSION	2
#define DTA_PACKET_MAX	65507u /* bytes of a UDP datagram's payload */
#define DTA_MAC_BYTES	16u    /* AES-CMAC-128 over all before it */
#define DTA_PROOF_BYTES 24u    /* behind a packet's blocks: u64 of the translator meant, MAC */

enum dta_opcode {
	DTA_KEYWRITE = 1,   /* key 4..64, value 4..256 */
	DTA_APPEND = 2,	    /* key: u32 list; value 4..256 */
	DTA_INCREMENT = 3,  /* key 4..64, value: u64 addend */
	DTA_POSTCARD = 4,   /* key 4..64, value: u8 hop, u8 hops, u16 0, u32 data */
	DTA_SKETCH = 5,	    /* key: u32 epoch, u32 row, u32 column; value: cells or registers */
	DTA_SKETCH_END = 6, /* key: u32 epoch; value: u32 items sent in it */
	DTA_OPCODE_END
};

#define DTA_SKETCH_VALUE_MAX 1024u
#define DTA_REPORTS_MAX	     8192u /* per packet; the smallest item has 8 bytes */
#define DTA_ITEM_MAX	     (12u + DTA_SKETCH_VALUE_MAX)

enum dta_packet_flag {
	DTA_AUTHENTICATED = 1, /* a proof follows the blocks */
	DTA_AGAIN = 2,	       /* a retransmission */
	DTA_ACK_WANTED = 4,
};

enum dta_block_flag {
	DTA_IMMEDIATE = 1, /* also wakes the application */
	DTA_ESSENTIAL = 2, /* the reporter keeps it until it is acknowledged */
};

struct dta_header {	      /* in host order */
	uint8_t flags;	      /* 2; 0 is the magic, 1 the version */
	uint8_t blocks;	      /* 3 */
	uint16_t tenant;      /* 4 */
	uint16_t length;      /* 6: header and blocks, without the proof */
	uint32_t reporter;    /* 8 */
	uint32_t sequence;    /* 12: of the first report in the packet */
	uint64_t time_ns;     /* 16: CLOCK_REALTIME, 0 none */
	uint32_t incarnation; /* 24: changes when the reporter restarts */
	uint32_t reports;     /* 28: of all blocks */
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

/* Why a packet was refused; each cause has a counter. */
enum dta_refusal {
	DTA_FINE = 0,
	DTA_TRUNCATED, /* shorter than its header states */
	DTA_OVERSIZED, /* longer than its header states */
	DTA_BAD_VERSION,
	DTA_BAD_OPCODE,
	DTA_BAD_COPIES,
	DTA_BAD_KEY,   /* length */
	DTA_BAD_VALUE, /* length, or content (hop beyond the path) */
	DTA_BAD_COUNT, /* a block without items, or reports is not their sum */
	DTA_BAD_FLAGS, /* an unknown flag, or a reserved field that is not 0 */
	DTA_BAD_MAC,   /* forged, or no MAC where one is required */
	DTA_REPLAYED,
	DTA_ELSEWHERE, /* meant for another translator */
	DTA_REFUSALS
};
const char *dta_refusal_name(enum dta_refusal r); /* as in metrics */

#define DTA_BLOCKS_MAX 255u

/* A checked packet: every block and item lies within it and has a permitted shape. */
struct dta_packet {
	struct dta_header header;
	struct dta_block block[DTA_BLOCKS_MAX]; /* header.blocks of them */
	uint8_t scratch[32];			/* legacy items after conversion */
};

/*
 * Checks everything but the MAC (auth.h). Nothing of a refused packet may be used. out points into
 * the packet.
 */
enum dta_refusal dta_parse(const void *packet, size_t bytes, struct dta_packet *out);

/* The original's formats. A packet does not tell which one it has: it is configured. */
enum dta_legacy {
	DTA_LEGACY_NONE = 0,
	DTA_LEGACY_A, /* 2 bytes of base header */
	DTA_LEGACY_B, /* 3 bytes, with a sequence number of 8 bits */
};
/*
 * Parses one report, as a packet of one block and one item: tenant 0, reporter 0 (the caller knows
 * the address), the store numbered as the opcode; sequence: form B's 8 bits. Bits that the original
 * leaves unset are ignored. Values keep their 4, 12 or 28 bytes. Hops 1 to 5 become 0 to 4 of
 * `hops`, with one copy. Form B's "retransmitable" becomes DTA_ESSENTIAL and DTA_ACK_WANTED.
 */
enum dta_refusal dta_parse_legacy(const void *packet, size_t bytes, enum dta_legacy form,
				  uint8_t hops, struct dta_packet *out);
/* The original's ACK or NACK: 2 bytes. */
void dta_legacy_answer(uint8_t sequence, bool nack, uint8_t out[2]);

/* ---- building ---- */

struct dta_builder {
	uint8_t *packet;
	size_t room, bytes; /* without the proof, for which room is reserved */
	size_t block;	    /* offset of the open block, or 0 */
	struct dta_header header;
};

/*
 * Begins a packet in a buffer of room bytes, at least 64. header: flags, tenant, reporter,
 * sequence, incarnation and time.
 */
void dta_begin(struct dta_builder *b, void *packet, size_t room, const struct dta_header *header);
/*
 * Adds a report, to the open block if it has the same shape. shape: a struct dta_block without
 * count and items. 0; -ENOSPC: end this packet and begin another; -EMSGSIZE: it would not fit into
 * an empty packet; -EINVAL: dta_parse() would refuse it.
 */
int dta_put(struct dta_builder *b, const struct dta_block *shape, const void *key,
	    const void *value);
/*
 * Completes the header. Returns the length without the proof, which dta_proof_put() appends, or 0
 * if the packet is empty. b->header then has the counts of blocks and reports.
 */
size_t dta_end(struct dta_builder *b);

/*
 * Builds a packet without reports, of at least 64 bytes of room, which says that all before its
 * sequence number were sent. Returns the length without the proof.
 */
size_t dta_heartbeat(void *packet, size_t room, const struct dta_header *header);

/* Marks a finished packet as a retransmission and sets its time. A proof must be made again. */
void dta_again(void *packet, uint64_t time_ns);
/* Moves it to another incarnation. A proof must be made again. */
void dta_renumber(void *packet, uint32_t sequence, uint32_t incarnation);
/*
 * Builds one report in a format of the original: shape as for dta_put(), with a key of 4 bytes and
 * a value of 4, 12 or 28 (key-write), 4 (append) or 8 bytes. The format carries no store, and form
 * A no sequence. Returns its length, at most 40; 0: not representable, or no room.
 */
size_t dta_build_legacy(enum dta_legacy form, uint8_t sequence, const struct dta_block *shape,
			const void *key, const void *value, void *out, size_t room);

/* ---- answers ---- */

/*
 * A translator's answer: { u8 magic, u8 version, u8 type, u8 ranges, u32 reporter, u32 incarnation,
 * u32 next (everything before it arrived or is no longer taken), u32 credits (reports that may be
 * in flight beyond the newest one known to have arrived; ~0: unlimited), u32 window (reports behind
 * the newest that are still taken; 0: unknown) }, ranges of { u32 first, u32 count }, and a MAC if
 * the reporter's packets have one.
 */
enum dta_answer_type {
	DTA_ACK = 1,  /* the ranges arrived, and everything before next */
	DTA_NACK = 2, /* the ranges are missing */
};
#define DTA_ANSWER_BYTES 24u
#define DTA_RANGES_MAX	 64u
struct dta_answer {
	uint8_t type, ranges;
	uint32_t reporter, incarnation, next, credits, window;
	struct {
		uint32_t first, count;
	} range[DTA_RANGES_MAX];
};
/* Returns the length without a MAC; 0: too many ranges, or no room. */
size_t dta_answer_build(const struct dta_answer *a, void *out, size_t room);
/* A MAC that follows is ignored. */
enum dta_refusal dta_answer_parse(const void *packet, size_t bytes, struct dta_answer *out);

#endif
