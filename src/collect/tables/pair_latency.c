// SPDX-License-Identifier: Apache-2.0
/*
 * pair_latency.c - a thread that routes records of TCP segments to pairs of hosts, matches them and
 * counts latencies. It starts with the first ring.
 *
 * A record of one host is matched only after the other host's ring was read once more, because the
 * matching record must be there by then. So a pair advances when, for each ring, a pass has begun
 * after the pair's last record was read.
 */
#include "collect/tables/pair_latency.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/base.h"
#include "base/hash.h"
#include "collect/read/collector_internal.h"
#include "collect/read/host.h"
#include "collect/tables/internal.h"
#include "collect/tables/segment_ring.h"

#define COUNT_NS  1000000000u
#define WINDOW_NS 2000000000u
/* after this time, no earlier record can arrive any more */
#define LINGER_NS (2 * (uint64_t)WINDOW_NS + 1000000000u)
/* maximum delay from a record to its READ, including matching */
#define MARGIN_NS	 200000000u
#define STALE_NS	 5000000000u  /* a pair is stale if one host had no pass for this long */
#define MOVE_NS		 10000000000u /* an address unused for this long may change its owner */
#define WAITING_MAX	 (1u << 18)   /* maximum records queued for this thread */
#define PAIR_FLOWS	 16384u	      /* maximum concurrent connection directions per pair */
#define PAIR_RECORDS	 (1u << 18)
#define ADDRESSES_A_HOST 256u
/* a host with no place for an address or pair gives back those unused for this long */
#define UNUSED_NS     60000000000u
#define LOOK_NS	      10000000000u /* time between two searches for unused addresses */
#define UNDECIDED_MAX 4096u	   /* maximum records per host whose peer is not known yet */
#define UNDECIDED_NS  2000000000u  /* how long such records are kept */

struct address {
	uint8_t a[16];
	uint32_t owner, rival; /* number of the host + 1; 0 means none */
	uint64_t owner_ns, rival_ns;
};

struct host_state {
	struct collect_net_host_view view; /* the view, without names */
	bool anew;			   /* the ring is new and no record of it has arrived yet */
	uint64_t expected;		   /* number of the next record */
	uint64_t latest;		   /* time of the latest record, by the host's clock */
	uint64_t heard;	  /* when the latest record was read, by the collector's clock */
	uint64_t pass_ns; /* end of the last pass */
	uint8_t boot_id[16];
	uint32_t addresses, pairs;
	struct undecided *undecided; /* records with an unknown peer, in order */
	uint32_t undecideds;
};

struct undecided {
	struct region_nic_record r;
	uint64_t since_ns;
};

struct port { /* earlier counts of one port's row */
	struct tcp_net_row old, middle;
};

struct pair_latency_pair {
	size_t host[2];
	struct tcp_net_stat *stat;
	bool begun[2], fresh[2];
	uint64_t used_ns;  /* when the latest record of the pair was routed */
	uint64_t end_ns;   /* end of the latest pass that has records of the pair */
	uint64_t round_ns; /* end_ns when the pair last advanced */
	uint64_t old_ns, middle_ns;
	struct port *port; /* earlier counts by row */
	uint32_t ports;
};

struct collect_pair_latency {
	struct collect_collector *c;
	pthread_mutex_t queue_lock; /* protects the queue; never held for long */
	pthread_cond_t queue_filled;
	struct collect_segment_batch *queue, **queue_end;
	uint64_t waiting; /* number of records in the queue */
	pthread_t thread;
	bool started, stop;

	pthread_mutex_t lock; /* protects all fields below */
	struct host_state *host;
	struct address *address;
	size_t address_mask;
	struct pair_latency_pair **pair;
	size_t pairs;
	uint64_t refused, count_ns;
	uint64_t unused_ns; /* when unused addresses may be looked for again */
	bool learned;	    /* an address was learned since route_undecided() */
};

/* ---- addresses ---- */

static struct address *address_at(const struct collect_pair_latency *n, const uint8_t a[16])
{
	size_t i = base_hash(0, a, 16);

	/* The search always ends, because the table has more places than there can be addresses. */
	for (;; i++) {
		struct address *at = &n->address[i & n->address_mask];

		if (!at->owner || !memcmp(at->a, a, 16))
			return at;
	}
}

