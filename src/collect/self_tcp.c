// SPDX-License-Identifier: Apache-2.0
/* self_tcp.c - of the collector's own series, those of tables of connections. */
#include "collect/self.h"

static uint64_t sum_of(const struct self *s, size_t offset)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->c->hosts; i++)
		for (unsigned int k = 0; k < s->c->host[i].links; k++)
			sum += GET(*(
				const uint64_t *)((const char *)&s->c->host[i].link[k]->flow_stats +
						  offset));
	return sum;
}

#define SUM(s, member) sum_of(s, offsetof(struct flow_stats, member))

bool self_tcp_lost(struct self *s, struct sl_series *out)
{
	static const struct {
		const char *cause;
		size_t offset;
	} causes[] = {
		{"end", offsetof(struct flow_stats, lost)},
		{"final_values", offsetof(struct flow_stats, from_journal)},
		{"groups", offsetof(struct flow_stats, other)},
		{"journal_gap", offsetof(struct flow_stats, gaps)},
		{"second_table", offsetof(struct flow_stats, tables)},
		{"unseen", offsetof(struct flow_stats, unseen)},
		{"unsettled", offsetof(struct flow_stats, unsettled)},
	};

	return s->at < sizeof(causes) / sizeof(causes[0]) &&
	       self_label(s, out, "cause", causes[s->at].cause) &&
	       self_u64(out, sum_of(s, causes[s->at].offset));
}

bool self_tcp_missed(struct self *s, struct sl_series *out)
{
	return self_single(s, out, SUM(s, missed));
}

bool self_tcp_passes(struct self *s, struct sl_series *out)
{
	return self_single(s, out, SUM(s, passes));
}

bool self_tcp_refused(struct self *s, struct sl_series *out)
{
	return self_single(s, out, SUM(s, refused));
}
