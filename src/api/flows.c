// SPDX-License-Identifier: Apache-2.0
/*
 * flows.c - sorted connections with their limiting factors. Visits all connections, and keeps at
 * most twice as many as the response has.
 */
#include <arpa/inet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "api/internal.h"
#include "collect/tables/pair_latency.h"
#include "collect/tables/tables.h"

#define ROWS_DEFAULT 100
#define ROWS_MAX     1000

struct api_flows_row {
	double key;
	struct region_flow now;
	struct region_why why;
	bool stale;
	int64_t read_ns;
	struct api_owner owner;
};

enum sort { SORT_RATE, SORT_RETRANSMITS, SORT_RTT, SORT_BYTES, SORT_AGE, SORT_LIMIT, SORTS };
static const char *const sort_names[SORTS] = {"rate",  "retransmits", "rtt",
					      "bytes", "age",	      "limit"};

struct api_flows_walk {
	const char *host, *pod, *remote;
	int state, limited_by; /* -1 means any */
	struct collect_terms terms;
	uint64_t port, id, limit;
	int sort; /* enum sort */
	int64_t now_ns;
	struct api_flows_row *row; /* up to twice the limit */
	uint64_t rows, matching;
	double least; /* flows with this key or a lower one are not among the first */
};

/* Filters */

enum { STATE_OPEN, STATE_CLOSED, STATE_LISTEN };
static const char *const state_names[] = {"open", "closed", "listen"};

static int state_of(const struct region_flow *f)
{
	if (f->state == SL_STATE_CLOSED)
		return STATE_CLOSED;
	return f->flags & SL_FLOW_LISTENER ? STATE_LISTEN : STATE_OPEN;
}

static bool matches_text(const struct api_flows_walk *w, const struct collect_flow_view *v)
{
	char text[INET6_ADDRSTRLEN];
	uint32_t found;

	if (!w->terms.count)
		return true;
	found = collect_terms_in_text(&w->terms, v->hostname) |
		collect_terms_in_text(&w->terms, v->now->comm) |
		collect_terms_in_text(&w->terms, region_flow_address(v->now->local, text)) |
		collect_terms_in_text(&w->terms, region_flow_address(v->now->remote, text));
	if (v->workload)
		found |= collect_terms_in_labels(&w->terms, v->workload->labels,
						 v->workload->label_count);
	return found == (1u << w->terms.count) - 1;
}

static bool is_limited_by(const struct api_flows_walk *w, const struct collect_flow_view *v)
{
	struct region_why y;

	if (w->limited_by < 0)
		return true;
	collect_flow_why(v, w->now_ns, &y);
	return w->limited_by == (int)y.limit;
}

static bool matches_filters(const struct api_flows_walk *w, const struct collect_flow_view *v)
{
	const struct region_flow *f = v->now;
	char remote[INET6_ADDRSTRLEN];

	return (!w->id || f->id == w->id) && api_is_host(w->host, v->hostname, v->target) &&
	       (!w->port || f->local_port == w->port || f->remote_port == w->port) &&
	       (w->state < 0 || w->state == state_of(f)) &&
	       (!w->remote || !strcmp(w->remote, region_flow_address(f->remote, remote))) &&
	       (!w->pod || (v->workload && !strcmp(w->pod, region_label(v->workload, "pod")))) &&
	       matches_text(w, v) && is_limited_by(w, v);
}

/* Sort keys */

/* The host's current time is the time of the last snapshot plus the time since it was read. */
static double duration_seconds(const struct region_flow *f, int64_t read_ns, int64_t now_ns)
{
	uint64_t since = now_ns > read_ns ? (uint64_t)(now_ns - read_ns) : 0;

	return (double)region_flow_duration(f, f->changed_ns + since) * 1e-9;
}

static double key_of(const struct api_flows_walk *w, const struct collect_flow_view *v)
{
	const struct region_flow *f = v->now;
	struct region_why y;

	switch (w->sort) {
	case SORT_RETRANSMITS:
		return f->retrans;
	case SORT_RTT:
		return f->srtt_us;
	case SORT_BYTES:
		return (double)f->bytes_sent + (double)f->bytes_received;
	case SORT_AGE:
		return duration_seconds(f, v->read_ns, w->now_ns);
	default:
		break;
	}
	collect_flow_why(v, w->now_ns, &y);
	/* Sort by limit: problems first, then by rate. */
	return w->sort == SORT_LIMIT && !region_why_fine(y.limit) ? 1e18 + y.bytes_per_s
								  : y.bytes_per_s;
}

