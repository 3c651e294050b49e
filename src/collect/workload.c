// SPDX-License-Identifier: Apache-2.0
/*
 * workload.c - what the connections of a workload add up to, by role and port of the service: a region
 * that nobody wrote but this worker. To everybody else it is a region as any other, so that boards,
 * history, index, exposition, analysis and the API need to know nothing of connections.
 *
 * A group is a workload with a role and a port. There are --tcp-groups of them; what comes after goes to
 * port "other" of its workload, or to the workload "(other)" of its host.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/flows.h"

#define PORTS_MAX 16u		/* of a workload and role: who has more is no service */
#define IDLE_NS	  600000000000u /* without a connection */

/* ---- the metrics of a group ---------------------------------------------------------------------- */

/* Exponential buckets: 2^low to 2^high seconds, 2^scale of them an octave. */
#define SHAPE_CELLS(scale, low, high) (SL_HIST_BUCKETS + 2 + (((high) - (low)) << (scale)))

enum {
	RTT_SCALE = 3,
	RTT_LOW = -20, /* a microsecond */
	RTT_HIGH = 6,
	LIFE_SCALE = 1,
	LIFE_LOW = -10,
	LIFE_HIGH = 20, /* twelve days */
	RTT_CELLS = SHAPE_CELLS(RTT_SCALE, RTT_LOW, RTT_HIGH),
	LIFE_CELLS = SHAPE_CELLS(LIFE_SCALE, LIFE_LOW, LIFE_HIGH),
};

enum cell {
	SENT,
	ACKED,
	RECEIVED,
	RESENT,
	SEGMENTS_OUT,
	SEGMENTS_IN,
	RETRANSMITS,
	RE_FAST,
	RE_TIMEOUT,
	RE_PROBE,
	RE_SYN,
	SPURIOUS,
	TIMEOUTS,
	RECOVERIES,
	ZERO_PEER,
	ZERO_LOCAL,
	OUT_OF_ORDER,
	CE,
	OPENED,
	CLOSED,
	OPEN,
	RESET_IN,
	RESET_OUT,
	DROPS,
	BY_APPLICATION,
	BY_RECEIVE_WINDOW,
	BY_CONGESTION_WINDOW,
	BY_SEND_BUFFER,
	RTT,
	HANDSHAKE = RTT + RTT_CELLS,
	LIFE = HANDSHAKE + RTT_CELLS,
	GROUP_CELLS = LIFE + LIFE_CELLS,
};

