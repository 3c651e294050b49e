/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss.h - which reports of which reporter came: the translator's half of the loss protocol. Pure:
 * knows no socket and no clock. One thread.
 *
 * A reporter is told apart by (address, tenant, reporter number), and if its packets are
 * authenticated, by (tenant, reporter number) alone, so that a stranger who sends them again from
 * elsewhere gets nowhere. Answers go where the last packet came from that brought anything new. Of
 * each a window of the newest reports is kept as a map of bits. Sequence numbers count modulo 2^32
 * (the original's: 2^8).
 *
 * Another incarnation begins anew, at sequence 0: what is missing before its first packet is
 * missing, if it is less than a window. Of authenticated reporters an incarnation is taken only if
 * it is later than the last one (RFC 1982); of others, if it is not the one before. The rest is
 * late.
 *
 * A report that was given up, and comes while the window still reaches back to it, is taken: lost
 * falls by one then.
 */
#ifndef SL_DTA_TRANSLATE_LOSS_H
#define SL_DTA_TRANSLATE_LOSS_H

#include <netinet/in.h>

#include "dta/wire/wire.h"

struct dta_loss;
struct dta_loss_reporter;

struct dta_loss_opts {
	uint32_t reporters; /* the most that are known at a time; 0: 16384. More: the one that is
			     * silent for longest goes if it is silent for forget_ns, else the new
			     * one is refused */
	uint32_t window; /* reports behind the newest that may still come, power of two, 64 to 2^20;
			  * 0: 4096. The original's 8 bits of sequence: 64 */
	uint64_t forget_ns; /* 0: 60 s */
	uint64_t nack_ns; /* a gap is named after so long, and again after each doubling; 0: 2 ms */
	uint32_t nacks;	  /* times that it is named, then it is lost; 0: 5 */
};

struct dta_loss_key {
	struct in6_addr address; /* v4 mapped */
	uint16_t port, tenant;
	uint32_t reporter;
};

/* The account of one reporter: expected = arrived + missing + lost, each report once. */
struct dta_loss_stats {
	uint64_t expected;   /* reports that the sequence numbers tell of */
	uint64_t arrived;    /* each once */
	uint64_t duplicates; /* came again */
	uint64_t late;	     /* behind the window: not told from duplicates, so not taken */
	uint64_t reordered;  /* came after a younger one */
	uint64_t missing;    /* gaps that may still be filled */
	uint64_t lost;	     /* gaps that were given up */
	uint64_t recovered;  /* arrived after a NACK */
	uint64_t nacks;	     /* ranges that were named */
	uint64_t restarts;   /* incarnations that began anew */
	uint64_t refused;    /* packets of reporters that there was no room for (total only) */
	uint64_t reporters, forgotten; /* total only */
};

struct dta_loss *dta_loss_new(const struct dta_loss_opts *opts);
void dta_loss_free(struct dta_loss *l);

#define DTA_LOSS_GAPS_MAX    256u /* of a reporter at a time; more: the oldest is given up */
#define DTA_LOSS_FRESH_WORDS (DTA_REPORTS_MAX / 64)

/*
 * A packet of a reporter came: h->reports reports, 1 to DTA_REPORTS_MAX, from h->sequence on, which
 * counts modulo 2^bits (8 or 32). Sets fresh[] bits (DTA_LOSS_FRESH_WORDS of words; bit i of word
 * i/64: report i is to be taken; the others are duplicates or late) and returns how many are to be
 * taken, -ENOSPC if the reporter was refused, -EINVAL. DTA_ACK_WANTED in h->flags: an answer is
 * wanted at once.
 */
int dta_loss_packet(struct dta_loss *l, const struct dta_loss_key *key, const struct dta_header *h,
		    uint32_t bits, uint64_t now_ns, uint64_t *fresh);
/*
 * The next answer that is due, if any: true, with the reporter's key. Call until false, after each
 * batch and each millisecond or so. credits are ~0, for the caller to lower. An original's answer,
 * of either type, names next - 1.
 */
bool dta_loss_answer(struct dta_loss *l, uint64_t now_ns, struct dta_loss_key *to,
		     struct dta_answer *answer);
/*
 * Forgets what came, and keeps the counters: all that a reporter sends again within its window is
 * taken, and counts as expected and arrived once more; gaps are lost.
 */
void dta_loss_anew(struct dta_loss *l);
void dta_loss_total(const struct dta_loss *l, struct dta_loss_stats *out);
/* Of each reporter. */
void dta_loss_each(const struct dta_loss *l,
		   void (*each)(void *arg, const struct dta_loss_key *key,
				const struct dta_loss_stats *s),
		   void *arg);

#endif
