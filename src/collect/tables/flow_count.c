// SPDX-License-Identifier: Apache-2.0
/*
 * flow_count.c - counts each flow's changes since the last pass exactly once: as the difference
 * between two states with the same id, up to the final values that a closed flow leaves in its
 * slot. The journal reports flows whose slot was reused between two passes.
 *
 * A flow's activity before it was first seen is not counted; otherwise the sums would jump whenever
 * a collector starts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/tables/flows.h"

/* minimum time between the two states that show what limits a flow */
#define BEFORE_NS 1000000000u

static void store_words(uint64_t *to, const uint64_t *from)
{
	for (uint32_t i = 0; i < FLOW_SEEN_WORDS; i++)
		relaxed_store(to[i], from[i]);
}

static struct region_flow parse_words(const uint64_t *words)
{
	struct region_flow f;

	if (collect_flow_parse(words, &f))
		/* cannot happen, because the words were parsed before they were stored */
		memset(&f, 0, sizeof(f));
	return f;
}

/* ---- owners ---- */

/*
 * The opener of a flow older than the table is unknown: the flow is the server's if the host
 * listens on its port; otherwise the lower port is assumed to be the service's port.
 */
static void service_of(const struct collect_flow_table *t, const struct region_flow *f,
		       uint32_t *role, uint16_t *port)
{
	bool client = f->flags & SL_FLOW_ACTIVE || region_flow_failed(f);

	if (f->flags & SL_FLOW_OLDER && !client && !(f->flags & SL_FLOW_LISTENER))
		client = !(t->listening[f->local_port / 8] >> f->local_port % 8 & 1) &&
			 f->remote_port < f->local_port;
	*role = client ? FLOW_CLIENT : FLOW_SERVER;
	*port = client ? f->remote_port : f->local_port;
}

static bool enter_workload(struct collect_link *l, struct collect_flow_table *t,
			   struct collect_flow_seen *s, const struct region_flow *f,
			   const struct collect_flow_owner *who)
{
	uint16_t port;
	uint32_t role;

	service_of(t, f, &role, &port);
	/*
	 * A listening port without a connection gets its own series only after its listener has
	 * dropped a segment.
	 */
	s->lumped = s->listener && !f->drops;
	if (s->lumped)
		port = 0;
	s->workload = collect_workload_of(l, who, WORKLOAD_FLOWS, role, port, s->counts, &s->group);
	if (!s->workload)
		return false;
	s->since_ns = 0;
	s->workload->flows++;
	return true;
}

static void arrive_flow(struct collect_link *l, struct collect_flow_table *t,
			struct collect_flow_seen *s, const struct region_flow *f, uint64_t now_ns)
{
	bool there = f->flags & SL_FLOW_OLDER ||
		     (t->reader.first && !t->reader.follows && f->open_ns <= t->hot.changed_ns);

	*s = (struct collect_flow_seen){
		.id = f->id,
		.end = s->end,
		.counts = !there,
		.listener = f->flags & SL_FLOW_LISTENER,
		.since_ns = now_ns,
	};
	if (s->listener)
		t->listening[f->local_port / 8] |= (uint8_t)(1u << f->local_port % 8);
	else if (s->counts && !region_flow_failed(f))
		relaxed_bump(collect_tables_of(l)->flow_stats.opened, 1);
}

/*
 * Finds the owner, whose name may become known later than the flow. Sets *anew if nothing of the
 * flow has been counted yet. Returns false if out of memory.
 */