static const struct metric {
	enum cell cell;
	enum sl_metric_kind kind;
	const char *name, *unit, *help, *key, *value; /* key comes before "port" */
} metrics[] = {
	{SENT, SL_KIND_COUNTER, "sidelight_tcp_sent_bytes_total", "bytes",
	 "Bytes sent over TCP, retransmissions included.", NULL, NULL},
	{ACKED, SL_KIND_COUNTER, "sidelight_tcp_acked_bytes_total", "bytes",
	 "Bytes that the peer has acknowledged; the SYN counts as one, as in TCP_INFO.", NULL,
	 NULL},
	{RECEIVED, SL_KIND_COUNTER, "sidelight_tcp_received_bytes_total", "bytes",
	 "Bytes received over TCP, in order.", NULL, NULL},
	{RESENT, SL_KIND_COUNTER, "sidelight_tcp_retransmitted_bytes_total", "bytes",
	 "Bytes sent again.", NULL, NULL},
	{SEGMENTS_OUT, SL_KIND_COUNTER, "sidelight_tcp_sent_segments_total", "",
	 "Segments sent, pure acknowledgements included.", NULL, NULL},
	{SEGMENTS_IN, SL_KIND_COUNTER, "sidelight_tcp_received_segments_total", "",
	 "Segments received, pure acknowledgements included.", NULL, NULL},
	{RETRANSMITS, SL_KIND_COUNTER, "sidelight_tcp_retransmits_total", "",
	 "Segments sent again.", NULL, NULL},
	{RE_FAST, SL_KIND_COUNTER, "sidelight_tcp_retransmit_causes_total", "",
	 "Segments sent again, by cause, of connections whose opening was seen.", "cause", "fast"},
	{RE_TIMEOUT, SL_KIND_COUNTER, "sidelight_tcp_retransmit_causes_total", "",
	 "Segments sent again, by cause, of connections whose opening was seen.", "cause",
	 "timeout"},
	{RE_PROBE, SL_KIND_COUNTER, "sidelight_tcp_retransmit_causes_total", "",
	 "Segments sent again, by cause, of connections whose opening was seen.", "cause",
	 "tail_loss_probe"},
	{RE_SYN, SL_KIND_COUNTER, "sidelight_tcp_retransmit_causes_total", "",
	 "Segments sent again, by cause, of connections whose opening was seen.", "cause",
	 "handshake"},
	{SPURIOUS, SL_KIND_COUNTER, "sidelight_tcp_spurious_retransmits_total", "",
	 "Segments that were sent again in vain, as the peer says (DSACK).", NULL, NULL},
	{TIMEOUTS, SL_KIND_COUNTER, "sidelight_tcp_timeouts_total", "", "Retransmission timeouts.",
	 NULL, NULL},
	{RECOVERIES, SL_KIND_COUNTER, "sidelight_tcp_recoveries_total", "",
	 "Times that loss recovery was entered.", NULL, NULL},
	{ZERO_PEER, SL_KIND_COUNTER, "sidelight_tcp_zero_windows_total", "",
	 "Times that a receive window was closed, by whose it was.", "end", "peer"},
	{ZERO_LOCAL, SL_KIND_COUNTER, "sidelight_tcp_zero_windows_total", "",
	 "Times that a receive window was closed, by whose it was.", "end", "local"},
	{OUT_OF_ORDER, SL_KIND_COUNTER, "sidelight_tcp_out_of_order_segments_total", "",
	 "Segments received out of order.", NULL, NULL},
	{CE, SL_KIND_COUNTER, "sidelight_tcp_ecn_marked_segments_total", "",
	 "Segments that the network marked (CE) on their way to the peer.", NULL, NULL},
	{OPENED, SL_KIND_COUNTER, "sidelight_tcp_connections_opened_total", "",
	 "Connections established.", NULL, NULL},
	{CLOSED, SL_KIND_COUNTER, "sidelight_tcp_connections_closed_total", "",
	 "Connections that ended.", NULL, NULL},
	{OPEN, SL_KIND_GAUGE, "sidelight_tcp_connections", "", "Connections now.", NULL, NULL},
	{RESET_IN, SL_KIND_COUNTER, "sidelight_tcp_resets_total", "",
	 "Connections that a reset ended, by its direction.", "direction", "in"},
	{RESET_OUT, SL_KIND_COUNTER, "sidelight_tcp_resets_total", "",
	 "Connections that a reset ended, by its direction.", "direction", "out"},
	{DROPS, SL_KIND_COUNTER, "sidelight_tcp_listen_drops_total", "",
	 "Connections refused because the accept queue was full.", NULL, NULL},
	{BY_APPLICATION, SL_KIND_COUNTER_F64, "sidelight_tcp_limited_seconds_total", "seconds",
	 "Time of connections, by what held them back.", "limit", "application"},
	{BY_RECEIVE_WINDOW, SL_KIND_COUNTER_F64, "sidelight_tcp_limited_seconds_total", "seconds",
	 "Time of connections, by what held them back.", "limit", "receive_window"},
	{BY_CONGESTION_WINDOW, SL_KIND_COUNTER_F64, "sidelight_tcp_limited_seconds_total",
	 "seconds", "Time of connections, by what held them back.", "limit", "congestion_window"},
	{BY_SEND_BUFFER, SL_KIND_COUNTER_F64, "sidelight_tcp_limited_seconds_total", "seconds",
	 "Time of connections, by what held them back.", "limit", "send_buffer"},
	{RTT, SL_KIND_HISTOGRAM_EXP, "sidelight_tcp_rtt_seconds", "seconds",
	 "Round-trip times: of each connection and pass the mean of its samples, as often as there "
	 "were samples.",
	 NULL, NULL},
	{HANDSHAKE, SL_KIND_HISTOGRAM_EXP, "sidelight_tcp_handshake_seconds", "seconds",
	 "Time from the first SYN, or its arrival, to the connection.", NULL, NULL},
	{LIFE, SL_KIND_HISTOGRAM_EXP, "sidelight_tcp_connection_duration_seconds", "seconds",
	 "Duration of connections that ended.", NULL, NULL},
};

