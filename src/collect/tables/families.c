// SPDX-License-Identifier: Apache-2.0
/* families.c - the collector's own series about kernel tables: flows, layers and tasks */
#include "collect/read/host.h"
#include "collect/tables/slots.h"
#include "collect/read/link.h"
#include "collect/tables/families.h"
#include "collect/tables/flows.h"

#define OF_HOSTS(label, member) OF(label, BESIDE, collect_host_tables, member)
#define OF_FLOWS(label, member) OF_HOSTS(label, flow_stats.member)
#define OF_TABLES(label, member)                                   \
	OF_HOSTS(label, table_stats[TABLE_FLOWS].member),          \
		OF_HOSTS(label, table_stats[TABLE_LAYERS].member), \
		OF_HOSTS(label, table_stats[TABLE_TASKS].member)

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
			return SELF_LABELS(s, out,
					   {"cause",
					    table ? tasks[i] : region_layer_cause_name((int)i)},
					   {"host", collect_host_name(h)},
					   {"table", table ? "tasks" : "layers"},
					   {"target", h->target}) &&
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
			return SELF_LABELS(s, out, {"host", collect_host_name(h)},
					   {"reason", reason.name}, {"target", h->target}) &&
			       collect_self_u64(out, reason.segments);
	}
	return false;
}

/* ---- the families ---- */

static const struct collect_self_family tcp_families[] = {
	{"sidelight_collector_tcp_lost", COUNTER, "",
	 "Data of connections that was lost or could not be attributed, by cause.",
	 BY_LABEL("cause", OF_FLOWS("end", lost), OF_FLOWS("final_values", from_journal),
		  OF_FLOWS("groups", other), OF_FLOWS("journal_gap", gaps),
		  OF_FLOWS("no_slot", unread), OF_TABLES("second_table", ignored),
		  OF_HOSTS("slot_reused", slot_stats[0].reused),
		  OF_HOSTS("slot_reused", slot_stats[1].reused), OF_FLOWS("unseen", unseen),
		  OF_TABLES("unsettled", unsettled))},
	{"sidelight_collector_tcp_missed_deadlines", COUNTER, "",
	 "Passes over a connection table that were skipped or began too late.",
	 SINGLE(OF_TABLES(NULL, missed))},
	{"sidelight_collector_tcp_passes", COUNTER, "",
	 "Number of times a connection table was read.",
	 SINGLE(OF_HOSTS(NULL, table_stats[TABLE_FLOWS].passes))},
	{"sidelight_collector_tcp_slots_refused", GAUGE, "",
	 "Occupied slots that are not read because of --tcp-flows.",
	 SINGLE(OF_TABLES(NULL, refused))},
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
