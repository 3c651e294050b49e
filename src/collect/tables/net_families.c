// SPDX-License-Identifier: Apache-2.0
/* net_families.c - the collector's own series about latency between hosts */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/read/self.h"
#include "collect/tables/families.h"

static void copy_pair(const struct collect_net_pair_view *v, void *arg)
{
	struct collect_self_net *n = arg;
	struct collect_net_pair *p = &n->pair[n->pairs];

	if (n->failed)
		return;
	*p = (struct collect_net_pair){
		.target = {v->target[0], v->target[1]},
		.hostname = {v->hostname[0], v->hostname[1]},
		.totals = v->totals,
		.ports = v->ports,
		.port = calloc(v->ports + 1, sizeof(*p->port)),
	};
	n->failed = !p->port;
	n->pairs++;
	for (size_t i = 0; i < v->ports && p->port; i++) {
		snprintf(p->port[i].text, sizeof(p->port[i].text), "%u", v->port[i].port);
		if (!v->port[i].port)
			strcpy(p->port[i].text, "other");
		for (int w = 0; w < COLLECT_NET_WAYS; w++)
			p->port[i].hist[w] = *v->port[i].all[w];
	}
}

static void copy_host(const struct collect_net_host_view *v, void *arg)
{
	struct collect_self_net *n = arg;

	n->host[n->hosts++] = *v;
}

static struct collect_self_net *net_of(const struct collect_self *s)
{
	return s->own;
}

bool collect_self_net_begin(struct collect_self *s)
{
	struct collect_self_net *n = net_of(s);

	n->host = calloc(s->c->hosts + 1, sizeof(*n->host));
	if (!n->host)
		return false;
	collect_collector_pair_latency(s->c, copy_pair, n);
	collect_collector_net_hosts(s->c, copy_host, n);
	n->refused = collect_collector_net_refused(s->c);
	return !n->failed;
}

void collect_self_net_end(struct collect_self *s)
{
	for (size_t i = 0; i < net_of(s)->pairs; i++)
		free(net_of(s)->pair[i].port);
	free(net_of(s)->host);
}

/*
 * Sets the labels of a pair plus the given one, sorted by key; if key is NULL, there is no extra
 * label.
 */
static bool of_pair(struct collect_self *s, struct export_series *out,
		    const struct collect_net_pair *p, const char *key, const char *value)
{
	const struct region_text_label l[] = {{key, value},
					      {"host", p->hostname[0]},
					      {"host_target", p->target[0]},
					      {"peer", p->hostname[1]},
					      {"peer_target", p->target[1]},
					      {key, value}};

	return collect_self_labels(s, out, key && *key < 'h' ? l : l + 1, key ? 5 : 4);
}

static bool of_way(struct collect_self *s, struct export_series *out,
		   const struct collect_net_pair *p, int way, const char *key, const char *value)
{
	/* The labels must be sorted; key lies between destination and source. */
	return SELF_LABELS(s, out, {"destination", p->hostname[!way]},
			   {"destination_target", p->target[!way]}, {key, value},
			   {"source", p->hostname[way]}, {"source_target", p->target[way]});
}

/* Returns port number s->at / each, counted over all pairs, or NULL if there are no more. */
static const struct collect_net_port *port_at(const struct collect_self *s, size_t each,
					      const struct collect_net_pair **p)
{
	size_t at = s->at / each;

	for (size_t i = 0; i < net_of(s)->pairs; i++) {
		*p = &net_of(s)->pair[i];
		if (at < (*p)->ports)
			return &(*p)->port[at];
		at -= (*p)->ports;
	}
	return NULL;
}

static bool fill_histogram(struct collect_self *s, struct export_series *out,
			   const struct tcp_net_hist *h)
{
	uint64_t *to = net_of(s)->bucket;

	for (int i = 0; i < TCP_NET_BUCKETS; i++)
		to[i] = h->bucket[i];
	to[0] += h->negative;
	out->value_type = EXPORT_VALUE_U64;
	out->sum = (double)h->sum / 1e9;
	out->exponential = true;
	out->detail = EXPORT_DETAIL_FEW;
	out->buckets = to;
	out->bucket_count = TCP_NET_BUCKETS;
	out->bounds = NULL;
	out->bound_count = 0;
	out->scale = TCP_NET_SCALE;
	out->first_bucket = TCP_NET_FIRST + 1;
	out->zero_threshold = exp2((double)TCP_NET_FIRST / (1 << TCP_NET_SCALE));
	return true;
}

