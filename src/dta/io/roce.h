/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roce.h - RoCEv2 in software: a requester's frames (WRITE and FETCH_ADD on a reliable connection),
 * the responder's answers, and the requester's reaction to them. Pure functions that use no socket
 * and no clock. Single-threaded.
 *
 * Layout of a frame, in bytes: Ethernet 14, IPv4 20 or IPv6 40, UDP 8 (port 4791), BTH 12;
 * depending on the opcode RETH 16, AtomicETH 28, immediate 4; payload, padding to a multiple of 4,
 * iCRC 4. Big-endian except for the iCRC. (IBTA Architecture Specification volume 1, chapter 9;
 * annex A17, RoCEv2.)
 */
#ifndef SL_DTA_IO_ROCE_H
#define SL_DTA_IO_ROCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#define DTA_ROCE_PORT	 4791
#define DTA_ROCE_24	 0xffffffu /* PSNs and queue pair numbers have 24 bits */
#define DTA_ROCE_MTU_MIN 256u
#define DTA_ROCE_MTU_MAX 4096u
/* Maximum overhead of a frame: Ethernet, IPv6, UDP, BTH, AtomicETH, iCRC. */
#define DTA_ROCE_AROUND 108u

/* One end of a queue pair, as in the "queue" message of control.h. */
struct dta_roce_end {
	uint32_t qpn;	  /* 2 .. 2^24 - 1 */
	uint32_t psn;	  /* PSN of the first packet that this end sends */
	uint8_t gid[16];  /* IP address; IPv4 is mapped into IPv6 (RFC 4291, 2.5.5.2) */
	uint8_t mac[6];	  /* MAC address at which the peer reaches this end */
	uint16_t mtu;	  /* payload bytes per packet: 256, 512 .. 4096 */
	uint32_t atomics; /* outstanding FETCH_ADDs that this end accepts; 0 means 1 */
};

/* Returns 0, or -EINVAL if a number is out of bounds or an address is invalid. */
int dta_roce_end_check(const struct dta_roce_end *e);
/* Returns {"type":"queue",...}, or NULL if out of memory. */
json_t *dta_roce_end_json(const struct dta_roce_end *e);
/* Returns 0 and a checked end, or -EINVAL. "atomics" is optional. */
int dta_roce_end_of_json(const json_t *message, struct dta_roce_end *e);

enum dta_roce_opcode { /* opcodes of a reliable connection (IBTA table 38) */
		       DTA_ROCE_WRITE_FIRST = 0x06,
		       DTA_ROCE_WRITE_MIDDLE = 0x07,
		       DTA_ROCE_WRITE_LAST = 0x08,
		       DTA_ROCE_WRITE_LAST_IMMEDIATE = 0x09,
		       DTA_ROCE_WRITE_ONLY = 0x0a,
		       DTA_ROCE_WRITE_ONLY_IMMEDIATE = 0x0b,
		       DTA_ROCE_ACK = 0x11,
		       DTA_ROCE_ATOMIC_ACK = 0x12,
		       DTA_ROCE_FETCH_ADD = 0x14,
};

/* ---- building ---- */

#define DTA_ROCE_STATES 256u

/* The constant headers of a queue pair's frames, and CRCs over them. */
struct dta_roce_builder {
	uint8_t head[14 + 40 + 8 + 12];
	uint32_t ip, bth; /* offsets of the IP header and the BTH */
	uint32_t ip_sum;  /* IPv4: sum over the header, excluding length and checksum */
	struct {
		uint32_t shape; /* opcode, padding and length of a frame */
		uint32_t crc;	/* CRC over the frame up to the PSN */
	} state[DTA_ROCE_STATES];
};

struct dta_roce_packet {
	enum dta_roce_opcode opcode;
	uint32_t psn;
	bool solicited; /* triggers a completion channel armed for solicited events */
	uint64_t addr;	/* remote address, for FETCH_ADD and the first or only packet of a WRITE */
	uint32_t rkey;
	uint32_t length; /* length of the whole WRITE */
	uint64_t add;
	uint32_t immediate;
	const void *payload;
	uint32_t bytes; /* payload bytes in this packet */
};

/*
 * port: the UDP source port, which routers use to spread queue pairs over paths. Returns 0, or
 * -EINVAL if an end is invalid or the IP versions differ.
 */
int dta_roce_builder(struct dta_roce_builder *b, const struct dta_roce_end *ours,
		     const struct dta_roce_end *theirs, uint16_t port);
/*
 * Builds a frame without its iCRC, which dta_roce_seal() adds. frame needs room for DTA_ROCE_AROUND
 * + bytes, rounded up to 4. Returns the length of the frame including the iCRC.
 */
size_t dta_roce_build(const struct dta_roce_builder *b, const struct dta_roce_packet *p,
		      void *frame);
/* Sets the acknowledge request and the iCRC. May be applied again to a sealed frame. */
void dta_roce_seal(struct dta_roce_builder *b, void *frame, size_t bytes, bool acknowledge);
/*
 * Returns the iCRC of a RoCEv2 frame that begins with Ethernet, in wire order if stored on a
 * little-endian machine. bytes: excludes Ethernet padding, at least 14 + IP + 8 + 12 + 4. IPv4 must
 * have no options.
 */
uint32_t dta_roce_icrc(const void *frame, size_t bytes);

/* ---- answers ---- */

