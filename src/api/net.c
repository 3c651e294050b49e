// SPDX-License-Identifier: Apache-2.0
/*
 * net.c - one-way and round-trip latency between hosts, with the stack layers of both hosts: the
 * whole path of a request, from the client's call to its copy of the response.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "api/internal.h"
#include "collect/tables/pair_latency.h"
#include "collect/tables/tables.h"

#define LAYER_ROWS 4096u /* maximum number of (host, role, port) combinations with trips */

/* Sums over one host's workloads that serve a port, or that are its clients. */
struct stack {
	const char *target;
	char port[8];
	bool server;
	struct region_layer_view late;
};

struct api_net_walk {
	const char *host;
	uint64_t port; /* port to select; 0 means any */
	struct api_list list;
	struct stack *stack;
	size_t stacks, room;
};

/* Layers */

static struct stack *stack_of(const struct api_net_walk *w, const char *target, const char *port,
			      bool server)
{
	for (size_t i = 0; i < w->stacks; i++)
		if (w->stack[i].server == server && !strcmp(w->stack[i].target, target) &&
		    !strcmp(w->stack[i].port, port))
			return &w->stack[i];
	return NULL;
}

static void take_layers(const struct collect_layers_view *v, void *arg)
{
	struct api_net_walk *w = arg;
	bool server = !strcmp(v->role, "server");
	struct stack *s = stack_of(w, v->target, v->port, server);

	if (v->stale || (!server && strcmp(v->role, "client")))
		return;
	if (!s) {
		if (w->stacks == LAYER_ROWS || !BASE_GROW(w->stack, w->stacks, w->room))
			return; /* the table is full: leave out this combination */
		s = &w->stack[w->stacks++];
		memset(s, 0, sizeof(*s));
		s->target = v->target;
		s->server = server;
		snprintf(s->port, sizeof(s->port), "%s", v->port);
	}
	for (int i = 0; i < SL_LAYERS; i++)
		for (uint32_t k = 0; k < SL_LAYER_CELLS; k++)
			s->late.cell[i][k] += v->late->cell[i][k];
	s->late.count[SL_COUNT_REQUESTS] += v->late->count[SL_COUNT_REQUESTS];
}

/* Trips: their parts in order of time, as in source/tcp/net_round.h */

static struct api_summary of_hist(const struct tcp_net_hist *h)
{
	return (struct api_summary){
		.count = h->count,
		.mean = h->count ? (double)h->sum * 1e-9 / (double)h->count : NAN,
		.p50 = tcp_net_hist_quantile(h, 0.5) * 1e-9,
		.p90 = tcp_net_hist_quantile(h, 0.9) * 1e-9,
		.p99 = tcp_net_hist_quantile(h, 0.99) * 1e-9,
	};
}

static void trip_json(struct base_json *j, const struct stack *client, const struct stack *server,
		      const struct collect_net_port_view *v, int from)
{
	static const struct {
		const char *name;
		enum { CLIENT, SERVER, THERE, BACK } whose;
		enum sl_layer layer;
	} parts[] = {
		{"client_tcp_out", CLIENT, SL_LAYER_TCP_OUT},
		{"client_ip_out", CLIENT, SL_LAYER_IP_OUT},
		{"client_mac_out", CLIENT, SL_LAYER_MAC_OUT},
		{"wire_there", THERE, 0},
		{"server_mac_in", SERVER, SL_LAYER_MAC_IN},
		{"server_ip_in", SERVER, SL_LAYER_IP_IN},
		{"server_tcp_in", SERVER, SL_LAYER_TCP_IN},
		{"server_app", SERVER, SL_LAYER_APP},
		{"server_tcp_out", SERVER, SL_LAYER_TCP_OUT},
		{"server_ip_out", SERVER, SL_LAYER_IP_OUT},
		{"server_mac_out", SERVER, SL_LAYER_MAC_OUT},
		{"wire_back", BACK, 0},
		{"client_mac_in", CLIENT, SL_LAYER_MAC_IN},
		{"client_ip_in", CLIENT, SL_LAYER_IP_IN},
		{"client_tcp_in", CLIENT, SL_LAYER_TCP_IN},
	};
	bool whole = true;
	double sum = 0;

	base_json_begin(j, '{');
	base_put(j, KV("client", from ? "b" : "a"),
		 KV("requests", server->late.count[SL_COUNT_REQUESTS]));
	base_json_kbegin(j, "parts", '[');
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		int way = parts[i].whose == THERE ? from : !from;
		struct api_summary p =
			parts[i].whose == CLIENT
				? api_layer_summary(client->late.cell[parts[i].layer])
			: parts[i].whose == SERVER
				? api_layer_summary(server->late.cell[parts[i].layer])
				: of_hist(&v->late[way]);

		base_json_begin(j, '{');
		base_put(j, KV("part", parts[i].name));
		api_summary(j, &p, false);
		base_json_end(j, '}');
		whole = whole && p.count;
		sum += p.count ? p.mean : 0;
	}
	base_json_end(j, ']');
	/* Means can be added, quantiles cannot. */
	base_put(j, KV_QUANTILE("mean", whole ? sum : NAN));
	base_json_end(j, '}');
}

