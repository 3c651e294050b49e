// SPDX-License-Identifier: Apache-2.0
/* kernel.c - reads and prints the tables of connections, layers and scheduler time. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/common.h"
#include "cli/common/remote.h"
#include "cli/tcp/tcp.h"
#include "region/flows.h"
#include "region/layers.h"
#include "region/tasks.h"

/* Prints {"NAME":{...}} on one line. Consumes the reference to the object. */
static void print_object(const char *name, json_t *o)
{
	cli_json_print(stdout, json_pack("{s:o}", name, o), JSON_COMPACT);
}

static bool report_fault(struct cli_remote *r, enum region_fault fault, const char *part)
{
	r->error = r->error ?: EBADMSG;
	return !base_failure(&cli_cmd_dump, "region %" PRIu64 ": %s: %s", r->region.id, part,
			     region_fault_name(fault));
}

/*
 * Parses the header of a table and READs its hot line. Evaluates to false after printing an error.
 */
#define TABLE_OPEN(r, kind, info_, hot_)                                                         \
	({                                                                                       \
		const char *part_ = "header";                                                    \
		enum region_fault open_ = region_##kind##_info_parse((r)->buffer,                \
								     (r)->region.length, info_); \
		if (!open_) {                                                                    \
			part_ = "hot line";                                                      \
			open_ = CLI_REMOTE_SETTLE(                                               \
				r, (info_)->hot, SL_LINE_SIZE,                                   \
				region_##kind##_hot_parse((r)->buffer, info_, hot_));            \
		}                                                                                \
		!open_ || report_fault(r, open_, part_);                                         \
	})

/* Connections */

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

/*
 * READs all slots in use, many per READ, and then individually rereads the slots that were being
 * written.
 */
static bool flows_slots(struct cli_remote *r, const struct region_flows_info *info, uint32_t used,
			bool json)
{
	uint32_t most = (uint32_t)(r->bytes / SL_FLOW_SIZE);
	uint64_t(*copy)[SL_FLOW_SIZE / 8] = malloc(most * sizeof(*copy));
	bool good = true;

	if (!copy)
		r->error = ENOMEM;
	for (uint32_t at = 0; copy && good && at < used; at += most) {
		uint32_t n = BASE_MIN(used - at, most);
		uint64_t from = info->flows + (uint64_t)at * SL_FLOW_SIZE;

		good = cli_remote_read(r, from, n * SL_FLOW_SIZE);
		memcpy(copy, r->buffer, n * sizeof(*copy));
		for (uint32_t i = 0; good && i < n; i++) {
			struct region_flow f;
			enum region_fault fault = region_flow_parse(copy[i], &f);

			if (fault == REGION_FAULT_UNSETTLED) {
				r->retries++;
				fault = CLI_REMOTE_SETTLE(r, from + (uint64_t)i * SL_FLOW_SIZE,
							  SL_FLOW_SIZE,
							  region_flow_parse(r->buffer, &f));
			}
			r->unsettled += fault != REGION_FAULT_NONE;
			if (fault || f.state == SL_STATE_FREE)
				continue;
			if (json)
				cli_flow_print_json(stdout, &f, base_realtime_ns());
			else
				flow_text(&f);
		}
	}
	free(copy);
	return copy && good;
}

static enum region_fault cgroup_slot(struct cli_remote *r, const struct region_flows_info *info,
				     uint32_t at, struct region_flow_cgroup *c)
{
	return CLI_REMOTE_SETTLE(r, info->cgroups + (uint64_t)at * SL_FLOW_CGROUP_SIZE,
				 SL_FLOW_CGROUP_SIZE, region_flow_cgroup_parse(r->buffer, c));
}

static void cgroup_print(const struct region_flow_cgroup *c, bool json)
{
	static const char *const names[SL_CGROUP_TEXTS] = {"namespace", "pod", "container",
							   "service", "path"};
	json_t *o;

	if (!json) {
		printf("  cgroup %" PRIu64 " %s", c->id, region_state_name(c->state));
		for (int n = 0; n < SL_CGROUP_TEXTS; n++)
			if (*c->name[n])
				printf(" %s=%s", names[n], c->name[n]);
		putchar('\n');
		return;
	}
	o = json_pack("{s:I,s:s}", "id", CLI_INT(c->id), "state", region_state_name(c->state));
	for (int n = 0; n < SL_CGROUP_TEXTS; n++)
		cli_tcp_json_text(o, names[n], c->name[n]);
	json_object_set_new(o, "cut", json_boolean(c->cut));
	print_object("cgroup", o);
}

