// SPDX-License-Identifier: Apache-2.0
/* discover.c - the collector's own series about the hosts and peers that it discovered. */
#include "collect/discover/discover.h"
#include "collect/read/self.h"
#include "collect/self/self.h"

static bool states(struct collect_self *s, struct export_series *out, uint64_t n,
		   const char *const names[], const uint64_t v[])
{
	return s->at < n && collect_self_label(s, out, "state", names[s->at]) &&
	       collect_self_u64(out, v[s->at]);
}

static struct collect_discover_stats stats(struct collect_self *s)
{
	struct collect_discover_stats st;

	collect_discover_stats(s->arg, &st);
	return st;
}

static bool hosts(struct collect_self *s, struct export_series *out)
{
	struct collect_discover_stats st = stats(s);

	return states(s, out, 3, (const char *const[]){"known", "owned", "refused"},
		      (const uint64_t[]){st.hosts, st.owned, st.refused});
}

static bool peers(struct collect_self *s, struct export_series *out)
{
	struct collect_discover_stats st = stats(s);

	return states(s, out, 3, (const char *const[]){"known", "alive", "joined"},
		      (const uint64_t[]){st.peers.known, st.peers.alive, st.peers.joined});
}

static bool moves(struct collect_self *s, struct export_series *out)
{
	struct collect_discover_stats st = stats(s);

	return states(s, out, 2, (const char *const[]){"taken", "let_go"},
		      (const uint64_t[]){st.taken, st.let_go});
}

static bool peer_failures(struct collect_self *s, struct export_series *out)
{
	return s->at < COLLECT_PEER_FAILURES &&
	       collect_self_label(s, out, "cause", collect_peer_failure_names[s->at]) &&
	       collect_self_u64(out, stats(s).peers.failed[s->at]);
}

SINGLE(errors, stats(s).errors)
SINGLE(overlaps, stats(s).peers.overlaps)
SINGLE(leaves, stats(s).peers.leaves)
SINGLE(lapses, stats(s).lapses)

static const struct collect_self_family discovered_families[] = {
	{"sidelight_discover_errors", COUNTER, "",
	 "Answers of sources that failed, were malformed or empty: their hosts stay.", errors},
	{"sidelight_discover_hosts", GAUGE, "",
	 "Hosts that the sources name, that this collector reads, and beyond --max-hosts.", hosts},
	{"sidelight_discover_lapses", COUNTER, "",
	 "Times that this process stood still and let its hosts go.", lapses},
	{"sidelight_discover_leaves", COUNTER, "",
	 "Times that this process left its hosts to others, as a peer did not know it.", leaves},
	{"sidelight_discover_moves", COUNTER, "", "Hosts taken, and let go.", moves},
	{"sidelight_discover_overlaps", COUNTER, "",
	 "Times that a peer that did not hear this one, or was not heard, read hosts as well.",
	 overlaps},
	{"sidelight_discover_peer_failures", COUNTER, "",
	 "Questions to peers that had no answer, or a refusal.", peer_failures},
	{"sidelight_discover_peers", GAUGE, "",
	 "Collectors, with this one: known, heard, and sharing hosts.", peers},
};

static COLLECT_SELF_GROUP(discovered, NULL);

static const struct collect_part discover_part = {
	.groups = (const struct collect_self_group *const[]){&collect_self_discovered, NULL},
};

int collect_self_discover(struct collect_collector *c, struct collect_discover *d)
{
	return collect_collector_attach(c, &discover_part, d);
}
