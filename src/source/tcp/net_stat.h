/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_stat.h - network latency between two hosts, one way and there and back, out of their records:
 * matches segments (net_match.h), estimates the offset of the clocks from them in windows
 * (net_clock.h), and counts what comes of it in histograms. Pure but for memory. One thread.
 *
 * A latency of one direction depends on the offset, and bears the offset's bound. That of both
 * directions does not: a segment and the one that went the other way on that connection next are
 * added up, and what the clocks drifted in between, 10 ms at most, is less than TCP_NET_SKEW_MAX of
 * that.
 */
#ifndef SL_SOURCE_TCP_NET_STAT_H
#define SL_SOURCE_TCP_NET_STAT_H

#include "source/tcp/net_clock.h"
#include "source/tcp/net_match.h"

/*
 * Exponential buckets of scale 3, as in Prometheus' native histograms: bucket i holds what is above
 * 2^((i-1)/8) ns and not above 2^(i/8) ns: 9 % wide.
 */
#define TCP_NET_SCALE	3
#define TCP_NET_FIRST	48  /* 64 ns; less counts there, too */
#define TCP_NET_BUCKETS 256 /* to 270 s; more counts in the last */

struct tcp_net_hist {
	uint64_t count, negative; /* negative: of count, in no bucket */
	int64_t least, most, sum; /* ns; least and most: with count only */
	uint32_t bucket[TCP_NET_BUCKETS];
};
void tcp_net_hist_add(struct tcp_net_hist *h, int64_t ns);
/* q from 0 to 1, in ns; NAN if empty. Negative ones lie evenly between the least and 0. */
double tcp_net_hist_quantile(const struct tcp_net_hist *h, double q);

enum tcp_net_by { TCP_NET_BY_ALL, TCP_NET_BY_FLOW, TCP_NET_BY_REMOTE, TCP_NET_BY_PORT };

/* Of what one line of output is about. A's end and B's end; what does not belong to it is 0. */
struct tcp_net_row {
	uint8_t address[2][16];
	uint16_t port[2]; /* by port: that of the service in [0] */
	uint8_t v6;
	bool rest;		    /* those for which there was no row */
	struct tcp_net_hist way[2]; /* A to B, B to A */
	struct tcp_net_hist round;
	uint64_t bound_sum[2], bound_most[2]; /* ns, of the latencies counted */
	uint64_t reordered[2];
	struct tcp_net_row *next; /* private: of a bucket of the table */
};

/* A segment whose latency is known, as it is counted. */
struct tcp_net_result {
	const struct tcp_net_sample *sample;
	int way; /* 0: A to B */
	int64_t latency_ns, bound_ns;
};

struct tcp_net_stat;

struct tcp_net_stat_opts {
	enum tcp_net_by by;
	uint64_t window_ns;	 /* of the clocks' estimate, on A's clock; 0: 2 s */
	uint32_t rows;		 /* 0: 4096 */
	uint32_t flows, records; /* of tcp_net_match_opts */
	/* Of the clocks so many apexes, of 16 bytes, are remembered for tcp_net_stat_theta(), and
	 * always those of the last two windows; 0: 2^22. */
	uint32_t history;
	/* The clocks are said to agree: B's is ahead by .theta, within .trust_ns. Nothing is
	 * estimated. */
	bool trusted;
	int64_t theta;
	uint64_t trust_ns;
	void (*result)(void *context, const struct tcp_net_result *result); /* NULL is fine */
	void *context;
};
/* NULL with errno. */
struct tcp_net_stat *tcp_net_stat_open(const struct tcp_net_stat_opts *options);
void tcp_net_stat_close(struct tcp_net_stat *s); /* NULL is fine */

/* Records go in there; see net_match.h for the order of calls. */
struct tcp_net_match *tcp_net_stat_match(struct tcp_net_stat *s);

/*
 * Counts what was matched, up to the last whole window before A's time, and forgets what was sent
 * more than two windows before; last: all of it. 0 or -ENOMEM.
 */
int tcp_net_stat_count(struct tcp_net_stat *s, uint64_t a_ns, bool last);

/* Rows, in the order in which they were met. */
const struct tcp_net_row *tcp_net_stat_row(const struct tcp_net_stat *s, uint32_t i);
uint32_t tcp_net_stat_rows(const struct tcp_net_stat *s);

struct tcp_net_totals {
	uint64_t sent[2], matched[2];
	uint64_t causes[TCP_NET_CAUSES];
	uint64_t acks; /* acknowledgements that told of the clocks */
	uint64_t windows, stepped,
		one_way; /* of the clocks' estimate; those that failed, by cause */
	/* Of the last window that had an estimate: where it is known best, and the most that a
	 * latency may be off. */
	bool known;
	int64_t theta, bound;
	double skew_low, skew_high; /* mean of that window and what is known around it */
};
void tcp_net_stat_totals(const struct tcp_net_stat *s, struct tcp_net_totals *totals);

/* B's clock less A's at A's time, and its bound. false: not known then. */
bool tcp_net_stat_theta(const struct tcp_net_stat *s, int64_t a_ns, int64_t *theta, int64_t *bound);

#endif