/* Selection of the first rows */

static int best_first(const void *a, const void *b)
{
	const struct api_flows_row *x = a, *y = b;

	if (x->key != y->key)
		return x->key > y->key ? -1 : 1;
	return (x->now.id > y->now.id) - (x->now.id < y->now.id);
}

/* Sorts the rows, and drops those beyond the limit. */
static void keep_best(struct api_flows_walk *w)
{
	qsort(w->row, w->rows, sizeof(*w->row), best_first);
	w->rows = BASE_MIN(w->rows, w->limit);
}

static void visit_flow(const struct collect_flow_view *v, void *arg)
{
	struct api_flows_walk *w = arg;
	struct api_flows_row *r;
	double key;

	if (!matches_filters(w, v))
		return;
	w->matching++;
	key = key_of(w, v);
	if (!w->limit || key <= w->least)
		return;
	r = &w->row[w->rows++];
	r->key = key;
	r->now = *v->now;
	collect_flow_why(v, w->now_ns, &r->why);
	r->stale = v->stale;
	r->read_ns = v->read_ns;
	api_owner_set(&r->owner, v->hostname, v->target, v->workload);
	if (w->rows == 2 * w->limit) {
		keep_best(w);
		w->least = w->row[w->rows - 1].key;
	}
}

/* JSON */

static const char *role_of(const struct region_flow *f)
{
	if (f->flags & SL_FLOW_LISTENER)
		return "listener";
	if (f->flags & SL_FLOW_ACTIVE)
		return "client";
	return f->flags & SL_FLOW_OLDER ? "unknown" : "server";
}

static void why_json(struct base_json *j, const struct region_why *y, bool numbers)
{
	base_put(j, KV("bytes_per_second", y->bytes_per_s), KV("limit", region_why_name(y->limit)),
		 KV("limit_label", region_why_label(y->limit)), KV("limit_share", y->share),
		 KV("why", y->sentence));
	if (!numbers)
		return;
	base_put(j, KV("interval_seconds", (double)y->interval_ns * 1e-9));
	base_json_kbegin(j, "numbers", '[');
	for (uint32_t i = 0; i < y->n; i++)
		base_put_object(j, NULL, KV("name", y->number[i].name),
				KV("unit", y->number[i].unit), KV("value", y->number[i].value));
	base_json_end(j, ']');
}

static void flow_json(struct base_json *j, const struct api_flows_row *r,
		      const struct api_flows_walk *w)
{
	const struct region_flow *f = &r->now;
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];

	base_put(j, KV("id", f->id));
	api_owner(j, &r->owner);
	base_put(j, KV("task", f->comm), KV("pid", f->pid), KV("by_listener", f->by_listener),
		 KV("netns", f->netns), KV("local", region_flow_address(f->local, local)),
		 KV("local_port", f->local_port),
		 KV("remote", region_flow_address(f->remote, remote)),
		 KV("remote_port", f->remote_port), KV("role", role_of(f)),
		 KV("state", state_names[state_of(f)]),
		 KV("tcp_state", region_tcp_state_name(f->tcp_state)),
		 KV_BOOL("older", f->flags & SL_FLOW_OLDER), KV("stale", r->stale),
		 KV_TIME("last_change", r->read_ns),
		 KV("duration_seconds", duration_seconds(f, r->read_ns, w->now_ns)),
		 KV("bytes_sent", f->bytes_sent), KV("bytes_acked", f->bytes_acked),
		 KV("bytes_received", f->bytes_received), KV("segments_sent", f->segs_out),
		 KV("segments_received", f->segs_in), KV("retransmits", f->retrans),
		 KV("timeouts", f->timeouts), KV("spurious", f->dsack),
		 KV("zero_windows", (uint64_t)f->zero_in + f->zero_out),
		 KV("rtt_seconds", f->srtt_us / 1e6), KV("rtt_min_seconds", f->rtt_min_us / 1e6),
		 KV("handshake_seconds", f->handshake_us / 1e6), KV("cwnd", f->cwnd),
		 KV("mss", f->mss), KV("send_window", f->snd_wnd), KV("receive_window", f->rcv_wnd),
		 KV("drops", f->drops), KV("unsent_bytes", f->queue), KV("lost", f->lost_out),
		 KV("retransmits_in_flight", f->retrans_out), KV("backoff", f->backoff),
		 KV("end", region_flow_end_name(region_flow_end(f))));
	why_json(j, &r->why, w->id);
}