/*
 * AETH syndromes (IBTA 9.7.5.2.1). The lower bits contain credits in an ACK and the timer in an RNR
 * NAK.
 */
#define DTA_ROCE_SYNDROME_KIND 0x60
#define DTA_ROCE_SYNDROME_ACK  0x00
#define DTA_ROCE_SYNDROME_RNR  0x20
#define DTA_ROCE_SYNDROME_NAK  0x60
enum dta_roce_nak {
	DTA_ROCE_NAK_SEQUENCE = 0x60,
	DTA_ROCE_NAK_INVALID = 0x61,
	DTA_ROCE_NAK_ACCESS = 0x62,
	DTA_ROCE_NAK_OPERATION = 0x63,
};

struct dta_roce_answer {
	enum dta_roce_opcode opcode; /* DTA_ROCE_ACK or DTA_ROCE_ATOMIC_ACK */
	uint32_t psn;
	uint8_t syndrome;
	uint32_t msn;
	uint64_t original; /* ATOMIC_ACK: value before the addition */
};

enum dta_roce_refusal {
	DTA_ROCE_FINE = 0,
	DTA_ROCE_OTHER,	    /* not RoCEv2, or for another queue pair; not counted as a refusal */
	DTA_ROCE_TRUNCATED, /* shorter than a header states, or a fragment */
	DTA_ROCE_BAD_HEADER,
	DTA_ROCE_BAD_SOURCE, /* for this queue pair, but not from the peer's address */
	DTA_ROCE_BAD_OPCODE, /* not an answer */
	DTA_ROCE_BAD_ICRC,
	DTA_ROCE_REFUSALS
};
const char *dta_roce_refusal_name(enum dta_roce_refusal r);

/* Parses an untrusted received frame, starting at the Ethernet header. */
enum dta_roce_refusal dta_roce_parse(const void *frame, size_t bytes,
				     const struct dta_roce_end *ours,
				     const struct dta_roce_end *theirs,
				     struct dta_roce_answer *out);

/* ---- the window ---- */

/*
 * The packets in flight, with go-back-N (IBTA 9.7.5.1, 9.7.8). Packets are numbered from 0; the PSN
 * of packet n is (first + n) mod 2^24. The caller keeps the frames [acked, queued).
 */
struct dta_roce_window {
	uint32_t first; /* PSN of packet 0 */
	uint32_t limit; /* packets that may be in flight, like TCP's congestion window */
	uint32_t limit_max, threshold, grown; /* congestion control (RFC 5681, 3.1) */
	/* smoothed round-trip time; the packet being timed, or 0; its send time */
	uint64_t round_ns, timed, timed_ns;
	uint64_t acked;	  /* packets before this number are acknowledged */
	uint64_t sent;	  /* packets before this number were sent since the last go-back */
	uint64_t queued;  /* packets before this number are queued */
	uint64_t highest; /* packets before this number were sent at least once */
	uint64_t timeout_ns, deadline_ns; /* deadline 0 means nothing in flight */
	uint64_t not_before_ns; /* the responder was not ready, so do not send before this time */
	/* time of the last progress, or of the first packet after idleness; 0 means idle */
	uint64_t progress_ns;
	uint64_t patience_ns; /* time without progress after which the queue pair is broken */
	uint32_t tries;	      /* timeouts without progress; each doubles the next timeout */
	bool back;	      /* a go-back has occurred, and nothing has been acknowledged since */
};

enum dta_roce_event {
	DTA_ROCE_NOTHING = 0, /* a duplicate, or an unexpected answer */
	DTA_ROCE_PROGRESS,    /* acked advanced */
	DTA_ROCE_BACK,	      /* sent was reset to acked, which may have advanced */
	DTA_ROCE_REFUSED,     /* a NAK for packet `acked` that ends the queue pair */
	DTA_ROCE_SILENT,      /* no progress for too long: abandon the queue pair */
};

/*
 * limit: the maximum, 1 to 2^22. Losses reduce the actual limit, to no less than
 * DTA_ROCE_LIMIT_MIN, because a responder drops packets that arrive out of sequence. timeout_ns:
 * lower bound of the timeout, which is otherwise four round trips. After `tries` (1 to 20) timeouts
 * without progress, each twice as long as the one before, the queue pair counts as broken.
 */
#define DTA_ROCE_LIMIT_MIN   16u
#define DTA_ROCE_LIMIT_FIRST 128u
void dta_roce_window(struct dta_roce_window *w, uint32_t first, uint32_t limit, uint64_t timeout_ns,
		     uint32_t tries);
static inline uint32_t dta_roce_psn(const struct dta_roce_window *w, uint64_t n)
{
	return (uint32_t)(w->first + n) & DTA_ROCE_24;
}
/* Returns the number of packets that may be sent now. now_ns must be monotonic across all calls. */
uint64_t dta_roce_may_send(const struct dta_roce_window *w, uint64_t now_ns);
/* Records that count more packets were sent. */
void dta_roce_sent(struct dta_roce_window *w, uint64_t count, uint64_t now_ns);
enum dta_roce_event dta_roce_answered(struct dta_roce_window *w, const struct dta_roce_answer *a,
				      uint64_t now_ns);
/* Returns BACK or SILENT if the deadline has passed, otherwise NOTHING. */
enum dta_roce_event dta_roce_timer(struct dta_roce_window *w, uint64_t now_ns);

#endif
