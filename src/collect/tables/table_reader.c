// SPDX-License-Identifier: Apache-2.0
/* table_reader.c - paces the passes over a kernel table, and manages its READs and retries */
#include "collect/tables/table_reader.h"

#include <stdlib.h>

#include "base/base.h"
#include "collect/read/host.h"
#include "collect/tables/workload.h"
#include "collect/read/link.h"
#include "collect/read/worker.h"

/* a table is dropped if its hot line does not settle for this long */
#define HOT_MAX_NS 5000000000u

static const struct collect_table_type *const types[TABLES] = {
	[TABLE_FLOWS] = &collect_flows_type,
	[TABLE_LAYERS] = &collect_layers_type,
	[TABLE_TASKS] = &collect_tasks_type,
	[TABLE_SEGMENTS] = &collect_segments_type,
};

/* ---- found and gone ---- */

void collect_table_reader_free(struct collect_region *r)
{
	struct collect_table_reader *t = collect_table_reader_of(r);
	struct collect_tables *all = collect_collector_part(r->c, &collect_tables_part);

	t->type->clear(t, all);
	relaxed_sub(r->c->memory, t->type->size);
	free(t);
}

static enum region_fault make_table(const struct collect_table_type *type,
				    struct collect_tables *all, const struct sl_region_header *copy,
				    uint64_t length, struct collect_table_reader **out)
{
	struct collect_table_reader *t = calloc(1, type->size);
	enum region_fault fault = REGION_FAULT_MEMORY;

	if (t) {
		t->type = type;
		t->first = true;
		fault = type->fill(t, all, copy, length);
	}
	if (fault) {
		free(t);
		return fault;
	}
	relaxed_add(all->c->memory, type->size);
	*out = t;
	return REGION_FAULT_NONE;
}

static void set_table(struct collect_host_tables *h, int i, struct collect_region *r)
{
	if (i == TABLE_FLOWS && r && !h->table[i].region)
		relaxed_add(h->all->flow_tables, 1);
	if (i == TABLE_FLOWS && !r && h->table[i].region)
		relaxed_sub(h->all->flow_tables, 1);
	pthread_mutex_lock(&h->lock);
	h->table[i].region = r;
	pthread_mutex_unlock(&h->lock);
	relaxed_store(h->table_stats[i].present, r != NULL);
	relaxed_store(h->table_stats[i].refused, 0);
}

void collect_tables_found(struct collect_link *l, struct collect_region *r,
			  const struct sl_region_header *copy, uint64_t now_ns)
{
	int i = collect_table_of(r->kind);
	const struct collect_table_type *type = types[i];
	struct collect_host_tables *h = collect_tables_of(l);
	struct collect_region *old = h->table[i].region;
	struct collect_table_reader *t = collect_table_reader_of(r);
	enum region_fault fault = REGION_FAULT_NONE;

	if (old == r) { /* found again after a reconnect */
		t->hot_ok_ns = now_ns;
		return;
	}
	if (collect_table_bound(l, (enum collect_table)i)) {
		relaxed_bump(h->table_stats[i].ignored, 1);
		base_log_each(BASE_WARN, "collect", l->host->target,
			      "second kernel table ignored host=%s table=%s: stop one of its "
			      "publishers",
			      l->host->target, type->name);
		return;
	}
	if (!t)
		fault = make_table(type, h->all, copy, r->remote.length, &t);
	r->beside = t;
	if (fault == REGION_FAULT_MEMORY)
		collect_region_retry_later(l, r, now_ns);
	else if (fault)
		collect_region_drop(l, r, fault, now_ns);
	if (fault)
		return;
	/* Remove the table of an agent that is gone instead of waiting for it. */
	if (old)
		collect_table_remove(l, old);
	t->follows = h->table[i].had;
	t->hot_ok_ns = t->due_ns = now_ns;
	h->table[i].had = true;
	set_table(h, i, r);
}

void collect_tables_gone(struct collect_link *l, struct collect_region *r)
{
	struct collect_host_tables *h = collect_tables_of(l);

	for (int i = 0; i < TABLES; i++) {
		if (h->table[i].region != r)
			continue;
		if (types[i]->gone)
			types[i]->gone(l, r);
		set_table(h, i, NULL);
		/* A host that returns has changed in the meantime: treat it like a new one. */
		h->table[i].had &= !r->left;
	}
}

bool collect_table_bound(const struct collect_link *l, enum collect_table table)
{
	const struct collect_region *r = collect_tables_of(l)->table[table].region;

	return r && r->step == STEP_BOUND;
}

