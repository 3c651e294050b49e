// SPDX-License-Identifier: Apache-2.0
/* tcp_net.c - 'sidelight tcp net': network latency between two hosts, from device to device. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tcp/net.h"
#include "source/tcp/net_file.h"

static int net_main(const struct sl_command *self, int argc, char **argv);

const struct sl_command sl_tcp_net = {
	.name = "tcp net",
	.synopsis = "[OPTION]... --record FILE|FILE_A FILE_B|-a A -a B",
	.summary = "Show the latency of the network between two hosts, each way",
	.run = net_main,
};

struct tcp_net_settings tcp_net_settings = {.by = "all", .window_ns = 2000000000};

static const struct sl_option table[] = {
	{.name = "record",
	 .letter = 'r',
	 .type = SL_OPT_STRING,
	 .to = &tcp_net_settings.record,
	 .argument = "FILE",
	 .help = "write this host's records to FILE; '-': standard output"},
	{.name = "requests",
	 .type = SL_OPT_FLAG,
	 .to = &tcp_net_settings.requests,
	 .help = "with --record: the layers of each request, too; else show whole round trips"},
	{.name = "dev",
	 .type = SL_OPT_LIST,
	 .to = &tcp_net_settings.devices,
	 .argument = "NAME",
	 .help = "record at this device; may be repeated; default: all that are hardware"},
	{.name = "ring",
	 .type = SL_OPT_U32,
	 .to = &tcp_net_settings.ring,
	 .argument = "N",
	 .help = "room for so many records in the kernel; 0: 65536, of 128 bytes each",
	 .max = SL_NIC_RING_MAX},
	{.name = "by",
	 .letter = 'b',
	 .type = SL_OPT_STRING,
	 .to = &tcp_net_settings.by,
	 .argument = "WHAT",
	 .help = "a line for all, or for each flow, remote, or port"},
	{.name = "segments",
	 .letter = 's',
	 .type = SL_OPT_FLAG,
	 .to = &tcp_net_settings.segments,
	 .help = "a line for each segment, too"},
	{.name = "window",
	 .type = SL_OPT_DURATION,
	 .to = &tcp_net_settings.window_ns,
	 .argument = "TIME",
	 .help = "so much at a time; of the clocks, what is known around it is used, too",
	 .min = 1e8,
	 .max = 3.6e12},
	{.name = "trust-clocks",
	 .type = SL_OPT_STRING,
	 .to = &tcp_net_settings.trust,
	 .argument = "TIME",
	 .help = "estimate nothing: the hosts' wall clocks agree within TIME (PTP)"},
	{.name = "agent",
	 .letter = 'a',
	 .type = SL_OPT_LIST,
	 .to = &tcp_net_settings.agents,
	 .argument = "AGENT",
	 .help = "twice: live, out of two agents with --tcp net; a socket's path, or HOST[:PORT]"},
	TCP_OPTIONS_SHOW,
	TCP_OPTIONS_WANTED,
	{0},
};

/* One file, and what is kept of it. */
struct host {
	const char *path;
	FILE *from;
	struct sl_net_file_head head;
	struct sl_layer_record *layers;
	size_t n, room;
	uint64_t end_ns, headless, fragments, left_out;
	bool cut;
};

