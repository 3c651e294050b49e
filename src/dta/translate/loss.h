/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss.h - the translator's half of the loss protocol: which reports of a reporter arrived. Pure:
 * no socket, no clock. Single-threaded.
 *
 * A reporter is identified by (address, tenant, reporter number), or with authentication by
 * (tenant, reporter number) alone, so that replaying its packets from elsewhere achieves nothing.
 * Answers go to the source of the last packet that brought news. Per reporter a bitmap covers a
 * window of the newest reports. Sequence numbers count modulo 2^32 (the original's 2^8).
 *
 * Reporters with and without authentication have a table each, so that anyone fills his own alone.
 * In it they share: those with authentication by tenant, others by address (IPv6: by network of 64
 * bits), so that no tenant and no address takes all (base/share.h).
 *
 * A new incarnation begins at sequence 0; what precedes its first packet is missing if it is less
 * than a window. It has a window of its own, so that it takes nothing from the one before: that one
 * is late for a second, as a straggler. If it is heard after that, two reporters collide, and both
 * are taken. An authenticated incarnation must be later than those known (RFC 1982); otherwise its
 * reports are late.
 *
 * Without authentication, a jump beyond the window is believed when a second packet follows it:
 * back only if nothing else was heard for a second. A single packet changes no window.
 *
 * A report that was given up but arrives within the window is taken, and lost decreases.
 */
#ifndef SL_DTA_TRANSLATE_LOSS_H
#define SL_DTA_TRANSLATE_LOSS_H

#include <netinet/in.h>

#include "dta/wire/wire.h"

struct dta_loss;
struct dta_loss_key;
struct dta_loss_reporter;

struct dta_loss_opts {
	uint32_t reporters; /* known at a time, of either table; 0: 16384. A new reporter without a
			       share replaces the most silent one if that was silent for forget_ns,
			       and is refused otherwise */
	uint32_t window;    /* reports behind the newest that are still taken: a power of two, 64 to
			       2^20; 0: 4096. With 8-bit sequences: 64 */
	uint64_t forget_ns; /* 0: 60 s */
	uint64_t nack_ns;   /* before a gap is requested, doubled each time; 0: 2 ms */
	uint32_t nacks;	    /* requests before a gap is lost; 0: 5 */
	/* An authenticated reporter is no longer known; not called for that of a packet that
	 * dta_loss_packet() refuses. May be NULL. */
	void (*forgotten)(void *arg, uint16_t tenant, uint32_t reporter);
	/* Another reporter uses its number, from this address or with its key. May be NULL. */
	void (*collides)(void *arg, const struct dta_loss_key *key);
	void *arg;
};

struct dta_loss_key {
	struct in6_addr address; /* v4 mapped */
	uint16_t port, tenant;
	uint32_t reporter;
	uint32_t input;	    /* the caller's; answers go there */
	uint32_t signer;    /* which of its keys made the MAC; answers have the same */
	bool authenticated; /* of the recipient of an answer */
};

/* A reporter's account: expected = arrived + missing + lost, each report once. */
struct dta_loss_stats {
	uint64_t expected;   /* reports implied by sequence numbers */
	uint64_t arrived;    /* distinct reports */
	uint64_t duplicates; /* repetitions */
	uint64_t late;	     /* behind the window, where duplicates are not known: not taken */
	uint64_t reordered;  /* arrived after a newer one */
	uint64_t missing;    /* in gaps that may still be filled */
	uint64_t lost;	     /* in gaps that were given up */
	uint64_t recovered;  /* arrived after a NACK */
	uint64_t nacks;	     /* requested ranges */
	uint64_t restarts;   /* new incarnations */
	uint64_t collisions; /* incarnations that went on beside a later one */
	uint64_t jumps;	     /* packets beyond the window, at first not believed */
	uint64_t refused;    /* packets of refused reporters (total only) */
	uint64_t unordered;  /* taken late without knowing whether they are the newest of their key
			      * (total only) */
	uint64_t reporters, forgotten; /* total only */
};

struct dta_loss *dta_loss_new(const struct dta_loss_opts *opts);
void dta_loss_free(struct dta_loss *l); /* calls forgotten() for none */
/* Whether it has a window of this authenticated reporter. */
bool dta_loss_knows(const struct dta_loss *l, uint16_t tenant, uint32_t reporter);

#define DTA_LOSS_GAPS_MAX    256u /* per reporter; beyond, the oldest is given up */
#define DTA_LOSS_FRESH_WORDS (DTA_REPORTS_MAX / 64)

/*
 * Accounts a packet of h->reports reports (1 to DTA_REPORTS_MAX) from h->sequence on, modulo 2^bits
 * (8 or 32). fresh: DTA_LOSS_FRESH_WORDS words; bit i is set if report i is to be taken and is
 * neither a duplicate nor late. Returns the number to be taken, -ENOSPC: the reporter was refused,
 * -EINVAL. DTA_ACK_WANTED in h->flags requests an answer.
 */
int dta_loss_packet(struct dta_loss *l, const struct dta_loss_key *key, const struct dta_header *h,
		    uint32_t bits, uint64_t now_ns, uint64_t *fresh);
/*
 * A heartbeat: reports before h->sequence that have not come are missing. Changes nothing for an
 * unknown reporter, or if it is more than a window ahead and not authenticated.
 */
void dta_loss_heartbeat(struct dta_loss *l, const struct dta_loss_key *key,
			const struct dta_header *h, uint64_t now_ns);
/*
 * Of the packet that dta_loss_packet() took last: clears in fresh the key-writes and postcards
 * whose key (and hop) has a newer report of this reporter, and returns how many. To be called after
 * each packet.
 */
uint32_t dta_loss_superseded(struct dta_loss *l, const struct dta_packet *packet, uint64_t *fresh);
/*
 * Returns the next due answer and its recipient. Call until false, after each batch and about every
 * millisecond. credits is ~0, for the caller to lower. An answer in the original's format names
 * next - 1.
 */
bool dta_loss_answer(struct dta_loss *l, uint64_t now_ns, struct dta_loss_key *to,
		     struct dta_answer *answer);
/*
 * Forgets arrivals but keeps counters: what reporters send again within their windows is taken, and
 * counted as expected and arrived once more; gaps are lost.
 */
void dta_loss_reset(struct dta_loss *l);
void dta_loss_total(const struct dta_loss *l, struct dta_loss_stats *out);

/* A reporter, as an inventory has it. */
struct dta_loss_about {
	struct dta_loss_key key;
	uint32_t incarnation;
	bool contested;		    /* another incarnation uses its number */
	uint64_t age_ns, silent_ns; /* since its first and its last packet */
	double rate; /* reports per second since the list before, or its first packet */
	struct dta_loss_stats stats; /* without those of a total */
};
/* Fills in the reporters heard last, the latest first. Returns how many. */
uint32_t dta_loss_list(struct dta_loss *l, uint64_t now_ns, struct dta_loss_about *out,
		       uint32_t max);

#endif