static bool flows_cgroups(struct cli_remote *r, const struct region_flows_info *info, bool json)
{
	struct region_flow_cgroup c;
	uint32_t used;

	if (!info->cgroups)
		return true;
	if (cgroup_slot(r, info, 0, &c))
		return report_fault(r, REGION_FAULT_UNSETTLED, "cgroups");
	used = c.used < info->cgroup_slots ? (uint32_t)c.used : info->cgroup_slots;
	for (uint32_t i = 1; i < used; i++) {
		if (cgroup_slot(r, info, i, &c))
			r->unsettled++;
		else if (c.state != SL_STATE_FREE)
			cgroup_print(&c, json);
	}
	return true;
}

static bool print_flows(struct cli_remote *r, bool json)
{
	struct region_flows_info info;
	struct region_flows_hot hot;

	if (!TABLE_OPEN(r, flows, &info, &hot))
		return false;
	if (json)
		print_object("region", json_pack("{s:I,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "id",
						 CLI_INT(r->region.id), "kind", "flows", "slots",
						 CLI_INT(info.slots), "open", CLI_INT(hot.open),
						 "quarantined", CLI_INT(hot.quarantined), "refused",
						 CLI_INT(hot.refused), "journal",
						 CLI_INT(hot.journal), "round", CLI_INT(hot.round),
						 "changed_ns", CLI_INT(hot.changed_ns),
						 "quarantine_ns", CLI_INT(hot.quarantine_ns)));
	else
		printf("region %" PRIu64 ": connections, %u open, %u recently closed, room for %u, "
		       "%" PRIu64 " refused\n",
		       r->region.id, hot.open, hot.quarantined, info.slots, hot.refused);
	return flows_slots(r, &info, hot.used, json) && flows_cgroups(r, &info, json);
}

/* Slots with a single writer */

/* A section of a region that consists of slots. */
struct slots {
	const char *name;
	uint64_t at;
	uint32_t used, bytes;
	bool keyless; /* true if slot 0 has no key: it collects data that found no free slot */
	/* masks of the state and the generation in a slot's first word */
	uint64_t state, generation;
	uint32_t cpus;
};

/*
 * READs the first line of a slot, the slot, and the first line again, to detect changes
 * (region/layers.h). Returns false if the slot is free or unsettled (which is counted), or on an
 * error in r->error.
 */
static bool slot_read(struct cli_remote *r, const struct slots *s, uint32_t index, uint64_t *copy)
{
	uint64_t at = s->at + (uint64_t)index * s->bytes;

	for (int t = 0; t < CLI_REMOTE_TRIES; t++) {
		const uint64_t *line = r->buffer;
		uint64_t before;

		r->retries += t > 0;
		if (!cli_remote_read(r, at, SL_LINE_SIZE))
			return false;
		if (line[7] != sl_line_check(line))
			continue;
		if (!(line[0] & s->state) && (index || !s->keyless))
			return false;
		before = line[0] & s->generation;
		if (!cli_remote_read(r, at, s->bytes))
			return false;
		memcpy(copy, r->buffer, s->bytes);
		/* In a busy slot, reread each line until its check word matches. */
		for (uint32_t l = 0; l < s->bytes / SL_LINE_SIZE; l++)
			for (int i = 0;
			     i < CLI_REMOTE_TRIES && copy[l * 8 + 7] != sl_line_check(copy + l * 8);
			     i++) {
				r->retries++;
				if (!cli_remote_read(r, at + (uint64_t)l * SL_LINE_SIZE,
						     SL_LINE_SIZE))
					return false;
				memcpy(copy + l * 8, r->buffer, SL_LINE_SIZE);
			}
		if (!cli_remote_read(r, at, SL_LINE_SIZE))
			return false;
		if (line[7] == sl_line_check(line) && (line[0] & s->generation) == before &&
		    (copy[0] & s->generation) == before)
			return true;
	}
	r->unsettled++;
	return false;
}

/* Calls print for each slot in use. Returns false on an error, which is in r->error. */
static bool each_slot(struct cli_remote *r, const struct slots *s, uint64_t *copy, bool json,
		      void (*print)(const struct slots *s, uint32_t index, const uint64_t *copy,
				    bool json))
{
	for (uint32_t i = 0; i < s->used; i++) {
		r->error = 0;
		if (slot_read(r, s, i, copy))
			print(s, i, copy, json);
		if (r->error)
			return false;
	}
	return true;
}

static bool read_losses(struct cli_remote *r, const struct region_section *s, uint32_t n,
			uint64_t *sum)
{
	uint32_t bytes = (n + 6) / 7 * SL_LINE_SIZE;

	memset(sum, 0, n * sizeof(*sum));
	for (uint32_t i = 0; i < s->count; i++) {
		enum region_fault fault = CLI_REMOTE_SETTLE(r, s->offset + (uint64_t)i * s->stride,
							    bytes,
							    region_losses_add(r->buffer, n, sum));

		if (fault)
			return r->error ? false : report_fault(r, fault, "losses");
	}
	return true;
}

/* Layers */

