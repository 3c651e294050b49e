/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss.h - the translator's half of the loss protocol: determines which of a reporter's reports
 * arrived. Pure functions that use no socket and no clock. Single-threaded.
 *
 * A reporter is identified by (address, tenant, reporter number). With authentication, (tenant,
 * reporter number) suffices, so replaying a reporter's packets from another address has no effect.
 * Answers go to the source of the last packet with new reports. A bitmap per reporter covers a
 * window of the newest reports. Sequence numbers count modulo 2^32 (2^8 in the original).
 *
 * Reporters with and without authentication are in separate tables, so that neither kind can fill
 * the other's table. Tenants (with authentication) and addresses (without; for IPv6, 64-bit
 * networks) get fair shares of a table, so that no tenant and no address can fill it
 * (base/share.h).
 *
 * A new incarnation begins at sequence 0. Reports before its first packet are missing if they are
 * fewer than a window. Each incarnation has its own window, so a new incarnation does not affect
 * the previous one. For a second after the restart, packets of the previous incarnation are
 * stragglers and count as late. If they continue after that, two reporters collide, and both are
 * accepted. An authenticated incarnation must be later than all known incarnations (RFC 1982);
 * otherwise its reports are late.
 *
 * Without authentication, the window follows a jump beyond it only after a second packet confirms
 * the jump. For a jump back, in addition no other packet may have arrived for a second. A single
 * packet therefore never moves a window.
 *
 * A report that was given up but still arrives within the window is accepted and subtracted from
 * lost.
 */
#ifndef SL_DTA_TRANSLATE_LOSS_H
#define SL_DTA_TRANSLATE_LOSS_H

#include <netinet/in.h>

#include "dta/wire/wire.h"

struct dta_loss;
struct dta_loss_key;
struct dta_loss_reporter;

struct dta_loss_opts {
	/*
	 * Maximum number of reporters in each table; 0 means 16384. When a group has used up its
	 * share, a new reporter replaces the group's longest-silent reporter if that one has been
	 * silent for forget_ns; otherwise the new reporter is refused.
	 */
	uint32_t reporters;
	/*
	 * How far behind the newest report a report may be and still be accepted: a power of two,
	 * 64 to 2^20; 0 means 4096. With 8-bit sequence numbers it is always 64.
	 */
	uint32_t window;
	uint64_t forget_ns; /* silence after which a reporter may be forgotten; 0 means 60 s */
	uint64_t nack_ns;   /* delay before a gap is requested, doubled each time; 0 means 2 ms */
	uint32_t nacks;	    /* requests before a gap counts as lost; 0 means 5 */
	/*
	 * Called when a reporter is forgotten, but not for the reporter of a packet that
	 * dta_loss_packet() refuses. May be NULL.
	 */
	void (*forgotten)(void *arg, const struct dta_loss_key *key, bool authenticated);
	/*
	 * Called when another reporter uses the same number, from the same address or with the same
	 * key. May be NULL.
	 */
	void (*collides)(void *arg, const struct dta_loss_key *key);
	void *arg;
};

struct dta_loss_key {
	struct in6_addr address; /* the reporter's address; IPv4 is mapped */
	uint16_t port, tenant;
	uint32_t reporter;
	uint32_t input; /* the input through which answers are sent; defined by the caller */
	/* number of the reporter's key that made the MAC; answers use the same key */
	uint32_t signer;
	bool authenticated; /* set for the recipient of an answer */
};

/* What distinguishes a reporter from all others; it has no padding. */
struct dta_loss_identity {
	struct in6_addr address; /* zero if the reporter is authenticated */
	uint32_t tenant, reporter;
};
struct dta_loss_identity dta_loss_identity(const struct dta_loss_key *key, bool authenticated);

/*
 * Statistics of a reporter. Each report counts once, so that expected = arrived + missing + lost.
 */
