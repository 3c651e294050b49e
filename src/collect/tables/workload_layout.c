// SPDX-License-Identifier: Apache-2.0
/*
 * workload_layout.c - defines the metrics of a workload's groups, and makes the layout that maps
 * metrics to cells. Runs in the control thread, which also computes the layouts of regions.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/read/link.h"
#include "collect/tables/workload_layout.h"

const uint32_t collect_workload_part_cells[WORKLOAD_PARTS] = {
	[WORKLOAD_FLOWS] = FLOW_CELLS,
	[WORKLOAD_LAYERS] = LAYER_CELLS,
	[WORKLOAD_STACK] = LAYER_SHOWN,
	[WORKLOAD_TASKS] = TASK_CELLS,
};

#define LAYERS_HELP                                                                         \
	"Time that TCP segments spend in each layer of the stack; for the layer app, from " \
	"reading the last byte of a request to sending the first byte of its response."
#define STACK_HELP "Time that TCP segments of all ports spend in each layer of the kernel's stack."

#define METRIC(of, is, first, called, in, says, ...)                                    \
	{                                                                               \
		.part = WORKLOAD_##of, .kind = (is), .cell = (first), .name = (called), \
		.unit = (in), .help = (says), __VA_ARGS__                               \
	}
/* Initialisers of a metric that has one series for each value of this label. */
#define BY(label, ...) .key = (label), .value = {__VA_ARGS__}
/* Initialiser of a histogram: how much of it is exposed as text. */
#define SHOWN(how) .detail = EXPORT_DETAIL_##how
#define LAYERS(of, first, how, ...)                                                    \
	METRIC(of, SL_KIND_HISTOGRAM_EXP, LAYER_HISTOGRAMS + (first)*LAYER_HIST_CELLS, \
	       WORKLOAD_##of##_METRIC, "seconds", of##_HELP, SHOWN(how), BY("layer", __VA_ARGS__))
#define VALUES_MAX 6u

/*
 * In text, only the quantiles of round trips, requests, the application and waits for a CPU are
 * shown by port. The stack's layers are shown in total, because they depend on the host more than
 * on the port; the API, the history and native histograms have them by port.
 */
static const struct workload_layout_metric {
	enum collect_workload_part part;
	uint32_t cell;
	enum sl_metric_kind kind;
	enum export_detail detail; /* of a histogram */
	const char *name, *unit, *help;
	/* key must sort before "port"; the values have adjacent cells, or adjacent layers */
	const char *key, *value[VALUES_MAX];
} metrics[] = {
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_SENT, "sidelight_tcp_sent_bytes_total", "bytes",
	       "Bytes sent over TCP, including retransmissions."),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_ACKED, "sidelight_tcp_acked_bytes_total", "bytes",
	       "Bytes acknowledged by the peer; the SYN counts as one, as in TCP_INFO."),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_RECEIVED, "sidelight_tcp_received_bytes_total",
	       "bytes", "Bytes received over TCP, in order."),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_RESENT, "sidelight_tcp_retransmitted_bytes_total",
	       "bytes", "Bytes retransmitted."),
	METRIC(FLOWS, SL_KIND_COUNTER, SEGMENTS_OUT, "sidelight_tcp_sent_segments_total", "",
	       "Segments sent, including pure acknowledgements."),
	METRIC(FLOWS, SL_KIND_COUNTER, SEGMENTS_IN, "sidelight_tcp_received_segments_total", "",
	       "Segments received, including pure acknowledgements."),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_RETRANSMITS, "sidelight_tcp_retransmits_total", "",
	       "Segments retransmitted."),
	METRIC(FLOWS, SL_KIND_COUNTER, RE_FAST, "sidelight_tcp_retransmit_causes_total", "",
	       "Segments retransmitted, by cause, on connections whose opening was observed.",
	       BY("cause", "fast", "timeout", "tail_loss_probe", "handshake")),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_SPURIOUS, "sidelight_tcp_spurious_retransmits_total",
	       "", "Retransmissions that were not needed, as reported by the peer (DSACK)."),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_TIMEOUTS, "sidelight_tcp_timeouts_total", "",
	       "Retransmission timeouts."),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_RECOVERIES, "sidelight_tcp_recoveries_total", "",
	       "Number of times loss recovery began."),
	METRIC(FLOWS, SL_KIND_COUNTER, ZERO_PEER, "sidelight_tcp_zero_windows_total", "",
	       "Number of times a receive window was closed, by the end that closed it.",
	       BY("end", "peer", "local")),
	METRIC(FLOWS, SL_KIND_COUNTER, OUT_OF_ORDER, "sidelight_tcp_out_of_order_segments_total",
	       "", "Segments received out of order."),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_CE, "sidelight_tcp_ecn_marked_segments_total", "",
	       "Sent segments that the network marked as congested (CE)."),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_OPENED, "sidelight_tcp_connections_opened_total", "",
	       "Connections established."),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_CLOSED, "sidelight_tcp_connections_closed_total", "",
	       "Connections closed."),
	METRIC(FLOWS, SL_KIND_GAUGE, COLLECT_OPEN, "sidelight_tcp_connections", "",
	       "Open connections."),
	METRIC(FLOWS, SL_KIND_COUNTER, RESET_IN, "sidelight_tcp_resets_total", "",
	       "Connections ended by a reset, by the direction of the reset.",
	       BY("direction", "in", "out")),
	METRIC(FLOWS, SL_KIND_COUNTER, COLLECT_DROPS, "sidelight_tcp_listen_drops_total", "",
	       "Segments that listeners dropped while their accept queue was full: connections "
	       "were refused."),
	METRIC(FLOWS, SL_KIND_COUNTER, FAILED_REFUSED, "sidelight_tcp_failures_total", "",
	       "Connections that were not established (refused, unanswered, not_established) or "
	       "that ended because the peer did not answer.",
	       BY("cause", "refused", "unanswered", "not_established", "keepalive",
		  "retransmission_timeout", "user_timeout")),
	METRIC(FLOWS, SL_KIND_COUNTER_F64, BY_APPLICATION, "sidelight_tcp_limited_seconds_total",
	       "seconds", "Time of connections, by limiting factor.",
	       BY("limit", "application", "receive_window", "congestion_window", "send_buffer")),
	METRIC(FLOWS, SL_KIND_HISTOGRAM_EXP, COLLECT_RTT, "sidelight_tcp_rtt_seconds", "seconds",
	       "Round-trip times. Each connection contributes the mean of its samples per pass, weighted by their number.",
	       SHOWN(FEW)),
	METRIC(FLOWS, SL_KIND_HISTOGRAM_EXP, COLLECT_HANDSHAKE, "sidelight_tcp_handshake_seconds",
	       "seconds",
	       "Time from sending or receiving the first SYN until the connection is "
	       "established.",
	       SHOWN(MEAN)),
	METRIC(FLOWS, SL_KIND_HISTOGRAM_EXP, COLLECT_LIFE,
	       "sidelight_tcp_connection_duration_seconds", "seconds",
	       "Duration of closed connections.", SHOWN(MEAN)),
	LAYERS(LAYERS, SL_LAYER_MAC_IN, NONE, "mac_in", "ip_in", "tcp_in"),
	LAYERS(LAYERS, SL_LAYER_APP, FEW, "app"),
	LAYERS(LAYERS, SL_LAYER_TCP_OUT, NONE, "tcp_out", "ip_out", "mac_out"),
	LAYERS(STACK, SL_LAYER_MAC_IN, MEAN, "mac_in", "ip_in", "tcp_in"),
	LAYERS(STACK, SL_LAYER_TCP_OUT, MEAN, "tcp_out", "ip_out", "mac_out"),
	METRIC(LAYERS, SL_KIND_HISTOGRAM_EXP, LAYER_HISTOGRAMS + SL_LAYER_TOTAL * LAYER_HIST_CELLS,
	       WORKLOAD_REQUEST_METRIC, "seconds",
	       "Time of requests from driver to driver, if the times of all seven layers are "
	       "known.",
	       SHOWN(FEW)),
	METRIC(LAYERS, SL_KIND_COUNTER, LAYER_REQUESTS, "sidelight_tcp_requests_total", "",
	       "Requests, each counted when the response begins: data was read, then data was "
	       "sent."),
	METRIC(LAYERS, SL_KIND_COUNTER, LAYER_COMPLETE, "sidelight_tcp_requests_measured_total", "",
	       "Requests for which the times of all seven layers are known."),
	METRIC(LAYERS, SL_KIND_COUNTER, LAYER_INCOMPLETE, "sidelight_tcp_requests_incomplete_total",
	       "", "Requests that ended before the times of all seven layers were known."),
	METRIC(LAYERS, SL_KIND_COUNTER, LAYER_PIPELINED, "sidelight_tcp_requests_pipelined_total",
	       "", "Requests answered after bytes of the next request had arrived."),
	METRIC(LAYERS, SL_KIND_COUNTER, LAYER_UNATTRIBUTED, "sidelight_tcp_unattributed_total", "",
	       "Latencies that could not be measured; sidelight_host_kernel_lost_total shows the causes."),
	METRIC(TASKS, SL_KIND_COUNTER_F64, TASK_RUN, "sidelight_cpu_seconds_total", "seconds",
	       "Time on a CPU."),
	METRIC(TASKS, SL_KIND_COUNTER_F64, TASK_WAIT, "sidelight_cpu_wait_seconds_total", "seconds",
	       "Time in the run queue, that is, runnable but waiting for a CPU."),
	METRIC(TASKS, SL_KIND_COUNTER, TASK_SWITCH_VOLUNTARY, "sidelight_cpu_switches_total", "",
	       "Context switches: voluntary (the task slept) and involuntary (it was preempted).",
	       BY("cause", "voluntary", "involuntary")),
	METRIC(TASKS, SL_KIND_COUNTER, TASK_MIGRATIONS, "sidelight_cpu_migrations_total", "",
	       "Migrations of tasks to another CPU."),
	METRIC(TASKS, SL_KIND_COUNTER, TASK_ENDED, "sidelight_cpu_tasks_ended_total", "",
	       "Tasks that ended."),
	METRIC(TASKS, SL_KIND_HISTOGRAM_EXP, TASK_WAITS, "sidelight_cpu_wait_duration_seconds",
	       "seconds",
	       "Individual waits in the run queue. The sum also includes waits for which only the total is known.",
	       SHOWN(FEW)),
};

