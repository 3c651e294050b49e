/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_stat.h - network latency between two hosts, one-way and round-trip, from their records:
 * matches segments (net_match.h), estimates the clock offset in windows (net_clock.h), and counts
 * latencies in histograms. Pure but for memory. One thread.
 *
 * A one-way latency carries the bound of the offset. A round trip does not: it is the sum of a
 * segment's latency and that of the next segment in the other direction of the connection. Drift in
 * between, over at most 10 ms, is below TCP_NET_SKEW_MAX of that.
 */
#ifndef SL_SOURCE_TCP_NET_STAT_H
#define SL_SOURCE_TCP_NET_STAT_H

#include "source/tcp/net_clock.h"
#include "source/tcp/net_match.h"

/*
 * Exponential buckets of scale 3, as in Prometheus' native histograms: bucket i holds values above
 * 2^((i-1)/8) s, up to 2^(i/8) s; they are 9 % wide.
 */
#define TCP_NET_SCALE	3
#define TCP_NET_FIRST	(-192) /* 2^-24 s, 59.6 ns; holds smaller values, too */
#define TCP_NET_BUCKETS 256    /* to 234 s; the last holds larger values */

struct tcp_net_hist {
	uint64_t count, negative; /* negative: of count, in no bucket */
	int64_t least, most, sum; /* ns; least and most: if count is not 0 */
	uint32_t bucket[TCP_NET_BUCKETS];
};
void tcp_net_hist_add(struct tcp_net_hist *h, int64_t ns);
/* q from 0 to 1, in ns; NAN if empty. Interpolates negative values between the least and 0. */
double tcp_net_hist_quantile(const struct tcp_net_hist *h, double q);

enum tcp_net_by { TCP_NET_BY_ALL, TCP_NET_BY_FLOW, TCP_NET_BY_REMOTE, TCP_NET_BY_PORT };

/* The key and values of one output line. Ends A and B; parts outside the key are 0. */
struct tcp_net_row {
	uint8_t address[2][16];
	uint16_t port[2]; /* by port: the service's in [0] */
	uint8_t v6;
	bool rest;		    /* flows without a row */
	struct tcp_net_hist way[2]; /* A to B, B to A */
	struct tcp_net_hist round;
	uint64_t bound_sum[2], bound_most[2]; /* ns, of the counted latencies */
	uint64_t reordered[2];
	struct tcp_net_row *next; /* private: in the table's bucket */
};

/* A segment with a known latency. */
struct tcp_net_result {
	const struct tcp_net_sample *sample;
	int way; /* 0: A to B */
	int64_t latency_ns, bound_ns;
};

struct tcp_net_stat;

struct tcp_net_stat_opts {
	enum tcp_net_by by;
	uint64_t window_ns;	 /* of the offset estimate, by A's clock; 0: 2 s */
	uint32_t rows;		 /* 0: 4096 */
	uint32_t flows, records; /* see tcp_net_match_opts */
	/*
	 * Limit of apexes, 16 bytes each, kept for tcp_net_stat_theta(); those of the last two
	 * windows are always kept; 0: 2^22.
	 */
	uint32_t history;
	/* The clocks are synchronised: B's is ahead by .theta, within .trust_ns. */
	bool trusted;
	int64_t theta;
	uint64_t trust_ns;
	void (*result)(void *context, const struct tcp_net_result *result); /* NULL is fine */
	void *context;
};
/* NULL with errno. */
struct tcp_net_stat *tcp_net_stat_open(const struct tcp_net_stat_opts *options);
void tcp_net_stat_close(struct tcp_net_stat *s); /* NULL is fine */

/* Takes the records; see net_match.h for the order of calls. */
struct tcp_net_match *tcp_net_stat_match(struct tcp_net_stat *s);

/*
 * Counts matched segments up to the last whole window before A's time, and forgets segments sent
 * more than two windows before; last: counts all. 0 or -ENOMEM.
 */
int tcp_net_stat_count(struct tcp_net_stat *s, uint64_t a_ns, bool last);

/* Rows in order of first use. */
const struct tcp_net_row *tcp_net_stat_row(const struct tcp_net_stat *s, uint32_t i);
uint32_t tcp_net_stat_rows(const struct tcp_net_stat *s);

struct tcp_net_totals {
	uint64_t sent[2], matched[2];
	uint64_t causes[TCP_NET_CAUSES];
	uint64_t acks;			    /* acknowledgements used for the offset */
	uint64_t windows, stepped, one_way; /* of the offset estimate, with failures by cause */
	/* The last window with an estimate: best-known theta, largest bound. */
	bool known;
	int64_t theta, bound;
	double skew_low, skew_high; /* mean over that window and its surroundings */
};
void tcp_net_stat_totals(const struct tcp_net_stat *s, struct tcp_net_totals *totals);

/* B's clock minus A's at A's time, and its bound. False: unknown. */
bool tcp_net_stat_theta(const struct tcp_net_stat *s, int64_t a_ns, int64_t *theta, int64_t *bound);

#endif