static int keep(struct host *h, const struct sl_layer_record *r)
{
	if (h->n == h->room) {
		size_t room = h->room ? 2 * h->room : 1024;
		struct sl_layer_record *more = realloc(h->layers, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		h->layers = more;
		h->room = room;
	}
	h->layers[h->n++] = *r;
	return 0;
}

static int wrong(const struct sl_command *self, const struct host *h, const char *why)
{
	fprintf(stderr, "sidelight %s: %s: %s\n", self->name, h->path, why);
	return SL_EXIT_FAILURE;
}

static int begin(const struct sl_command *self, struct host *h)
{
	char why[128] = "it can't be read";

	h->from = fopen(h->path, "re");
	if (!h->from)
		return wrong(self, h, strerror(errno));
	return sl_net_file_head(h->from, &h->head, why, sizeof(why)) ? wrong(self, h, why) : 0;
}

/* The whole file, into the matcher. */
static int take(const struct sl_command *self, struct host *h, struct sl_net_match *m, int side)
{
	char why[128] = "it can't be read";
	struct sl_net_frame f;
	int got;

	h->end_ns = h->head.start_ns;
	h->cut = true;
	while ((got = sl_net_file_next(h->from, &f, why, sizeof(why))) > 0) {
		switch (f.type) {
		case SL_NET_SEGMENT:
			sl_net_match_add(m, side, &f.segment);
			if (f.segment.time_ns > h->end_ns)
				h->end_ns = f.segment.time_ns;
			break;
		case SL_NET_GAP:
			sl_net_match_gap(m, side, f.gap.records, f.gap.now_ns);
			break;
		case SL_NET_LAYERS:
			got = keep(h, &f.layers);
			break;
		case SL_NET_END:
			h->cut = false;
			h->end_ns = f.end.now_ns;
			h->headless = f.end.headless;
			h->fragments = f.end.fragments;
			h->left_out = f.end.left_out;
			break;
		}
		if (got < 0)
			break;
	}
	sl_net_match_range(m, side, h->head.start_ns, h->end_ns);
	return got < 0 ? wrong(self, h, got == -EINVAL ? why : strerror(-got)) : 0;
}

/* What was sent and never came, once the clocks are known. */
static void expire(struct sl_net_stat *s)
{
	struct sl_net_totals t;

	sl_net_stat_totals(s, &t);
	sl_net_match_expire(sl_net_stat_match(s), 0, UINT64_MAX, t.known, t.theta);
	sl_net_match_expire(sl_net_stat_match(s), 1, UINT64_MAX, t.known, -t.theta);
}

static int compare(const struct sl_command *self, struct host *h, struct tcp_net_view *view)
{
	struct sl_net_match *m = sl_net_stat_match(view->stat);
	struct sl_net_rounds rounds = {0};
	int code = take(self, &h[0], m, 0), err;

	code = code ? code : take(self, &h[1], m, 1);
	if (code)
		return code;
	sl_net_match_hold(m, 0);
	sl_net_match_hold(m, 1);
	sl_net_match_run(m);
	err = sl_net_stat_count(view->stat, 0, true);
	if (err)
		return tcp_failed(self, strerror(-err));
	expire(view->stat);
	for (int i = 0; i < 2; i++) {
		view->headless += h[i].headless;
		view->fragments += h[i].fragments;
		view->left_out += h[i].left_out;
		view->cut |= h[i].cut;
	}
	tcp_net_show(view);
	if (!tcp_net_settings.requests && !h[0].n && !h[1].n)
		return SL_EXIT_OK;
	err = sl_net_rounds_find((struct sl_layer_record *[]){h[0].layers, h[1].layers},
				 (size_t[]){h[0].n, h[1].n}, view->stat, &rounds);
	if (err)
		return tcp_failed(self, strerror(-err));
	tcp_net_rounds(view, &rounds);
	sl_net_rounds_free(&rounds);
	return SL_EXIT_OK;
}

static int two_files(const struct sl_command *self, char **paths, struct tcp_net_view *view)
{
	struct host h[2] = {{.path = paths[0]}, {.path = paths[1]}};
	struct sl_net_stat_options o = {
		.sz = sizeof(o),
		.by = tcp_net_by(tcp_net_settings.by),
		.window_ns = tcp_net_settings.window_ns,
		.records = UINT32_MAX,
		.result = tcp_net_settings.segments ? tcp_net_segment : NULL,
		.context = view,
	};
	int code = begin(self, &h[0]);

	code = code ? code : begin(self, &h[1]);
	if (code)
		goto out;
	if (tcp_net_settings.trust) {
		o.trusted = true;
		if (sl_parse_duration(tcp_net_settings.trust, &o.trust_ns)) {
			code = sl_usage(self, "--trust-clocks TIME, not '%s'",
					tcp_net_settings.trust);
			goto out;
		}
		/* Monotonic clocks, by what the wall clocks said of both at the start. */
		o.theta = (int64_t)(h[0].head.start_real_ns - h[0].head.start_ns) -
			  (int64_t)(h[1].head.start_real_ns - h[1].head.start_ns);
	}
	view->name[0] = h[0].head.host;
	view->name[1] = h[1].head.host;
	view->stat = sl_net_stat_open(&o);
	code = view->stat ? compare(self, h, view) : tcp_failed(self, strerror(errno));
	sl_net_stat_close(view->stat);
out:
	for (int i = 0; i < 2; i++) {
		if (h[i].from)
			fclose(h[i].from);
		free(h[i].layers);
	}
	return code;
}

static int net_main(const struct sl_command *self, int argc, char **argv)
{
	int first = sl_options_parse(self, table, argc, argv), code, ended;
	struct tcp_net_view view = {.cmd = self};

	if (first == SL_HELP_SHOWN)
		return SL_EXIT_OK;
	if (first < 0)
		return SL_EXIT_USAGE;
	if (tcp_common.json && tcp_common.csv)
		return sl_usage(self, "--json or --csv, not both");
	if (tcp_net_by(tcp_net_settings.by) == (enum sl_net_by) - 1)
		return sl_usage(self, "--by all, flow, remote or port, not '%s'",
				tcp_net_settings.by);
	if (tcp_net_settings.record) {
		if (argc != first)
			return sl_usage(self, "--record FILE, or two files to compare");
		return tcp_net_record(self);
	}
	if (tcp_net_settings.agents.n ? tcp_net_settings.agents.n != 2 || argc != first
				      : argc - first != 2)
		return sl_usage(self,
				"two files, one of each host, or two agents, or --record FILE");
	if (tcp_net_settings.agents.n && tcp_net_settings.trust)
		return sl_usage(self, "--trust-clocks is for files");
	view.out = tcp_output(self);
	if (!view.out)
		return SL_EXIT_FAILURE;
	view.screen.out = view.out;
	if (tcp_net_settings.agents.n) {
		tcp_screen_open(&view.screen, self, view.out);
		code = tcp_net_live(self, &view);
		tcp_screen_close(&view.screen);
	} else {
		code = two_files(self, argv + first, &view);
	}
	ended = tcp_output_end(self, view.out);
	return code ? code : ended;
}