#define METRICS	   (sizeof(metrics) / sizeof(metrics[0]))
#define LABELS_MAX 3u

/*
 * Sets exponential buckets of this scale; first is the number of the bucket after the zero bucket.
 */
static void set_shape(struct region_metric *m, int scale, int first, uint32_t cells)
{
	m->cells = cells;
	m->scale = scale;
	m->first_bucket = first;
	m->bucket_count = cells - SL_HIST_BUCKETS;
	m->zero_threshold = exp2(ldexp(first - 1, -scale));
}

/* Storage that the metrics point to while the layout is made. */
struct scheme {
	struct region_metric m;
	struct region_text_label label[LABELS_MAX];
	char port[8];
};

static void describe_metric(struct scheme *s, const struct workload_layout_metric *d,
			    const struct collect_workload_group *g, const char *value)
{
	static const char *const roles[] = {
		[FLOW_SERVER] = "server", [FLOW_CLIENT] = "client", [FLOW_UNKNOWN] = "unknown"};
	uint32_t n = 0;

	if (g->port)
		snprintf(s->port, sizeof(s->port), "%u", g->port);
	else
		strcpy(s->port, "other");
	if (value)
		s->label[n++] = (struct region_text_label){d->key, value};
	if (g->role != FLOW_NEITHER && g->part != WORKLOAD_STACK)
		s->label[n++] = (struct region_text_label){"port", s->port};
	if (g->role != FLOW_NEITHER)
		s->label[n++] = (struct region_text_label){"role", roles[g->role]};
	s->m = (struct region_metric){
		.kind = d->kind,
		.cells = 1,
		.name = d->name,
		.unit = d->unit,
		.help = d->help,
		.label_count = n,
		.labels = s->label,
	};
	if (d->kind != SL_KIND_HISTOGRAM_EXP)
		return;
	s->m.flags = COLLECT_DETAIL(d->detail);
	if (d->part == WORKLOAD_LAYERS || d->part == WORKLOAD_STACK)
		set_shape(&s->m, SL_LAYER_SCALE, SL_LAYER_FIRST, LAYER_HIST_CELLS);
	else if (d->part == WORKLOAD_TASKS)
		set_shape(&s->m, 1, SL_CPU_BUCKET_FIRST + 1, WAIT_HIST_CELLS);
	else if (d->cell == COLLECT_LIFE)
		set_shape(&s->m, LIFE_SCALE, LIFE_LOW * (1 << LIFE_SCALE) + 1, LIFE_CELLS);
	else
		set_shape(&s->m, RTT_SCALE, RTT_LOW * (1 << RTT_SCALE) + 1, RTT_CELLS);
}

