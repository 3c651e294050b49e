// SPDX-License-Identifier: Apache-2.0
/*
 * flows.c - reads a host's table of connections, at a pace of its own beside the rounds: the hot
 * line first, and then, as far as it says that there is anything, slots and new lines of the
 * journal. What does not settle is read again a few times; after that the last good values stay,
 * and it counts.
 *
 * A host has one table, and the first of its links reads it.
 */
#include "collect/kernel/flows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define READ_MAX       65536u
#define SLOTS_A_READ   (READ_MAX / SL_FLOW_SIZE)
#define LINES_A_READ   (READ_MAX / SL_LINE_SIZE)
#define READS_OUT      16u	   /* at once: most of the landing memory is the rounds' */
#define HOT_MAX_NS     5000000000u /* a hot line that does not settle for so long never will */
#define STUCK_MAX      10u	   /* passes that a line of the journal may take to settle */
#define EXPIRE_NS      1000000000u
#define SNAPSHOT_TRIES 8

/* ---- memory ---- */

void collect_flow_table_free(struct collect_flow_table *t, struct collect_collector *c)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->pages; i++) {
		if (!t->page[i])
			continue;
		relaxed_sub(c->memory, sizeof(*t->page[i]));
		relaxed_sub(c->flow_slots, FLOW_PAGE);
		free(t->page[i]);
	}
	collect_flow_owners_free(t, c);
	relaxed_sub(c->memory, sizeof(*t) + t->pages * sizeof(*t->page));
	free(t->page);
	free(t->event);
	free(t->orphan);
	free(t);
}

static struct collect_flow_table *table_new(struct collect_collector *c,
					    const struct region_flows_info *info)
{
	struct collect_flow_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->info = *info;
	t->first = true;
	t->naming = info->cgroups ? 2 : 0; /* how many there are, and who they are */
	t->pages = (info->slots + FLOW_PAGE - 1) / FLOW_PAGE;
	t->page = calloc(t->pages, sizeof(*t->page));
	if (!t->page) {
		free(t);
		return NULL;
	}
	relaxed_add(c->memory, sizeof(*t) + t->pages * sizeof(*t->page));
	return t;
}

/* The slots of this pass that there are pages for. */
static uint32_t reserve_pages(struct collect_collector *c, struct collect_flow_table *t,
			      uint32_t slots)
{
	for (uint32_t i = 0; i * FLOW_PAGE < slots; i++) {
		struct collect_flow_page *p = t->page[i];

		if (p)
			continue;
		if (relaxed_add(c->flow_slots, FLOW_PAGE) + FLOW_PAGE > c->opts.tcp_flows ||
		    !(p = calloc(1, sizeof(*p)))) {
			relaxed_sub(c->flow_slots, FLOW_PAGE);
			return i * FLOW_PAGE;
		}
		relaxed_add(c->memory, sizeof(*p));
		/* Pairs with collect_flow_snapshot(). */
		__atomic_store_n(&t->page[i], p, __ATOMIC_RELEASE);
	}
	return slots;
}

/* ---- coming and going ---- */

static void show(struct collect_host *h, struct collect_region *r)
{
	struct collect_region *old;

	if (r)
		collect_ref_get(&r->refs);
	pthread_mutex_lock(&h->lock);
	old = h->flows;
	h->flows = r;
	pthread_mutex_unlock(&h->lock);
	collect_region_put(old);
}

struct collect_region *collect_flows_of(struct collect_host *h)
{
	struct collect_region *r;

	pthread_mutex_lock(&h->lock);
	r = h->flows;
	if (r)
		collect_ref_get(&r->refs);
	pthread_mutex_unlock(&h->lock);
	return r;
}

void collect_flows_gone(struct collect_link *l, struct collect_region *r)
{
	if (l->flows != r)
		return;
	collect_flows_abandon(l, r->flows);
	l->flows = NULL;
	show(l->host, NULL);
}

