/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - report packets: format 2 and both formats of the original DTA implementation.
 * docs/dta-wire.md is normative. Pure functions; numbers are big-endian on the wire.
 *
 * A packet of format 2 consists of a header of 32 bytes, blocks and, if it is authenticated, a
 * trailer ("proof") of 24 bytes: the translator it is addressed to, and a MAC. A block consists of
 * a header of 12 bytes and count items of one shape, each a key and a value without padding.
 * Sequence numbers count reports, not packets, so a gap reveals how many reports are missing. An
 * incarnation begins at sequence 0. A packet without blocks is a heartbeat that only announces its
 * sequence number.
 */
#ifndef SL_DTA_WIRE_WIRE_H
#define SL_DTA_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTA_PORT	40040 /* UDP port for reports */
#define DTA_PORT_ANSWER 40044 /* port of ACK and NACK; format 2 answers to the sender's port */
#define DTA_MAGIC	0xd7  /* first byte; original packets begin with an opcode, 1 to 4 */
#define DTA_VERSION	2
#define DTA_PACKET_MAX	65507u /* payload of the largest UDP datagram */
#define DTA_MAC_BYTES	16u    /* AES-CMAC-128 over all bytes before it */
/* size of the trailer after the blocks: u64 identity of the addressed translator, MAC */
#define DTA_PROOF_BYTES 24u

enum dta_opcode {
	DTA_KEYWRITE = 1,   /* key of 4..64 bytes, value of 4..256 bytes */
	DTA_APPEND = 2,	    /* key: u32 list; value of 4..256 bytes */
	DTA_INCREMENT = 3,  /* key of 4..64 bytes; value: u64 addend */
	DTA_POSTCARD = 4,   /* key of 4..64 bytes; value: u8 hop, u8 hops, u16 0, u32 data */
	DTA_SKETCH = 5,	    /* key: u32 epoch, u32 row, u32 column; value: cells or registers */
	DTA_SKETCH_END = 6, /* key: u32 epoch; value: u32 number of items sent in the epoch */
	DTA_OPCODE_END
};

#define DTA_SKETCH_VALUE_MAX 1024u
#define DTA_REPORTS_MAX	     8192u /* per packet; the smallest item has 8 bytes */
#define DTA_ITEM_MAX	     (12u + DTA_SKETCH_VALUE_MAX)

enum dta_packet_flag {
	DTA_AUTHENTICATED = 1, /* the blocks are followed by the translator's identity and a MAC */
	DTA_AGAIN = 2,	       /* a retransmission */
	DTA_ACK_WANTED = 4,
};

enum dta_block_flag {
	DTA_IMMEDIATE = 1, /* also wakes the application */
	DTA_ESSENTIAL = 2, /* the reporter keeps it until it is acknowledged */
};

struct dta_header {	      /* in host order; the numbers below are offsets on the wire */
	uint8_t flags;	      /* offset 2; the magic is at 0, the version at 1 */
	uint8_t blocks;	      /* offset 3 */
	uint16_t tenant;      /* offset 4 */
	uint16_t length;      /* offset 6: length of the header and the blocks, without the proof */
	uint32_t reporter;    /* offset 8 */
	uint32_t sequence;    /* offset 12: sequence number of the first report in the packet */
	uint64_t time_ns;     /* offset 16: CLOCK_REALTIME; 0 means none */
	uint32_t incarnation; /* offset 24: changes when the reporter restarts */
	uint32_t reports;     /* offset 28: number of reports in all blocks */
};
#define DTA_HEADER_BYTES 32u

/* in host order, pointing into the packet; the numbers below are offsets on the wire */
struct dta_block {
	uint8_t opcode; /* offset 0 */
	uint8_t flags;	/* offset 1 */
	uint16_t count; /* offset 2: number of items */
	uint8_t copies; /* offset 4: N of key-write, increment and postcard, 1 to 8; otherwise 0 */
	uint8_t key_bytes;    /* offset 5 */
	uint16_t value_bytes; /* offset 6 */
	uint16_t store;	      /* offset 8; bytes 10 and 11 are 0 */
	const uint8_t *items; /* offset 12: count * (key_bytes + value_bytes) bytes */
};
#define DTA_BLOCK_BYTES 12u

/* Reasons for refusing a packet; each has a counter. */
enum dta_refusal {
	DTA_FINE = 0,
	DTA_TRUNCATED, /* shorter than its header states */
	DTA_OVERSIZED, /* longer than its header states */
	DTA_BAD_VERSION,
	DTA_BAD_OPCODE,
	DTA_BAD_COPIES,
	DTA_BAD_KEY,   /* invalid key length */
	DTA_BAD_VALUE, /* invalid value length, or invalid content (hop beyond the path) */
	/* a block without items, or a header whose report count is not the sum of the blocks */
	DTA_BAD_COUNT,
	DTA_BAD_FLAGS, /* an unknown flag, or a reserved field that is not 0 */
	DTA_BAD_MAC,   /* forged, or missing although required */
	DTA_REPLAYED,
	DTA_ELSEWHERE, /* addressed to another translator */
	DTA_REFUSALS
};
const char *dta_refusal_name(enum dta_refusal r); /* name used in metrics */