#define METRICS	   (sizeof(metrics) / sizeof(metrics[0]))
#define LABELS_MAX 3u

static void shape(struct sl_metric *m, int scale, int low, uint32_t cells)
{
	m->cells = cells;
	m->scale = scale;
	m->first_bucket = low * (1 << scale) + 1;
	m->bucket_count = cells - SL_HIST_BUCKETS;
	m->zero_threshold = ldexp(1, low);
}

/* Room for what a layout points to while it is made. */
struct scheme {
	struct sl_metric m;
	struct sl_text_label label[LABELS_MAX];
	char port[8];
};

static void describe(struct scheme *s, const struct metric *d, const struct workload_group *g)
{
	uint32_t n = 0;

	if (g->port)
		snprintf(s->port, sizeof(s->port), "%u", g->port);
	else
		strcpy(s->port, "other");
	if (d->key)
		s->label[n++] = (struct sl_text_label){d->key, d->value};
	s->label[n++] = (struct sl_text_label){"port", s->port};
	s->label[n++] = (struct sl_text_label){"role",
					       g->role == FLOW_CLIENT ? "client" : "server"};
	s->m = (struct sl_metric){
		.kind = d->kind,
		.cells = 1,
		.name = d->name,
		.unit = d->unit,
		.help = d->help,
		.label_count = n,
		.labels = s->label,
	};
	if (d->cell == LIFE)
		shape(&s->m, LIFE_SCALE, LIFE_LOW, LIFE_CELLS);
	else if (d->kind == SL_KIND_HISTOGRAM_EXP)
		shape(&s->m, RTT_SCALE, RTT_LOW, RTT_CELLS);
}

struct layout *workload_layout(struct sl_collector *c, struct region *r,
			       const struct workload_group *group, uint32_t groups,
			       uint64_t generation)
{
	uint32_t n = groups * (uint32_t)METRICS;
	struct scheme *s = malloc((n + (size_t)1) * sizeof(*s));
	struct sl_metric **m = malloc((n + (size_t)1) * sizeof(*m));
	struct layout *l = NULL;

	for (uint32_t i = 0; s && m && i < n; i++) {
		const struct metric *d = &metrics[i % METRICS];

		describe(&s[i], d, &group[i / METRICS]);
		s[i].m.id = i;
		s[i].m.cell = i / (uint32_t)METRICS * GROUP_CELLS + d->cell;
		m[i] = &s[i].m;
	}
	if (s && m)
		l = layout_make(c, r, m, n, groups * GROUP_CELLS, generation);
	free(s);
	free(m);
	return l;
}

/* ---- workloads ----------------------------------------------------------------------------------- */

static bool take_group(struct sl_collector *c)
{
	if (ADD(c->tcp_groups, 1) < c->opts.tcp_groups)
		return true;
	SUB(c->tcp_groups, 1);
	return false;
}

static uint64_t hash(uint64_t h, const char *s)
{
	return sl_fnv1a(h, s ? s : "", s ? strlen(s) + 1 : 1);
}

static uint64_t key_of(const struct link *l, const struct flow_owner *who)
{
	uint64_t h = hash(SL_FNV_BASIS, "tcp");

	h = hash(hash(h, l->host->target), who->kube_namespace);
	h = hash(hash(h, who->pod), who->container);
	return hash(hash(h, who->service), who->unit);
}

static void label(struct sl_region_info *info, size_t *used, const char *key, const char *value)
{
	size_t k = strlen(key) + 1, v = value ? strlen(value) + 1 : 0;

	if (v <= 1 || *used + k + v > sizeof(info->label_text))
		return;
	memcpy(info->label_text + *used, key, k);
	memcpy(info->label_text + *used + k, value, v);
	info->labels[info->label_count++] = (struct sl_text_label){info->label_text + *used,
								   info->label_text + *used + k};
	*used += k + v;
}

static struct workload *make(struct link *l, const struct flow_owner *who, uint64_t key)
{
	struct sl_region_info *info = calloc(1, sizeof(*info));
	struct workload *w = calloc(1, sizeof(*w));
	struct region *r = NULL;
	uint64_t instance = key;
	size_t used = 0;