void collect_flows_found(struct collect_link *l, struct collect_region *r,
			 const struct sl_region_header *copy, uint64_t now_ns)
{
	struct region_flows_info info;

	if (l->flows == r) {
		r->flows->hot_ok_ns = now_ns;
		return; /* after a reconnect */
	}
	if (l->flows && l->flows->step == STEP_BOUND) {
		relaxed_bump(l->flow_stats.tables, 1);
		base_log_limited(
			BASE_WARN, "collect",
			"a second table of connections is not read host=%s: stop one of them",
			l->host->target);
		return;
	}
	if (region_flows_info_parse(copy, r->remote.length, &info))
		return; /* collect_region_identify() has found nothing wrong with it */
	/* That of an agent that is gone: it would only be waited for. */
	if (l->flows)
		collect_table_remove(l, l->flows);
	if (!r->flows)
		r->flows = table_new(l->c, &info);
	if (!r->flows) {
		collect_region_retry_later(l, r, now_ns);
		return;
	}
	r->flows->follows = l->had_flows;
	r->flows->hot_ok_ns = r->flows->due_ns = now_ns;
	l->had_flows = true;
	l->flows = r;
	show(l->host, r);
}

/* ---- the hot line ---- */

static void pass_over(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_flow_table *t = r->flows;

	t->phase = FLOWS_IDLE;
	if (t->failed || r->gone || r->step != STEP_BOUND || l->flows != r)
		return;
	if (t->naming) {
		t->naming--;
		t->due_ns = now_ns;
		return;
	}
	collect_flows_settle(l, t, now_ns);
	t->first = false;
	relaxed_bump(l->flow_stats.passes, 1);
	relaxed_store(t->open, t->hot.open);
	relaxed_store(t->slots_read, t->slots);
	relaxed_bump(r->rounds, 1);
	relaxed_store(r->fresh_ns, now_ns);
	relaxed_store(r->last_read_ns, (uint64_t)l->real_ns);
	collect_workloads_show(l, now_ns);
}

static bool hot_follows(const struct region_flows_hot *before, const struct region_flows_hot *now)
{
	return now->round >= before->round && now->used >= before->used &&
	       now->journal >= before->journal;
}

static void begin_body(struct collect_link *l, struct collect_flow_table *t,
		       const struct region_flows_hot *hot, uint64_t now_ns)
{
	uint64_t from = t->journal;

	t->hot = *hot;
	t->owner_slot = 0;
	t->owner_slots = collect_flow_owners_wanted(t, now_ns);
	t->slot = t->slots = t->events = 0;
	t->pass++;
	t->phase = FLOWS_BODY;
	if (t->naming) {
		t->journal_asked = hot->journal;
		return;
	}
	t->slots = reserve_pages(l->c, t, hot->used);
	relaxed_store(l->flow_stats.slots, t->slots);
	if (t->slots < hot->used)
		relaxed_store(l->flow_stats.refused, hot->used - t->slots);
	/* What ended before this table was first looked at is none of ours, unless we have seen all
	 * that the host did before. */
	if (t->first)
		from = t->follows ? 0 : hot->journal;
	if (hot->journal - from > t->info.journal_lines) {
		relaxed_bump(l->flow_stats.gaps, hot->journal - from - t->info.journal_lines);
		from = hot->journal - t->info.journal_lines;
	}
	t->journal = t->journal_asked = from;
	t->journal_end = hot->journal;
}

static bool take_hot(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		     uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_flow_table *t = r->flows;
	struct region_flows_hot hot;
	enum region_fault fault;

	if (r->gone || r->step != STEP_BOUND)
		return true;
	fault = region_flows_hot_parse(read->to, &t->info, &hot);
	if (!fault && !hot_follows(&t->hot, &hot))
		fault = REGION_FAULT_HOT;
	if (fault == REGION_FAULT_UNSETTLED) {
		if (op->tries < LINK_TRIES - 1)
			return false;
		relaxed_bump(l->flow_stats.unsettled, 1);
		t->failed = true;
		if (now_ns - t->hot_ok_ns > HOT_MAX_NS)
			collect_region_drop(l, r, fault, now_ns);
		return true;
	}
	if (fault) {
		collect_region_drop(l, r, fault, now_ns);
		return true;
	}
	relaxed_bump(l->worker->lines, 1);
	t->hot_ok_ns = now_ns;
	begin_body(l, t, &hot, now_ns);
	return true;
}

