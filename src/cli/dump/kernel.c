// SPDX-License-Identifier: Apache-2.0
/* kernel.c - tables of connections, layers and scheduler time: READ and printed. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/dump/dump.h"
#include "cli/dump/remote.h"
#include "cli/tcp/flows.h"
#include "region/flows.h"
#include "region/layers.h"
#include "region/tasks.h"

#define TRIES 200

static json_t *number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

/* Prints one object on one line, and releases it. */
static void put(json_t *o)
{
	json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(o);
}

/* READs the line at offset until parse accepts it. */
#define SETTLE(r, offset, parse)                                                                 \
	({                                                                                       \
		enum region_fault fault_ = REGION_FAULT_UNSETTLED;                               \
		for (int i_ = 0; i_ < TRIES && fault_ == REGION_FAULT_UNSETTLED; i_++) {         \
			(r)->retries += i_ > 0;                                                  \
			fault_ = cli_remote_read(r, offset, SL_LINE_SIZE) ? (parse)              \
									  : REGION_FAULT_MEMORY; \
		}                                                                                \
		fault_;                                                                          \
	})

static bool no(struct cli_remote *r, enum region_fault fault, const char *part)
{
	fprintf(stderr, "sidelight dump: region %" PRIu64 ": %s: %s\n", r->region.id, part,
		region_fault_name(fault));
	if (!r->error)
		r->error = EBADMSG;
	return false;
}

/* ---- connections ---- */

static void flow_text(const struct region_flow *f)
{
	char local[64], remote[64], comm[17], a[80], b[80];

	cli_tcp_safe(comm, sizeof(comm), f->comm);
	snprintf(a, sizeof(a), "%s:%u", region_flow_address(f->local, local), f->local_port);
	snprintf(b, sizeof(b), "%s:%u", region_flow_address(f->remote, remote), f->remote_port);
	printf("  %-24s %-24s %-11s sent %" PRIu64 " received %" PRIu64
	       " retrans %u srtt %u us cgroup %" PRIu64 " %s\n",
	       a, b, f->state == SL_STATE_CLOSED ? "closed" : region_tcp_state_name(f->tcp_state),
	       f->bytes_sent, f->bytes_received, f->retrans, f->srtt_us, f->cgroup, comm);
}

/* READs all slots in use, many per READ; unsettled ones are READ again one by one. */
static bool flows_slots(struct cli_remote *r, const struct region_flows_info *info, uint32_t used,
			bool json)
{
	uint32_t most = (uint32_t)(r->bytes / SL_FLOW_SIZE);
	uint64_t *copy = malloc((size_t)most * SL_FLOW_SIZE);

	if (!copy) {
		r->error = ENOMEM;
		return false;
	}
	for (uint32_t at = 0; at < used; at += most) {
		uint32_t n = used - at < most ? used - at : most;
		uint64_t from = info->flows + (uint64_t)at * SL_FLOW_SIZE;

		if (!cli_remote_read(r, from, n * SL_FLOW_SIZE)) {
			free(copy);
			return false;
		}
		memcpy(copy, r->buffer, (size_t)n * SL_FLOW_SIZE);
		for (uint32_t i = 0; i < n; i++) {
			enum region_fault fault = region_flow_parse(copy + (size_t)i * 64,
								    &(struct region_flow){0});
			struct region_flow f;

			for (int t = 0; t < TRIES && fault == REGION_FAULT_UNSETTLED; t++) {
				r->retries++;
				if (!cli_remote_read(r, from + (uint64_t)i * SL_FLOW_SIZE,
						     SL_FLOW_SIZE))
					break;
				memcpy(copy + (size_t)i * 64, r->buffer, SL_FLOW_SIZE);
				fault = region_flow_parse(copy + (size_t)i * 64, &f);
			}
			if (fault || region_flow_parse(copy + (size_t)i * 64, &f)) {
				r->unsettled++;
				continue;
			}
			if (f.state == SL_STATE_FREE)
				continue;
			if (json)
				cli_flow_print_json(stdout, &f, base_realtime_ns());
			else
				flow_text(&f);
		}
	}
	free(copy);
	return true;
}