void api_get_flows(struct http_request *req, void *arg)
{
	const char *limits[REGION_WHY_LIMITS];
	struct api_flows_walk w = {
		.host = api_param_text(req, "host"),
		.pod = api_param_text(req, "pod"),
		.remote = api_param_text(req, "remote"),
		.state = -1,
		.limited_by = -1,
		.least = -INFINITY,
		.limit = ROWS_DEFAULT,
		.now_ns = (int64_t)base_realtime_ns(),
	};
	struct api_list l = {.limit = UINT64_MAX};

	for (int i = 0; i < REGION_WHY_LIMITS; i++)
		limits[i] = region_why_name(i);
	if (!api_param_u64(req, "limit", 0, ROWS_MAX, &w.limit) ||
	    !api_param_u64(req, "port", 1, 65535, &w.port) ||
	    !api_param_u64(req, "id", 1, UINT64_MAX, &w.id) || !api_param_terms(req, &w.terms) ||
	    !api_param_choice(req, "state", state_names, 3, &w.state) ||
	    !api_param_choice(req, "limited_by", limits, REGION_WHY_LIMITS, &w.limited_by) ||
	    !api_param_choice(req, "sort", sort_names, SORTS, &w.sort))
		return;
	w.row = api_alloc(req, (2 * w.limit + 1) * sizeof(*w.row));
	if (!w.row)
		return;
	l.j = api_answer_begin(req);
	if (!l.j)
		goto out;
	collect_collector_flows(arg, visit_flow, &w);
	keep_best(&w);
	base_json_kbegin(l.j, "flows", '[');
	for (uint64_t i = 0; i < w.rows && api_item(&l); i++) {
		flow_json(l.j, &w.row[i], &w);
		api_item_end(&l);
	}
	base_json_end(l.j, ']');
	base_put(l.j, KV("matching", w.matching), KV("truncated", l.truncated));
	api_answer_end(req, l.j);
out:
	free(w.row);
}

/* Tables */

static void table_json(const struct collect_flow_table_view *v, void *arg)
{
	struct api_list *l = arg;

	if (!api_host_item(l, v->hostname, v->target, v->present))
		return;
	base_put(l->j, KV("stale", v->stale), KV("fault", v->fault),
		 KV_TIME("last_read", v->last_read_ns), KV("open", v->open), KV("slots", v->slots),
		 KV("slots_read", v->slots_read), KV("passes", v->passes), KV("missed", v->missed),
		 KV("opened", v->opened), KV("closed", v->closed), KV("unsettled", v->unsettled),
		 KV("lost", v->lost), KV("unseen", v->unseen), KV("journal_gaps", v->journal_gaps));
	api_item_end(l);
}

static void layers_json(const struct collect_layer_losses_view *v, void *arg)
{
	struct api_list *l = arg;

	if (!api_host_item(l, v->hostname, v->target, v->present))
		return;
	base_put(l->j, KV("passes", v->passes));
	api_item_end(l);
}

static void ring_json(const struct collect_net_host_view *v, void *arg)
{
	struct api_list *l = arg;

	if (!api_host_item(l, v->hostname, v->target, v->present))
		return;
	base_put(l->j, KV("records", v->records));
	api_item_end(l);
}

void api_flow_tables(struct base_json *j, void *collector)
{
	struct api_list l = {.j = j, .limit = UINT64_MAX};

	API_EACH(j, "tcp", collect_collector_flow_tables, collector, table_json, &l);
	API_EACH(j, "layers", collect_collector_layer_losses, collector, layers_json, &l);
	API_EACH(j, "net", collect_collector_net_hosts, collector, ring_json, &l);
}