/* ---- a pass ---- */

static struct collect_table_stats *stats_of(struct collect_link *l, const struct collect_region *r)
{
	return &collect_tables_of(l)->table_stats[collect_table_of(r->info->kind)];
}

static bool is_bound(const struct collect_region *r)
{
	return !r->gone && r->step == STEP_BOUND;
}

/* Returns true if the bytes of a READ may be used. */
static bool is_usable(const struct collect_region *r)
{
	return is_bound(r) && !collect_table_reader_of(r)->failed;
}

static void end_pass(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	collect_table_reader_of(r)->phase = READER_IDLE;
	if (!is_usable(r) || !collect_table_reader_of(r)->type->done(l, r, now_ns))
		return;
	collect_table_reader_of(r)->first = false;
	relaxed_bump(stats_of(l, r)->passes, 1);
	relaxed_bump(r->rounds, 1);
	relaxed_store(r->fresh_ns, now_ns);
	relaxed_store(r->last_read_ns, (uint64_t)l->real_ns);
}

/* Returns true if the whole body has been requested. */
static bool is_requested(const struct collect_table_reader *t)
{
	for (uint32_t i = 0; i < TABLE_SECTIONS; i++)
		if (t->section[i].next < t->section[i].end)
			return false;
	return true;
}

/* Called when a pass may have ended. */
static void check_end(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_table_reader *t = collect_table_reader_of(r);

	if (t->reads || t->phase == READER_IDLE)
		return;
	if (t->failed || (t->phase == READER_BODY && is_requested(t)))
		end_pass(l, r, now_ns);
}

static void drop_table(struct collect_link *l, struct collect_region *r, enum region_fault fault,
		       uint64_t now_ns)
{
	collect_table_reader_of(r)->failed = collect_table_reader_of(r)->dropped = true;
	collect_region_drop(l, r, fault, now_ns);
}

static bool take_hot(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		     uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_table_reader *t = collect_table_reader_of(r);
	enum region_fault fault;

	if (!is_bound(r))
		return true;
	fault = t->type->hot(l, r, read->to, now_ns);
	if (fault == REGION_FAULT_UNSETTLED) {
		if (op->tries < LINK_TRIES - 1)
			return false;
		relaxed_bump(stats_of(l, r)->unsettled, 1);
		relaxed_bump(l->worker->unsettled, 1);
		t->failed = true;
		if (now_ns - t->hot_ok_ns > HOT_MAX_NS)
			drop_table(l, r, fault, now_ns);
		return true;
	}
	if (fault) {
		t->failed = true;
		if (fault != REGION_FAULT_MEMORY)
			drop_table(l, r, fault, now_ns);
		return true;
	}
	relaxed_bump(l->worker->lines, 1);
	t->hot_ok_ns = now_ns;
	t->phase = READER_BODY;
	return true;
}

static bool take_elements(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			  uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_table_reader *t = collect_table_reader_of(r);
	const struct collect_section *s = &t->section[op->index];
	uint64_t number = (read->offset - s->at) / s->stride;
	struct collect_unsettled u = {0};

	if (!is_usable(r))
		return true;
	if (s->ring) /* the number that has this place of the ring in this pass */
		number = s->first + ((number - s->first) & (s->ring - 1));
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t at = op->low; at < op->high; at += s->stride, number++) {
		const uint64_t *words =
			(const uint64_t *)((const uint8_t *)read->to + (at - op->low));
		const uint32_t before = u.count;
		enum region_fault fault = s->of->take(l, r, number, words, now_ns, &u);

		if (fault == REGION_FAULT_UNSETTLED) {
			u.count++;
		} else if (fault) {
			t->failed = true;
			if (fault != REGION_FAULT_MEMORY)
				collect_region_drop(l, r, fault, now_ns);
			return true;
		}
		if (u.count == before)
			continue;
		if (!before) {
			u.low = at;
			u.number = number;
		}
		u.high = at + s->bytes;
	}
	if (u.count && collect_reads_narrow(op, read, u.low, u.high))
		return false;
	if (s->of->taken)
		s->of->taken(l, r, &u);
	return true;
}

void collect_table_count_unsettled(struct collect_link *l, struct collect_region *r,
				   const struct collect_unsettled *u)
{
	relaxed_bump(stats_of(l, r)->unsettled, u->count);
	relaxed_bump(r->unsettled, u->count);
	relaxed_bump(l->worker->unsettled, u->count);
}

/* ---- READs ---- */