struct dta_loss_stats {
	uint64_t expected;   /* reports whose existence follows from sequence numbers */
	uint64_t arrived;    /* distinct reports */
	uint64_t duplicates; /* reports that arrived more than once */
	/* reports behind the window, where duplicates can't be detected: not accepted */
	uint64_t late;
	uint64_t reordered;  /* reports that arrived after a newer one */
	uint64_t missing;    /* reports in gaps that may still be filled */
	uint64_t lost;	     /* reports in gaps that were given up */
	uint64_t recovered;  /* reports that arrived after a NACK */
	uint64_t nacks;	     /* requested ranges */
	uint64_t restarts;   /* new incarnations of known reporters */
	uint64_t collisions; /* incarnations that continued to send although a later one exists */
	uint64_t jumps;	     /* packets beyond the window that await confirmation */
	uint64_t refused;    /* packets from refused reporters (total only) */
	/*
	 * late reports accepted without knowing whether they are the newest for their key (total
	 * only)
	 */
	uint64_t unordered;
	uint64_t reporters, forgotten; /* total only */
};

struct dta_loss *dta_loss_new(const struct dta_loss_opts *opts);
void dta_loss_free(struct dta_loss *l); /* does not call forgotten() */
/* Whether this reporter has a window. */
bool dta_loss_knows(const struct dta_loss *l, const struct dta_loss_key *key, bool authenticated);

#define DTA_LOSS_GAPS_MAX    256u /* gaps per reporter; beyond that, the oldest is given up */
#define DTA_LOSS_FRESH_WORDS (DTA_REPORTS_MAX / 64)

/*
 * Records a packet with h->reports reports (1 to DTA_REPORTS_MAX), starting at h->sequence modulo
 * 2^bits (8 or 32). fresh: DTA_LOSS_FRESH_WORDS words; bit i is set if report i is neither a
 * duplicate nor late and must be processed. Returns the number of fresh reports, -ENOSPC if the
 * reporter was refused, or -EINVAL. DTA_ACK_WANTED in h->flags requests an answer.
 */
int dta_loss_packet(struct dta_loss *l, const struct dta_loss_key *key, const struct dta_header *h,
		    uint32_t bits, uint64_t now_ns, uint64_t *fresh);
/*
 * Processes a heartbeat: reports before h->sequence that have not arrived are missing. Changes
 * nothing if the reporter is unknown, or if the heartbeat is unauthenticated and more than a window
 * ahead.
 */
void dta_loss_heartbeat(struct dta_loss *l, const struct dta_loss_key *key,
			const struct dta_header *h, uint64_t now_ns);
/*
 * For the last packet passed to dta_loss_packet(): clears in fresh the key-writes and postcards
 * whose key (and hop) has a newer report from the same reporter. Returns the number cleared. Call
 * it after each packet.
 */
uint32_t dta_loss_superseded(struct dta_loss *l, const struct dta_packet *packet, uint64_t *fresh);
/*
 * Returns the next due answer and its recipient. Call it after each batch, and about every
 * millisecond, until it returns false. The answer's credits are ~0; the caller may lower them. An
 * answer in the original format contains next - 1.
 */
bool dta_loss_answer(struct dta_loss *l, uint64_t now_ns, struct dta_loss_key *to,
		     struct dta_answer *answer);
/*
 * Forgets arrivals but keeps counters. Reports that reporters send again within their windows are
 * accepted, and count as expected and arrived once more; gaps are lost.
 */
void dta_loss_reset(struct dta_loss *l);
void dta_loss_total(const struct dta_loss *l, struct dta_loss_stats *out);

/* A reporter in the list returned by dta_loss_list(). */
struct dta_loss_about {
	struct dta_loss_key key;
	uint32_t incarnation;
	bool contested;		    /* another incarnation uses the same number */
	uint64_t age_ns, silent_ns; /* time since the first and the last packet */
	/*
	 * reports per second since the previous call of dta_loss_list(), or since the first packet
	 */
	double rate;
	struct dta_loss_stats stats; /* fields marked as total only are not set */
};
/* Fills in the most recently active reporters, latest first. Returns their number. */
uint32_t dta_loss_list(struct dta_loss *l, uint64_t now_ns, struct dta_loss_about *out,
		       uint32_t max);

#endif
