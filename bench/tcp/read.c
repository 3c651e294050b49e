// SPDX-License-Identifier: Apache-2.0
/*
 * read.c HOST DEVICE SECONDS ROUNDS - READs the table of connections of a remote agent over and
 * over, all used slots, and parses every record. One RDMA connection serves all rounds, so that
 * connecting is no part of what is measured; src/cli/dump/remote.c finds the region.
 *
 * Prints "connected"; then, after a byte on stdin, "reading"; then ROUNDS lines, each after
 * SECONDS: records per second, records, records unsettled at the first look, and records per second
 * when they are READ but not parsed (the floor).
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "bench.h"
#include "cli/common/remote.h"
#include "region/flows.h"

static uint64_t seconds, rounds;
static bool begun;

struct count {
	double per_second;
	uint64_t records, unsettled;
};

static void parse(const uint64_t *slots, uint32_t n, struct count *c)
{
	struct region_flow flow;

	for (uint32_t i = 0; i < n; i++) {
		enum region_fault fault = region_flow_parse(slots + (size_t)i * 64, &flow);

		c->unsettled += fault != REGION_FAULT_NONE;
		c->records += !fault && flow.state != SL_STATE_FREE;
	}
}

/* Returns false if the region cannot be read. */
static bool read_for(struct cli_remote *r, const struct region_flows_info *info, bool parsed,
		     struct count *c)
{
	const uint32_t most = (uint32_t)(r->bytes / SL_FLOW_SIZE);
	const uint64_t start = base_now_ns();
	uint64_t now = start;
	struct region_flows_hot hot;

	*c = (struct count){0};
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
			if (parsed)
				parse((const uint64_t *)r->buffer, n, c);
			else
				c->records += n;
		}
		now = base_now_ns();
	}
	c->per_second = (double)c->records * 1e9 / (double)(now - start);
	return true;
}

bool cli_dump_kernel(struct cli_remote *r, bool json)
{
	struct region_flows_info info;
	struct count c, floor;

	(void)json;
	if (region_flows_info_parse(r->buffer, r->region.length, &info))
		return false;
	/* A connected reader costs the host one probe every 5 s; the host measures this first. */
	if (!begun) {
		puts("connected");
		fflush(stdout);
		getchar();
		puts("reading");
		fflush(stdout);
		begun = true;
	}
	for (; rounds; rounds--) {
		if (!read_for(r, &info, true, &c) || !read_for(r, &info, false, &floor))
			return false;
		printf("%.0f %llu %llu %.0f\n", c.per_second, (unsigned long long)c.records,
		       (unsigned long long)c.unsettled, floor.per_second);
	}
	return true;
}

int main(int argc, char **argv)
{
	static const struct base_command self = {.name = "bench_tcp_read"};
	struct cli_dump_remote_opts o = {.fabric = {.gid_index = -1, .ib_port = 1},
					 .kind = SL_REGION_FLOWS};
	int tries = 3;

	if (argc != 5)
		bench_die("read HOST DEVICE SECONDS ROUNDS");
	o.target = argv[1];
	o.fabric.device = argv[2];
	seconds = strtoull(argv[3], NULL, 10);
	rounds = strtoull(argv[4], NULL, 10);
	/* Emulated machines may leave a READ unanswered for 2 s; the round is then repeated. */
	while (cli_dump_remote(&self, &o) && rounds)
		if (!tries--)
			return BASE_EXIT_FAILURE;
	return rounds ? BASE_EXIT_FAILURE : 0;
}