static void fail_read(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns)
{
	collect_table_reader_of(op->region)->failed = true;
	collect_region_read_failed(l, op, status, now_ns);
}

static void end_read(struct collect_link *l, struct collect_op *op, uint64_t now_ns)
{
	collect_table_reader_of(op->region)->reads--;
	check_end(l, op->region, now_ns);
}

static const struct collect_op_kind hot_read = {
	.take = take_hot, .failed = fail_read, .over = end_read};
static const struct collect_op_kind elements_read = {
	.take = take_elements, .failed = fail_read, .over = end_read};

/* Prepares a READ of the table. Returns NULL if there is no room now. */
static struct collect_op *request_read(struct collect_link *l, struct collect_region *r,
				       const struct collect_op_kind *kind, uint64_t offset,
				       uint32_t length)
{
	struct collect_table_reader *t = collect_table_reader_of(r);
	struct collect_op *op;

	if (t->failed || t->reads >= t->type->reads_max)
		return NULL;
	op = collect_reads_new(l, kind, r, &r->remote, offset, length);
	t->reads += op != NULL;
	return op;
}

/* Requests the rest of the body, until there is no more room. */
static void request_body(struct collect_link *l, struct collect_region *r)
{
	struct collect_table_reader *t = collect_table_reader_of(r);

	for (uint32_t i = 0; i < TABLE_SECTIONS; i++) {
		struct collect_section *s = &t->section[i];

		while (s->next < s->end) {
			uint64_t place = s->ring ? s->next & (s->ring - 1) : s->next;
			uint64_t n = s->end - s->next;
			struct collect_op *op;

			n = BASE_MIN(n, TABLE_READ_MAX / s->stride ?: 1u);
			if (s->of->alone || s->bytes < s->stride)
				n = 1;
			if (s->ring)
				n = BASE_MIN(n, s->ring - place);
			op = request_read(l, r, &elements_read, s->at + place * s->stride,
					  (uint32_t)(n - 1) * s->stride + s->bytes);
			if (!op)
				return;
			op->index = i;
			s->next += n;
		}
	}
}

/* ---- the pace ---- */

/* Starts a pass if it is due. Returns true while a pass is in progress. */
static bool begin_pass(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_table_reader *t = collect_table_reader_of(r);
	uint64_t period = collect_tables_of(l)->all->o.period_ns, late;

	if (now_ns < t->due_ns)
		return t->phase != READER_IDLE;
	if (t->type->period_max_ns)
		period = BASE_MIN(period, t->type->period_max_ns);
	late = (now_ns - t->due_ns) / period;
	t->due_ns += (late + 1) * period;
	late += t->phase != READER_IDLE;
	if (late && !t->first)
		relaxed_bump(stats_of(l, r)->missed, late);
	if (t->phase == READER_IDLE) {
		t->phase = READER_HOT;
		t->failed = t->hot_requested = false;
		t->begun_ns = now_ns;
	}
	return true;
}

static void poll_table(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_table_reader *t = collect_table_reader_of(r);

	if (r->step != STEP_BOUND || l->state != FABRIC_UP) {
		if (!t->reads)
			t->phase = READER_IDLE;
		t->failed = true;
		return;
	}
	if (!begin_pass(l, r, now_ns))
		return;
	if (!t->reads && t->failed) {
		t->phase = READER_IDLE;
		return;
	}
	if (!collect_directory_lease_holds(l, now_ns)) {
		collect_directory_read(l, now_ns);
		return;
	}
	if (t->phase == READER_HOT && !t->hot_requested)
		t->hot_requested = request_read(l, r, &hot_read, t->hot_at, SL_LINE_SIZE);
	if (t->phase == READER_BODY)
		request_body(l, r);
	check_end(l, r, now_ns); /* an empty body needs no READ */
}

void collect_tables_poll(struct collect_link *l, uint64_t now_ns)
{
	struct collect_host_tables *h = collect_tables_of(l);

	collect_workloads_expire(l, now_ns);
	for (int i = 0; i < TABLES; i++)
		if (h->table[i].region)
			poll_table(l, h->table[i].region, now_ns);
}

uint64_t collect_tables_due(const struct collect_link *l)
{
	uint64_t due = UINT64_MAX;

	for (int i = 0; i < TABLES; i++) {
		const struct collect_table_reader *t;

		if (!collect_table_bound(l, (enum collect_table)i))
			continue;
		t = collect_table_reader_of(collect_tables_of(l)->table[i].region);
		due = t->phase == READER_IDLE ? BASE_MIN(due, t->due_ns) : 0;
	}
	return due;
}
