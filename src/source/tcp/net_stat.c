// SPDX-License-Identifier: Apache-2.0
/* net_stat.c - computes latencies from matched segments. */
#include "source/tcp/net_stat.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"

#define WINDOW_NS 2000000000ull
#define ROWS	  4096u
#define HISTORY	  (1u << 22) /* apexes remembered, usually for a few hours */
#define PAIR_NS	  10000000   /* maximum time between a segment and the reply paired with it */

struct net_stat_kept {
	struct tcp_net_point point;   /* must be first, see tcp_net_by_time() */
	struct tcp_net_sample sample; /* .flow is valid while its flow exists */
	struct tcp_net_row *row;
	uint32_t flow; /* number of the connection, equal for both directions */
};

/* The last segment in each direction of a connection. Entries of this table may be overwritten. */
#define PAIRS 8192u
struct net_stat_pair {
	uint32_t flow;
	bool set[2];
	struct tcp_net_point last[2];
};

struct tcp_net_stat {
	struct tcp_net_stat_opts options;
	struct tcp_net_match *match;
	/*
	 * Samples of the open window, preceded by the samples of the previous window, which only
	 * the offset estimate uses.
	 */
	struct net_stat_kept *kept;
	size_t n, room, before;
	int64_t window; /* start of the open window */
	bool begun, no_memory;
	struct tcp_net_clock clock;
	struct base_table by_key;
	struct tcp_net_row **rows;
	uint32_t row_count;
	struct tcp_net_row *rest;
	struct net_stat_pair *pairs;
	struct tcp_net_totals totals;
};

/* ---- histograms ---- */

void tcp_net_hist_add(struct tcp_net_hist *h, int64_t ns)
{
	long i;

	if (!h->count || ns < h->least)
		h->least = ns;
	if (!h->count || ns > h->most)
		h->most = ns;
	h->count++;
	/* invalid input may overflow the sum */
	h->sum = (int64_t)((uint64_t)h->sum + (uint64_t)ns);
	if (ns < 0) {
		h->negative++;
		return;
	}
	i = ns ? (long)ceil(log2((double)ns / 1e9) * 8 - 1e-9) - TCP_NET_FIRST : 0;
	h->bucket[i < 0 ? 0 : i >= TCP_NET_BUCKETS ? TCP_NET_BUCKETS - 1 : i]++;
}

double tcp_net_hist_quantile(const struct tcp_net_hist *h, double q)
{
	double rank = q * (double)h->count, before = (double)h->negative, v;

	if (!h->count)
		return NAN;
	if (rank <= before && h->negative)
		return (double)h->least * (1 - rank / before);
	for (int i = 0; i < TCP_NET_BUCKETS; i++) {
		double n = h->bucket[i], part;

		if (!h->bucket[i] || before + n < rank) {
			before += n;
			continue;
		}
		part = rank > before ? (rank - before) / n : 0;
		v = exp2((TCP_NET_FIRST + i - 1 + part) / 8) * 1e9;
		return v < (double)h->least  ? (double)h->least
		       : v > (double)h->most ? (double)h->most
					     : v;
	}
	return (double)h->most;
}

/* ---- rows ---- */

static struct tcp_net_row key_of(const struct tcp_net_stat *s, const struct tcp_net_flow *f)
{
	uint16_t a = f->sender ? f->destination_port : f->source_port;
	uint16_t b = f->sender ? f->source_port : f->destination_port;
	struct tcp_net_row key = {.rest = false};

	switch (s->options.by) {
	case TCP_NET_BY_FLOW:
		key.port[0] = a;
		key.port[1] = b;
		/* fall through */
	case TCP_NET_BY_REMOTE:
		memcpy(key.address[0], f->sender ? f->destination : f->source, 16);
		memcpy(key.address[1], f->sender ? f->source : f->destination, 16);
		break;
	case TCP_NET_BY_PORT: /* the higher port is assumed to be the client's */
		key.port[0] = a < b ? a : b;
		break;
	case TCP_NET_BY_ALL:
		break;
	}
	return key;
}

static bool same_key(const struct tcp_net_row *a, const struct tcp_net_row *b)
{
	return !memcmp(a->address, b->address, sizeof(a->address)) &&
	       !memcmp(a->port, b->port, sizeof(a->port));
}

static struct tcp_net_row *row_new(struct tcp_net_stat *s, const struct tcp_net_row *key)
{
	struct tcp_net_row *row = malloc(sizeof(*row));

	if (!row)
		return NULL;
	*row = *key;
	s->rows[s->row_count++] = row;
	return row;
}

static struct tcp_net_row *row_of(struct tcp_net_stat *s, const struct tcp_net_flow *f)
{
	struct tcp_net_row key = key_of(s, f), *row;
	uint64_t h = base_hash(0, key.address, sizeof(key.address));

