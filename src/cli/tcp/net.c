// SPDX-License-Identifier: Apache-2.0
/* net.c - 'sidelight tcp net': one-way latency between two hosts, from device to device. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "cli/tcp/net.h"
#include "source/tcp/net_file.h"

struct cli_tcp_net_settings cli_tcp_net_settings = {.stat.window_ns = 2000000000};
static const char *by = "all";

static const struct base_option table[] = {
	BASE_STRING("record", 'r', &cli_tcp_net_settings.record, "FILE",
		    "write this host's records to FILE; '-' means standard output"),
	BASE_FLAG("requests", 0, &cli_tcp_net_settings.requests,
		  "with --record: add the layers of each request; else: show whole round trips"),
	BASE_LIST("dev", 0, &cli_tcp_net_settings.devices, "NAME",
		  "record on this device; repeatable (default: all hardware devices)"),
	BASE_UINT("ring", 0, &cli_tcp_net_settings.ring, 0, SL_NIC_RING_MAX, "N",
		  "hold at most N records of 128 bytes in the kernel; 0 means 65536"),
	BASE_STRING("by", 'b', &by, "WHAT",
		    "print one line in total, or one per flow, remote or "
		    "port"),
	BASE_FLAG("segments", 's', &cli_tcp_net_settings.segments,
		  "print one line per segment as well"),
	BASE_TIME("window", 0, &cli_tcp_net_settings.stat.window_ns, 1e8, 3.6e12, "TIME",
		  "summarise windows of this length; clocks are estimated over a longer time"),
	BASE_STRING("trust-clocks", 0, &cli_tcp_net_settings.trust, "TIME",
		    "do not estimate clocks: the wall clocks of the hosts agree within TIME (PTP)"),
	BASE_LIST("agent", 'a', &cli_tcp_net_settings.agents, "AGENT",
		  "read this agent live; specify two agents, each running with --tcp net, by a "
		  "socket's path or HOST[:PORT]"),
	CLI_TCP_OPTIONS_SHOW,
	CLI_TCP_OPTIONS_FILTER,
	{0},
};

/* A file with the records of one host. */
struct cli_net_host {
	const char *path;
	FILE *from;
	struct tcp_net_file_head head;
	struct tcp_layer_record *layers;
	size_t n, room;
};

static int report_file(const struct base_command *self, const struct cli_net_host *h,
		       const char *why)
{
	return base_failure(self, "%s: %s", h->path, why);
}

static int open_records(const struct base_command *self, struct cli_net_host *h)
{
	char why[128] = "it cannot be read";

	h->from = fopen(h->path, "re");
	if (!h->from)
		return report_file(self, h, strerror(errno));
	return tcp_net_file_head(h->from, &h->head, why, sizeof(why)) ? report_file(self, h, why)
								      : 0;
}

/* Feeds a whole file to the matcher. */
static int feed_records(const struct base_command *self, struct cli_net_host *h,
			struct cli_tcp_net_view *view, int side)
{
	struct tcp_net_match *m = tcp_net_stat_match(view->stat);
	uint64_t end_ns = h->head.start_ns;
	char why[128] = "it cannot be read";
	struct tcp_net_frame f;
	bool cut = true;
	int got;

	while ((got = tcp_net_file_next(h->from, &f, why, sizeof(why))) > 0) {
		switch (f.type) {
		case TCP_NET_SEGMENT:
			tcp_net_match_add(m, side, &f.segment);
			end_ns = BASE_MAX(end_ns, f.segment.time_ns);
			break;
		case TCP_NET_GAP:
			tcp_net_match_gap(m, side, f.gap.records, f.gap.now_ns);
			break;
		case TCP_NET_LAYERS:
			if (BASE_GROW(h->layers, h->n, h->room))
				h->layers[h->n++] = f.layers;
			else
				got = -ENOMEM;
			break;
		case TCP_NET_END:
			cut = false;
			end_ns = f.end.now_ns;
			view->headless += f.end.headless;
			view->fragments += f.end.fragments;
			view->left_out += f.end.left_out;
			break;
		}
		if (got < 0)
			break;
	}
	view->cut |= cut;
	tcp_net_match_range(m, side, h->head.start_ns, end_ns);
	return got < 0 ? report_file(self, h, got == -EINVAL ? why : strerror(-got)) : 0;
}

/* Reports lost segments. Call when the clock offset is known. */
static void expire_segments(struct tcp_net_stat *s)
{
	struct tcp_net_totals t;

	tcp_net_stat_totals(s, &t);
	tcp_net_match_expire(tcp_net_stat_match(s), 0, UINT64_MAX, t.known, t.theta);
	tcp_net_match_expire(tcp_net_stat_match(s), 1, UINT64_MAX, t.known, -t.theta);
}