static enum region_fault cgroup_slot(struct cli_remote *r, const struct region_flows_info *info,
				     uint32_t at, struct region_flow_cgroup *c)
{
	enum region_fault fault = REGION_FAULT_UNSETTLED;

	for (int t = 0; t < TRIES && fault == REGION_FAULT_UNSETTLED; t++) {
		r->retries += t > 0;
		if (!cli_remote_read(r, info->cgroups + (uint64_t)at * SL_FLOW_CGROUP_SIZE,
				     SL_FLOW_CGROUP_SIZE))
			return REGION_FAULT_MEMORY;
		fault = region_flow_cgroup_parse(r->buffer, c);
	}
	return fault;
}

static bool flows_cgroups(struct cli_remote *r, const struct region_flows_info *info, bool json)
{
	static const char *const names[SL_CGROUP_TEXTS] = {"namespace", "pod", "container",
							   "service", "path"};
	struct region_flow_cgroup c;
	uint32_t used;

	if (!info->cgroups)
		return true;
	if (cgroup_slot(r, info, 0, &c))
		return no(r, REGION_FAULT_UNSETTLED, "cgroups");
	used = c.used < info->cgroup_slots ? (uint32_t)c.used : info->cgroup_slots;
	for (uint32_t i = 1; i < used; i++) {
		json_t *o, *text;

		if (cgroup_slot(r, info, i, &c)) {
			r->unsettled++;
			continue;
		}
		if (c.state == SL_STATE_FREE)
			continue;
		if (!json) {
			printf("  cgroup %" PRIu64 " %s", c.id, region_state_name(c.state));
			for (int n = 0; n < SL_CGROUP_TEXTS; n++)
				if (*c.name[n])
					printf(" %s=%s", names[n], c.name[n]);
			putchar('\n');
			continue;
		}
		text = json_object();
		json_object_set_new(text, "id", number(c.id));
		json_object_set_new(text, "state", json_string(region_state_name(c.state)));
		for (int n = 0; n < SL_CGROUP_TEXTS; n++)
			cli_tcp_json_text(text, names[n], c.name[n]);
		json_object_set_new(text, "cut", json_boolean(c.cut));
		o = json_object();
		json_object_set_new(o, "cgroup", text);
		put(o);
	}
	return true;
}

static bool flows(struct cli_remote *r, bool json)
{
	struct region_flows_info info;
	struct region_flows_hot hot;
	enum region_fault fault = region_flows_info_parse(r->buffer, r->region.length, &info);

	if (fault)
		return no(r, fault, "header");
	fault = SETTLE(r, info.hot, region_flows_hot_parse(r->buffer, &info, &hot));
	if (fault)
		return no(r, fault, "hot line");
	if (json)
		put(json_pack("{s:{s:I,s:s,s:i,s:i,s:i,s:I,s:I,s:I,s:I,s:I}}", "region", "id",
			      (json_int_t)r->region.id, "kind", "flows", "slots", (int)info.slots,
			      "open", (int)hot.open, "quarantined", (int)hot.quarantined, "refused",
			      (json_int_t)hot.refused, "journal", (json_int_t)hot.journal, "round",
			      (json_int_t)hot.round, "changed_ns", (json_int_t)hot.changed_ns,
			      "quarantine_ns", (json_int_t)hot.quarantine_ns));
	else
		printf("region %" PRIu64 ": connections, %u open, %u closed of late, room for %u, "
		       "%" PRIu64 " refused\n",
		       r->region.id, hot.open, hot.quarantined, info.slots, hot.refused);
	return flows_slots(r, &info, hot.used, json) && flows_cgroups(r, &info, json);
}

/* ---- what is given from owner to owner ---- */

/*
 * A slot with one writer: its first line, the slot, its first line again (region/layers.h). False:
 * free, unsettled (counted), or r->error.
 */
