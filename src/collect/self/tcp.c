// SPDX-License-Identifier: Apache-2.0
/* self_tcp.c - of the collector's own series, those of tables of connections, layers and tasks. */
#include "collect/self/self.h"
#include "collect/kernel/slots.h"

static uint64_t slots_sum_of(const struct collect_self *s, size_t offset)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->c->hosts; i++)
		for (int k = 0; k < SLOT_TABLES; k++)
			sum += relaxed_load(*(const uint64_t *)((const char *)&s->c->host[i]
									.link[0]
									->slot_stats[k] +
								offset));
	return sum;
}

static uint64_t sum_of(const struct collect_self *s, size_t offset)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->c->hosts; i++)
		for (unsigned int k = 0; k < s->c->host[i].links; k++)
			sum += relaxed_load(*(
				const uint64_t *)((const char *)&s->c->host[i].link[k]->flow_stats +
						  offset));
	return sum;
}

#define SUM(s, member) sum_of(s, offsetof(struct collect_flow_stats, member))

bool collect_self_tcp_lost(struct collect_self *s, struct export_series *out)
{
	static const struct {
		const char *cause;
		size_t offset, slots; /* in collect_flow_stats and collect_slot_stats; 0, that of
					 passes: in none */
	} causes[] = {
		{.cause = "end", .offset = offsetof(struct collect_flow_stats, lost)},
		{.cause = "final_values",
		 .offset = offsetof(struct collect_flow_stats, from_journal)},
		{.cause = "groups", .offset = offsetof(struct collect_flow_stats, other)},
		{.cause = "journal_gap", .offset = offsetof(struct collect_flow_stats, gaps)},
		{.cause = "second_table",
		 .offset = offsetof(struct collect_flow_stats, tables),
		 .slots = offsetof(struct collect_slot_stats, tables)},
		{.cause = "slot_reused", .slots = offsetof(struct collect_slot_stats, reused)},
		{.cause = "unseen", .offset = offsetof(struct collect_flow_stats, unseen)},
		{.cause = "unsettled",
		 .offset = offsetof(struct collect_flow_stats, unsettled),
		 .slots = offsetof(struct collect_slot_stats, unsettled)},
	};

	return s->at < sizeof(causes) / sizeof(causes[0]) &&
	       collect_self_label(s, out, "cause", causes[s->at].cause) &&
	       collect_self_u64(
		       out,
		       (causes[s->at].offset ? sum_of(s, causes[s->at].offset) : 0) +
			       (causes[s->at].slots ? slots_sum_of(s, causes[s->at].slots) : 0));
}

bool collect_self_tcp_missed(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(
		s, out,
		SUM(s, missed) + slots_sum_of(s, offsetof(struct collect_slot_stats, missed)));
}

bool collect_self_tcp_passes(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, SUM(s, passes));
}

bool collect_self_tcp_refused(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(
		s, out,
		SUM(s, refused) + slots_sum_of(s, offsetof(struct collect_slot_stats, refused)));
}

/* Of each host, those that there are: most causes never happen. */
bool collect_self_kernel_lost(struct collect_self *s, struct export_series *out)
{
	static const char *const tasks[SL_TASK_LOSSES] = {
		[SL_TASK_LOSS_TASKS] = "tasks_full",
		[SL_TASK_LOSS_CGROUPS] = "cgroups_full",
		[SL_TASK_LOSS_UNTRACKED] = "untracked",
	};
	const size_t each = SL_CAUSES + SL_TASK_LOSSES;

	for (; s->at < s->c->hosts * each; s->at++) {
		const struct collect_host *h = &s->c->host[s->at / each];
		size_t i = s->at % each;
		int table = i >= SL_CAUSES;
		uint64_t n;

		i -= table ? SL_CAUSES : 0;
		n = relaxed_load(h->link[0]->slot_stats[table].lost[i]);
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