/* Returns histogram number s->at, one per port and direction, or NULL if there are no more. */
static const void *way_at(struct collect_self *s, struct export_series *out)
{
	const struct collect_net_pair *p;
	const struct collect_net_port *port = port_at(s, 2, &p);
	int way = s->at % 2;

	return port && of_way(s, out, p, way, "port", port->text) ? &port->hist[way] : NULL;
}

SERIES(net_latency, struct tcp_net_hist, h, way_at(s, out), fill_histogram(s, out, h))

static bool net_round_trip(struct collect_self *s, struct export_series *out)
{
	const struct collect_net_pair *p;
	const struct collect_net_port *port = port_at(s, 1, &p);

	return port && of_pair(s, out, p, "port", port->text) &&
	       fill_histogram(s, out, &port->hist[COLLECT_NET_BOTH]);
}

static bool net_clock_bound(struct collect_self *s, struct export_series *out)
{
	for (; s->at < net_of(s)->pairs; s->at++) {
		const struct collect_net_pair *p = &net_of(s)->pair[s->at];

		if (p->totals.known)
			return of_pair(s, out, p, NULL, NULL) &&
			       collect_self_f64(out, (double)p->totals.bound * 1e-9);
	}
	return false;
}

static bool net_segments(struct collect_self *s, struct export_series *out)
{
	static const char *const results[] = {"sent", "measured"};
	size_t i = s->at / 4;
	int way = s->at / 2 % 2, what = s->at % 2;
	const struct collect_net_pair *p = &net_of(s)->pair[i];
	const struct tcp_net_totals *t = &p->totals;

	if (i >= net_of(s)->pairs)
		return false;
	return of_way(s, out, p, way, "result", results[what]) &&
	       collect_self_u64(out, what ? t->matched[way] : t->sent[way]);
}

/* Skip causes with a zero count; most never occur. */
static bool net_unmatched(struct collect_self *s, struct export_series *out)
{
	for (; s->at < net_of(s)->pairs * TCP_NET_CAUSES; s->at++) {
		const struct collect_net_pair *p = &net_of(s)->pair[s->at / TCP_NET_CAUSES];
		int cause = (int)(s->at % TCP_NET_CAUSES);

		if (p->totals.causes[cause])
			return of_pair(s, out, p, "cause", tcp_net_cause_name(cause)) &&
			       collect_self_u64(out, p->totals.causes[cause]);
	}
	return false;
}

static const void *host_at(struct collect_self *s, struct export_series *out)
{
	const struct collect_net_host_view *h = &net_of(s)->host[s->at];

	return s->at < net_of(s)->hosts &&
			       SELF_LABELS(s, out, {"host", h->hostname}, {"target", h->target})
		       ? h
		       : NULL;
}

/* ---- the families ---- */

static bool net_exposed(const struct collect_self *s)
{
	return net_of(s)->pairs > 0;
}

static const struct collect_self_family net_families[] = {
	{"sidelight_net_clock_bound_seconds", GAUGE, "seconds",
	 "Error bound of the estimated clock offset of two hosts, and so of each one-way latency.",
	 .series = net_clock_bound},
	{"sidelight_net_latency_seconds", HISTOGRAM, "seconds",
	 "One-way latency from driver to driver, by port of the service, accurate to the clock's "
	 "error bound. Negative values count in the lowest bucket.",
	 .series = net_latency},
	{"sidelight_net_negative", COUNTER, "",
	 "One-way latencies measured as negative: the clock offset exceeds its bound.",
	 EACH(way_at, OF(NULL, FOUND, tcp_net_hist, negative))},
	{"sidelight_net_pairs_refused", COUNTER, "",
	 "Segments between hosts that exceed the limit on pairs of hosts.",
	 SINGLE(OF(NULL, OWN, collect_self_net, refused))},
	{"sidelight_net_records_missed", COUNTER, "",
	 "Segments overwritten in a host's ring before they were read.",
	 EACH(host_at, OF(NULL, FOUND, collect_net_host_view, missed))},
	{"sidelight_net_round_trip_seconds", HISTOGRAM, "seconds",
	 "Latency of a segment plus that of the next segment in the other direction; the sum does "
	 "not depend on the clock offset.",
	 .series = net_round_trip},
	{"sidelight_net_segments", COUNTER, "",
	 "Segments between two hosts that were sent and "
	 "that were measured.",
	 .series = net_segments},
	{"sidelight_net_unmatched", COUNTER, "",
	 "Segments between two hosts without a latency, by cause.", .series = net_unmatched},
};

COLLECT_SELF_GROUP(net, net_exposed);
