// SPDX-License-Identifier: Apache-2.0
/*
 * The first byte chooses: 0: a file of 'sidelight tcp net --record'; else places of a ring, each
 * read as it is and once more sealed, and given to the matcher of both sides, so that what lies
 * behind the check is reached too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "region/nic.h"
#include "source/tcp/net_file.h"
#include "source/tcp/net_round.h"
#include "source/tcp/net_stat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
	if (!condition)
		abort();
}

static struct tcp_net_stat *open_stat(void)
{
	struct tcp_net_stat_opts o = {
		.by = TCP_NET_BY_FLOW, .rows = 8, .flows = 16, .records = 256};
	struct tcp_net_stat *s = tcp_net_stat_open(&o);

	must(s);
	return s;
}

static void finish(struct tcp_net_stat *s)
{
	struct tcp_net_match *m = tcp_net_stat_match(s);
	struct tcp_net_totals t;

	tcp_net_match_hold(m, 0);
	tcp_net_match_hold(m, 1);
	tcp_net_match_run(m);
	must(!tcp_net_stat_count(s, 0, true));
	tcp_net_match_expire(m, 0, UINT64_MAX, true, 0);
	tcp_net_match_expire(m, 1, UINT64_MAX, true, 0);
	tcp_net_stat_totals(s, &t);
	must(t.bound >= 0);
	for (uint32_t i = 0; i < tcp_net_stat_rows(s); i++) {
		const struct tcp_net_row *r = tcp_net_stat_row(s, i);

		for (int w = 0; w < 2; w++)
			must(r->way[w].negative <= r->way[w].count &&
			     r->way[w].least <= r->way[w].most);
		(void)tcp_net_hist_quantile(&r->round, 0.5);
	}
	tcp_net_stat_close(s);
}

static void places(const uint8_t *data, size_t size)
{
	struct tcp_net_stat *s = open_stat();
	uint64_t w[SL_NIC_WORDS];
	struct region_nic_record r;

	for (size_t at = 0; at + sizeof(w) <= size; at += sizeof(w)) {
		memcpy(w, data + at, sizeof(w));
		if (!region_nic_record_parse(w, w[0] >> 8, &r))
			must(r.time_ns && !(r.time_ns >> 62));
		w[SL_NIC_TAG_AGAIN] = w[SL_NIC_TAG];
		w[SL_NIC_TIME_NS] = (w[SL_NIC_TIME_NS] & 0xffffffffff) + 1;
		w[SL_NIC_BYTES] &= 0xffff;
		w[SL_NIC_SEQ_END] =
			(uint32_t)w[SL_NIC_SEQ_END] |
			((w[SL_NIC_SEQ_END] + w[SL_NIC_BYTES] + (w[0] >> 1 & 1) + (w[0] >> 2 & 1))
			 << 32);
		w[7] = sl_folded_check(w);
		w[15] = sl_folded_check(w + 8);
		must(!region_nic_record_parse(w, w[0] >> 8, &r));
		tcp_net_match_add(tcp_net_stat_match(s), (int)(w[SL_NIC_RESERVED] & 1), &r);
	}
	finish(s);
}

static void file(const uint8_t *data, size_t size)
{
	FILE *f = size ? fmemopen((void *)data, size, "r") : NULL;
	struct tcp_net_stat *s = open_stat();
	struct tcp_layer_record *layers[2] = {calloc(64, sizeof(**layers)), NULL};
	struct tcp_net_file_head head;
	struct tcp_net_rounds rounds;
	struct tcp_net_frame frame;
	size_t n = 0;
	char why[128];

	must(layers[0]);
	if (f && tcp_net_file_head(f, &head, why, sizeof(why)) && size > sizeof(head))
		fseek(f, sizeof(head), SEEK_SET); /* what is behind a wrong head, too */
	while (f && tcp_net_file_next(f, &frame, why, sizeof(why)) > 0) {
		if (frame.type == TCP_NET_SEGMENT)
			tcp_net_match_add(tcp_net_stat_match(s), 0, &frame.segment);
		else if (frame.type == TCP_NET_GAP)
			tcp_net_match_gap(tcp_net_stat_match(s), 0, frame.gap.records,
					  frame.gap.now_ns);
		else if (frame.type == TCP_NET_LAYERS && n < 64)
			layers[0][n++] = frame.layers;
	}
	must(!tcp_net_rounds_find(layers, (size_t[]){n, 0}, s, &rounds));
	tcp_net_rounds_free(&rounds);
	free(layers[0]);
	finish(s);
	if (f)
		fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size > 1 << 16)
		return 0;
	if (data[0])
		places(data + 1, size - 1);
	else
		file(data + 1, size - 1);
	return 0;
}