/*
 * Empties place i. Later addresses of the same chain move up, so that a search still finds them
 * (Knuth, The Art of Computer Programming, section 6.4, algorithm R).
 */
static void remove_address(struct collect_pair_latency *n, size_t i)
{
	const size_t mask = n->address_mask;

	n->host[n->address[i].owner - 1].addresses--;
	for (size_t k = (i + 1) & mask; n->address[k].owner; k = (k + 1) & mask) {
		const size_t home = base_hash(0, n->address[k].a, 16) & mask;

		if (((k - home) & mask) < ((k - i) & mask))
			continue;
		n->address[i] = n->address[k];
		i = k;
	}
	n->address[i] = (struct address){0};
}

/* As pods come and go, a host uses more addresses over time than it has at any moment. */
static void forget_unused(struct collect_pair_latency *n, uint64_t now_ns)
{
	if (now_ns < n->unused_ns)
		return;
	n->unused_ns = now_ns + LOOK_NS;
	for (size_t i = 0; i <= n->address_mask; i++)
		while (n->address[i].owner && now_ns > n->address[i].owner_ns + UNUSED_NS)
			remove_address(n, i);
}

/* Notes that the host sent from the address or received at it. */
static void learn_address(struct collect_pair_latency *n, size_t host,
			  const struct region_nic_record *r, uint64_t now_ns)
{
	const uint8_t *a = r->flags & SL_NIC_OUT ? r->source : r->destination;
	struct address *at = address_at(n, a);
	uint32_t name = (uint32_t)host + 1;

	if (at->owner && at->owner != name && now_ns - at->owner_ns <= MOVE_NS) {
		at->rival = name;
		at->rival_ns = now_ns;
		return;
	}
	if (at->owner != name && n->host[host].addresses == ADDRESSES_A_HOST) {
		forget_unused(n, now_ns);
		at = address_at(n, a);
		if (n->host[host].addresses == ADDRESSES_A_HOST) {
			if (at->owner) /* it no longer belongs to that host */
				remove_address(n, (size_t)(at - n->address));
			return;
		}
	}
	if (!at->owner) {
		memcpy(at->a, a, 16);
		n->learned = true;
	}
	if (at->owner != name) {
		if (at->owner)
			n->host[at->owner - 1].addresses--;
		n->host[host].addresses++;
	}
	at->owner = name;
	at->owner_ns = now_ns;
}

/*
 * Finds the host at the record's other end. Returns false if the host is unknown; *known: some host
 * of this collector claims the address.
 */
static bool owner_of(struct collect_pair_latency *n, struct host_state *h,
		     const struct region_nic_record *r, uint64_t now_ns, size_t *host, bool *known)
{
	const uint8_t *a = r->flags & SL_NIC_OUT ? r->destination : r->source;
	const struct address *at = address_at(n, a);

	*known = at->owner;
	if (!*known)
		return false;
	if (at->rival && at->rival != at->owner && now_ns - at->rival_ns <= MOVE_NS) {
		h->view.shared++;
		return false;
	}
	*host = at->owner - 1;
	return true;
}

/* ---- pairs ---- */

static void pair_free(struct pair_latency_pair *p)
{
	tcp_net_stat_close(p->stat);
	free(p->port);
	free(p);
}

static void pair_remove(struct collect_pair_latency *n, size_t i)
{
	for (int s = 0; s < 2; s++)
		n->host[n->pair[i]->host[s]].pairs--;
	pair_free(n->pair[i]);
	n->pair[i] = n->pair[--n->pairs];
}

static uint32_t pairs_held(const struct collect_pair_latency *n, size_t a, size_t b)
{
	return BASE_MAX(n->host[a].pairs, n->host[b].pairs);
}

/*
 * Removes a pair that is unused, or one of whose hosts is not read any more; otherwise, the least
 * recently used pair of the host with the most pairs, if it has more than this pair's hosts would
 * have.
 */
