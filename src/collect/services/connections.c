// SPDX-License-Identifier: Apache-2.0
/*
 * connections.c - the kernel's view of services: their connections and what limits them, the calls
 * between services, and the number and latency of requests if the application does not publish them
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/judge/edges.h"
#include "collect/services/internal.h"
#include "collect/tables/tables.h"

#define WHYS_MAX 4096u /* maximum number of connections whose limit is determined per look */

/* ---- requests ---- */

static void take_layers(const struct collect_layers_view *l, void *arg)
{
	struct collect_services_region *r = collect_services_region(arg, l->workload->instance);
	const uint64_t *cell = l->late->cell[SL_LAYER_APP];
	struct collect_services_service *v = r ? r->service : NULL;
	double base = exp2(1.0 / (1 << SL_LAYER_SCALE));

	if (!v || l->stale || strcmp(l->role, "server") || l->late_ns <= 0)
		return;
	v->kernel_requests = (isnan(v->kernel_requests) ? 0 : v->kernel_requests) +
			     (double)l->late->count[SL_COUNT_REQUESTS] /
				     ((double)l->late_ns * 1e-9);
	for (int i = SL_LAYER_ZERO; i <= SL_LAYER_OVER; i++) {
		/* upper bound in seconds */
		double high = pow(base, SL_LAYER_FIRST - SL_LAYER_BUCKETS + i);

		if (cell[i])
			collect_latency_spread(&v->kernel_latency,
					       i == SL_LAYER_ZERO ? 0 : high / base, high,
					       (double)cell[i]);
	}
}

void collect_services_layers(struct collect_services *s)
{
	collect_collector_layers(s->c, take_layers, s);
}

/* ---- connections ---- */

