// SPDX-License-Identifier: Apache-2.0
/* discover.c - the collector's own series about the hosts and peers that it discovered. */
#include "collect/discover/discover.h"
#include "collect/self/self.h"

static bool state(struct collect_self *s, struct export_series *out, const char *const names[2],
		  const uint64_t v[2])
{
	return s->at < 2 && collect_self_label(s, out, "state", names[s->at]) &&
	       collect_self_u64(out, v[s->at]);
}

static struct collect_discover_stats stats(struct collect_self *s)
{
	struct collect_discover_stats st;

	collect_discover_stats(s->c->discover, &st);
	return st;
}

static bool hosts(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"known", "owned", "refused"};
	struct collect_discover_stats st = stats(s);
	const uint64_t v[] = {st.hosts, st.owned, st.refused};

	return s->at < 3 && collect_self_label(s, out, "state", names[s->at]) &&
	       collect_self_u64(out, v[s->at]);
}

static bool peers(struct collect_self *s, struct export_series *out)
{
	struct collect_discover_stats st = stats(s);

	return state(s, out, (const char *const[]){"known", "alive"},
		     (const uint64_t[]){st.peers, st.alive});
}

static bool moves(struct collect_self *s, struct export_series *out)
{
	struct collect_discover_stats st = stats(s);

	return state(s, out, (const char *const[]){"taken", "let_go"},
		     (const uint64_t[]){st.taken, st.let_go});
}

static bool peer_failures(struct collect_self *s, struct export_series *out)
{
	return s->at < COLLECT_PEER_FAILURES &&
	       collect_self_label(s, out, "cause", collect_peer_failure_names[s->at]) &&
	       collect_self_u64(out, stats(s).failed[s->at]);
}

SINGLE(errors, stats(s).errors)
SINGLE(overlaps, stats(s).overlaps)
SINGLE(lapses, stats(s).lapses)

static bool exposed(const struct collect_self *s)
{
	return s->c->discover;
}

static const struct collect_self_family discover_families[] = {
	{"sidelight_discover_errors", COUNTER, "",
	 "Answers of sources that failed, were malformed or empty: their hosts stay.", errors},
	{"sidelight_discover_hosts", GAUGE, "",
	 "Hosts that the sources name, that this collector reads, and beyond --max-hosts.", hosts},
	{"sidelight_discover_lapses", COUNTER, "",
	 "Times that this process stood still and let its hosts go.", lapses},
	{"sidelight_discover_moves", COUNTER, "", "Hosts taken, and let go.", moves},
	{"sidelight_discover_overlaps", COUNTER, "",
	 "Times that a peer thought dead was not: both may have read the same hosts.", overlaps},
	{"sidelight_discover_peer_failures", COUNTER, "",
	 "Questions to peers that had no answer, or a refusal.", peer_failures},
	{"sidelight_discover_peers", GAUGE, "", "Collectors, with this one.", peers},
};

COLLECT_SELF_PART(discover, exposed);
