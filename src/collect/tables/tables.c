// SPDX-License-Identifier: Apache-2.0
/* tables.c - attaches the kernel tables to a collector */
#include "collect/tables/tables.h"

#include <errno.h>
#include <stdlib.h>

#include "collect/tables/families.h"
#include "collect/tables/segment_ring.h"
#include "collect/tables/table_reader.h"
#include "collect/tables/workload.h"

static void end_link(struct collect_link *l)
{
	struct collect_region *flows = collect_tables_of(l)->table[TABLE_FLOWS].region;

	if (flows)
		collect_tables_gone(l, flows);
	collect_workloads_free(l);
}

static void free_tables(void *arg)
{
	struct collect_tables *t = arg;

	collect_pair_latency_free(t->pair_latency);
	for (size_t i = 0; t->host && i < t->c->hosts; i++)
		pthread_mutex_destroy(&t->host[i].lock);
	free(t->host);
	free(t);
}

static const struct collect_reader tables_reader = {
	.kinds = 1u << SL_REGION_FLOWS | 1u << SL_REGION_LAYERS | 1u << SL_REGION_TASKS |
		 1u << SL_REGION_NIC,
	.found = collect_tables_found,
	.gone = collect_tables_gone,
	.poll = collect_tables_poll,
	.due = collect_tables_due,
	.end = end_link,
	.free_region = collect_table_reader_free,
	.layout = collect_workload_layout,
};

const struct collect_part collect_tables_part = {
	.groups = (const struct collect_self_group *const[]){&collect_self_tcp, &collect_self_net,
							     NULL},
	.walk_bytes = sizeof(struct collect_self_net),
	.walk_begin = collect_self_net_begin,
	.walk_end = collect_self_net_end,
	.reader = &tables_reader,
	.free = free_tables,
};

int collect_tables_attach(struct collect_collector *c, const struct collect_tables_opts *opts)
{
	struct collect_tables *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	t->c = c;
	t->o = *opts;
	t->o.period_ns = t->o.period_ns ?: 1000000000;
	t->o.groups = t->o.groups ?: 512;
	t->o.flows = t->o.flows ?: 65536;
	t->host = calloc(c->hosts + 1, sizeof(*t->host));
	for (size_t i = 0; t->host && i < c->hosts; i++) {
		t->host[i].all = t;
		pthread_mutex_init(&t->host[i].lock, NULL);
	}
	t->pair_latency = t->host ? collect_pair_latency_new(c) : NULL;
	err = t->pair_latency ? collect_collector_attach(c, &collect_tables_part, t) : -ENOMEM;
	if (err) {
		free_tables(t);
		return err;
	}
	for (size_t i = 0; i < c->hosts; i++)
		c->host[i].beside = &t->host[i];
	return 0;
}