static int compare_files(const struct base_command *self, struct cli_net_host *h,
			 struct cli_tcp_net_view *view)
{
	struct tcp_net_match *m = tcp_net_stat_match(view->stat);
	struct tcp_net_rounds rounds = {0};
	int code = feed_records(self, &h[0], view, 0) ?: feed_records(self, &h[1], view, 1), err;

	if (code)
		return code;
	tcp_net_match_hold(m, 0);
	tcp_net_match_hold(m, 1);
	tcp_net_match_run(m);
	err = tcp_net_stat_count(view->stat, 0, true);
	if (err)
		return base_failure(self, "%s", strerror(-err));
	expire_segments(view->stat);
	cli_tcp_net_show(view);
	if (!cli_tcp_net_settings.requests && !h[0].n && !h[1].n)
		return BASE_EXIT_OK;
	err = tcp_net_rounds_find((struct tcp_layer_record *[]){h[0].layers, h[1].layers},
				  (size_t[]){h[0].n, h[1].n}, view->stat, &rounds);
	if (err)
		return base_failure(self, "%s", strerror(-err));
	cli_tcp_net_rounds(view, &rounds);
	tcp_net_rounds_free(&rounds);
	return BASE_EXIT_OK;
}

static int two_files(const struct base_command *self, char **paths, struct cli_tcp_net_view *view)
{
	struct cli_net_host h[2] = {{.path = paths[0]}, {.path = paths[1]}};
	struct tcp_net_stat_opts *o = &cli_tcp_net_settings.stat;
	int code = open_records(self, &h[0]) ?: open_records(self, &h[1]);

	if (code)
		goto out;
	if (cli_tcp_net_settings.trust) {
		o->trusted = true;
		if (base_parse_duration(cli_tcp_net_settings.trust, &o->trust_ns)) {
			code = base_usage(self, "--trust-clocks '%s' is not a TIME",
					  cli_tcp_net_settings.trust);
			goto out;
		}
		/*
		 * The initial offset of the monotonic clocks, from both wall clocks at the start of
		 * recording.
		 */
		o->theta = (int64_t)(h[0].head.start_real_ns - h[0].head.start_ns) -
			   (int64_t)(h[1].head.start_real_ns - h[1].head.start_ns);
	}
	view->name[0] = h[0].head.host;
	view->name[1] = h[1].head.host;
	o->records = UINT32_MAX;
	view->stat = tcp_net_stat_open(o);
	code = view->stat ? compare_files(self, h, view)
			  : base_failure(self, "%s", strerror(errno));
	tcp_net_stat_close(view->stat);
out:
	for (int i = 0; i < 2; i++) {
		if (h[i].from)
			fclose(h[i].from);
		free(h[i].layers);
	}
	return code;
}

static int net_main(const struct base_command *self, int argc, char **argv)
{
	int code, first = base_options_parse(self, table, argc, argv, &code), grouping;
	struct cli_tcp_net_view view = {0};

	if (first < 0)
		return code;
	if (!cli_tcp_format(self, NULL))
		return BASE_EXIT_USAGE;
	grouping = cli_choice(by, cli_tcp_net_by);
	if (grouping < 0)
		return base_usage(self, "--by '%s' is not one of all, flow, remote, port", by);
	cli_tcp_net_settings.stat.by = (enum tcp_net_by)grouping;
	cli_tcp_net_settings.stat.result = cli_tcp_net_settings.segments ? cli_tcp_net_segment
									 : NULL;
	cli_tcp_net_settings.stat.context = &view;
	if (cli_tcp_net_settings.record) {
		if (argc != first)
			return base_usage(self,
					  "specify either --record FILE or two files to compare");
		return cli_tcp_net_record(self);
	}
	if (cli_tcp_net_settings.agents.n ? cli_tcp_net_settings.agents.n != 2 || argc != first
					  : argc - first != 2)
		return base_usage(
			self,
			"specify two files, one from each host, or two agents, or --record FILE");
	if (cli_tcp_net_settings.agents.n && cli_tcp_net_settings.trust)
		return base_usage(self, "--trust-clocks requires two files");
	view.out = cli_tcp_output(self);
	if (!view.out)
		return BASE_EXIT_FAILURE;
	view.screen.out = view.out;
	if (cli_tcp_net_settings.agents.n) {
		cli_tcp_screen_open(&view.screen, self, view.out);
		code = cli_tcp_net_live(self, &view);
		cli_tcp_screen_close(&view.screen);
	} else {
		code = two_files(self, argv + first, &view);
	}
	return cli_tcp_output_end(self, view.out, code);
}

const struct base_command cli_tcp_net = {
	.name = "tcp net",
	.synopsis = "[OPTION]... --record FILE|FILE_A FILE_B|-a A -a B",
	.summary = "Show the network latency between two hosts in each direction",
	.run = net_main,
};