	while (!instance || table_find(l, instance))
		instance = instance * SL_LINE_K0 + 1;
	if (info && w)
		r = table_add(l, instance);
	if (!r) {
		free(info);
		free(w);
		return NULL;
	}
	info->instance = instance;
	info->kind = SL_REGION_FLOWS;
	info->start_ns = sl_realtime_ns();
	label(info, &used, "namespace", who->kube_namespace);
	label(info, &used, "pod", who->pod);
	label(info, &used, "container", who->container);
	label(info, &used, "service", who->service);
	label(info, &used, "unit", who->unit);
	if (region_made(r, info, host_name(l->host))) {
		table_remove(l, r);
		free(info);
		free(w);
		return NULL;
	}
	free(info);
	ref_get(&r->refs);
	w->region = r;
	w->key = key;
	w->next = l->workloads;
	l->workloads = w;
	ADD(l->c->memory, sizeof(*w));
	return w;
}

static bool add_group(struct link *l, struct workload *w, uint32_t role, uint16_t port)
{
	uint32_t room = w->room ? w->room * 2 : 1;
	size_t bytes = GROUP_CELLS * sizeof(*w->cell);
	struct workload_group *group;
	uint64_t *cell;

	if (w->groups == w->room) {
		group = realloc(w->group, room * sizeof(*group));
		if (group)
			w->group = group;
		cell = group ? realloc(w->cell, room * bytes) : NULL;
		if (!cell)
			return false;
		ADD(l->c->memory, (room - w->room) * (bytes + sizeof(*group)));
		w->cell = cell;
		w->room = room;
	}
	memset(w->cell + (size_t)w->groups * GROUP_CELLS, 0, bytes);
	w->group[w->groups++] = (struct workload_group){.port = port, .role = (uint8_t)role};
	return true;
}

static bool find_group(const struct workload *w, uint32_t role, uint16_t port, uint32_t *group)
{
	for (uint32_t i = 0; i < w->groups; i++)
		if (w->group[i].role == role && w->group[i].port == port) {
			*group = i;
			return true;
		}
	return false;
}

/* That of a port, or of all others; there is always room for that. */
static struct workload *in_group(struct link *l, struct workload *w, uint32_t role, uint16_t port,
				 bool taken, uint32_t *group)
{
	uint32_t ports = 0;

	if (find_group(w, role, port, group))
		return w;
	for (uint32_t i = 0; i < w->groups; i++)
		ports += w->group[i].role == role && w->group[i].port;
	if (port && (taken || (ports < PORTS_MAX && take_group(l->c)))) {
		if (!add_group(l, w, role, port))
			return NULL;
	} else {
		BUMP(l->flow_stats.other, port != 0);
		if (find_group(w, role, 0, group))
			return w;
		if (!add_group(l, w, role, 0))
			return NULL;
	}
	*group = w->groups - 1;
	return w;
}

static struct workload *find(struct link *l, uint64_t key)
{
	for (struct workload *w = l->workloads; w; w = w->next)
		if (w->key == key)
			return w;
	return NULL;
}

struct workload *workload_other(struct link *l, uint32_t role, uint32_t *group)
{
	static const struct flow_owner other = {.unit = "(other)"};
	uint64_t key = key_of(l, &other);
	struct workload *w = find(l, key);

	if (!w)
		w = make(l, &other, key);
	return w ? in_group(l, w, role, 0, false, group) : NULL;
}

struct workload *workload_of(struct link *l, const struct flow_owner *who, uint32_t role,
			     uint16_t port, uint32_t *group)
{
	uint64_t key = key_of(l, who);
	struct workload *w = find(l, key);
	bool taken = !w && take_group(l->c);

	if (!w && !taken) {
		BUMP(l->flow_stats.other, 1);
		return workload_other(l, role, group);
	}
	if (!w) {
		w = make(l, who, key);
		if (!w) {
			SUB(l->c->tcp_groups, 1);
			return workload_other(l, role, group);
		}
		w->held = !port;
	}
	return in_group(l, w, role, port, taken, group);
}

