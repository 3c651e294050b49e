// SPDX-License-Identifier: Apache-2.0
/*
 * flow_why.c - determines what limits a connection. If both of its ends are read, on one host or
 * two, it uses both ends, so that their answers agree.
 */
#include <stdlib.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "collect/tables/flows.h"

static uint64_t key_of(size_t host, const struct region_flow *f)
{
	uint64_t start = 0;

	if (region_is_loopback(f->local)) {
		start = base_hash(0, &host, sizeof(host));
		start = base_hash(start, &f->netns, sizeof(f->netns));
	}
	return region_flow_end_hash(start, f);
}

void collect_flow_ends_add(struct collect_flow_ends *e, size_t host, uint32_t slot,
			   const struct region_flow *f)
{
	if (f->flags & SL_FLOW_LISTENER || !BASE_GROW(e->v, e->n, e->room))
		return; /* if out of memory, use only one end to explain the connection */
	e->v[e->n++] = (struct collect_flow_end){key_of(host, f), host, slot};
	e->sorted = false;
}

static int by_key(const void *a, const void *b)
{
	const struct collect_flow_end *x = a, *y = b;

	return BASE_ORDER(x->key, y->key) ?: BASE_ORDER(x->host, y->host);
}

/*
 * Returns the only end with this key on this host or, if this host has none, the only one on any
 * host; otherwise NULL. Containers on two hosts may have the same addresses.
 */
static const struct collect_flow_end *find_only(const struct collect_flow_ends *e, uint64_t key,
						size_t host)
{
	const struct collect_flow_end *here = NULL, *any = NULL;
	size_t at, n_here = 0, n = 0;

	BASE_LOWER_BOUND(at, 0, e->n, e->v[at].key < key);
	for (; at < e->n && e->v[at].key == key; at++, n++) {
		any = &e->v[at];
		here = any->host == host ? any : here;
		n_here += any->host == host;
	}
	if (n_here)
		return n_here == 1 ? here : NULL;
	return n == 1 ? any : NULL;
}

static const struct collect_flow_end *find_other(const struct collect_flow_view *v)
{
	struct collect_flow_ends *e = v->ends;
	const struct collect_flow_end *other, *own;
	uint64_t key;

	if (!e || v->stale || v->now->flags & SL_FLOW_LISTENER)
		return NULL;
	if (!e->sorted && e->n)
		qsort(e->v, e->n, sizeof(*e->v), by_key);
	e->sorted = true;
	key = key_of(v->host, v->now);
	other = find_only(e, key ^ 1, v->host);
	own = other ? find_only(e, key, other->host) : NULL;
	return own && own->host == v->host && own->slot == v->slot ? other : NULL;
}

/* If both states are equal, nothing was sent or received in between. */
static const struct region_flow *find_before(const struct region_flow *before,
					     const struct region_flow *now, int64_t read_ns,
					     int64_t now_ns)
{
	bool silent = now->state == SL_STATE_LIVE && !(now->flags & SL_FLOW_LISTENER) &&
		      !now->flight && now_ns - read_ns > COLLECT_FLOW_SILENT_NS;

	return silent ? now : before;
}

void collect_flow_why(const struct collect_flow_view *v, int64_t now_ns, struct region_why *out)
{
	struct region_flow other, other_before;
	const struct region_flow *now[2] = {v->now, &other}, *before[2];
	const struct collect_flow_end *end = find_other(v);
	uint64_t workload;
	int64_t read_ns;
	struct region_why both[2];

	before[0] = find_before(v->before, v->now, v->read_ns, now_ns);
	/* By now the slot may belong to another connection. */
	if (!end || !v->ends->table[end->host] ||
	    !collect_flow_snapshot(v->ends->table[end->host], end->slot, &other, &other_before,
				   &read_ns, &workload) ||
	    key_of(end->host, &other) != end->key) {
		region_why(before[0], v->now, out);
		return;
	}
	before[1] = find_before(other_before.id ? &other_before : NULL, &other, read_ns, now_ns);
	region_why_both(before, now, both);
	*out = both[0];
}
