// SPDX-License-Identifier: Apache-2.0
/* flows.c - 'sidelight tcp flows': live statistics per connection. */
#include "cli/tcp/tcp.h"
#include "region/listeners.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	bool closed, changed, calls, only_new, lines;
	const char *format;
	uint64_t publish_ns, quarantine_ns;
} settings = {.publish_ns = 10000000, .format = "text"};

static const struct base_option table[] = {
	CLI_TCP_OPTIONS_SHOW,
	BASE_STRING("format", 'f', &settings.format, "FORMAT",
		    "text, or microbpf: the lines of MicroBPF's tools"),
	CLI_TCP_OPTION_SORT("activity, sent, received, rtt, queue, cwnd or retransmits"),
	CLI_TCP_OPTIONS_FILTER,
	CLI_TCP_OPTION_AVOID,
	BASE_FLAG("closed", 0, &settings.closed,
		  "show only flows that ended, each once, with its final values"),
	BASE_FLAG("changed", 0, &settings.changed,
		  "show only flows that are new or active since the last output"),
	BASE_FLAG("new", 0, &settings.only_new, "skip connections older than this command"),
	BASE_FLAG("calls", 0, &settings.calls,
		  "count read and write calls, and find the processes"),
	BASE_TIME("publish", 0, &settings.publish_ns, 1e6, 1e9, "TIME",
		  "maximum age of statistics in the table"),
	BASE_TIME("quarantine", 0, &settings.quarantine_ns, 0, 3.6e12, "TIME",
		  "keep the slot of a closed flow for this long; 0: 5 s or 3 intervals"),
	{0},
};

static const struct base_option closed_table[] = {
	CLI_TCP_OPTIONS_SHOW,
	CLI_TCP_OPTIONS_FILTER,
	{0},
};

struct last {
	uint64_t id, sent, received;
	uint32_t retrans, number; /* number: serial number of the snapshot */
	bool shown;		  /* true if the flow was printed as closed */
};

struct cli_flows_view {
	const void *map;
	struct region_flows_info info;
	struct last *last;	   /* the previous values, one entry per slot */
	struct cli_flow_row *rows; /* the rows of one output; room for one per slot */
	struct region_listeners listeners;
	FILE *out;
	struct cli_tcp_screen screen;
	uint64_t then_ns, unsettled, missed, refused;
	/* flows shown as closed, and flows closed and replaced between two reads */
	uint64_t ended, unseen;
	bool any; /* a flow has been seen */
	struct tcp *tcp;
	const struct base_command *cmd;
};

/* Computes the change since the previous read; for a new flow, the totals. */
static void compute_change(const struct region_flow *f, struct last *l, struct cli_flow_row *row)
{
	bool same = l->id == f->id, known = same || f->flags & SL_FLOW_OLDER;

	if (!same)
		*l = (struct last){f->id,
				   known ? f->bytes_sent : 0,
				   known ? f->bytes_received : 0,
				   known ? f->retrans : 0,
				   f->number,
				   false};
	row->flow = *f;
	row->first = known && !same;
	row->sent = f->bytes_sent - l->sent;
	row->received = f->bytes_received - l->received;
	row->retrans = f->retrans - l->retrans;
	*l = (struct last){f->id,      f->bytes_sent, f->bytes_received,
			   f->retrans, f->number,     f->state == SL_STATE_CLOSED};
}

/*
 * Collects the open flows (with --changed, only those with a new snapshot) and the closed flows
 * that were not shown as closed yet. Returns their number.
 */
static size_t collect_rows(struct cli_flows_view *v, const struct region_flows_hot *hot)
{
	const uint64_t ends = (hot->journal - hot->open) / 2, unsettled = v->unsettled;
	uint64_t known;
	size_t count = 0;

	region_listeners_clear(&v->listeners);
	for (uint32_t i = 0; i < hot->used; i++) {
		struct last *l = &v->last[i];
		struct region_flow f;

		if (region_flow_read(v->map, &v->info, i, &f)) {
			v->unsettled++;
			continue;
		}
		if (f.state != SL_STATE_FREE)
			/* if memory is short, the listener has no name */
			region_listeners_add(&v->listeners, &f);
		if (f.state == SL_STATE_FREE || (l->id == f.id && l->shown) ||
		    (settings.closed && f.state != SL_STATE_CLOSED))
			continue;
		/* An idle flow has no new snapshot (docs/tcp.md). */
		if (settings.changed && l->id == f.id && l->number == f.number)
			continue;
		compute_change(&f, l, &v->rows[count++]);
		v->ended += l->shown;
	}
	/*
	 * The journal has an entry for each opening and each close, including flows that are gone.
	 */
	known = v->ended + v->unseen + v->unsettled - unsettled;
	if (ends > known)
		v->unseen += ends - known;
	for (size_t i = 0; i < count; i++)
		region_listeners_name(&v->listeners, &v->rows[i].flow);
	return count;
}

/* Returns the numbers of segments that the host dropped, by reason. */
static json_t *drops_json(const struct cli_flows_view *v)
{
	struct region_drop_reason reason;
	json_t *drops = json_object();

	for (uint32_t i = 0; i < v->info.drop_reasons; i++)
		if (!region_drop_reason_read(v->map, &v->info, i, &reason) && reason.segments)
			json_object_set_new(drops, reason.name,
					    json_integer(CLI_INT(reason.segments)));
	return drops;
}