static bool slot_read(struct cli_remote *r, uint64_t at, uint32_t bytes, uint64_t state_mask,
		      uint64_t generation_mask, bool keyless, uint64_t *copy)
{
	for (int t = 0; t < TRIES; t++) {
		const uint64_t *line = r->buffer;
		uint64_t before;

		r->retries += t > 0;
		if (!cli_remote_read(r, at, SL_LINE_SIZE))
			return false;
		if (line[7] != sl_line_check(line))
			continue;
		if (!(line[0] & state_mask) && !keyless)
			return false;
		before = line[0] & generation_mask;
		if (!cli_remote_read(r, at, bytes))
			return false;
		memcpy(copy, r->buffer, bytes);
		if (!cli_remote_read(r, at, SL_LINE_SIZE))
			return false;
		if (line[7] != sl_line_check(line) || (line[0] & generation_mask) != before ||
		    (copy[0] & generation_mask) != before)
			continue;
		/* Lines of a busy slot settle one by one. */
		for (uint32_t l = 0; l < bytes / SL_LINE_SIZE; l++)
			for (int i = 0; i < TRIES && copy[l * 8 + 7] != sl_line_check(copy + l * 8);
			     i++) {
				r->retries++;
				if (!cli_remote_read(r, at + (uint64_t)l * SL_LINE_SIZE,
						     SL_LINE_SIZE))
					return false;
				memcpy(copy + l * 8, r->buffer, SL_LINE_SIZE);
			}
		if (!cli_remote_read(r, at, SL_LINE_SIZE))
			return false;
		if (line[7] == sl_line_check(line) && (line[0] & generation_mask) == before)
			return true;
	}
	r->unsettled++;
	return false;
}

static bool losses(struct cli_remote *r, const struct region_section *s, uint32_t n, uint64_t *sum)
{
	uint32_t bytes = (n + 6) / 7 * SL_LINE_SIZE;

	memset(sum, 0, n * sizeof(*sum));
	for (uint32_t i = 0; i < s->count; i++) {
		enum region_fault fault = REGION_FAULT_UNSETTLED;

		for (int t = 0; t < TRIES && fault == REGION_FAULT_UNSETTLED; t++) {
			if (!cli_remote_read(r, s->offset + (uint64_t)i * s->stride, bytes))
				return false;
			fault = region_losses_add(r->buffer, n, sum);
		}
		if (fault)
			return no(r, fault, "losses");
	}
	return true;
}

/* ---- layers ---- */

static void layer_print(const struct region_layer_view *v, const char *table, uint32_t index,
			bool json)
{
	static const char *const counts[7] = {"requests", "complete",	  "pipelined", "in",
					      "out",	  "unattributed", "incomplete"};
	char local[64], remote[64];
	json_t *o, *count, *layers, *all;

	region_flow_address(v->local, local);
	region_flow_address(v->remote, remote);
	if (!json) {
		printf("  %s %u: %s:%u %s:%u cgroup %" PRIu64 " requests %" PRIu64, table, index,
		       local, v->local_port, remote, v->remote_port, v->cgroup,
		       v->count[SL_COUNT_REQUESTS]);
		for (int i = 0; i < SL_LAYERS; i++)
			if (region_layer_count(v->cell[i]))
				printf(" %s %" PRIu64 "x%.0fns", region_layer_name(i),
				       region_layer_count(v->cell[i]),
				       region_layer_quantile(v->cell[i], 0.5));
		putchar('\n');
		return;
	}
	count = json_object();
	for (int i = 0; i < 7; i++)
		json_object_set_new(count, counts[i], number(v->count[i]));
	layers = json_object();
	for (int i = 0; i < SL_LAYERS; i++) {
		json_t *cells = json_array();

		for (int c = SL_LAYER_ZERO; c < SL_LAYER_CELLS; c++)
			json_array_append_new(cells, number(v->cell[i][c]));
		json_object_set_new(layers, region_layer_name(i),
				    json_pack("{s:I,s:I,s:o}", "count",
					      (json_int_t)region_layer_count(v->cell[i]), "sum_ns",
					      (json_int_t)v->cell[i][SL_LAYER_SUM], "buckets",
					      cells));
	}
	all = json_pack("{s:i,s:I,s:s,s:i,s:s,s:i,s:s,s:i,s:I,s:I,s:I,s:I,s:o,s:o}", "slot",
			(int)index, "generation", (json_int_t)v->generation, "state",
			v->state == SL_SLOT_CLOSED ? "closed" : "open", "role", (int)v->role,
			"local", local, "local_port", (int)v->local_port, "remote", remote,
			"remote_port", (int)v->remote_port, "cgroup", (json_int_t)v->cgroup,
			"netns", (json_int_t)v->netns, "start_ns", (json_int_t)v->start_ns,
			"end_ns", (json_int_t)v->end_ns, "count", count, "layers", layers);
	o = json_object();
	json_object_set_new(o, table, all);
	put(o);
}