static void trips_json(const struct api_net_walk *w, const struct collect_net_pair_view *v,
		       const struct collect_net_port_view *port)
{
	char text[8];

	base_json_kbegin(w->list.j, "trips", '[');
	snprintf(text, sizeof(text), "%u", port->port);
	for (int from = 0; from < 2 && port->port; from++) {
		const struct stack *client = stack_of(w, v->target[from], text, false);
		const struct stack *server = stack_of(w, v->target[!from], text, true);

		if (client && server && server->late.count[SL_COUNT_REQUESTS])
			trip_json(w->list.j, client, server, port, from);
	}
	base_json_end(w->list.j, ']');
}

/* Pairs of hosts */

static void way_json(struct base_json *j, const char *name, const struct collect_net_port_view *v,
		     enum collect_net_way way)
{
	const struct tcp_net_hist *h = &v->late[way];
	struct api_summary s = of_hist(h);

	base_json_kbegin(j, name, '{');
	base_put(j, KV("total", v->all[way]->count));
	api_summary(j, &s, true);
	if (way != COLLECT_NET_BOTH)
		base_put(j, KV_QUANTILE("bound", v->bound[way] * 1e-9), KV("negative", h->negative),
			 KV("negative_total", v->all[way]->negative),
			 KV("reordered_total", v->reordered[way]));
	base_json_end(j, '}');
}

static void clock_json(struct base_json *j, const struct tcp_net_totals *t)
{
	base_json_kbegin(j, "clock", '{');
	base_put(j, KV("known", t->known));
	if (t->known)
		base_put(j, KV("offset", (double)t->theta * 1e-9),
			 KV("bound", (double)t->bound * 1e-9),
			 KV("skew_low_ppm", t->skew_low * 1e6),
			 KV("skew_high_ppm", t->skew_high * 1e6));
	base_put(j, KV("windows", t->windows), KV("stepped", t->stepped),
		 KV("one_way", t->one_way));
	base_json_end(j, '}');
}

static void pair_json(const struct api_net_walk *w, const struct collect_net_pair_view *v)
{
	static const char *const ends[] = {"a", "b"};
	struct base_json *j = w->list.j;

	for (int s = 0; s < 2; s++)
		base_put_object(j, ends[s], KV("host", v->hostname[s]), KV("target", v->target[s]),
				KV("sent", v->totals.sent[s]),
				KV("measured", v->totals.matched[s]));
	base_put(j, KV("stale", v->stale));
	clock_json(j, &v->totals);
	base_json_kbegin(j, "causes", '{');
	for (int i = 0; i < TCP_NET_CAUSES; i++)
		if (v->totals.causes[i])
			base_put(j, KV(tcp_net_cause_name(i), v->totals.causes[i]));
	base_json_end(j, '}');
	base_json_kbegin(j, "ports", '[');
	for (size_t i = 0; i < v->ports; i++) {
		const struct collect_net_port_view *p = &v->port[i];

		if (w->port && p->port != w->port)
			continue;
		base_json_begin(j, '{');
		base_json_key(j, "port");
		if (p->port)
			base_json_u64(j, p->port);
		else
			base_json_string(j, "other");
		base_put(j, KV("late_seconds", (double)p->late_ns * 1e-9));
		way_json(j, "there", p, COLLECT_NET_THERE);
		way_json(j, "back", p, COLLECT_NET_BACK);
		way_json(j, "both", p, COLLECT_NET_BOTH);
		trips_json(w, v, p);
		base_json_end(j, '}');
	}
	base_json_end(j, ']');
}

static bool matches_filters(const struct api_net_walk *w, const struct collect_net_pair_view *v)
{
	bool port = !w->port, host = !w->host;

	for (size_t i = 0; i < v->ports; i++)
		port |= v->port[i].port == w->port;
	for (int s = 0; s < 2 && !host; s++)
		host = api_is_host(w->host, v->hostname[s], v->target[s]);
	return port && host;
}

static void take_pair(const struct collect_net_pair_view *v, void *arg)
{
	struct api_net_walk *w = arg;

	if (!matches_filters(w, v) || !api_item(&w->list))
		return;
	pair_json(w, v);
	api_item_end(&w->list);
}

static void host_json(const struct collect_net_host_view *v, void *arg)
{
	struct api_list *l = arg;

	if (!api_host_item(l, v->hostname, v->target, v->present))
		return;
	base_put(l->j, KV("records", v->records), KV("missed", v->missed),
		 KV("headless", v->headless), KV("elsewhere", v->elsewhere),
		 KV("shared_address", v->shared));
	api_item_end(l);
}

void api_get_net(struct http_request *req, void *arg)
{
	struct api_net_walk w = {.host = api_param_text(req, "host"),
				 .list.limit = COLLECT_NET_PAIRS};
	struct api_list *l = &w.list, hosts = {.limit = UINT64_MAX};

	if (!api_param_u64(req, "limit", 0, COLLECT_NET_PAIRS, &l->limit) ||
	    !api_param_u64(req, "port", 1, UINT16_MAX, &w.port))
		return;
	l->j = hosts.j = api_answer_begin(req);
	if (!l->j)
		return;
	collect_collector_layers(arg, take_layers, &w);
	API_EACH(l->j, "pairs", collect_collector_pair_latency, arg, take_pair, &w);
	base_put(l->j, KV("matching", l->matching),
		 KV("refused", collect_collector_net_refused(arg)), KV("truncated", l->truncated));
	API_EACH(l->j, "hosts", collect_collector_net_hosts, arg, host_json, &hosts);
	free(w.stack);
	api_answer_end(req, l->j);
}