static void hot_json(FILE *out, const struct cli_flows_view *v, const struct region_flows_hot *hot,
		     uint64_t time_ns)
{
	cli_json_print(out,
		       json_pack("{s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}}",
				 "table", "time_ns", CLI_INT(time_ns), "open", CLI_INT(hot->open),
				 "quarantined", CLI_INT(hot->quarantined), "refused",
				 CLI_INT(hot->refused), "slots", CLI_INT(v->info.slots), "journal",
				 CLI_INT(hot->journal), "rounds", CLI_INT(hot->round), "unsettled",
				 CLI_INT(v->unsettled), "missed", CLI_INT(v->missed), "unseen",
				 CLI_INT(v->unseen), "drops", drops_json(v)),
		       JSON_COMPACT);
}

static int show_flows(void *context, bool last)
{
	struct cli_flows_view *v = context;
	struct region_flows_hot hot;
	uint64_t now, real;
	size_t count;
	int err = tcp_catch_up(v->tcp, &v->missed);

	if (err)
		return base_failure(v->cmd, "%s", strerror(-err));
	if (last) /* give the kernel time to publish recent events */
		usleep((useconds_t)(2 * settings.publish_ns / 1000));
	now = base_now_ns();
	if (region_flows_hot_read(v->map, &v->info, &hot))
		return base_failure(v->cmd, "the table's check word does not match");
	real = base_realtime_ns();
	count = collect_rows(v, &hot);
	v->any |= count > 0;
	v->refused = hot.refused;
	if (cli_tcp_common.json) {
		for (size_t i = 0; i < count; i++)
			cli_flow_print_json(v->out, &v->rows[i].flow, real);
		hot_json(v->out, v, &hot, real);
	} else if (cli_tcp_common.microbpf) {
		for (size_t i = 0; i < count; i++)
			cli_flow_print_microbpf(v->out, &v->rows[i].flow);
	} else if (cli_tcp_common.csv) {
		if (cli_tcp_first())
			cli_flow_print_csv_head(v->out);
		for (size_t i = 0; i < count; i++)
			cli_flow_print_csv(v->out, &v->rows[i].flow, real);
	} else if (settings.lines) {
		if (cli_tcp_first())
			cli_flow_print_closed_head(v->out);
		for (size_t i = 0; i < count; i++)
			cli_flow_print_closed(v->out, &v->rows[i].flow, real);
	} else {
		cli_flow_print_screen(&v->screen, v->rows, count, &hot, now - v->then_ns);
	}
	v->then_ns = now;
	return cli_tcp_flush(v->out);
}

static int watch_flows(const struct base_command *self, struct tcp *tcp, FILE *out)
{
	struct cli_flows_view v = {.out = out, .then_ns = base_now_ns(), .cmd = self, .tcp = tcp};
	int code = BASE_EXIT_FAILURE;

	v.map = tcp_region(tcp)->map;
	if (region_flows_info_parse(v.map, tcp_region(tcp)->bytes, &v.info))
		return base_failure(self, "the table has no valid header");
	v.last = calloc(v.info.slots, sizeof(*v.last));
	v.rows = calloc(v.info.slots, sizeof(*v.rows));
	if (!v.last || !v.rows) {
		base_failure(self, "%s", strerror(ENOMEM));
		goto out;
	}
	if (!cli_tcp_screen_sort(&v.screen, self, cli_tcp_common.sort, cli_flow_orders)) {
		code = BASE_EXIT_USAGE;
		goto out;
	}
	v.screen.plain = settings.lines;
	code = cli_tcp_repeat(self, &v.screen, out, v.info.slots, show_flows, &v);
	if (!code && !v.any)
		cli_tcp_nothing_seen(self);
	if (v.refused)
		base_failure(self,
			     "%" PRIu64
			     " connections did not fit into the table of %u: see --flows",
			     v.refused, v.info.slots);
	if (v.unseen)
		base_failure(
			self,
			"%" PRIu64
			" connections ended and were replaced between two reads: see --quarantine",
			v.unseen);
out:
	region_listeners_free(&v.listeners);
	free(v.rows);
	free(v.last);
	return code;
}

static int run_flows(const struct base_command *self)
{
	struct tcp_opts options;
	struct tcp *tcp;
	FILE *out;
	int code;

	options = cli_tcp_opts();
	if (!cli_tcp_format(self, settings.format) || !cli_tcp_avoid(self, &options.avoid))
		return BASE_EXIT_USAGE;
	options.existing = !settings.only_new;
	options.calls = settings.calls;
	options.interval_ns = settings.publish_ns;
	/* Longer than the interval, so that a closed flow is seen before its slot is reused. */
	options.quarantine_ns = settings.quarantine_ns;
	if (!settings.quarantine_ns && cli_tcp_common.interval_ns > 1000000000)
		options.quarantine_ns = 3 * cli_tcp_common.interval_ns;
	out = cli_tcp_output(self);
	if (!out)
		return BASE_EXIT_FAILURE;
	code = cli_tcp_open(self, &options, &tcp) ?: watch_flows(self, tcp, out);
	tcp_close(tcp);
	return cli_tcp_output_end(self, out, code);
}

static int flows_main(const struct base_command *self, int argc, char **argv)
{
	int code;

	return base_options_only(self, table, argc, argv, &code) ? run_flows(self) : code;
}

static int closed_main(const struct base_command *self, int argc, char **argv)
{
	int code;

	if (!base_options_only(self, closed_table, argc, argv, &code))
		return code;
	settings.closed = settings.lines = settings.calls = true;
	return run_flows(self);
}

const struct base_command cli_tcp_closed = {
	.name = "tcp closed",
	.synopsis = "[OPTION]...",
	.summary = "Print a line for each connection that ends or fails",
	.run = closed_main,
};

const struct base_command cli_tcp_flows = {
	.name = "tcp flows",
	.synopsis = "[OPTION]...",
	.summary = "Show each connection with its statistics",
	.run = flows_main,
};
