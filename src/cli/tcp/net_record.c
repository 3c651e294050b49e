// SPDX-License-Identifier: Apache-2.0
/* net_record.c - 'sidelight tcp net --record FILE': writes this host's records to a file. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/tcp/net.h"
#include "source/tcp/net_file.h"

#define BATCH	1024
#define LOOK_MS 20 /* time between two reads of the ring */

struct recorder {
	FILE *to;
	struct tcp_net *net;
	struct tcp_layers *layers;
	uint64_t next, missed, records;
	int err;
	struct region_nic_record parsed[BATCH];
	uint64_t places[BATCH][SL_NIC_WORDS];
};

static void layer_record(void *context, const struct tcp_layer_record *r)
{
	struct recorder *w = context;

	if (!w->err)
		w->err = tcp_net_file_put(w->to, TCP_NET_LAYERS, r);
}

/* Writes all records that the ring holds now. */
static void drain_ring(struct recorder *w)
{
	const struct region_nic_info *info = tcp_net_info(w->net);
	const void *map = tcp_net_region(w->net)->map;
	uint64_t missed;
	int n;

	do {
		missed = w->missed;
		n = region_nic_read(map, info, &w->next, &w->missed, w->parsed, w->places, BATCH);
		if (w->missed != missed && !w->err)
			w->err = tcp_net_file_put(
				w->to, TCP_NET_GAP,
				(const uint64_t[]){w->missed - missed, base_now_ns()});
		for (int i = 0; i < n && !w->err; i++)
			w->err = tcp_net_file_put(w->to, TCP_NET_SEGMENT, w->places[i]);
		w->records += n > 0 ? (uint64_t)n : 0;
	} while (n == BATCH && !w->err);
	if (!w->err && fflush(w->to))
		w->err = -errno;
}

static int follow_ring(const struct base_command *self, struct recorder *w)
{
	uint64_t end = cli_tcp_end_ns(), walk = 0;
	int stop = base_stop_fd();

	if (stop < 0)
		return base_failure(self, "%s", strerror(-stop));
	while (!w->err && base_now_ns() < end) {
		if (base_stop_wait(stop, w->layers ? 0 : LOOK_MS))
			break;
		if (w->layers && base_now_ns() >= walk) {
			tcp_layers_namespaces(w->layers);
			walk = base_now_ns() + 1000000000;
		}
		if (w->layers && tcp_layers_poll(w->layers, LOOK_MS) < 0)
			break;
		drain_ring(w);
	}
	close(stop);
	if (w->layers)
		tcp_layers_poll(w->layers, 0);
	drain_ring(w);
	return w->err ? base_failure(self, "%s", strerror(-w->err)) : BASE_EXIT_OK;
}

static int record_host(const struct base_command *self, struct recorder *w)
{
	const struct tcp_net_opts options = {
		.records = cli_tcp_net_settings.ring,
		.devices = cli_tcp_net_settings.devices,
		.filter = cli_tcp_common.filter,
	};
	struct region_nic_hot hot = {0};
	char why[256];
	int code;

	code = tcp_net_open(&options, &w->net, why, sizeof(why));
	if (code)
		return cli_tcp_not_opened(self, code, why);
	if (cli_tcp_net_settings.requests) {
		code = cli_tcp_layers_trace(
			self, 1 << TCP_RECORD_REQUEST | 1 << TCP_RECORD_IN | 1 << TCP_RECORD_OUT,
			layer_record, w, &w->layers);
		if (code)
			return code;
	}
	w->err = tcp_net_file_begin(w->to, tcp_net_info(w->net)->boot_id);
	cli_tcp_ready("records=%u", tcp_net_info(w->net)->records);
	code = follow_ring(self, w);
	region_nic_hot_read(tcp_net_region(w->net)->map, tcp_net_info(w->net), &hot);
	if (!code && tcp_net_file_put(w->to, TCP_NET_END,
				      (const uint64_t[]){base_now_ns(), hot.headless, hot.fragments,
							 tcp_net_left_out(w->net)}))
		code = base_failure(self, "the file could not be written");
	fprintf(stderr,
		"sidelight tcp net: %" PRIu64 " segments recorded, %" PRIu64 " missed, %" PRIu64
		" without a readable header\n",
		w->records, w->missed, hot.headless);
	return code;
}

int cli_tcp_net_record(const struct base_command *self)
{
	static struct recorder w; /* too large for the stack */
	const char *name = cli_tcp_net_settings.record;
	int code;

	w.to = strcmp(name, "-") ? fopen(name, "we") : stdout;
	if (!w.to)
		return base_failure(self, "%s: %s", name, strerror(errno));
	code = record_host(self, &w);
	tcp_layers_close(w.layers);
	tcp_net_close(w.net);
	if (w.to == stdout)
		return code ?: cli_output_end(self, BASE_EXIT_OK);
	if (fclose(w.to) && !code)
		code = base_failure(self, "the file could not be written");
	return code;
}