static bool settle_owner(struct collect_link *l, struct collect_flow_table *t,
			 struct collect_flow_seen *s, const struct region_flow *f, uint64_t now_ns,
			 bool *anew)
{
	struct collect_workload *old = s->workload;
	uint32_t group = s->group;
	struct collect_flow_owner who;

	bool moves = s->lumped && f->drops; /* the flow moves to the series of its own port */

	*anew = !old;
	if (old && !s->unknown && !moves)
		return true;
	s->unknown = !collect_flow_owner_find(t, f->cgroup, &who);
	if (s->unknown) {
		bool waits = s->counts && f->state == SL_STATE_LIVE && t->info.cgroups &&
			     now_ns - s->since_ns < collect_flow_owner_wait(l);

		if ((old && !moves) || waits)
			return true;
	}
	if (!enter_workload(l, t, s, f, &who))
		return false;
	if (old) {
		if (!s->listener)
			collect_workload_left(old, group);
		old->flows--;
	}
	collect_workload_opened(s->workload, s->group, f, !old && s->counts);
	return true;
}

/* ---- states ---- */

static void end_flow(struct collect_link *l, struct collect_flow_seen *s,
		     const struct region_flow *f)
{
	bool counts = !s->listener && (!f || !(f->flags & SL_FLOW_UNWANTED));

	if (!s->listener)
		collect_workload_closed(s->workload, s->group, f, counts);
	s->workload->flows--;
	s->workload = NULL;
	s->final = true;
	if (counts && !(f && region_flow_failed(f)))
		relaxed_bump(collect_tables_of(l)->flow_stats.closed, 1);
}

/* Counts a flow of which only the journal's end record was read. */
static void count_unseen(struct collect_link *l, const struct region_flow_record *e)
{
	uint32_t role = e->local_port <= e->remote_port ? FLOW_SERVER : FLOW_CLIENT, group;
	struct collect_workload *w;

	if (!e->remote_port || e->failed)
		return; /* a listener, or not a connection */
	w = collect_workload_other(l, WORKLOAD_FLOWS, role, &group);
	if (!w)
		return;
	collect_workload_opened(w, group, NULL, true);
	collect_workload_add_bytes(w, group, e->sent, e->received);
	collect_workload_closed(w, group, NULL, true);
	relaxed_bump(collect_tables_of(l)->flow_stats.opened, 1);
	relaxed_bump(collect_tables_of(l)->flow_stats.closed, 1);
	relaxed_bump(collect_tables_of(l)->flow_stats.unseen, 1);
}

/*
 * Counts the end of a flow whose slot is not read because of --tcp-flows. Its bytes are not added:
 * the flow may be older than the collector, and the sums would jump.
 */
static void count_unread(struct collect_link *l, const struct region_flow_record *e)
{
	if (e->remote_port && !e->failed)
		relaxed_bump(collect_tables_of(l)->flow_stats.unread, 1);
}

static void end_by_journal(struct collect_link *l, struct collect_flow_seen *s,
			   const struct region_flow_record *e, uint64_t acked, uint64_t received)
{
	collect_workload_add_bytes(s->workload, s->group, collect_grown(acked, e->sent),
				   collect_grown(received, e->received));
	end_flow(l, s, NULL);
	relaxed_bump(collect_tables_of(l)->flow_stats.from_journal, 1);
}

/* Called when the slot was reused. The final values of the flow are in the journal. */
static bool leave_slot(struct collect_link *l, struct collect_flow_table *t,
		       struct collect_flow_seen *s, const uint64_t *words, uint64_t now_ns)
{
	struct region_flow f = parse_words(words);
	bool anew;

	if (!s->final && !s->workload) {
		/* use the owner known so far instead of waiting */
		s->since_ns = now_ns - collect_flow_owner_wait(l);
		if (!settle_owner(l, t, s, &f, now_ns, &anew))
			return false;
		collect_workload_add(s->workload, s->group, NULL, &f);
	}
	if (s->end.id == s->id) {
		if (!s->final)
			end_by_journal(l, s, &s->end, f.bytes_acked, f.bytes_received);
		*s = (struct collect_flow_seen){0};
		return true;
	}
	if (!BASE_GROW(t->orphan, t->orphans, t->orphan_room))
		return false;
	t->orphan[t->orphans++] = (struct collect_flow_orphan){
		.id = s->id,
		.seen = *s,
		.acked = f.bytes_acked,
		.received = f.bytes_received,
	};
	*s = (struct collect_flow_seen){.end = s->end};
	return true;
}

