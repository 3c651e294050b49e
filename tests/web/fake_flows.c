// SPDX-License-Identifier: Apache-2.0
#include "fake_flows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "region/flows.h"
#include "collect/tables/tables.h"

#define SECOND 1000000000ull

static struct region_info cart = {
	.instance = 0x7c,
	.kind = SL_REGION_FLOWS,
	.label_count = 3,
	.labels = {{"namespace", "shop"}, {"pod", "cart-0"}, {"service", "cart"}},
};
static struct region_flow before[2], now[4];
static struct region_layer_view all[3], late[3];
static struct collect_layers_view layers[3];
static struct collect_layer_losses_view losses;

static void address(uint8_t to[16], uint8_t last)
{
	memcpy(to, (uint8_t[16]){[10] = 0xff, [11] = 0xff, [12] = 10, [15] = last}, 16);
}

static struct region_flow flow(uint64_t id, uint16_t local, uint16_t remote)
{
	struct region_flow f = {
		.id = id,
		.state = SL_STATE_LIVE,
		.tcp_state = 1,
		.family = 4,
		.open_ns = SECOND,
		.changed_ns = 10 * SECOND,
		.local_port = local,
		.remote_port = remote,
		.mss = 1448,
		.cwnd = 10,
		.snd_wnd = 65536,
		.rcv_wnd = 65536,
		.srtt_us = 2000,
		.rtt_min_us = 41,
	};

	strcpy(f.comm, "cart");
	address(f.local, 1);
	address(f.remote, 2);
	return f;
}

/* Adds n observations to each layer, in the bucket that ends at 2^(k/2 - 30) s. */
static void observe(struct region_layer_view *v, uint64_t n, const int k[SL_LAYERS])
{
	v->count[SL_COUNT_REQUESTS] += n;
	v->count[SL_COUNT_COMPLETE] += n;
	for (int i = 0; i < SL_LAYERS; i++) {
		v->cell[i][SL_LAYER_BUCKETS + k[i] - 60 - SL_LAYER_FIRST] += n;
		v->cell[i][SL_LAYER_SUM] += n << k[i] / 2;
	}
}

/*
 * cart-0 calls a database, and has served 100 recent requests ("late"), most of whose time was
 * spent in the application.
 */
static void fake_layers(struct collect_collector *c)
{
	static const int serves[SL_LAYERS] = {18, 18, 24, 48, 22, 20, 20, 48};
	static const int asks[SL_LAYERS] = {18, 18, 40, 20, 22, 20, 20, 42};
	static const int calls[SL_LAYERS] = {18, 18, 20, 20, 22, 20, 20, 24};

	observe(&all[0], 1000, serves);
	observe(&late[0], 100, serves);
	observe(&all[1], 10, asks);
	observe(&all[2], 5, calls);
	observe(&late[2], 5, calls);
	late[0].count[SL_COUNT_UNATTRIBUTED] = 3;
	for (int i = 0; i < 3; i++)
		layers[i] = (struct collect_layers_view){
			.target = i == 2 ? "/run/b.sock" : "/run/a.sock",
			.hostname = i == 2 ? "node-2" : "node-1",
			.workload = &cart,
			.role = i ? "client" : "server",
			.port = i == 1 ? "5432" : "8080",
			.all = &all[i],
			.late = &late[i],
			.late_ns = 12 * (int64_t)SECOND,
		};
	losses = (struct collect_layer_losses_view){
		.target = "/run/a.sock", .hostname = "node-1", .present = true, .passes = 7};
	losses.lost[SL_CAUSE_RETRANSMIT] = 3;
	c->layers = layers;
	c->layer_count = 3;
	c->losses = &losses;
}

/* node-2 calls cart-0 on node-1: 20 us there, two of which are negative, and 30 us back. */
static void fake_net(struct collect_collector *c)
{
	static const char *const names[] = {"node-1", "node-2"}, *const targets[] = {"/run/a.sock",
										     "/run/b.sock"};
	static struct tcp_net_hist back, there, both;
	static struct collect_net_port_view port;
	static struct collect_net_pair_view pair;
	static struct collect_net_host_view rings[2];

	for (int i = 0; i < 100; i++) {
		tcp_net_hist_add(&back, i < 2 ? -500 : 20000);
		tcp_net_hist_add(&there, 30000);
		tcp_net_hist_add(&both, 50000);
	}
	port = (struct collect_net_port_view){
		.port = 8080,
		.all = {&there, &back, &both},
		.late = {there, back, both},
		.late_ns = 12 * (int64_t)SECOND,
		.bound = {4000, 4000},
		.reordered = {1, 0},
	};
	pair = (struct collect_net_pair_view){
		.totals = {.sent = {103, 101},
			   .matched = {100, 100},
			   .known = true,
			   .theta = 7000000,
			   .bound = 4000,
			   .windows = 6},
		.ports = 1,
		.port = &port,
	};
	pair.totals.causes[TCP_NET_LOST] = 4;
	for (int i = 0; i < 2; i++) {
		pair.target[i] = targets[i];
		pair.hostname[i] = names[i];
		rings[i] = (struct collect_net_host_view){.target = targets[i],
							  .hostname = names[i],
							  .present = true,
							  .records = 1000,
							  .missed = 2,
							  .elsewhere = 3};
	}
	c->pair = &pair;
	c->rings = rings;
	c->ring_count = 2;
}

void fake_flows(struct collect_collector *c, size_t idle)
{
	static struct collect_flow_table_view table = {.target = "/run/a.sock",
						       .hostname = "node-1",
						       .fault = "",
						       .present = true,
						       .slots = 16384,
						       .passes = 7};
	static struct region_flow *rest;

	before[0] = now[0] = flow(1, 8080, 40001);
	now[0].changed_ns += SECOND;
	now[0].busy_us = 1000000;
	now[0].bytes_acked = now[0].bytes_sent = 5000000;
	now[0].retrans = now[0].fast = 9;
	now[0].flight = 10;
	before[1] = now[1] = flow(2, 40002, 5432);
	now[1].flags = SL_FLOW_ACTIVE;
	now[1].changed_ns += SECOND;
	now[1].busy_us = 100000;
	now[1].bytes_acked = now[1].bytes_sent = 1000;
	now[1].srtt_us = 30000;
	now[2] = flow(3, 8080, 0);
	now[2].flags = SL_FLOW_LISTENER;
	now[2].tcp_state = 10;
	now[3] = flow(4, 8080, 40004);
	now[3].state = SL_STATE_CLOSED;
	now[3].closed_ns = 2 * SECOND;
	now[3].bytes_received = 123456;
	rest = calloc(idle + 1, sizeof(*rest));
	c->flow_count = 4 + idle;
	c->flows = calloc(c->flow_count, sizeof(*c->flows));
	for (size_t i = 0; i < c->flow_count; i++) {
		if (i >= 4)
			rest[i - 4] = flow(96 + i, 9000, (uint16_t)i);
		c->flows[i] = (struct collect_flow_view){
			.target = "/run/a.sock",
			.hostname = "node-1",
			.slot = (uint32_t)i,
			.now = i < 4 ? &now[i] : &rest[i - 4],
			.before = i < 2 ? &before[i] : NULL,
			.read_ns = (int64_t)base_realtime_ns(),
			.workload = i < 4 ? &cart : NULL,
		};
	}
	table.open = (uint32_t)c->flow_count - 1;
	c->tables = &table;
	c->table_count = 1;
	fake_layers(c);
	fake_net(c);
}
