/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roce.h - RoCEv2 by hand: the frames of a requester that WRITEs and FETCH_ADDs over a reliable
 * connection, the answers of its responder, and what it does about them. All of it is pure: no
 * socket and no clock. One thread.
 *
 * A frame: Ethernet 14, IPv4 20 or IPv6 40, UDP 8 (port 4791), BTH 12, then as the opcode says RETH
 * 16, AtomicETH 28, immediate 4, then the payload, zeros up to a multiple of 4, iCRC 4. Big-endian
 * but for the iCRC. (IBTA Architecture Specification volume 1, chapter 9; annex A17, RoCEv2.)
 */
#ifndef SL_DTA_IO_ROCE_H
#define SL_DTA_IO_ROCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#define DTA_ROCE_PORT	 4791
#define DTA_ROCE_24	 0xffffffu /* PSNs and the numbers of queue pairs have 24 bits */
#define DTA_ROCE_MTU_MIN 256u
#define DTA_ROCE_MTU_MAX 4096u
/* Around the payload, at most: Ethernet, IPv6, UDP, BTH, AtomicETH, iCRC. */
#define DTA_ROCE_AROUND 108u

/* One end of a queue pair: what "queue" of control.h carries. */
struct dta_roce_end {
	uint32_t qpn;	  /* 2 .. 2^24 - 1 */
	uint32_t psn;	  /* of the first packet that it sends */
	uint8_t gid[16];  /* its IP address; IPv4 mapped into IPv6 (RFC 4291, 2.5.5.2) */
	uint8_t mac[6];	  /* by which the other end reaches it */
	uint16_t mtu;	  /* bytes of payload a packet that it can do: 256, 512 .. 4096 */
	uint32_t atomics; /* FETCH_ADDs that it takes before it has answered; 0: 1 */
};

/* 0 or -EINVAL: numbers out of their bounds, an address that nobody has. */
int dta_roce_end_check(const struct dta_roce_end *e);
/* {"type":"queue",...}; NULL: out of memory. */
json_t *dta_roce_end_json(const struct dta_roce_end *e);
/* 0 or -EINVAL; what it makes is checked. "atomics" may be missing. */
int dta_roce_end_of_json(const json_t *message, struct dta_roce_end *e);

enum dta_roce_opcode { /* of a reliable connection: IBTA table 38 */
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

/* Headers that are the same in all frames of a queue pair, and the CRC over them. */
struct dta_roce_builder {
	uint8_t head[14 + 40 + 8 + 12];
	uint32_t ip, bth; /* offsets: of the IP header, 14, and of the BTH */
	uint32_t ip_sum;  /* IPv4: of its header without length and checksum */
	struct {
		uint32_t shape; /* of a frame: opcode, pad, length */
		uint32_t crc;	/* over all of it before its PSN */
	} state[DTA_ROCE_STATES];
};

struct dta_roce_packet {
	enum dta_roce_opcode opcode;
	uint32_t psn;
	bool solicited; /* wakes a completion channel that waits for such only */
	uint64_t addr;	/* WRITE first and only, FETCH_ADD */
	uint32_t rkey;
	uint32_t length; /* of the whole WRITE */
	uint64_t add;
	uint32_t immediate;
	const void *payload;
	uint32_t bytes; /* of the payload in this packet */
};

/*
 * port: source port of UDP, by which routers tell queue pairs apart. 0 or -EINVAL: an end that is
 * not sound, or two of different IP versions.
 */
int dta_roce_builder(struct dta_roce_builder *b, const struct dta_roce_end *ours,
		     const struct dta_roce_end *theirs, uint16_t port);
/*
 * Writes a frame, all but its iCRC, which is for dta_roce_seal(). frame has room for
 * DTA_ROCE_AROUND + bytes, rounded up to 4. Returns the frame's bytes, those of the iCRC among
 * them.
 */
size_t dta_roce_build(const struct dta_roce_builder *b, const struct dta_roce_packet *p,
		      void *frame);
/* Asks for an acknowledgement, or does not, and writes the iCRC. Also for a frame that was sealed
 * before. */
void dta_roce_seal(struct dta_roce_builder *b, void *frame, size_t bytes, bool acknowledge);
/*
 * The iCRC of any RoCEv2 frame that begins with Ethernet, as it has to be: in the order of the wire
 * when it is stored by memcpy() on a little-endian machine. bytes: of the frame without what
 * Ethernet pads, at least 14 + IP + 8 + 12 + 4, and IPv4 without options.
 */
uint32_t dta_roce_icrc(const void *frame, size_t bytes);

/* ---- answers ---- */

/* Syndromes of an AETH (IBTA 9.7.5.2.1); an ACK's lower bits are credits, an RNR NAK's its timer.
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
	uint64_t original; /* ATOMIC_ACK: what was there before */
};