static void workload_free(struct link *l, struct workload *w)
{
	SUB(l->c->tcp_groups, w->held);
	for (uint32_t i = 0; i < w->groups; i++)
		SUB(l->c->tcp_groups, w->group[i].port != 0);
	SUB(l->c->memory,
	    sizeof(*w) + w->room * (GROUP_CELLS * sizeof(*w->cell) + sizeof(*w->group)));
	region_put(w->region);
	free(w->group);
	free(w->cell);
	free(w);
}

void workloads_expire(struct link *l, uint64_t now_ns)
{
	struct workload **at = &l->workloads, *w;

	while ((w = *at)) {
		if (w->flows || !w->active_ns)
			w->active_ns = now_ns;
		if (now_ns - w->active_ns < IDLE_NS || w->region->schema_step != SCHEMA_IDLE) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		ADD(l->c->expired, 1);
		table_remove(l, w->region);
		workload_free(l, w);
	}
}

void workloads_free(struct link *l)
{
	struct workload *w;

	while ((w = l->workloads)) {
		l->workloads = w->next;
		workload_free(l, w);
	}
}

/* ---- counting ------------------------------------------------------------------------------------ */

static uint64_t *group_cells(struct workload *w, uint32_t group)
{
	return w->cell + (size_t)group * GROUP_CELLS;
}

static void add_f64(uint64_t *cell, double v)
{
	double sum;

	memcpy(&sum, cell, 8);
	sum += v;
	memcpy(cell, &sum, 8);
}

/* Observes seconds n times, in the bucket of their mean. */
static void observe(uint64_t *h, int scale, int low, uint32_t cells, double seconds, uint64_t n)
{
	double place = (log2(seconds) - low) * (1 << scale); /* bucket i ends at i */
	uint32_t last = cells - SL_HIST_BUCKETS - 1, i;

	i = !(place > 0) ? 0 : place > last ? last : (uint32_t)ceil(place);
	h[SL_HIST_BUCKETS + (i < last ? i : last)] += n;
	add_f64(&h[SL_HIST_SUM], seconds * (double)n);
}