/*
 * Whether only servers have this metric: the kernel does not time the requests that a client makes,
 * and only servers listen.
 */
static bool is_of_server(uint8_t part, uint32_t cell)
{
	if (part == WORKLOAD_FLOWS)
		return cell == COLLECT_DROPS;
	return part == WORKLOAD_LAYERS &&
	       (cell < LAYER_UNATTRIBUTED ||
		cell == LAYER_HISTOGRAMS + SL_LAYER_APP * LAYER_HIST_CELLS ||
		cell == LAYER_HISTOGRAMS + SL_LAYER_TOTAL * LAYER_HIST_CELLS);
}

/* Only a client's connection may fail before it is established. */
static bool is_of_client(uint8_t part, uint32_t cell)
{
	return part == WORKLOAD_FLOWS &&
	       (cell == FAILED_REFUSED || cell == FAILED_UNANSWERED || cell == FAILED_OTHER);
}

struct collect_layout *collect_workload_layout(struct collect_region *r)
{
	const struct collect_workload_group *group = (const void *)r->schema_bytes;
	uint32_t groups = (uint32_t)(r->schema_length / sizeof(*group));
	uint32_t most = groups * (uint32_t)METRICS * VALUES_MAX, n = 0, cells = 0;
	struct scheme *s = malloc((most + (size_t)1) * sizeof(*s));
	struct region_metric **m = malloc((most + (size_t)1) * sizeof(*m));
	struct collect_layout *l = NULL;

	for (uint32_t i = 0; s && m && i < most; i++) {
		const struct collect_workload_group *g = &group[i / VALUES_MAX / METRICS];
		const struct workload_layout_metric *d = &metrics[i / VALUES_MAX % METRICS];
		const uint32_t k = i % VALUES_MAX;
		const uint32_t cell = d->cell + k * (d->kind == SL_KIND_HISTOGRAM_EXP
							     ? (uint32_t)LAYER_HIST_CELLS
							     : 1);

		if (d->part != g->part || (k && !d->value[k]) ||
		    (g->role == FLOW_CLIENT && is_of_server(g->part, cell)) ||
		    (g->role == FLOW_SERVER && is_of_client(g->part, cell)))
			continue;
		describe_metric(&s[n], d, g, d->value[k]);
		s[n].m.id = n;
		s[n].m.cell = g->own - 1 + cell;
		s[n].m.removed = !g->named;
		m[n] = &s[n].m;
		cells = g->own - 1 + collect_workload_part_cells[g->part];
		n++;
	}
	if (s && m)
		l = collect_layout_make(r->c, r, m, n, cells, r->schema_generation);
	free(s);
	free(m);
	return l;
}