enum dta_roce_refusal {
	DTA_ROCE_FINE = 0,
	DTA_ROCE_OTHER,	    /* not RoCEv2, or of another queue pair: nothing to count */
	DTA_ROCE_TRUNCATED, /* shorter than one of its headers says, or a fragment */
	DTA_ROCE_BAD_HEADER,
	DTA_ROCE_BAD_SOURCE, /* for us, but not from the other end */
	DTA_ROCE_BAD_OPCODE, /* no answer */
	DTA_ROCE_BAD_ICRC,
	DTA_ROCE_REFUSALS
};
const char *dta_roce_refusal_name(enum dta_roce_refusal r);

/* A frame as it came, from the Ethernet header on: hostile. */
enum dta_roce_refusal dta_roce_parse(const void *frame, size_t bytes,
				     const struct dta_roce_end *ours,
				     const struct dta_roce_end *theirs,
				     struct dta_roce_answer *out);

/* ---- the window ---- */

/*
 * Which packets are on the way: go-back-N (IBTA 9.7.5.1, 9.7.8). Packets are numbered 0, 1, 2 ...
 * for ever; the PSN of n is (first + n) mod 2^24. The caller keeps the frames [acked, queued).
 */
struct dta_roce_window {
	uint32_t first; /* PSN of packet 0 */
	uint32_t limit; /* packets that may be sent and not acknowledged: grows and shrinks as with
			   TCP */
	uint32_t limit_max, threshold, grown; /* (RFC 5681, 3.1) */
	uint64_t round_ns, timed,
		timed_ns; /* smoothed round trip; packet that is timed, 0: none; since */
	uint64_t acked;	  /* all before it were acknowledged */
	uint64_t sent;	  /* all before it were sent, since the last going back */
	uint64_t queued;  /* all before it exist */
	uint64_t highest; /* all before it were ever sent */
	uint64_t timeout_ns, deadline_ns; /* deadline 0: nothing on the way */
	uint64_t not_before_ns;		  /* the responder was not ready */
	uint64_t
		progress_ns; /* of the last one, or of the first packet after silence; 0: silence */
	uint64_t patience_ns; /* without progress for so long: broken */
	uint32_t tries;	      /* timeouts without progress: each is twice as long */
	bool back;	      /* went back, and nothing has been acknowledged since */
};

enum dta_roce_event {
	DTA_ROCE_NOTHING = 0, /* a duplicate, or an answer to nothing: to be counted */
	DTA_ROCE_PROGRESS,    /* acked moved on */
	DTA_ROCE_BACK,	  /* sent went back to acked: send again (acked may have moved on, too) */
	DTA_ROCE_REFUSED, /* a NAK that ends the queue pair; packet `acked` is the one */
	DTA_ROCE_SILENT,  /* no progress for too long: the queue pair is to be given up */
};

/*
 * limit: the most, 1 to 2^22. It is as little as DTA_ROCE_LIMIT_MIN after losses, since what a
 * responder does not expect it drops. timeout_ns: the least, where four round trips are shorter.
 * After so many timeouts without progress, each twice as long (1 to 20), it is broken.
 */
#define DTA_ROCE_LIMIT_MIN   16u
#define DTA_ROCE_LIMIT_FIRST 128u
void dta_roce_window(struct dta_roce_window *w, uint32_t first, uint32_t limit, uint64_t timeout_ns,
		     uint32_t tries);
static inline uint32_t dta_roce_psn(const struct dta_roce_window *w, uint64_t n)
{
	return (uint32_t)(w->first + n) & DTA_ROCE_24;
}
/* Of these, now_ns never goes back from call to call. Packets that may be sent now. */
uint64_t dta_roce_may_send(const struct dta_roce_window *w, uint64_t now_ns);
/* count more were sent. */
void dta_roce_sent(struct dta_roce_window *w, uint64_t count, uint64_t now_ns);
enum dta_roce_event dta_roce_answered(struct dta_roce_window *w, const struct dta_roce_answer *a,
				      uint64_t now_ns);
/* BACK or SILENT when the deadline has passed, else NOTHING. */
enum dta_roce_event dta_roce_timer(struct dta_roce_window *w, uint64_t now_ns);

#endif