static uint64_t grown(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

/* Of 32 bits that may begin anew. What seems to go back did. */
static uint32_t grown32(uint32_t before, uint32_t now)
{
	uint32_t by = now - before;

	return by < 1u << 31 ? by : 0;
}

static void add_time(uint64_t *cell, const struct sl_flow *b, const struct sl_flow *f)
{
	uint64_t before_ns = b->id ? sl_flow_duration(b) : 0;
	uint64_t whole = grown(before_ns, sl_flow_duration(f)) / 1000;
	uint64_t busy = grown(b->busy_us, f->busy_us);
	uint64_t rwnd = grown(b->rwnd_us, f->rwnd_us);
	uint64_t sndbuf = grown(b->sndbuf_us, f->sndbuf_us);

	add_f64(&cell[BY_RECEIVE_WINDOW], (double)rwnd / 1e6);
	add_f64(&cell[BY_SEND_BUFFER], (double)sndbuf / 1e6);
	add_f64(&cell[BY_CONGESTION_WINDOW], (double)grown(rwnd + sndbuf, busy) / 1e6);
	add_f64(&cell[BY_APPLICATION], (double)grown(busy, whole) / 1e6);
}

void workload_add(struct workload *w, uint32_t group, const struct sl_flow *before,
		  const struct sl_flow *f)
{
	static const struct sl_flow nothing;
	const struct sl_flow *b = before ? before : &nothing;
	uint64_t *cell = group_cells(w, group), samples, sum;

	cell[DROPS] += grown32(b->drops, f->drops);
	if (f->flags & SL_FLOW_LISTENER)
		return;
	cell[SENT] += grown(b->bytes_sent, f->bytes_sent);
	cell[ACKED] += grown(b->bytes_acked, f->bytes_acked);
	cell[RECEIVED] += grown(b->bytes_received, f->bytes_received);
	cell[RESENT] += grown(b->bytes_retrans, f->bytes_retrans);
	cell[SEGMENTS_OUT] += grown32(b->segs_out, f->segs_out);
	cell[SEGMENTS_IN] += grown32(b->segs_in, f->segs_in);
	cell[RETRANSMITS] += grown32(b->retrans, f->retrans);
	cell[RE_FAST] += grown32(b->re_fast, f->re_fast);
	cell[RE_TIMEOUT] += grown32(b->re_rto, f->re_rto);
	cell[RE_PROBE] += grown32(b->re_tlp, f->re_tlp);
	cell[RE_SYN] += grown32(b->re_syn, f->re_syn);
	cell[SPURIOUS] += grown32(b->dsack, f->dsack);
	cell[TIMEOUTS] += grown32(b->timeouts, f->timeouts);
	cell[RECOVERIES] += grown32(b->fast, f->fast);
	cell[ZERO_PEER] += grown32(b->zero_in, f->zero_in);
	cell[ZERO_LOCAL] += grown32(b->zero_out, f->zero_out);
	cell[OUT_OF_ORDER] += grown32(b->ooo, f->ooo);
	cell[CE] += grown32(b->delivered_ce, f->delivered_ce);
	cell[RESET_IN] += f->flags & ~b->flags & SL_FLOW_RESET_IN ? 1 : 0;
	cell[RESET_OUT] += f->flags & ~b->flags & SL_FLOW_RESET_OUT ? 1 : 0;
	add_time(cell, b, f);
	samples = grown(b->rtt_count, f->rtt_count);
	sum = grown(b->rtt_sum_us, f->rtt_sum_us);
	if (samples)
		observe(cell + RTT, RTT_SCALE, RTT_LOW, RTT_CELLS,
			(double)sum / 1e6 / (double)samples, samples);
}

void workload_add_bytes(struct workload *w, uint32_t group, uint64_t acked, uint64_t received)
{
	uint64_t *cell = group_cells(w, group);

	cell[ACKED] += acked;
	cell[RECEIVED] += received;
}

void workload_opened(struct workload *w, uint32_t group, const struct sl_flow *f, bool counts)
{
	uint64_t *cell = group_cells(w, group);

	if (f && f->flags & SL_FLOW_LISTENER)
		return;
	cell[OPEN]++;
	if (!counts)
		return;
	cell[OPENED]++;
	if (f && f->handshake_us)
		observe(cell + HANDSHAKE, RTT_SCALE, RTT_LOW, RTT_CELLS,
			(double)f->handshake_us / 1e6, 1);
}

void workload_closed(struct workload *w, uint32_t group, const struct sl_flow *f, bool counts)
{
	uint64_t *cell = group_cells(w, group);

	cell[OPEN]--;
	if (!counts)
		return;
	cell[CLOSED]++;
	if (f && !(f->flags & SL_FLOW_OLDER))
		observe(cell + LIFE, LIFE_SCALE, LIFE_LOW, LIFE_CELLS,
			(double)sl_flow_duration(f) / 1e9, 1);
}

void workload_left(struct workload *w, uint32_t group)
{
	group_cells(w, group)[OPEN]--;
}

/* ---- showing ------------------------------------------------------------------------------------- */

/* Control makes the layout, as it does for regions that were read. */
static void ask_for_layout(struct workload *w)
{
	struct region *r = w->region;
	size_t bytes = w->groups * sizeof(*w->group);

	if (r->schema_step != SCHEMA_IDLE ||
	    (w->asked == w->groups && r->schema_seen == r->schema_generation))
		return;
	r->schema_bytes = malloc(bytes);
	if (!r->schema_bytes)
		return;
	memcpy(r->schema_bytes, w->group, bytes);
	r->schema_length = (uint32_t)bytes;
	r->schema_generation++;
	r->hot.lines_used = UINT32_MAX; /* whatever the layout has is there */
	w->asked = w->groups;
	r->schema_step = SCHEMA_BUILDING;
	region_mail(r, MAIL_SCHEMA);
}

static void show(struct link *l, struct workload *w, uint64_t now_ns)
{
	struct region *r = w->region;

	if (r->schema_step == SCHEMA_BUILDING)
		schema_install(l, r, now_ns);
	ask_for_layout(w);
	if (r->board)
		pass_show(l, r, w->cell, now_ns);
}

void workloads_show(struct link *l, uint64_t now_ns)
{
	for (struct workload *w = l->workloads; w; w = w->next)
		show(l, w, now_ns);
}