static double per_second(uint64_t before, uint64_t now, double seconds)
{
	return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

static void count_limit(struct collect_services_service *v, const struct region_why *y)
{
	/* Without data, a connection shows no limit; others are weighted by their traffic. */
	double weight = y->share * sqrt(1 + y->bytes_per_s);

	if (!v->limits || y->limit == REGION_WHY_IDLE || y->limit == REGION_WHY_CLOSED)
		return;
	v->limits->weight[y->limit] += weight;
	if (weight <= v->limits->heaviest[y->limit])
		return;
	v->limits->heaviest[y->limit] = weight;
	memcpy(v->limits->why[y->limit], y->sentence, sizeof(v->limits->why[y->limit]));
}

static void note_end(struct collect_services *s, const struct collect_services_end *end,
		     bool active)
{
	if (active && BASE_GROW(s->initiated, s->n_initiated, s->initiated_room))
		s->initiated[s->n_initiated++] = *end;
	else if (!active && BASE_GROW(s->accepted, s->n_accepted, s->accepted_room))
		s->accepted[s->n_accepted++] = *end;
}

/* Finds the service by the connection's workload or, failing that, by the publishing process. */
static struct collect_services_service *find_owner(struct collect_services *s,
						   const struct collect_flow_view *f)
{
	struct collect_services_region *r =
		f->workload ? collect_services_region(s, f->workload->instance) : NULL;
	const struct collect_services_process key = {.pid = f->now->pid};
	const struct collect_services_process *p = NULL, *end;

	if (r && r->service)
		return r->service;
	if (key.pid && s->processes)
		p = bsearch(&key, s->process, s->processes, sizeof(*p), base_by_u64);
	while (p && p > s->process && p[-1].pid == key.pid)
		p--;
	end = p ? s->process + s->processes : NULL;
	for (; p < end && p->pid == key.pid; p++)
		if (!strcmp(p->target, f->target))
			return p->service;
	return NULL;
}

static void take_flow(const struct collect_flow_view *f, void *arg)
{
	struct collect_services *s = arg;
	const struct region_flow *now = f->now, *before = f->before;
	struct collect_services_end end = {
		.service = find_owner(s, f),
		.open = now->state == SL_STATE_LIVE,
		.rtt = now->srtt_us / 1e6,
	};
	struct collect_services_service *v = end.service;
	bool fresh = before && s->now_ns - f->read_ns < COLLECT_FLOW_SILENT_NS;
	double seconds = before && now->changed_ns > before->changed_ns
				 ? (double)(now->changed_ns - before->changed_ns) * 1e-9
				 : 0;
	struct region_why y;

	if (f->stale || now->flags & SL_FLOW_LISTENER)
		return;
	if (fresh) {
		end.bytes = per_second(before->bytes_acked, now->bytes_acked, seconds) +
			    per_second(before->bytes_received, now->bytes_received, seconds);
		end.retransmits = per_second(before->retrans, now->retrans, seconds);
		end.requests = seconds > 0 ? collect_edges_requests(f) / seconds : 0;
	}
	if (v) {
		if (!v->limits)
			v->limits = calloc(1, sizeof(*v->limits));
		v->connected = true;
		v->open += end.open;
		v->flow_bytes += end.bytes;
		v->flow_retransmits += end.retransmits;
		if (now->srtt_us && end.open) {
			v->rtt_sum += end.rtt * (1 + end.bytes);
			v->rtt_min_sum += now->rtt_min_us / 1e6 * (1 + end.bytes);
			v->rtt_weight += 1 + end.bytes;
		}
		if (fresh && (end.bytes > 0 || now->flight) && s->whys < WHYS_MAX) {
			s->whys++;
			collect_flow_why(f, s->now_ns, &y);
			count_limit(v, &y);
		}
	}
	if (end.open || end.bytes > 0) {
		end.key = collect_edges_key(f);
		note_end(s, &end, now->flags & SL_FLOW_ACTIVE);
	}
}

/* ---- edges ---- */

static int by_ends(const void *a, const void *b)
{
	const struct collect_services_edge *x = a, *y = b;

	return BASE_ORDER(x->from, y->from) ?: BASE_ORDER(x->to, y->to);
}

static void add_edge(struct collect_services *s, struct collect_services_service *from,
		     struct collect_services_service *to, const struct collect_services_end *end)
{
	if ((!from && !to) || !BASE_GROW(s->edge, s->edges, s->edge_room))
		return;
	s->edge[s->edges++] = (struct collect_services_edge){
		.from = from,
		.to = to,
		.connections = end->open,
		.requests = end->requests,
		.bytes = end->bytes,
		.retransmits = end->retransmits,
		.rtt_sum = end->rtt * (1 + end->bytes),
		.rtt_weight = end->rtt > 0 ? 1 + end->bytes : 0,
	};
}

static void merge_edges(struct collect_services *s)
{
	size_t kept = 0;

	if (!s->edges)
		return;
	qsort(s->edge, s->edges, sizeof(*s->edge), by_ends);
	for (size_t i = 1; i < s->edges; i++) {
		struct collect_services_edge *to = &s->edge[kept], *e = &s->edge[i];

		if (by_ends(to, e)) {
			s->edge[++kept] = *e;
			continue;
		}
		to->connections += e->connections;
		to->requests += e->requests;
		to->bytes += e->bytes;
		to->retransmits += e->retransmits;
		to->rtt_sum += e->rtt_sum;
		to->rtt_weight += e->rtt_weight;
	}
	s->edges = kept + 1;
}

/* Merges the two ends of each connection into one edge. The server's count of requests is used. */
static void match_ends(struct collect_services *s)
{
	s->edges = 0;
	if (s->n_accepted)
		qsort(s->accepted, s->n_accepted, sizeof(*s->accepted), base_by_u64);
	for (size_t i = 0; i < s->n_initiated; i++) {
		struct collect_services_end *end = &s->initiated[i], both, *at = NULL;

		if (s->n_accepted)
			at = bsearch(end, s->accepted, s->n_accepted, sizeof(*at), base_by_u64);
		if (!at || at->matched) {
			add_edge(s, end->service, NULL, end);
			continue;
		}
		at->matched = true;
		both = *at;
		/* Each end counts its own retransmissions. */
		both.retransmits += end->retransmits;
		both.open |= end->open;
		if (!(both.rtt > 0))
			both.rtt = end->rtt;
		add_edge(s, end->service, at->service, &both);
	}
	for (size_t i = 0; i < s->n_accepted; i++)
		if (!s->accepted[i].matched)
			add_edge(s, NULL, s->accepted[i].service, &s->accepted[i]);
	merge_edges(s);
}

void collect_services_connections(struct collect_services *s)
{
	for (struct collect_services_service *v = s->first; v; v = v->next) {
		v->connected = false;
		v->open = 0;
		v->flow_bytes = v->flow_retransmits = 0;
		v->rtt_sum = v->rtt_min_sum = v->rtt_weight = 0;
		if (v->limits)
			memset(v->limits, 0, sizeof(*v->limits));
	}
	s->whys = 0;
	s->n_initiated = s->n_accepted = 0;
	collect_collector_flows(s->c, take_flow, s);
	match_ends(s);
}

void collect_services_edges(struct collect_services *s,
			    void (*fn)(const struct collect_service_edge *, void *), void *arg)
{
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->edges; i++) {
		const struct collect_services_edge *e = &s->edge[i];

		fn(
			&(struct collect_service_edge){
				.from = e->from ? &e->from->name : NULL,
				.to = e->to ? &e->to->name : NULL,
				.connections = e->connections,
				.requests = e->requests,
				.bytes = e->bytes,
				.retransmits = e->retransmits,
				.rtt = e->rtt_weight > 0 ? e->rtt_sum / e->rtt_weight : NAN,
			},
			arg);
	}
	pthread_mutex_unlock(&s->lock);
}
