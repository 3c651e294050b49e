// SPDX-License-Identifier: Apache-2.0
/* tcp_net_record.c - 'sidelight tcp net --record FILE': what this host's half of the work is. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/tcp/layers.h"
#include "cli/tcp/net.h"
#include "source/tcp/net_file.h"

#define BATCH	1024
#define LOOK_MS 20 /* between two looks at the ring */

struct recorder {
	FILE *to;
	struct sl_net *net;
	struct sl_layers *layers;
	uint64_t next, missed, records;
	int err;
	struct sl_nic_record parsed[BATCH];
	uint64_t places[BATCH][SL_NIC_WORDS];
};

static void layer_record(void *context, const struct sl_layer_record *r)
{
	struct recorder *w = context;

	if (!w->err)
		w->err = sl_net_file_layers(w->to, r);
}

/* All that is in the ring now. */
static void drain(struct recorder *w)
{
	const struct sl_nic_info *info = sl_net_info(w->net);
	size_t bytes;
	const void *map = sl_net_region(w->net, &bytes);
	uint64_t missed;
	int n;

	do {
		missed = w->missed;
		n = sl_nic_read(map, info, &w->next, &w->missed, w->parsed, w->places, BATCH);
		if (w->missed != missed && !w->err)
			w->err = sl_net_file_gap(w->to, w->missed - missed, sl_now_ns());
		for (int i = 0; i < n && !w->err; i++)
			w->err = sl_net_file_segment(w->to, w->places[i]);
		w->records += n > 0 ? (uint64_t)n : 0;
	} while (n == BATCH && !w->err);
	if (!w->err && fflush(w->to))
		w->err = -errno;
}

static int follow(const struct sl_command *self, struct recorder *w)
{
	uint64_t end = tcp_common.duration_ns ? sl_now_ns() + tcp_common.duration_ns : UINT64_MAX;
	uint64_t walk = 0;
	int stop = sl_stop_fd();

	if (stop < 0)
		return tcp_failed(self, strerror(-stop));
	while (!w->err && sl_now_ns() < end) {
		if (sl_stop_wait(stop, w->layers ? 0 : LOOK_MS))
			break;
		if (w->layers && sl_now_ns() >= walk) {
			sl_layers_namespaces(w->layers);
			walk = sl_now_ns() + 1000000000;
		}
		if (w->layers && sl_layers_poll(w->layers, LOOK_MS) < 0)
			break;
		drain(w);
	}
	close(stop);
	if (w->layers)
		sl_layers_poll(w->layers, 0);
	drain(w);
	return w->err ? tcp_failed(self, strerror(-w->err)) : SL_EXIT_OK;
}

static int run(const struct sl_command *self, struct recorder *w)
{
	const struct sl_net_options options = {
		.sz = sizeof(options),
		.records = tcp_net_settings.ring,
		.devices = tcp_net_settings.devices,
		.wanted = tcp_common.wanted,
	};
	struct sl_nic_hot hot = {0};
	uint64_t left_out;
	char why[256];
	size_t bytes;
	int code;

	code = sl_net_open(&options, &w->net, why, sizeof(why));
	if (code)
		return tcp_not_opened(self, code, why);
	if (tcp_net_settings.requests) {
		code = tcp_layers_open(self, 0, &w->layers);
		if (code)
			return code;
		code = sl_layers_trace(
			w->layers, 1 << SL_RECORD_REQUEST | 1 << SL_RECORD_IN | 1 << SL_RECORD_OUT,
			layer_record, w);
		if (code)
			return tcp_failed(self, strerror(-code));
	}
	w->err = sl_net_file_begin(w->to, sl_net_info(w->net)->boot_id);
	tcp_ready("records=%u", sl_net_info(w->net)->records);
	code = follow(self, w);
	left_out = sl_net_left_out(w->net);
	sl_nic_hot_read(sl_net_region(w->net, &bytes), sl_net_info(w->net), &hot);
	if (!code && sl_net_file_end(w->to, &hot, left_out, sl_now_ns()))
		code = tcp_failed(self, "the file could not be written");
	fprintf(stderr,
		"sidelight tcp net: %" PRIu64 " segments recorded, %" PRIu64 " missed, %" PRIu64
		" without a readable header\n",
		w->records, w->missed, hot.headless);
	return code;
}

int tcp_net_record(const struct sl_command *self)
{
	struct recorder *w = calloc(1, sizeof(*w));
	const char *name = tcp_net_settings.record;
	int code;

	if (!w)
		return tcp_failed(self, strerror(errno));
	w->to = strcmp(name, "-") ? fopen(name, "we") : stdout;
	if (!w->to) {
		fprintf(stderr, "sidelight %s: %s: %s\n", self->name, name, strerror(errno));
		free(w);
		return SL_EXIT_FAILURE;
	}
	code = run(self, w);
	sl_layers_close(w->layers);
	sl_net_close(w->net);
	if (w->to != stdout && fclose(w->to) && !code)
		code = tcp_failed(self, "the file could not be written");
	free(w);
	return code;
}