	h = base_hash(h, key.port, sizeof(key.port));
	for (row = base_table_first(&s->by_key, h); row; row = base_table_next(row))
		if (same_key(row, &key))
			return row;
	if (s->row_count < s->options.rows) {
		row = row_new(s, &key);
		if (row)
			base_table_add(&s->by_key, row, h);
		return row;
	}
	s->rest = s->rest ?: row_new(s, &(struct tcp_net_row){.rest = true});
	return s->rest;
}

/* Returns the same number for both directions of a connection. */
static uint32_t connection_number(const struct tcp_net_flow *f)
{
	return (uint32_t)(base_hash(f->source_port, f->source, sizeof(f->source)) +
			  base_hash(f->destination_port, f->destination, sizeof(f->destination)));
}

/* ---- samples ---- */

static void take_sample(void *context, const struct tcp_net_sample *sample)
{
	struct tcp_net_stat *s = context;
	struct tcp_net_flow *f = sample->flow;
	int64_t a = (int64_t)(f->sender ? sample->in_ns : sample->out_ns);
	int64_t b = (int64_t)(f->sender ? sample->out_ns : sample->in_ns);
	struct net_stat_kept *k;

	if (!BASE_GROW(s->kept, s->n, s->room)) {
		s->no_memory = true;
		return;
	}
	if (!f->user && !sample->ack)
		f->user = row_of(s, f);
	k = &s->kept[s->n++];
	*k = (struct net_stat_kept){
		.point = {.at = a, .ahead = b - a, .backward = f->sender},
		.sample = *sample,
		.row = f->user,
		.flow = connection_number(f),
	};
	if (sample->ack)
		s->totals.acks++;
	else
		s->totals.matched[f->sender]++;
}

struct tcp_net_stat *tcp_net_stat_open(const struct tcp_net_stat_opts *options)
{
	struct tcp_net_stat *s = calloc(1, sizeof(*s));
	struct tcp_net_match_opts m = {.sample = take_sample, .context = s};