/* True if nothing happened in the flow between its last state and the activity that led to f. */
static bool was_idle(const struct region_flow *last, const struct region_flow *f)
{
	uint32_t waited_ms = f->waited_ms - last->waited_ms + (f->thought_ms - last->thought_ms);

	return !region_flow_unread(last) && f->busy_us - last->busy_us < BEFORE_NS / 1000 &&
	       waited_ms < BEFORE_NS / 1000000;
}

/*
 * Stores the state with which f is compared. If the flow was idle before, the interval between the
 * two states begins with its activity: rates would otherwise include the idle time. active_ns: time
 * since the pass that last found the flow unchanged, which is the longest that the activity can
 * have lasted; very large if unknown.
 */
static void store_before(struct collect_flow_page *p, uint32_t i, const struct region_flow *last,
			 const struct region_flow *f, uint64_t active_ns)
{
	uint64_t since_ns = last->changed_ns + BASE_MAX(active_ns, BEFORE_NS);
	bool idle = last->id == f->id && f->changed_ns > since_ns && was_idle(last, f);

	relaxed_store(p->idle_ns[i], idle ? f->changed_ns - since_ns : 0);
	store_words(p->before[i], idle ? p->now[i] : p->middle[i]);
}

bool collect_flow_take(struct collect_link *l, struct collect_flow_table *t, uint32_t slot,
		       const uint64_t *read, const struct region_flow *f, uint64_t now_ns)
{
	struct collect_flow_page *p = t->page[slot / FLOW_PAGE];
	uint32_t i = slot % FLOW_PAGE;
	uint64_t words[FLOW_SEEN_WORDS];
	struct collect_flow_seen *s = &p->seen[i];
	uint64_t *was = p->now[i];
	bool settled = p->pass[i] == t->pass - 1, anew;
	struct region_flow before;

	memcpy(words, read, SL_FLOW_SIZE);
	memcpy(words + FLOW_WORDS, was + FLOW_WORDS, SL_LINE_SIZE);
	p->pass[i] = t->pass;
	if (s->end.id && s->end.id != s->id && s->end.id != f->id) {
		count_unseen(l, &s->end);
		s->end.id = 0;
	}
	if (words[SL_FLOW_TAG] == was[SL_FLOW_TAG] && words[SL_FLOW_ID] == was[SL_FLOW_ID] &&
	    (!s->id || s->final || (s->workload && !s->unknown)))
		return true; /* nothing new */
	if (s->id && (f->state == SL_STATE_FREE || s->id != f->id) &&
	    !leave_slot(l, t, s, was, now_ns))
		return false;
	if (f->state != SL_STATE_FREE) {
		before = parse_words(was);
		if (!s->id)
			arrive_flow(l, t, s, f, now_ns);
		if (!s->final) {
			if (!settle_owner(l, t, s, f, now_ns, &anew))
				return false;
			if (s->workload && (!anew || s->counts))
				collect_workload_add(s->workload, s->group, anew ? NULL : &before,
						     f);
			if (s->workload)
				relaxed_store(p->workload[i], s->workload->region->instance);
			if (f->state == SL_STATE_CLOSED)
				end_flow(l, s, f);
		}
		if (p->middle[i][SL_FLOW_ID] != f->id) {
			memcpy(p->middle[i], words, sizeof(p->middle[i]));
		} else if (f->changed_ns >= p->middle[i][SL_FLOW_CHANGED_NS] + BEFORE_NS) {
			store_before(p, i, &before, f,
				     settled ? now_ns - t->last_pass_ns : UINT64_MAX / 2);
			memcpy(p->middle[i], words, sizeof(p->middle[i]));
		}
	}
	if (words[SL_FLOW_TAG] != was[SL_FLOW_TAG] || words[SL_FLOW_ID] != was[SL_FLOW_ID]) {
		relaxed_store(p->read_ns[i], l->real_ns);
		store_words(was, words);
	}
	return true;
}

