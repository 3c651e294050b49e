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

/* Makes a series with the labels of the shard, if any, and a state label unless state is NULL. */
static bool put_series(struct collect_self *s, struct export_series *out,
		       const struct collect_shard *shard, const char *state, uint64_t v)
{
	char member[12], members[12];
	const struct region_text_label labels[] = {
		{"state", state}, {"shard", member}, {"shards", members}};
	const uint32_t first = state ? 0 : 1;

	snprintf(member, sizeof(member), "%u", shard->member);
	snprintf(members, sizeof(members), "%u", shard->members);
	return collect_self_labels(s, out, labels + first, (shard->members ? 3 : 1) - first) &&
	       collect_self_u64(out, v);
}

static bool make_hosts(struct collect_self *s, struct export_series *out)
{
	static const char *const states[] = {"known", "read", "refused"};
	const struct collect_discover_stats *st = s->own;
	const uint64_t v[] = {st->known, st->read, st->refused};

	return s->at < 3 && put_series(s, out, &st->shard, states[s->at], v[s->at]);
}

static bool make_list(struct collect_self *s, struct export_series *out)
{
	const struct collect_discover_stats *st = s->own;

	return !s->at && put_series(s, out, &st->shard, NULL, st->list);
}

static bool make_replicas(struct collect_self *s, struct export_series *out)
{
	const struct collect_discover_stats *st = s->own;

	return !s->at && put_series(s, out, &st->shard, NULL, st->replicas);
}

#define OF_DISCOVER(label, field) OF(label, OWN, collect_discover_stats, field)

static const struct collect_self_family discovered_families[] = {
	{"sidelight_discover_errors", COUNTER, "",
	 "Failed queries of sources and failed reads of the --shard file, after which hosts and shard stay the same.",
	 SINGLE(OF_DISCOVER(NULL, errors))},
	{"sidelight_discover_hosts", GAUGE, "",
	 "Hosts named by the sources, hosts read by this collector, and hosts beyond --max-hosts.",
	 .series = make_hosts},
	{"sidelight_discover_list_hash", GAUGE, "",
	 "Hash of the list of hosts that the sources name; equal lists have equal hashes.",
	 .series = make_list},
	{"sidelight_discover_moves", COUNTER, "",
	 "Hosts that the collector started or stopped reading.",
	 BY_LABEL("state", OF_DISCOVER("taken", taken), OF_DISCOVER("let_go", let_go))},
	{"sidelight_discover_replicas", GAUGE, "", "Collectors that should read each host.",
	 .series = make_replicas},
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