/* ---- slots and journal ---- */

/* Where what did not settle begins and ends: it is asked for again, and nothing beside it. */
struct again {
	uint32_t low, high, count;
};

static void again_at(struct again *a, uint32_t at, uint32_t bytes)
{
	if (!a->count++)
		a->low = at;
	a->high = at + bytes;
}

/* True if the READ is done with. */
static bool settled(struct collect_op *op, struct fabric_read *read, const struct again *a)
{
	if (!a->count || op->tries == LINK_TRIES - 1)
		return true;
	read->offset += a->low;
	read->to = (uint8_t *)read->to + a->low;
	read->length = a->high - a->low;
	return false;
}

static bool take_slots(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		       uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_flow_table *t = r->flows;
	uint32_t first = (uint32_t)((read->offset - t->info.flows) / SL_FLOW_SIZE);
	struct again again = {0};

	if (r->gone || r->step != STEP_BOUND || t->failed)
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t i = 0; i < read->length / SL_FLOW_SIZE; i++) {
		const uint64_t *words = (const uint64_t *)read->to + (size_t)i * FLOW_WORDS;
		struct region_flow f;
		enum region_fault fault = region_flow_parse(words, &f);

		if (fault == REGION_FAULT_UNSETTLED) {
			again_at(&again, i * SL_FLOW_SIZE, SL_FLOW_SIZE);
		} else if (fault) {
			collect_region_drop(l, r, fault, now_ns);
			return true;
		} else if (!collect_flow_take(l, t, first + i, words, &f, now_ns)) {
			t->failed = true;
			return true;
		}
	}
	if (!settled(op, read, &again))
		return false;
	relaxed_bump(l->flow_stats.unsettled, again.count);
	relaxed_bump(r->unsettled, again.count);
	relaxed_bump(l->worker->unsettled, again.count);
	return true;
}

static bool take_owners(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_flow_table *t = r->flows;
	uint32_t first = (uint32_t)((read->offset - t->info.cgroups) / SL_FLOW_CGROUP_SIZE);
	struct again again = {0};

	if (r->gone || r->step != STEP_BOUND || t->failed)
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t i = 0; i < read->length / SL_FLOW_CGROUP_SIZE; i++) {
		enum region_fault fault = collect_flow_owner_take(
			l, t, first + i,
			(const uint64_t *)read->to + (size_t)i * SL_FLOW_CGROUP_SIZE / 8);

		if (fault == REGION_FAULT_UNSETTLED) {
			again_at(&again, i * SL_FLOW_CGROUP_SIZE, SL_FLOW_CGROUP_SIZE);
		} else if (fault) {
			collect_region_drop(l, r, fault, now_ns);
			return true;
		}
	}
	if (!settled(op, read, &again))
		return false;
	relaxed_bump(l->flow_stats.unsettled, again.count);
	t->owners_moved |= again.count > 0;
	return true;
}

static bool keep_event(struct collect_flow_table *t, const struct region_flow_record *e)
{
	uint32_t room = t->event_room ? t->event_room * 2 : 64;
	struct region_flow_record *to;

	if (t->events == t->event_room) {
		to = realloc(t->event, room * sizeof(*to));
		if (!to)
			return false;
		t->event = to;
		t->event_room = room;
	}
	t->event[t->events++] = *e;
	return true;
}