/* ---- the journal ---- */

static struct collect_flow_orphan *find_orphan(struct collect_flow_table *t, uint64_t id)
{
	struct collect_flow_orphan key = {.id = id};

	return !t->orphans ? NULL : bsearch(&key, t->orphan, t->orphans, sizeof(key), base_by_u64);
}

static void take_end(struct collect_link *l, struct collect_flow_table *t,
		     const struct region_flow_record *e, uint64_t now_ns)
{
	struct collect_flow_page *p = e->slot < t->slots ? t->page[e->slot / FLOW_PAGE] : NULL;
	uint32_t i = e->slot % FLOW_PAGE;
	struct collect_flow_seen *s = p ? &p->seen[i] : NULL;
	struct collect_flow_orphan *o = find_orphan(t, e->id);

	if (o) {
		if (!o->seen.final)
			end_by_journal(l, &o->seen, e, o->acked, o->received);
		o->late = true;
	} else if (s && s->id == e->id) {
		if (s->end.id)
			count_unseen(l, &s->end);
		s->end = *e; /* the final values are in the slot, now or in the next pass */
	} else if (s && p->pass[i] != t->pass) {
		/*
		 * The slot did not settle, so the end belongs to the flow in it or to an earlier
		 * one.
		 */
		if (s->end.id && s->end.id != s->id)
			count_unseen(l, &s->end);
		else if (s->end.id && !leave_slot(l, t, s, p->now[i], now_ns))
			relaxed_bump(collect_tables_of(l)->flow_stats.lost, 1);
		s->end = *e;
	} else if (s) {
		count_unseen(l, e);
	} else {
		count_unread(l, e);
	}
}

void collect_flows_settle(struct collect_link *l, struct collect_flow_table *t, uint64_t now_ns)
{
	uint32_t n = 0;

	if (t->orphans)
		qsort(t->orphan, t->orphans, sizeof(*t->orphan), base_by_u64);
	if (t->events)
		qsort(t->event, t->events, sizeof(*t->event), base_by_u64);
	/* A line appears twice if it was read again together with an unsettled neighbour. */
	for (uint32_t i = 0; i < t->events; i++)
		if (t->event[i].number < t->journal_end &&
		    (!i || t->event[i].number != t->event[i - 1].number))
			take_end(l, t, &t->event[i], now_ns);
	t->events = 0;
	t->stuck = t->journal_end < t->hot.journal ? t->stuck + 1 : 0;
	t->journal = t->journal_end;
	/*
	 * The slot may have been read after the hot line, so the next pass may report the flow's
	 * end.
	 */
	for (uint32_t i = 0; i < t->orphans; i++) {
		struct collect_flow_orphan *o = &t->orphan[i];

		if (!o->late) {
			o->late = true;
			t->orphan[n++] = *o;
		} else if (!o->seen.final) {
			end_flow(l, &o->seen, NULL);
			relaxed_bump(collect_tables_of(l)->flow_stats.lost, 1);
		}
	}
	t->orphans = n;
}

static void abandon_flow(struct collect_link *l, struct collect_flow_seen *s)
{
	s->workload->flows--;
	if (s->listener)
		return;
	collect_workload_left(s->workload, s->group);
	relaxed_bump(collect_tables_of(l)->flow_stats.lost, 1);
}

void collect_flows_abandon(struct collect_link *l, struct collect_flow_table *t)
{
	for (uint32_t k = 0; k < t->pages; k++)
		for (uint32_t i = 0; t->page[k] && i < FLOW_PAGE; i++) {
			struct collect_flow_seen *s = &t->page[k]->seen[i];

			if (s->id && s->workload)
				abandon_flow(l, s);
			*s = (struct collect_flow_seen){0};
		}
	for (uint32_t i = 0; i < t->orphans; i++)
		if (t->orphan[i].seen.workload)
			abandon_flow(l, &t->orphan[i].seen);
	t->orphans = 0;
	relaxed_store(t->open, 0);
}