static void layer_text(const struct slots *s, uint32_t index, const struct region_layer_view *v)
{
	char local[64], remote[64];

	printf("  %s %u: %s:%u %s:%u cgroup %" PRIu64 " requests %" PRIu64, s->name, index,
	       region_flow_address(v->local, local), v->local_port,
	       region_flow_address(v->remote, remote), v->remote_port, v->cgroup,
	       v->count[SL_COUNT_REQUESTS]);
	for (int i = 0; i < SL_LAYERS; i++)
		if (region_layer_count(v->cell[i]))
			printf(" %s %" PRIu64 "x%.0fns", region_layer_name(i),
			       region_layer_count(v->cell[i]),
			       region_layer_quantile(v->cell[i], 0.5));
	putchar('\n');
}

static void layer_json(const struct slots *s, uint32_t index, const struct region_layer_view *v)
{
	static const char *const counts[7] = {"requests", "complete",	  "pipelined", "in",
					      "out",	  "unattributed", "incomplete"};
	char local[64], remote[64];
	json_t *count = json_object(), *layers = json_object(), *cells;

	for (int i = 0; i < 7; i++)
		json_object_set_new(count, counts[i], json_integer(CLI_INT(v->count[i])));
	for (int i = 0; i < SL_LAYERS; i++) {
		cells = json_array();
		for (int c = SL_LAYER_ZERO; c < SL_LAYER_CELLS; c++)
			json_array_append_new(cells, json_integer(CLI_INT(v->cell[i][c])));
		json_object_set_new(layers, region_layer_name(i),
				    json_pack("{s:I,s:I,s:o}", "count",
					      CLI_INT(region_layer_count(v->cell[i])), "sum_ns",
					      CLI_INT(v->cell[i][SL_LAYER_SUM]), "buckets", cells));
	}
	print_object(s->name,
		     json_pack("{s:I,s:I,s:s,s:i,s:s,s:i,s:s,s:i,s:I,s:I,s:I,s:I,s:o,s:o}", "slot",
			       CLI_INT(index), "generation", CLI_INT(v->generation), "state",
			       v->state == SL_SLOT_CLOSED ? "closed" : "open", "role", (int)v->role,
			       "local", region_flow_address(v->local, local), "local_port",
			       v->local_port, "remote", region_flow_address(v->remote, remote),
			       "remote_port", v->remote_port, "cgroup", CLI_INT(v->cgroup), "netns",
			       CLI_INT(v->netns), "start_ns", CLI_INT(v->start_ns), "end_ns",
			       CLI_INT(v->end_ns), "count", count, "layers", layers));
}

static void layer_print(const struct slots *s, uint32_t index, const uint64_t *copy, bool json)
{
	static struct region_layer_view v; /* too large for the stack */

	if (!region_layer_parse(copy, s->keyless && !index, &v))
		(json ? layer_json : layer_text)(s, index, &v);
}

static bool print_layers(struct cli_remote *r, bool json)
{
	uint64_t copy[SL_SLOT_WORDS];
	struct region_layers_info info;
	struct region_layers_hot hot;
	uint64_t lost[SL_CAUSES];
	struct slots s;
	json_t *causes;

	if (!TABLE_OPEN(r, layers, &info, &hot) || !read_losses(r, &info.losses, SL_CAUSES, lost))
		return false;
	if (json) {
		causes = json_object();
		for (int i = 0; i < SL_CAUSES; i++)
			json_object_set_new(causes, region_layer_cause_name(i),
					    json_integer(CLI_INT(lost[i])));
		print_object("region",
			     json_pack("{s:I,s:s,s:I,s:I,s:I,s:I,s:o}", "id", CLI_INT(r->region.id),
				       "kind", "layers", "flows_used", CLI_INT(hot.flows_used),
				       "groups_used", CLI_INT(hot.groups_used), "opened",
				       CLI_INT(hot.opened), "closed", CLI_INT(hot.closed), "causes",
				       causes));
	} else {
		printf("region %" PRIu64 ": layers, %" PRIu64 " flows seen, %" PRIu64 " closed\n",
		       r->region.id, hot.opened, hot.closed);
		for (int i = 0; i < SL_CAUSES; i++)
			if (lost[i])
				printf("  not measured: %" PRIu64 " %s\n", lost[i],
				       region_layer_cause_text(i));
	}
	s = (struct slots){"flow_layers", info.flows, hot.flows_used, SL_LAYER_SLOT_SIZE,
			   false,	  255,	      ~0xffffull,     0};
	if (!each_slot(r, &s, copy, json, layer_print))
		return false;
	s.name = "group";
	s.at = info.groups;
	s.used = hot.groups_used;
	s.keyless = true;
	return each_slot(r, &s, copy, json, layer_print);
}

/* Scheduler time */