static bool take_journal(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			 uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_flow_table *t = r->flows;
	uint64_t place = (read->offset - t->info.journal) / SL_LINE_SIZE, gaps = 0;
	/* The line of that place that lies in what is read in this pass. */
	uint64_t number = t->journal + ((place - t->journal) & (t->info.journal_lines - 1));
	struct again again = {0};

	if (r->gone || r->step != STEP_BOUND || t->failed)
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t i = 0; i < read->length / SL_LINE_SIZE; i++) {
		const uint64_t *line = (const uint64_t *)read->to + (size_t)i * 8;
		struct region_flow_record e;
		enum region_fault fault = region_flow_event_parse(line, number + i, &e);

		if (fault == REGION_FAULT_UNSETTLED) {
			again_at(&again, i * SL_LINE_SIZE, SL_LINE_SIZE);
		} else if (fault == REGION_FAULT_CHECK) {
			gaps++; /* a later one is there by now */
		} else if (fault) {
			collect_region_drop(l, r, fault, now_ns);
			return true;
		} else if (e.event == SL_FLOW_EVENT_CLOSE && !keep_event(t, &e)) {
			t->failed = true;
			return true;
		}
	}
	if (!settled(op, read, &again))
		return false;
	relaxed_bump(l->flow_stats.gaps, gaps);
	number += again.low / SL_LINE_SIZE;
	if (again.count && t->stuck < STUCK_MAX)
		t->journal_end = number < t->journal_end ? number : t->journal_end;
	else
		relaxed_bump(l->flow_stats.gaps, again.count);
	return true;
}

/* ---- READs ---- */

static void failed(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns)
{
	struct collect_region *r = op->region;

	r->flows->failed = true;
	/* The memory is not there any more, or it moved: ask for it anew. */
	if (op->epoch == l->epoch && r->step == STEP_BOUND &&
	    (status == -EACCES || status == -ERANGE))
		collect_region_retry_later(l, r, now_ns);
}

static bool all_asked(const struct collect_flow_table *t)
{
	return t->failed || (t->phase == FLOWS_BODY && t->slot >= t->slots &&
			     t->owner_slot >= t->owner_slots && t->journal_asked == t->hot.journal);
}

static void over(struct collect_link *l, struct collect_op *op, const struct fabric_read *read,
		 uint64_t now_ns)
{
	struct collect_flow_table *t = op->region->flows;

	(void)read;
	t->ops--;
	if (t->phase != FLOWS_IDLE && !t->ops && all_asked(t))
		pass_over(l, op->region, now_ns);
}

static const struct collect_op_kind hot_read = {.take = take_hot, .failed = failed, .over = over};
static const struct collect_op_kind slots_read = {
	.take = take_slots, .failed = failed, .over = over};
static const struct collect_op_kind owners_read = {
	.take = take_owners, .failed = failed, .over = over};
static const struct collect_op_kind journal_read = {
	.take = take_journal, .failed = failed, .over = over};

static bool ask(struct collect_link *l, struct collect_region *r,
		const struct collect_op_kind *kind, uint64_t offset, uint32_t length)
{
	struct collect_flow_table *t = r->flows;

	if (t->ops >= READS_OUT || !collect_reads_new(l, kind, r, &r->remote, offset, length))
		return false;
	t->ops++;
	return true;
}

static void ask_for_body(struct collect_link *l, struct collect_region *r)
{
	struct collect_flow_table *t = r->flows;

	/* Names come before those whose they are. */
	while (!t->failed && t->owner_slot < t->owner_slots) {
		uint32_t n = t->owner_slots - t->owner_slot;

		n = n < SLOTS_A_READ ? n : SLOTS_A_READ;
		if (!ask(l, r, &owners_read,
			 t->info.cgroups + (uint64_t)t->owner_slot * SL_FLOW_CGROUP_SIZE,
			 n * SL_FLOW_CGROUP_SIZE))
			return;
		t->owner_slot += n;
	}
	while (!t->failed && t->slot < t->slots) {
		uint32_t n = t->slots - t->slot;

		n = n < SLOTS_A_READ ? n : SLOTS_A_READ;
		if (!ask(l, r, &slots_read, t->info.flows + (uint64_t)t->slot * SL_FLOW_SIZE,
			 n * SL_FLOW_SIZE))
			return;
		t->slot += n;
	}
	while (!t->failed && t->journal_asked < t->hot.journal) {
		uint64_t place = t->journal_asked & (t->info.journal_lines - 1);
		uint64_t n = t->hot.journal - t->journal_asked;

		n = n < LINES_A_READ ? n : LINES_A_READ;
		n = n < t->info.journal_lines - place ? n : t->info.journal_lines - place;
		if (!ask(l, r, &journal_read, t->info.journal + place * SL_LINE_SIZE,
			 (uint32_t)n * SL_LINE_SIZE))
			return;
		t->journal_asked += n;
	}
}