#define DTA_BLOCKS_MAX 255u

/* A checked packet. Every block and item lies within it and has a permitted shape. */
struct dta_packet {
	struct dta_header header;
	struct dta_block block[DTA_BLOCKS_MAX]; /* only the first header.blocks entries are used */
	uint8_t scratch[32];			/* legacy items after conversion */
};

/*
 * Checks everything except the MAC (auth.h). If a packet is refused, no part of it may be used. out
 * points into the packet.
 */
enum dta_refusal dta_parse(const void *packet, size_t bytes, struct dta_packet *out);

/*
 * Packet formats of the original DTA implementation. Packets don't identify their format; it must
 * be configured.
 */
enum dta_legacy {
	DTA_LEGACY_NONE = 0,
	DTA_LEGACY_A, /* base header of 2 bytes */
	DTA_LEGACY_B, /* base header of 3 bytes, with a sequence number of 8 bits */
};
/*
 * Parses one report in an original format as a packet with one block and one item. Tenant and
 * reporter are 0 (the caller knows the address); the store number is the opcode; sequence has form
 * B's 8 bits. Bits that the original leaves unset are ignored. Values keep their 4, 12 or 28 bytes.
 * Hops 1 to 5 become 0 to 4 of `hops`, with one copy. Form B's "retransmitable" becomes
 * DTA_ESSENTIAL and DTA_ACK_WANTED.
 */
enum dta_refusal dta_parse_legacy(const void *packet, size_t bytes, enum dta_legacy form,
				  uint8_t hops, struct dta_packet *out);
/* Builds an ACK or NACK in the original format, which has 2 bytes. */
void dta_legacy_answer(uint8_t sequence, bool nack, uint8_t out[2]);

/* ---- building ---- */

struct dta_builder {
	uint8_t *packet;
	size_t room, bytes; /* bytes used excluding the proof, for which room is reserved */
	size_t block;	    /* offset of the open block; 0 means none */
	struct dta_header header;
};

/*
 * Starts a packet in a buffer of room bytes, at least 64. header provides flags, tenant, reporter,
 * sequence, incarnation and time.
 */
void dta_begin(struct dta_builder *b, void *packet, size_t room, const struct dta_header *header);
/*
 * Adds a report to the open block if the shape is the same, otherwise to a new block. shape: a
 * struct dta_block without count and items. Returns 0; -ENOSPC: end this packet and start another;
 * -EMSGSIZE: would not fit even into an empty packet; -EINVAL: dta_parse() would refuse it.
 */
int dta_put(struct dta_builder *b, const struct dta_block *shape, const void *key,
	    const void *value);
/*
 * Completes the header, and sets the block and report counts in b->header. Returns the length
 * without the proof, which dta_proof_put() appends, or 0 if the packet is empty.
 */
size_t dta_end(struct dta_builder *b);

/*
 * Builds a packet without reports in a buffer of at least 64 bytes. It announces that all reports
 * before its sequence number were sent. Returns the length without the proof.
 */
size_t dta_heartbeat(void *packet, size_t room, const struct dta_header *header);

/*
 * Marks a finished packet as a retransmission and sets its time. The caller must renew the proof.
 */
void dta_again(void *packet, uint64_t time_ns);
/* Gives a finished packet its numbers and its time. The caller must renew the proof. */
void dta_renumber(void *packet, uint32_t sequence, uint32_t incarnation, uint64_t time_ns);
/*
 * Builds one report in an original format. shape is as for dta_put(), with a key of 4 bytes and a
 * value of 4, 12 or 28 bytes (key-write), 4 bytes (append) or 8 bytes. The format has no store
 * number, and form A no sequence number. Returns the length, at most 40, or 0 if the report can't
 * be represented or there is no room.
 */
size_t dta_build_legacy(enum dta_legacy form, uint8_t sequence, const struct dta_block *shape,
			const void *key, const void *value, void *out, size_t room);

/* ---- answers ---- */

/*
 * A translator's answer: { u8 magic, u8 version, u8 type, u8 ranges, u32 reporter, u32 incarnation,
 * u32 next (every report before it arrived or is no longer accepted), u32 credits (reports that may
 * be in flight beyond the newest one known to have arrived; ~0 means unlimited), u32 window (how
 * far behind the newest report a report may be and still be accepted; 0 means unknown) }, ranges of
 * { u32 first, u32 count }, and a MAC if the reporter's packets have one.
 */
enum dta_answer_type {
	DTA_ACK = 1,  /* the ranges, and all reports before next, have arrived */
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
/* Returns the length without a MAC, or 0 if there are too many ranges or no room. */
size_t dta_answer_build(const struct dta_answer *a, void *out, size_t room);
/* Ignores a MAC that follows the answer. */
enum dta_refusal dta_answer_parse(const void *packet, size_t bytes, struct dta_answer *out);

#endif