static void task_text(const struct slots *s, uint32_t slot, const struct region_cpu_row *row,
		      const char *comm)
{
	const struct region_cpu_numbers *n = &row->n;

	printf("  %s %u: pid %u/%u %s cgroup %" PRIu64 " ran %" PRIu64 " ns waited %" PRIu64
	       " ns in %" PRIu64 " waits%s\n",
	       s->name, slot, row->tgid, row->pid, comm, row->cgroup, n->run_ns, n->wait_ns,
	       n->waits, row->ended ? ", ended" : "");
}

static void task_json(const struct slots *s, uint32_t slot, const struct region_cpu_row *row,
		      const char *comm)
{
	const struct region_cpu_numbers *n = &row->n;
	json_t *wait = json_array(), *o;

	for (int i = 0; i < SL_CPU_BUCKETS; i++)
		json_array_append_new(wait, json_integer(CLI_INT(n->wait[i])));
	o = json_pack("{s:I,s:I,s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o}", "slot",
		      CLI_INT(slot), "generation", CLI_INT(row->generation), "ended", row->ended,
		      "cgroup", CLI_INT(row->cgroup), "pid", CLI_INT(row->pid), "tgid",
		      CLI_INT(row->tgid), "start_ns", CLI_INT(row->start_ns), "ended_tasks",
		      CLI_INT(row->ended_tasks), "run_ns", CLI_INT(n->run_ns), "wait_ns",
		      CLI_INT(n->wait_ns), "waits", CLI_INT(n->waits), "voluntary",
		      CLI_INT(n->voluntary), "involuntary", CLI_INT(n->involuntary), "migrations",
		      CLI_INT(n->migrations), "wait_buckets", wait);
	cli_tcp_json_text(o, "comm", comm);
	print_object(s->name, o);
}

static void task_print(const struct slots *s, uint32_t index, const uint64_t *copy, bool json)
{
	struct region_cpu_row row;
	char comm[17];

	if (s->keyless ? region_task_cgroup_parse(copy, s->cpus, !index, &row)
		       : region_task_parse(copy, &row))
		return;
	cli_tcp_safe(comm, sizeof(comm), row.comm);
	(json ? task_json : task_text)(s, index, &row, comm);
}

static bool print_tasks(struct cli_remote *r, bool json)
{
	uint64_t lost[SL_TASK_LOSSES], *copy;
	struct region_tasks_info info;
	struct region_tasks_hot hot;
	struct slots s;
	bool good;

	if (!TABLE_OPEN(r, tasks, &info, &hot) ||
	    !read_losses(r, &info.losses, SL_TASK_LOSSES, lost))
		return false;
	copy = calloc(info.cpus, SL_TASK_SIZE);
	if (!copy) {
		r->error = ENOMEM;
		return false;
	}
	if (json)
		print_object("region",
			     json_pack("{s:I,s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "id",
				       CLI_INT(r->region.id), "kind", "tasks", "tasks_used",
				       CLI_INT(hot.tasks_used), "cgroups_used",
				       CLI_INT(hot.cgroups_used), "cpus", CLI_INT(info.cpus),
				       "tasks_refused", CLI_INT(lost[SL_TASK_LOSS_TASKS]),
				       "cgroups_refused", CLI_INT(lost[SL_TASK_LOSS_CGROUPS]),
				       "untracked", CLI_INT(lost[SL_TASK_LOSS_UNTRACKED])));
	else
		printf("region %" PRIu64 ": scheduler time of %u CPUs; refused: %" PRIu64
		       " tasks, %" PRIu64 " cgroups\n",
		       r->region.id, info.cpus, lost[SL_TASK_LOSS_TASKS],
		       lost[SL_TASK_LOSS_CGROUPS]);
	s = (struct slots){"task", info.tasks, hot.tasks_used, SL_TASK_SIZE, false, 3, ~3ull, 0};
	good = each_slot(r, &s, copy, json, task_print);
	if (good) {
		s = (struct slots){"task_cgroup",
				   info.cgroups,
				   hot.cgroups_used,
				   info.cpus * SL_TASK_SIZE,
				   true,
				   3,
				   ~3ull,
				   info.cpus};
		good = each_slot(r, &s, copy, json, task_print);
	}
	free(copy);
	return good;
}

bool cli_dump_kernel(struct cli_remote *r, bool json)
{
	const struct sl_region_header *h = r->buffer;
	uint32_t kind = h->kind;
	bool good = kind == SL_REGION_FLOWS    ? print_flows(r, json)
		    : kind == SL_REGION_LAYERS ? print_layers(r, json)
					       : print_tasks(r, json);

	if (good && json)
		print_object("read",
			     json_pack("{s:I,s:I,s:I}", "reads", CLI_INT(r->reads), "again",
				       CLI_INT(r->retries), "unsettled", CLI_INT(r->unsettled)));
	return good;
}