	if (!s)
		return NULL;
	s->options = *options;
	s->options.window_ns = s->options.window_ns ?: WINDOW_NS;
	s->options.rows = s->options.rows ?: ROWS;
	s->clock.most = s->options.history ? s->options.history : HISTORY;
	m.flows = s->options.flows;
	m.records = s->options.records;
	s->rows = calloc(s->options.rows + 1, sizeof(struct tcp_net_row *));
	s->pairs = calloc(PAIRS, sizeof(*s->pairs));
	s->match = tcp_net_match_open(&m);
	if (!base_table_init(&s->by_key) || !s->rows || !s->pairs || !s->match) {
		tcp_net_stat_close(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

void tcp_net_stat_close(struct tcp_net_stat *s)
{
	if (!s)
		return;
	tcp_net_match_close(s->match);
	tcp_net_clock_free(&s->clock);
	for (uint32_t i = 0; i < s->row_count; i++)
		free(s->rows[i]);
	base_table_free(&s->by_key);
	free(s->rows);
	free(s->pairs);
	free(s->kept);
	free(s);
}

struct tcp_net_match *tcp_net_stat_match(struct tcp_net_stat *s)
{
	return s->match;
}

bool tcp_net_stat_theta(const struct tcp_net_stat *s, int64_t a_ns, int64_t *theta, int64_t *bound)
{
	if (!s->options.trusted)
		return tcp_net_clock_at(&s->clock, a_ns, theta, bound);
	*theta = s->options.theta;
	*bound = (int64_t)s->options.trust_ns;
	return true;
}

/* ---- windows ---- */

static void count_round_trip(struct tcp_net_stat *s, const struct net_stat_kept *k)
{
	struct net_stat_pair *p = &s->pairs[k->flow % PAIRS];
	const struct tcp_net_point *there, *back;
	bool way = k->point.backward;

	if (p->flow != k->flow) {
		memset(p, 0, sizeof(*p));
		p->flow = k->flow;
	}
	if (p->set[!way] && k->row && k->point.at - p->last[!way].at <= PAIR_NS) {
		there = way ? &p->last[0] : &k->point;
		back = way ? &k->point : &p->last[1];
		tcp_net_hist_add(&k->row->round, there->ahead - back->ahead);
		p->set[!way] = false; /* pair each segment only once */
		return;
	}
	p->set[way] = true;
	p->last[way] = k->point;
}

static void count_latency(struct tcp_net_stat *s, const struct net_stat_kept *k, int64_t theta,
			  int64_t bound)
{
	int way = k->point.backward;
	struct tcp_net_result r = {.sample = &k->sample, .way = way, .bound_ns = bound};

	r.latency_ns = way ? theta - k->point.ahead : k->point.ahead - theta;
	if (k->row) {
		tcp_net_hist_add(&k->row->way[way], r.latency_ns);
		k->row->bound_sum[way] += (uint64_t)bound;
		if ((uint64_t)bound > k->row->bound_most[way])
			k->row->bound_most[way] = (uint64_t)bound;
		k->row->reordered[way] += k->sample.reordered;
	}
	if (s->options.result)
		s->options.result(s->options.context, &r);
}

/* Uses the points of this window and the previous one, and points of the next one known so far. */
static int estimate_offset(struct tcp_net_stat *s, const struct net_stat_kept *k, size_t n,
			   int64_t end)
{
	struct tcp_net_clock *c = &s->clock;
	int64_t from = k < s->kept + s->before ? s->window - (int64_t)s->options.window_ns
					       : s->window;
	struct tcp_net_point *points = malloc(n * sizeof(*points));
	int err;

	if (!points)
		return -ENOMEM;
	s->totals.windows++;
	for (size_t i = 0; i < n; i++)
		points[i] = k[i].point;
	/* Parts of the previous window may only become known now. */
	if (c->n && c->v[c->n - 1]->to >= from)
		from = c->v[c->n - 1]->to + 1;
	err = tcp_net_clock_add(c, points, n, from, end - 1);
	free(points);
	if (c->n && c->v[c->n - 1]->to >= s->window) {
		s->totals.skew_low = c->v[c->n - 1]->skew_low;
		s->totals.skew_high = c->v[c->n - 1]->skew_high;
	}
	return err;
}

/* Closes the open window, kept[before..upto); the previous window is kept[first..before). */
static int close_window(struct tcp_net_stat *s, size_t first, size_t upto, int64_t end)
{
	int64_t theta, bound, least = INT64_MAX, most = 0;
	size_t next = upto;
	int err;

	while (next < s->n && s->kept[next].point.at < end + (int64_t)s->options.window_ns)
		next++;
	if (upto > s->before && !s->options.trusted) {
		err = estimate_offset(s, s->kept + first, next - first, end);
		if (err)
			return err;
	}
	for (size_t i = s->before; i < upto; i++) {
		const struct net_stat_kept *k = &s->kept[i];
		bool known = tcp_net_stat_theta(s, k->point.at, &theta, &bound);

		if (!k->sample.ack && known)
			count_latency(s, k, theta, bound);
		else if (!k->sample.ack)
			s->totals.causes[TCP_NET_NO_CLOCK]++;
		count_round_trip(s, k);
		if (!known || s->options.trusted)
			continue;
		if (bound < least) {
			s->totals.theta = theta;
			least = bound;
		}
		most = bound > most ? bound : most;
		s->totals.known = true;
		s->totals.bound = most;
	}
	return 0;
}

int tcp_net_stat_count(struct tcp_net_stat *s, uint64_t a_ns, bool last)
{
	int64_t length = (int64_t)s->options.window_ns;
	int err = s->no_memory ? -ENOMEM : 0;
	size_t first = 0;

	if (s->n > s->before)
		qsort(s->kept + s->before, s->n - s->before, sizeof(*s->kept), tcp_net_by_time);
	while (!err && s->n > s->before) {
		size_t upto = s->before;
		int64_t end;

		if (!s->begun || s->kept[upto].point.at >= s->window + 2 * length) {
			/* After a pause, start the window at the next sample. */
			first = upto;
			s->window = s->kept[upto].point.at;
			s->begun = true;
		}
		end = s->window + length;
		if (!last && (int64_t)a_ns < end)
			break;
		while (upto < s->n && s->kept[upto].point.at < end)
			upto++;
		err = close_window(s, first, upto, end);
		first = s->before;
		s->before = upto;
		s->window = end;
	}
	s->n -= first;
	s->before -= first;
	if (first)
		memmove(s->kept, s->kept + first, s->n * sizeof(*s->kept));
	return err;
}

/* ---- interface ---- */

const struct tcp_net_row *tcp_net_stat_row(const struct tcp_net_stat *s, uint32_t i)
{
	return s->rows[i];
}

uint32_t tcp_net_stat_rows(const struct tcp_net_stat *s)
{
	return s->row_count;
}

void tcp_net_stat_totals(const struct tcp_net_stat *s, struct tcp_net_totals *t)
{
	const uint64_t *causes = tcp_net_match_causes(s->match);

	*t = s->totals;
	for (int i = 0; i < TCP_NET_CAUSES; i++)
		t->causes[i] += causes[i];
	t->stepped += s->clock.stepped;
	t->one_way += s->clock.one_way;
	tcp_net_match_sent(s->match, t->sent);
}
