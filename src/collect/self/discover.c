// SPDX-License-Identifier: Apache-2.0
/* discover.c - the collector's own series about the hosts that it discovered */
#include <stdio.h>

#include "collect/discover/discover.h"
#include "collect/read/self.h"
#include "collect/self/self.h"

static bool begin_walk(struct collect_self *s)
{
	collect_discover_stats(s->arg, s->own);
	return true;
}

/* Sets the labels of a series: that of the counter, then those of the shard, if any. */
static const void *stats_at(struct collect_self *s, struct export_series *out)
{
	const struct collect_discover_stats *st = s->own;
	char member[12], members[12];
	const struct region_text_label labels[] = {
		collect_self_by(s), {"shard", member}, {"shards", members}};
	const uint32_t first = s->family->key ? 0 : 1;

	snprintf(member, sizeof(member), "%u", st->shard.member);
	snprintf(members, sizeof(members), "%u", st->shard.members);
	return s->at < s->family->counters &&
			       collect_self_labels(s, out, labels + first,
						   (st->shard.members ? 3 : 1) - first)
		       ? st
		       : NULL;
}

#define OF_DISCOVER(label, field) OF(label, OWN, collect_discover_stats, field)
#define OF_SHARD(label, field)	  OF(label, FOUND, collect_discover_stats, field)

static const struct collect_self_family discovered_families[] = {
	{"sidelight_discover_errors", COUNTER, "",
	 "Failed queries of sources and failed reads of the --shard file, after which hosts and shard stay the same.",
	 SINGLE(OF_DISCOVER(NULL, errors))},
	{"sidelight_discover_hosts", GAUGE, "",
	 "Hosts named by the sources, hosts read by this collector, and hosts beyond --max-hosts.",
	 BY_LABEL("state", OF_SHARD("known", known), OF_SHARD("read", read),
		  OF_SHARD("refused", refused)),
	 .find = stats_at},
	{"sidelight_discover_list_hash", GAUGE, "",
	 "Hash of the list of hosts that the sources name; equal lists have equal hashes.",
	 EACH(stats_at, OF_SHARD(NULL, list))},
	{"sidelight_discover_moves", COUNTER, "",
	 "Hosts that the collector started or stopped reading.",
	 BY_LABEL("state", OF_DISCOVER("taken", taken), OF_DISCOVER("let_go", let_go))},
	{"sidelight_discover_replicas", GAUGE, "", "Collectors that should read each host.",
	 EACH(stats_at, OF_SHARD(NULL, replicas))},
};

static const struct collect_part discovered_part = {
	COLLECT_SELF_FAMILIES(discovered),
	.walk_bytes = sizeof(struct collect_discover_stats),
	.walk_begin = begin_walk,
};

int collect_self_discover(struct collect_collector *c, struct collect_discover *d)
{
	return collect_collector_attach(c, &discovered_part, d);
}