static bool make_room(struct collect_pair_latency *n, size_t a, size_t b, uint64_t now_ns)
{
	uint32_t most = pairs_held(n, a, b) + 1;
	size_t loser = n->pairs;

	for (size_t i = 0; i < n->pairs; i++) {
		const struct pair_latency_pair *p = n->pair[i];
		const uint32_t held = pairs_held(n, p->host[0], p->host[1]);

		if (now_ns > p->used_ns + UNUSED_NS ||
		    now_ns > n->host[p->host[0]].pass_ns + UNUSED_NS ||
		    now_ns > n->host[p->host[1]].pass_ns + UNUSED_NS) {
			loser = i;
			break;
		}
		if (held > most ||
		    (held == most && loser < n->pairs && p->used_ns < n->pair[loser]->used_ns)) {
			most = held;
			loser = i;
		}
	}
	if (loser == n->pairs)
		return false;
	pair_remove(n, loser);
	return true;
}

static struct pair_latency_pair *pair_of(struct collect_pair_latency *n, size_t a, size_t b,
					 uint64_t now_ns)
{
	const struct tcp_net_stat_opts o = {
		.by = TCP_NET_BY_PORT,
		.window_ns = WINDOW_NS,
		.rows = COLLECT_NET_PORTS,
		.flows = PAIR_FLOWS,
		.records = PAIR_RECORDS,
		.history = 1, /* queries for the past are not supported */
	};
	struct pair_latency_pair *p;

	for (size_t i = 0; i < n->pairs; i++)
		if (n->pair[i]->host[0] == a && n->pair[i]->host[1] == b)
			return n->pair[i];
	if (n->pairs == COLLECT_NET_PAIRS && !make_room(n, a, b, now_ns)) {
		n->refused++;
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->host[0] = a;
	p->host[1] = b;
	p->port = calloc(COLLECT_NET_PORTS + 1, sizeof(*p->port));
	p->stat = tcp_net_stat_open(&o);
	if (!p->port || !p->stat) {
		pair_free(p);
		return NULL;
	}
	n->host[a].pairs++;
	n->host[b].pairs++;
	n->pair[n->pairs++] = p;
	return p;
}

/*
 * Advances each pair for which both rings have been read to the end since the pair's last record.
 */
static void go_on(struct collect_pair_latency *n, const struct collect_segment_batch *b)
{
	for (size_t i = 0; i < n->pairs; i++) {
		struct pair_latency_pair *p = n->pair[i];
		struct tcp_net_match *m = tcp_net_stat_match(p->stat);

		for (int s = 0; s < 2; s++) {
			if (p->host[s] != b->host)
				continue;
			p->fresh[s] |= b->begun_ns >= p->round_ns;
			p->end_ns = BASE_MAX(p->end_ns, b->over_ns);
		}
		if (!p->fresh[0] || !p->fresh[1])
			continue;
		tcp_net_match_run(m);
		tcp_net_match_hold(m, 0);
		tcp_net_match_hold(m, 1);
		p->fresh[0] = p->fresh[1] = false;
		p->round_ns = p->end_ns;
	}
}

static void note_gap(struct collect_pair_latency *n, size_t host, uint64_t records,
		     uint64_t time_ns)
{
	n->host[host].view.missed += records;
	for (size_t i = 0; i < n->pairs; i++)
		for (int s = 0; s < 2; s++)
			if (n->pair[i]->host[s] == host && n->pair[i]->begun[s])
				tcp_net_match_gap(tcp_net_stat_match(n->pair[i]->stat), s, records,
						  time_ns);
}

/* Returns false if the owner of the record's other end is not known yet. */
static bool route_record(struct collect_pair_latency *n, size_t host,
			 const struct region_nic_record *r, uint64_t now_ns)
{
	struct host_state *h = &n->host[host];
	struct tcp_net_match *m;
	struct pair_latency_pair *p;
	size_t other;
	bool known;
	int side;

	if (!owner_of(n, h, r, now_ns, &other, &known) || other == host)
		return known;
	p = pair_of(n, BASE_MIN(host, other), BASE_MAX(host, other), now_ns);
	if (!p)
		return true;
	p->used_ns = now_ns;
	side = host > other;
	m = tcp_net_stat_match(p->stat);
	if (!p->begun[side])
		tcp_net_match_range(m, side, r->time_ns, UINT64_MAX);
	p->begun[side] = true;
	tcp_net_match_add(m, side, r);
	return true;
}

/* Keeps the record until the ring of its other end has been read. */
static void wait_for_owner(struct host_state *h, const struct region_nic_record *r, uint64_t now_ns)
{
	if (!h->undecided)
		h->undecided = malloc(UNDECIDED_MAX * sizeof(*h->undecided));
	if (!h->undecided || h->undecideds == UNDECIDED_MAX)
		h->view.elsewhere++;
	else
		h->undecided[h->undecideds++] = (struct undecided){*r, now_ns};
}

/* Called before later records are routed, so that each side stays in order. */
static void route_undecided(struct collect_pair_latency *n, uint64_t now_ns)
{
	for (size_t i = 0; i < n->c->hosts; i++) {
		struct host_state *h = &n->host[i];
		uint32_t left = 0;

		for (uint32_t k = 0; k < h->undecideds; k++) {
			const struct undecided *u = &h->undecided[k];

			if (route_record(n, i, &u->r, now_ns))
				continue;
			if (now_ns > u->since_ns + UNDECIDED_NS)
				h->view.elsewhere++;
			else
				h->undecided[left++] = *u;
		}
		h->undecideds = left;
	}
	n->learned = false;
}

/* ---- batches ---- */

/* Forgets the host's pairs after a reboot, because its clock has restarted. */
static void forget_host(struct collect_pair_latency *n, size_t host)
{
	for (size_t i = n->pairs; i--;)
		if (n->pair[i]->host[0] == host || n->pair[i]->host[1] == host)
			pair_remove(n, i);
	n->host[host].latest = 0;
	n->host[host].undecideds = 0;
}

static void take_batch(struct collect_pair_latency *n, const struct collect_segment_batch *b)
{
	struct host_state *h = &n->host[b->host];

	h->view.present = !b->gone;
	if (b->gone)
		return;
	if (b->anew) {
		if (memcmp(h->boot_id, b->boot_id, sizeof(h->boot_id)))
			forget_host(n, b->host);
		memcpy(h->boot_id, b->boot_id, sizeof(h->boot_id));
		h->expected = b->n ? b->record[0].number : b->to;
		h->anew = true; /* the number of missed records is unknown */
	}
	h->view.headless = b->headless;
	h->pass_ns = b->over_ns;
	for (uint32_t i = 0; i < b->n; i++)
		learn_address(n, b->host, &b->record[i], b->over_ns);
	if (n->learned)
		route_undecided(n, b->over_ns);
	for (uint32_t i = 0; i < b->n; i++) {
		const struct region_nic_record *r = &b->record[i];

		if (r->number > h->expected || h->anew)
			note_gap(n, b->host, r->number - h->expected, r->time_ns);
		h->expected = r->number + 1;
		h->anew = false;
		if (r->time_ns > h->latest) {
			h->latest = r->time_ns;
			h->heard = b->over_ns;
		}
		h->view.records++;
		if (!route_record(n, b->host, r, b->over_ns))
			wait_for_owner(h, r, b->over_ns);
	}
	if (b->to > h->expected)
		note_gap(n, b->host, b->to - h->expected, h->latest);
	h->expected = b->to;
	go_on(n, b);
}

/* Returns the time, by the host's clock, up to which all of its records have been read. */
static uint64_t read_up_to(const struct host_state *h)
{
	uint64_t since = h->latest ? h->pass_ns - h->heard : 0;

	return h->latest + (since > MARGIN_NS ? since - MARGIN_NS : 0);
}

/* Saves earlier counts, so that recent counts can be computed as differences. */
static void slide_window(struct pair_latency_pair *p, uint64_t now_ns)
{
	uint32_t rows = tcp_net_stat_rows(p->stat);

	if (now_ns - p->middle_ns < COLLECT_NET_LATE_NS)
		return;
	p->old_ns = p->middle_ns ? p->middle_ns : now_ns;
	p->middle_ns = now_ns;
	for (uint32_t i = 0; i < rows; i++) {
		p->port[i].old = p->port[i].middle;
		p->port[i].middle = *tcp_net_stat_row(p->stat, i);
	}
}

static void count_pairs(struct collect_pair_latency *n, uint64_t now_ns)
{
	for (size_t i = n->pairs; i--;) {
		struct pair_latency_pair *p = n->pair[i];
		struct tcp_net_totals t;

		if (tcp_net_stat_count(p->stat, read_up_to(&n->host[p->host[0]]), false)) {
			base_log_limited(BASE_ERROR, "collect",
					 "out of memory for latency between %s and %s",
					 collect_host_target(&n->c->host[p->host[0]]),
					 collect_host_target(&n->c->host[p->host[1]]));
			pair_remove(n, i);
			continue;
		}
		tcp_net_stat_totals(p->stat, &t);
		for (int s = 0; s < 2; s++) {
			uint64_t upto = read_up_to(&n->host[p->host[s]]);

			if (upto > LINGER_NS)
				tcp_net_match_expire(tcp_net_stat_match(p->stat), s,
						     upto - LINGER_NS, t.known,
						     s ? -t.theta : t.theta);
		}
		slide_window(p, now_ns);
	}
}

static void *main_of(void *arg)
{
	struct collect_pair_latency *n = arg;

	prctl(PR_SET_NAME, "nets");
	pthread_mutex_lock(&n->queue_lock);
	while (!n->stop) {
		struct collect_segment_batch *b = n->queue, *next;

		if (!b) {
			pthread_cond_wait(&n->queue_filled, &n->queue_lock);
			continue;
		}
		n->queue = NULL;
		n->queue_end = &n->queue;
		n->waiting = 0;
		pthread_mutex_unlock(&n->queue_lock);
		pthread_mutex_lock(&n->lock);
		for (; b; b = next) {
			next = b->next;
			take_batch(n, b);
			if (b->over_ns - n->count_ns >= COUNT_NS && b->over_ns > n->count_ns) {
				n->count_ns = b->over_ns;
				/* Also drops records that waited too long. */
				route_undecided(n, b->over_ns);
				count_pairs(n, b->over_ns);
			}
			relaxed_sub(n->c->memory, b->bytes);
			free(b);
		}
		pthread_mutex_unlock(&n->lock);
		pthread_mutex_lock(&n->queue_lock);
	}
	pthread_mutex_unlock(&n->queue_lock);
	return NULL;
}

void collect_pair_latency_push(struct collect_pair_latency *n, struct collect_segment_batch *b)
{
	pthread_mutex_lock(&n->queue_lock);
	if (!n->started && !pthread_create(&n->thread, NULL, main_of, n))
		n->started = true;
	if (n->waiting + b->n > WAITING_MAX || !n->started)
		b->n = 0; /* the records of the batch count as missed */
	n->waiting += b->n;
	b->next = NULL;
	if (n->started) {
		*n->queue_end = b;
		n->queue_end = &b->next;
		pthread_cond_signal(&n->queue_filled);
	} else {
		relaxed_sub(n->c->memory, b->bytes);
		free(b);
	}
	pthread_mutex_unlock(&n->queue_lock);
}

/* ---- start and end ---- */

struct collect_pair_latency *collect_pair_latency_new(struct collect_collector *c)
{
	struct collect_pair_latency *n = calloc(1, sizeof(*n));
	size_t places = 1024;

	if (!n)
		return NULL;
	while (places < 2 * c->hosts * ADDRESSES_A_HOST)
		places *= 2;
	n->c = c;
	n->queue_end = &n->queue;
	n->address_mask = places - 1;
	n->address = calloc(places, sizeof(*n->address));
	n->host = calloc(c->hosts + 1, sizeof(*n->host));
	n->pair = calloc(COLLECT_NET_PAIRS, sizeof(struct pair_latency_pair *));
	pthread_mutex_init(&n->queue_lock, NULL);
	pthread_mutex_init(&n->lock, NULL);
	pthread_cond_init(&n->queue_filled, NULL);
	if (!n->address || !n->host || !n->pair) {
		collect_pair_latency_free(n);
		return NULL;
	}
	return n;
}

void collect_pair_latency_free(struct collect_pair_latency *n)
{
	struct collect_segment_batch *next;

	if (!n)
		return;
	pthread_mutex_lock(&n->queue_lock);
	n->stop = true;
	pthread_cond_signal(&n->queue_filled);
	pthread_mutex_unlock(&n->queue_lock);
	if (n->started)
		pthread_join(n->thread, NULL);
	for (struct collect_segment_batch *b = n->queue; b; b = next) {
		next = b->next;
		free(b);
	}
	while (n->pairs)
		pair_remove(n, 0);
	pthread_cond_destroy(&n->queue_filled);
	pthread_mutex_destroy(&n->lock);
	pthread_mutex_destroy(&n->queue_lock);
	for (size_t i = 0; n->host && i < n->c->hosts; i++)
		free(n->host[i].undecided);
	free(n->pair);
	free(n->address);
	free(n->host);
	free(n);
}

/* ---- views ---- */

static struct collect_pair_latency *pair_latency_of(const struct collect_collector *c)
{
	const struct collect_tables *t = collect_collector_part(c, &collect_tables_part);

	return t ? t->pair_latency : NULL;
}

static const struct tcp_net_hist *hist_of(const struct tcp_net_row *row, int way)
{
	return way == COLLECT_NET_BOTH ? &row->round : &row->way[way];
}

static void subtract_hist(struct tcp_net_hist *to, const struct tcp_net_hist *now,
			  const struct tcp_net_hist *then)
{
	*to = *now;
	to->count -= then->count;
	to->negative -= then->negative;
	to->sum -= then->sum;
	for (int i = 0; i < TCP_NET_BUCKETS; i++)
		to->bucket[i] -= then->bucket[i];
}

static void view_port(const struct pair_latency_pair *p, uint32_t i, uint64_t now_ns,
		      struct collect_net_port_view *v)
{
	const struct tcp_net_row *row = tcp_net_stat_row(p->stat, i);
	const struct tcp_net_row *old = &p->port[i].old;

	v->port = row->rest ? 0 : row->port[0];
	v->late_ns = p->old_ns ? (int64_t)(now_ns - p->old_ns) : 0;
	for (int w = 0; w < COLLECT_NET_WAYS; w++) {
		v->all[w] = hist_of(row, w);
		subtract_hist(&v->late[w], v->all[w], hist_of(old, w));
	}
	for (int w = 0; w < 2; w++) {
		v->bound[w] = (double)(row->bound_sum[w] - old->bound_sum[w]) /
			      (double)v->late[w].count;
		v->reordered[w] = row->reordered[w];
	}
}

static void view_pair(const struct collect_pair_latency *n, const struct pair_latency_pair *p,
		      struct collect_net_port_view *port,
		      void (*fn)(const struct collect_net_pair_view *, void *), void *arg)
{
	struct collect_net_pair_view v = {.port = port, .ports = tcp_net_stat_rows(p->stat)};
	uint64_t now = base_now_ns();

	for (int s = 0; s < 2; s++) {
		const struct host_state *h = &n->host[p->host[s]];

		v.target[s] = collect_host_target(&n->c->host[p->host[s]]);
		v.hostname[s] = collect_host_name(&n->c->host[p->host[s]]);
		v.stale |= !h->view.present || now > h->pass_ns + STALE_NS;
	}
	tcp_net_stat_totals(p->stat, &v.totals);
	for (uint32_t i = 0; i < v.ports; i++)
		view_port(p, i, now, &port[i]);
	fn(&v, arg);
}

void collect_collector_pair_latency(struct collect_collector *c,
				    void (*fn)(const struct collect_net_pair_view *, void *),
				    void *arg)
{
	struct collect_pair_latency *n = pair_latency_of(c);
	struct collect_net_port_view *port;

	port = n ? malloc((COLLECT_NET_PORTS + 1) * sizeof(*port)) : NULL;
	if (!port)
		return;
	pthread_mutex_lock(&n->lock);
	for (size_t i = 0; i < n->pairs; i++)
		view_pair(n, n->pair[i], port, fn, arg);
	pthread_mutex_unlock(&n->lock);
	free(port);
}

void collect_collector_net_hosts(struct collect_collector *c,
				 void (*fn)(const struct collect_net_host_view *, void *),
				 void *arg)
{
	struct collect_pair_latency *n = pair_latency_of(c);

	if (!n)
		return;
	pthread_mutex_lock(&n->lock);
	for (size_t i = 0; i < c->hosts; i++) {
		struct collect_net_host_view v = n->host[i].view;

		v.target = collect_host_target(&c->host[i]);
		v.hostname = collect_host_name(&c->host[i]);
		if (n->host[i].pass_ns)
			fn(&v, arg);
	}
	pthread_mutex_unlock(&n->lock);
}

uint64_t collect_collector_net_refused(struct collect_collector *c)
{
	struct collect_pair_latency *n = pair_latency_of(c);
	uint64_t refused;

	if (!n)
		return 0;
	pthread_mutex_lock(&n->lock);
	refused = n->refused;
	pthread_mutex_unlock(&n->lock);
	return refused;
}
