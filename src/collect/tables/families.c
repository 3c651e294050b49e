// SPDX-License-Identifier: Apache-2.0
/* families.c - the collector's own series about kernel tables: flows, layers and tasks */
#include "collect/read/host.h"
#include "collect/tables/slots.h"
#include "collect/read/link.h"
#include "collect/tables/families.h"
#include "collect/tables/flows.h"

/* Sums the counter at this offset of collect_host_tables over all hosts. */
static uint64_t sum_of(const struct collect_self *s, size_t offset)
{
	const struct collect_tables *t = s->arg;
	uint64_t sum = 0;

	for (size_t i = 0; i < s->c->hosts; i++)
		sum += relaxed_load(*(const uint64_t *)((const char *)&t->host[i] + offset));
	return sum;
}

#define OF_FLOWS(member)	(offsetof(struct collect_host_tables, flow_stats.member))
#define OF_SLOTS(kind, member)	(offsetof(struct collect_host_tables, slot_stats[kind].member))
#define OF_TABLE(table, member) (offsetof(struct collect_host_tables, table_stats[table].member))
#define SUM_TABLES(s, member)                                                                   \
	(sum_of(s, OF_TABLE(TABLE_FLOWS, member)) + sum_of(s, OF_TABLE(TABLE_LAYERS, member)) + \
	 sum_of(s, OF_TABLE(TABLE_TASKS, member)))

static bool tcp_lost(struct collect_self *s, struct export_series *out)
{
	static const struct {
		const char *cause;
		size_t offset[3]; /* 0 means none */
	} causes[] = {
		{"end", {OF_FLOWS(lost)}},
		{"final_values", {OF_FLOWS(from_journal)}},
		{"groups", {OF_FLOWS(other)}},
		{"journal_gap", {OF_FLOWS(gaps)}},
		{"second_table",
		 {OF_TABLE(TABLE_FLOWS, ignored), OF_TABLE(TABLE_LAYERS, ignored),
		  OF_TABLE(TABLE_TASKS, ignored)}},
		{"slot_reused", {OF_SLOTS(0, reused), OF_SLOTS(1, reused)}},
		{"unseen", {OF_FLOWS(unseen)}},
		{"unsettled",
		 {OF_TABLE(TABLE_FLOWS, unsettled), OF_TABLE(TABLE_LAYERS, unsettled),
		  OF_TABLE(TABLE_TASKS, unsettled)}},
	};
	uint64_t n = 0;

	if (s->at >= sizeof(causes) / sizeof(causes[0]))
		return false;
	for (int i = 0; i < 3 && causes[s->at].offset[i]; i++)
		n += sum_of(s, causes[s->at].offset[i]);
	return collect_self_label(s, out, "cause", causes[s->at].cause) && collect_self_u64(out, n);
}

/* Defines a family with a single series without labels. */
#define SUM(name, number)                                                   \
	static bool name(struct collect_self *s, struct export_series *out) \
	{                                                                   \
		return collect_self_single(s, out, number);                 \
	}

SUM(tcp_missed, SUM_TABLES(s, missed))
SUM(tcp_passes, sum_of(s, OF_TABLE(TABLE_FLOWS, passes)))
SUM(tcp_refused, SUM_TABLES(s, refused))

/* Skip causes with a zero count; most never occur. */
static bool kernel_lost(struct collect_self *s, struct export_series *out)
{
	static const char *const tasks[SL_TASK_LOSSES] = {
		[SL_TASK_LOSS_TASKS] = "tasks_full",
		[SL_TASK_LOSS_CGROUPS] = "cgroups_full",
		[SL_TASK_LOSS_UNTRACKED] = "untracked",
	};
	const struct collect_tables *t = s->arg;
	const size_t each = SL_CAUSES + SL_TASK_LOSSES;

	for (; s->at < s->c->hosts * each; s->at++) {
		const struct collect_host *h = &s->c->host[s->at / each];
		size_t i = s->at % each;
		int table = i >= SL_CAUSES;
		uint64_t n;

		i -= table ? SL_CAUSES : 0;
		n = relaxed_load(t->host[s->at / each].slot_stats[table].lost[i]);
		if (n)
			return collect_self_labels(
				       s, out,
				       (struct region_text_label[]){
					       {"cause",
						table ? tasks[i] : region_layer_cause_name((int)i)},
					       {"host", collect_host_name(h)},
					       {"table", table ? "tasks" : "layers"},
					       {"target", h->target}},
				       4) &&
			       collect_self_u64(out, n);
	}
	return false;
}

/* Reads the line of a drop reason from a host's table. Returns false if there is none. */
static bool drop_reason(struct collect_host_tables *h, uint32_t i, struct region_drop_reason *to)
{
	struct collect_region *r = relaxed_load(h->flow_stats.dropped) ? collect_flows_of(h) : NULL;
	uint64_t line[SL_LINE_SIZE / 8];
	bool good;

	if (!r)
		return false;
	region_copy_words(line, collect_flow_table_of(r)->reason[i], SL_LINE_SIZE / 8);
	good = !region_drop_reason_parse(line, i, to) && to->segments;
	collect_region_put(r);
	return good;
}

static bool tcp_drops(struct collect_self *s, struct export_series *out)
{
	const struct collect_tables *t = s->arg;
	struct region_drop_reason reason;

	for (; s->at < s->c->hosts * SL_DROP_REASONS; s->at++) {
		const struct collect_host *h = &s->c->host[s->at / SL_DROP_REASONS];

		if (drop_reason(&t->host[s->at / SL_DROP_REASONS], s->at % SL_DROP_REASONS,
				&reason))
			return collect_self_labels(
				       s, out,
				       (struct region_text_label[]){{"host", collect_host_name(h)},
								    {"reason", reason.name},
								    {"target", h->target}},
				       3) &&
			       collect_self_u64(out, reason.segments);
	}
	return false;
}

/* ---- the families ---- */

static const struct collect_self_family tcp_families[] = {
	{"sidelight_collector_tcp_lost", COUNTER, "",
	 "Data of connections that was lost or could not be attributed, by cause.",
	 .series = tcp_lost},
	{"sidelight_collector_tcp_missed_deadlines", COUNTER, "",
	 "Passes over a connection table that were skipped or began too late.",
	 .series = tcp_missed},
	{"sidelight_collector_tcp_passes", COUNTER, "",
	 "Number of times a connection table was read.", .series = tcp_passes},
	{"sidelight_collector_tcp_slots_refused", GAUGE, "",
	 "Occupied slots that are not read because of --tcp-flows.", .series = tcp_refused},
	{"sidelight_host_kernel_lost", COUNTER, "",
	 "Events that the eBPF programs in a host's kernel could not measure, attribute or store "
	 "since they were loaded, by table and cause.",
	 .series = kernel_lost},
	{"sidelight_tcp_drops", COUNTER, "",
	 "TCP segments that a host's kernel dropped since its programs were loaded, by the "
	 "kernel's reason.",
	 .series = tcp_drops},
};

COLLECT_SELF_GROUP(tcp, NULL);
