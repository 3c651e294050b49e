/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_stat.h - computes one-way and round-trip network latencies between two hosts from their
 * records: matches segments (net_match.h), estimates the clock offset per window (net_clock.h), and
 * counts latencies in histograms. Performs no I/O. Not thread-safe.
 *
 * A one-way latency carries the error bound of the clock offset. A round trip does not: it is the
 * sum of the latencies of a segment and the next segment in the other direction of the connection.
 * The error due to drift between these two, at most 10 ms apart, is below TCP_NET_SKEW_MAX times
 * that interval.
 */
#ifndef SL_SOURCE_TCP_NET_STAT_H
#define SL_SOURCE_TCP_NET_STAT_H

#include "base/table.h"
#include "source/tcp/net_clock.h"
#include "source/tcp/net_match.h"

/*
 * Exponential buckets of scale 3, as in Prometheus' native histograms: bucket i holds values above
 * 2^((i-1)/8) s and up to 2^(i/8) s, so each is 9 % wide.
 */
#define TCP_NET_SCALE	3
#define TCP_NET_FIRST	(-192) /* upper bound 2^-24 s, 59.6 ns; also holds smaller values */
#define TCP_NET_BUCKETS 256    /* upper bound of the last bucket 234 s; also holds larger values */

struct tcp_net_hist {
	uint64_t count, negative; /* negative: values below 0, included in count but in no bucket */
	/* latencies in ns; least and most are only valid if count is not 0 */
	int64_t least, most, sum;
	uint32_t bucket[TCP_NET_BUCKETS];
};
void tcp_net_hist_add(struct tcp_net_hist *h, int64_t ns);
/*
 * Returns the quantile q (0 to 1) in ns, or NAN if empty. Negative values are interpolated between
 * the least value and 0.
 */
double tcp_net_hist_quantile(const struct tcp_net_hist *h, double q);

enum tcp_net_by { TCP_NET_BY_ALL, TCP_NET_BY_FLOW, TCP_NET_BY_REMOTE, TCP_NET_BY_PORT };

/*
 * Key and values of one output line. Index 0 is host A, 1 is host B. Fields that are not part of
 * the key are 0.
 */
struct tcp_net_row {
	struct base_node node;
	uint8_t address[2][16];
	uint16_t port[2]; /* ports; when grouped by port, [0] is the port of the service */
	bool rest;	  /* collects flows that have no row of their own */
	struct tcp_net_hist way[2]; /* latencies from A to B [0] and from B to A [1] */
	struct tcp_net_hist round;
	/* sum and maximum of the counted latencies' error bounds, in ns */
	uint64_t bound_sum[2], bound_most[2];
	uint64_t reordered[2];
};

/* A segment with a known latency. */
struct tcp_net_result {
	const struct tcp_net_sample *sample;
	int way; /* direction; 0: A to B; 1: B to A */
	int64_t latency_ns, bound_ns;
};

struct tcp_net_stat;

struct tcp_net_stat_opts {
	enum tcp_net_by by;
	/* length of a window for the offset estimate, by A's clock; 0 means 2 s */
	uint64_t window_ns;
	uint32_t rows;		 /* maximum number of rows; 0 means 4096 */
	uint32_t flows, records; /* limits as in struct tcp_net_match_opts */
	/*
	 * Maximum number of apexes, 16 bytes each, kept for tcp_net_stat_theta(); 0 means 2^22.
	 * Those of the last two windows are always kept.
	 */
	uint32_t history;
	/* The clocks are synchronised: B's is ahead by .theta; the error is at most .trust_ns. */
	bool trusted;
	int64_t theta;
	uint64_t trust_ns;
	void (*result)(void *context, const struct tcp_net_result *result); /* may be NULL */
	void *context;
};
/* Returns NULL with errno set on failure. */
struct tcp_net_stat *tcp_net_stat_open(const struct tcp_net_stat_opts *options);
void tcp_net_stat_close(struct tcp_net_stat *s); /* NULL is fine */

/* Returns the matcher to which records are added; see net_match.h for the order of calls. */
struct tcp_net_match *tcp_net_stat_match(struct tcp_net_stat *s);

/*
 * Counts matched segments up to the end of the last whole window before A's time a_ns, and forgets
 * segments sent more than two windows before that. If last is true, counts all segments. Returns 0
 * or -ENOMEM.
 */
int tcp_net_stat_count(struct tcp_net_stat *s, uint64_t a_ns, bool last);

/* Rows are numbered in the order of their first use. */
const struct tcp_net_row *tcp_net_stat_row(const struct tcp_net_stat *s, uint32_t i);
uint32_t tcp_net_stat_rows(const struct tcp_net_stat *s);

struct tcp_net_totals {
	uint64_t sent[2], matched[2];
	uint64_t causes[TCP_NET_CAUSES];
	uint64_t acks; /* acknowledgements used to estimate the offset */
	/* windows of the offset estimate, and failures by cause */
	uint64_t windows, stepped, one_way;
	/* From the last window with an estimate: the best-known theta, and the largest bound. */
	bool known;
	int64_t theta, bound;
	/* bounds of the mean rate over that window and its surroundings */
	double skew_low, skew_high;
};
void tcp_net_stat_totals(const struct tcp_net_stat *s, struct tcp_net_totals *totals);

/* Computes B's clock minus A's at A's time a_ns, and the error bound. Returns false if unknown. */
bool tcp_net_stat_theta(const struct tcp_net_stat *s, int64_t a_ns, int64_t *theta, int64_t *bound);

#endif