/* True while there is something to be asked for. */
static bool begin(struct collect_link *l, struct collect_flow_table *t, uint64_t now_ns)
{
	uint64_t period = l->c->opts.tcp_period_ns, late;

	if (now_ns < t->due_ns)
		return t->phase != FLOWS_IDLE;
	late = (now_ns - t->due_ns) / period;
	t->due_ns += (late + 1) * period;
	if (t->phase != FLOWS_IDLE)
		late++;
	if (late && !t->first)
		relaxed_bump(l->flow_stats.missed, late);
	if (t->phase == FLOWS_IDLE) {
		t->phase = FLOWS_HOT;
		t->failed = false;
		t->slots = 0; /* the hot line is to be asked for */
		t->slot = 1;
	}
	return true;
}

void collect_flows_poll(struct collect_link *l, uint64_t now_ns)
{
	struct collect_region *r = l->flows;
	struct collect_flow_table *t;

	if (l->workloads && now_ns >= l->workloads_ns) {
		collect_workloads_expire(l, now_ns);
		l->workloads_ns = now_ns + EXPIRE_NS;
	}
	if (!r)
		return;
	t = r->flows;
	if (r->step != STEP_BOUND || l->state != FABRIC_UP) {
		if (!t->ops)
			t->phase = FLOWS_IDLE;
		t->failed = true;
		return;
	}
	if (!begin(l, t, now_ns))
		return;
	if (t->phase == FLOWS_HOT && !t->ops && t->failed) {
		t->phase = FLOWS_IDLE;
		return;
	}
	if (!collect_directory_lease_holds(l, now_ns)) {
		collect_directory_read(l, now_ns);
		return;
	}
	if (t->phase == FLOWS_HOT && t->slot && ask(l, r, &hot_read, t->info.hot, SL_LINE_SIZE))
		t->slot = 0;
	if (t->phase == FLOWS_BODY)
		ask_for_body(l, r);
	/* An empty table, whose journal says nothing new. */
	if (t->phase == FLOWS_BODY && !t->ops && all_asked(t))
		pass_over(l, r, now_ns);
}

uint64_t collect_flows_due(const struct collect_link *l)
{
	const struct collect_region *r = l->flows;

	if (!r || r->step != STEP_BOUND)
		return UINT64_MAX;
	return r->flows->phase == FLOWS_IDLE ? r->flows->due_ns : 0;
}

/* ---- for others ---- */

bool collect_flow_snapshot(const struct collect_flow_table *t, uint32_t slot,
			   struct region_flow *now, struct region_flow *before, int64_t *read_ns,
			   uint64_t *workload)
{
	const struct collect_flow_page *p;
	uint64_t words[FLOW_WORDS];
	uint32_t i = slot % FLOW_PAGE;

	if (slot >= t->info.slots)
		return false;
	/* Pairs with reserve_pages(). */
	p = __atomic_load_n(&t->page[slot / FLOW_PAGE], __ATOMIC_ACQUIRE);
	if (!p || !relaxed_load(p->now[i][SL_FLOW_ID]))
		return false;
	for (int tries = 0; tries < SNAPSHOT_TRIES; tries++) {
		region_copy_words(words, p->now[i], FLOW_WORDS);
		*read_ns = relaxed_load(p->read_ns[i]);
		*workload = relaxed_load(p->workload[i]);
		if (region_flow_parse(words, now))
			continue;
		if (now->state == SL_STATE_FREE)
			return false;
		region_copy_words(words, p->before[i], FLOW_WORDS);
		if (region_flow_parse(words, before) || before->id != now->id)
			before->id = 0;
		return true;
	}
	return false;
}