static bool layers(struct cli_remote *r, bool json)
{
	static uint64_t copy[SL_SLOT_WORDS];
	static struct region_layer_view v;
	struct region_layers_info info;
	struct region_layers_hot hot;
	uint64_t lost[SL_CAUSES];
	json_t *causes;
	enum region_fault fault = region_layers_info_parse(r->buffer, r->region.length, &info);

	if (fault)
		return no(r, fault, "header");
	fault = SETTLE(r, info.hot, region_layers_hot_parse(r->buffer, &info, &hot));
	if (fault)
		return no(r, fault, "hot line");
	if (!losses(r, &info.losses, SL_CAUSES, lost))
		return false;
	if (json) {
		causes = json_object();
		for (int i = 0; i < SL_CAUSES; i++)
			json_object_set_new(causes, region_layer_cause_name(i), number(lost[i]));
		put(json_pack("{s:{s:I,s:s,s:i,s:i,s:I,s:I,s:o}}", "region", "id",
			      (json_int_t)r->region.id, "kind", "layers", "flows_used",
			      (int)hot.flows_used, "groups_used", (int)hot.groups_used, "opened",
			      (json_int_t)hot.opened, "closed", (json_int_t)hot.closed, "causes",
			      causes));
	} else {
		printf("region %" PRIu64 ": layers, %" PRIu64 " flows seen, %" PRIu64 " closed\n",
		       r->region.id, hot.opened, hot.closed);
		for (int i = 0; i < SL_CAUSES; i++)
			if (lost[i])
				printf("  not measured: %" PRIu64 " %s\n", lost[i],
				       region_layer_cause_text(i));
	}
	for (uint32_t i = 0; i < hot.flows_used + hot.groups_used; i++) {
		bool group = i >= hot.flows_used;
		uint32_t index = group ? i - hot.flows_used : i;
		uint64_t at = (group ? info.groups : info.flows) +
			      (uint64_t)index * SL_LAYER_SLOT_SIZE;

		r->error = 0;
		if (slot_read(r, at, SL_LAYER_SLOT_SIZE, 255, ~0xffffull, group && !index, copy) &&
		    !region_layer_parse(copy, group && !index, &v))
			layer_print(&v, group ? "group" : "flow_layers", index, json);
		if (r->error)
			return false;
	}
	return true;
}

/* ---- scheduler time ---- */

static void task_print(const struct region_cpu_row *row, const char *table, uint32_t slot,
		       bool json)
{
	const struct region_cpu_numbers *n = &row->n;
	json_t *o, *one, *wait;
	char comm[17];

	cli_tcp_safe(comm, sizeof(comm), row->comm);
	if (!json) {
		printf("  %s %u: pid %u/%u %s cgroup %" PRIu64 " ran %" PRIu64 " ns waited %" PRIu64
		       " ns in %" PRIu64 " waits%s\n",
		       table, slot, row->tgid, row->pid, comm, row->cgroup, n->run_ns, n->wait_ns,
		       n->waits, row->ended ? ", ended" : "");
		return;
	}
	wait = json_array();
	for (int i = 0; i < SL_CPU_BUCKETS; i++)
		json_array_append_new(wait, number(n->wait[i]));
	one = json_pack("{s:i,s:I,s:b,s:I,s:i,s:i,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o}", "slot",
			(int)slot, "generation", (json_int_t)row->generation, "ended",
			(int)row->ended, "cgroup", (json_int_t)row->cgroup, "pid", (int)row->pid,
			"tgid", (int)row->tgid, "start_ns", (json_int_t)row->start_ns,
			"ended_tasks", (json_int_t)row->ended_tasks, "run_ns",
			(json_int_t)n->run_ns, "wait_ns", (json_int_t)n->wait_ns, "waits",
			(json_int_t)n->waits, "voluntary", (json_int_t)n->voluntary, "involuntary",
			(json_int_t)n->involuntary, "migrations", (json_int_t)n->migrations,
			"wait_buckets", wait);
	cli_tcp_json_text(one, "comm", comm);
	o = json_object();
	json_object_set_new(o, table, one);
	put(o);
}

