/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_tcp_read HOST DEVICE SECONDS ROUNDS: READs the table of connections of an agent elsewhere,
 * all slots in use, over and over, and takes every record apart. Prints, as soon as it is
 * connected, "connected"; when it was given a byte, "reading"; and so many times, each after
 * SECONDS: records a second, all records, those that did not settle at first, READs. One connection
 * for all of it, so that coming and going is no part of what is measured. src/cli/dump/remote.c
 * finds the region; this is what is done with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/dump/remote.h"
#include "region/flows.h"

static uint64_t seconds, rounds;
static bool begun;

/* One round; false: it can't be read. */
static bool read_for(struct cli_remote *r, const struct region_flows_info *info)
{
	uint32_t most = (uint32_t)(r->bytes / SL_FLOW_SIZE);
	uint64_t records = 0, again = 0, before = r->reads, start = base_now_ns(), now = start;
	struct region_flows_hot hot;
	struct region_flow flow;

	while (now - start < seconds * 1000000000) {
		if (!cli_remote_read(r, info->hot, SL_LINE_SIZE))
			return false;
		if (region_flows_hot_parse(r->buffer, info, &hot))
			continue;
		for (uint32_t at = 0; at < hot.used; at += most) {
			uint32_t n = hot.used - at < most ? hot.used - at : most;

			if (!cli_remote_read(r, info->flows + (uint64_t)at * SL_FLOW_SIZE,
					     n * SL_FLOW_SIZE))
				return false;
			for (uint32_t i = 0; i < n; i++) {
				const uint64_t *slot = (const uint64_t *)r->buffer + (size_t)i * 64;
				enum region_fault fault = region_flow_parse(slot, &flow);

				again += fault != REGION_FAULT_NONE;
				records += !fault && flow.state != SL_STATE_FREE;
			}
		}
		now = base_now_ns();
	}
	printf("%.0f %llu %llu %llu\n", (double)records * 1e9 / (double)(now - start),
	       (unsigned long long)records, (unsigned long long)again,
	       (unsigned long long)(r->reads - before));
	return true;
}

bool cli_dump_kernel(struct cli_remote *r, bool json)
{
	struct region_flows_info info;

	(void)json;
	if (region_flows_info_parse(r->buffer, r->region.length, &info))
		return false;
	/* To be connected costs the host a probe each 5 s, whether anybody READs or not: it is
	 * asked to look at that first. */
	if (!begun) {
		puts("connected");
		fflush(stdout);
		getchar();
		puts("reading");
		fflush(stdout);
		begun = true;
	}
	for (; rounds; rounds--)
		if (!read_for(r, &info))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	int tries = 3;
	struct cli_dump_remote_opts o = {.gid = -1, .ib_port = 1, .kind = "flows"};

	if (argc != 5)
		return BASE_EXIT_USAGE;
	o.target = argv[1];
	o.device = argv[2];
	seconds = strtoull(argv[3], NULL, 10);
	rounds = strtoull(argv[4], NULL, 10);
	/* Two emulated machines may leave a READ unanswered for 2 s: that round begins again. */
	while (cli_dump_remote(&o) && rounds)
		if (!tries--)
			return BASE_EXIT_FAILURE;
	return rounds ? BASE_EXIT_FAILURE : 0;
}