static bool tasks(struct cli_remote *r, bool json)
{
	struct region_tasks_info info;
	struct region_tasks_hot hot;
	struct region_cpu_row row;
	uint64_t lost[SL_TASK_LOSSES], *copy;
	enum region_fault fault = region_tasks_info_parse(r->buffer, r->region.length, &info);

	if (fault)
		return no(r, fault, "header");
	fault = SETTLE(r, info.hot, region_tasks_hot_parse(r->buffer, &info, &hot));
	if (fault)
		return no(r, fault, "hot line");
	if (!losses(r, &info.losses, SL_TASK_LOSSES, lost))
		return false;
	copy = calloc(info.cpus, SL_TASK_SIZE);
	if (!copy) {
		r->error = ENOMEM;
		return false;
	}
	if (json)
		put(json_pack("{s:{s:I,s:s,s:i,s:i,s:i,s:I,s:I,s:I}}", "region", "id",
			      (json_int_t)r->region.id, "kind", "tasks", "tasks_used",
			      (int)hot.tasks_used, "cgroups_used", (int)hot.cgroups_used, "cpus",
			      (int)info.cpus, "tasks_refused", (json_int_t)lost[SL_TASK_LOSS_TASKS],
			      "cgroups_refused", (json_int_t)lost[SL_TASK_LOSS_CGROUPS],
			      "untracked", (json_int_t)lost[SL_TASK_LOSS_UNTRACKED]));
	else
		printf("region %" PRIu64 ": scheduler time of %u CPUs; refused: %" PRIu64
		       " tasks, %" PRIu64 " cgroups\n",
		       r->region.id, info.cpus, lost[SL_TASK_LOSS_TASKS],
		       lost[SL_TASK_LOSS_CGROUPS]);
	for (uint32_t i = 0; i < hot.tasks_used + hot.cgroups_used; i++) {
		bool group = i >= hot.tasks_used;
		uint32_t index = group ? i - hot.tasks_used : i;
		uint32_t bytes = group ? info.cpus * SL_TASK_SIZE : SL_TASK_SIZE;
		uint64_t at = (group ? info.cgroups : info.tasks) + (uint64_t)index * bytes;

		r->error = 0;
		if (slot_read(r, at, bytes, 3, ~3ull, group && !index, copy)) {
			fault = group ? region_task_cgroup_parse(copy, info.cpus, !index, &row)
				      : region_task_parse(copy, &row);
			if (!fault)
				task_print(&row, group ? "task_cgroup" : "task", index, json);
		}
		if (r->error) {
			free(copy);
			return false;
		}
	}
	free(copy);
	return true;
}

bool cli_dump_kernel(struct cli_remote *r, bool json)
{
	const struct sl_region_header *h = r->buffer;
	uint32_t kind = h->kind;
	bool good = kind == SL_REGION_FLOWS    ? flows(r, json)
		    : kind == SL_REGION_LAYERS ? layers(r, json)
					       : tasks(r, json);

	if (good && json)
		put(json_pack("{s:{s:I,s:I,s:I}}", "read", "reads", (json_int_t)r->reads, "again",
			      (json_int_t)r->retries, "unsettled", (json_int_t)r->unsettled));
	return good;
}
