// SPDX-License-Identifier: Apache-2.0
/* turn.c - divides the rounds of a link fairly among its tenants */
#include "collect/read/turn.h"

#include <stdlib.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/read/link.h"
#include "collect/read/worker.h"

#define DIVIDE_NS   100000000u /* interval at which each tenant's share is recomputed */
#define PERIOD_NS   10000000u  /* period to assume if none is set */
#define MEASURABLE  10000u     /* minimum number of lines to measure their cost */
#define LINE_NS_MAX 1000u
/* a tenant may spend 1 / SCHEMA_PART of a worker's time on schemas, and save up SCHEMA_SAVED_NS */
#define SCHEMA_PART	8u
#define SCHEMA_SAVED_NS 1000000u

static struct collect_turn *turn_of(const struct collect_region *r)
{
	return &r->tenant->turn[r->link->queue];
}

/* ---- division ---- */

uint64_t collect_fair_level(uint64_t *claim, size_t n, uint64_t left)
{
	qsort(claim, n, sizeof(*claim), base_by_u64);
	for (size_t i = 0; i < n; i++) {
		if (claim[i] > left / (n - i))
			return left / (n - i);
		left -= claim[i];
	}
	return UINT64_MAX;
}

/* Returns the level for the claims that are not exempt. */
static uint64_t water_level(const struct collect_claim *claim, uint32_t count, uint64_t left)
{
	uint64_t *v = malloc((count + (size_t)1) * sizeof(*v)), level = UINT64_MAX;
	uint32_t n = 0;

	for (uint32_t i = 0; v && i < count; i++)
		if (!claim[i].exempt)
			v[n++] = claim[i].lines;
	if (v)
		level = collect_fair_level(v, n, left);
	free(v);
	return level;
}

void collect_turns_divide(struct collect_claim *claim, uint32_t count, uint64_t budget)
{
	uint64_t sum = 0, exempt = 0, left, level;

	for (uint32_t i = 0; i < count; i++) {
		claim[i].part = 0;
		sum += claim[i].lines;
		exempt += claim[i].exempt ? claim[i].lines : 0;
	}
	if (count < 2 || sum <= budget)
		return;
	left = budget > exempt ? budget - exempt : 0;
	level = water_level(claim, count, BASE_MAX(left, budget / 8));
	for (uint32_t i = 0; i < count; i++) {
		uint64_t others = (sum - claim[i].lines) / (count - 1);
		uint64_t part = BASE_MAX(level, others);

		if (!claim[i].exempt && claim[i].lines > part)
			claim[i].part = BASE_MAX(part, 1u);
	}
}

/* ---- the link's tenants ---- */

void collect_turns_free(struct collect_link *l)
{
	for (uint32_t i = 0; i < l->tenants; i++)
		collect_tenant_put(l->tenant[i]);
	l->tenants = 0;
}

/*
 * Lists the tenants with regions on this link, and counts the lines of a pass over their regions.
 */
static void sum_up(struct collect_link *l)
{
	uint32_t stamp = ++l->turn_stamp;

	collect_turns_free(l);
	for (uint32_t i = 0; i < l->regions; i++) {
		struct collect_region *r = l->region[i];
		struct collect_turn *t = turn_of(r);

		if (r->gone || r->step != STEP_BOUND || collect_reads_beside(l->c, r->kind))
			continue;
		if (t->stamp != stamp) {
			if (!BASE_GROW(l->tenant, l->tenants, l->tenant_capacity))
				return;
			l->tenant[l->tenants++] = collect_tenant_ref(r->tenant);
			t->stamp = stamp;
			relaxed_store(t->lines, 0);
		}
		relaxed_bump(t->lines, r->plan.bytes / SL_LINE_SIZE);
	}
}

/* Returns the number of lines that can be read in half a period, at the recent cost per line. */
static uint64_t get_budget(struct collect_link *l)
{
	struct collect_worker *w = l->worker;
	uint64_t period = l->c->opts.period_ns ? l->c->opts.period_ns : PERIOD_NS;
	uint64_t lines = w->lines - l->turn_lines, busy = w->busy_ns - l->turn_busy_ns;

	if (lines >= MEASURABLE) {
		uint64_t line_ns = BASE_MIN(busy / lines + 1, (uint64_t)LINE_NS_MAX);

		l->line_ns = l->line_ns ? (3 * l->line_ns + line_ns) / 4 : line_ns;
		l->turn_lines = w->lines;
		l->turn_busy_ns = w->busy_ns;
	}
	return l->line_ns ? period / 2 / w->links / l->line_ns : UINT64_MAX;
}

static void divide_round(struct collect_link *l)
{
	struct collect_claim *claim;

	sum_up(l);
	claim = calloc(l->tenants + (size_t)1, sizeof(*claim));
	if (!claim)
		return;
	for (uint32_t i = 0; i < l->tenants; i++)
		claim[i] = (struct collect_claim){.lines = l->tenant[i]->turn[l->queue].lines,
						  .exempt = l->tenant[i]->exempt};
	collect_turns_divide(claim, l->tenants, get_budget(l));
	for (uint32_t i = 0; i < l->tenants; i++) {
		struct collect_turn *t = &l->tenant[i]->turn[l->queue];
		uint64_t part = claim[i].part;

		t->part = part;
		relaxed_store(t->every, part ? (uint32_t)((t->lines + part - 1) / part) : 1);
	}
	free(claim);
}

void collect_turns_begin(struct collect_link *l, uint64_t now_ns)
{
	/* A round that was cut short has not visited all regions. */
	bool whole = l->cursor != UINT32_MAX;

	if (now_ns >= l->divide_ns) {
		divide_round(l);
		l->divide_ns = now_ns + DIVIDE_NS;
	}
	for (uint32_t i = 0; i < l->tenants; i++) {
		struct collect_turn *t = &l->tenant[i]->turn[l->queue];
		int64_t part = (int64_t)t->part;

		if (whole && !t->lap_open && l->rounds - t->lap_round >= t->every) {
			t->lap++;
			t->lap_round = l->rounds;
			relaxed_store(t->last_lap_at_ns, t->lap_at_ns);
			t->lap_at_ns = now_ns;
		}
		if (whole)
			t->lap_open = false;

		/*
		 * Credit may be negative, because the last READ may have cost more than was left.
		 */
		t->credit = BASE_MIN(t->credit + part, part);
	}
}

/* ---- a region's turn ---- */

bool collect_turn_slow(const struct collect_region *r)
{
	return turn_of(r)->every > 1;
}

bool collect_turn_due(const struct collect_region *r)
{
	struct collect_turn *t = turn_of(r);
	bool due = r->lap != t->lap;

	t->lap_open |= due || r->pass;
	return !r->pass && (due || r->want_pass);
}

uint64_t collect_turn_last_lap(const struct collect_region *r)
{
	return relaxed_load(turn_of(r)->last_lap_at_ns);
}

void collect_turn_take(struct collect_region *r)
{
	r->lap = turn_of(r)->lap;
}

bool collect_turn_pay(const struct collect_region *r, uint32_t bytes)
{
	struct collect_turn *t = turn_of(r);

	if (!t->part)
		return true; /* the tenant is no longer slow */
	if (t->credit <= 0)
		return false;
	t->credit -= bytes / SL_LINE_SIZE + 1;
	return true;
}

void collect_turns_set_up(struct collect_link *l)
{
	l->schema_tenants_before = l->schema_tenants;
	l->schema_tenants = 0;
	l->schema_stamp++;
}

bool collect_turn_schema(const struct collect_region *r, uint64_t now_ns)
{
	struct collect_turn *t = turn_of(r);

	if (r->tenant->exempt)
		return true;
	if (t->schema_stamp != r->link->schema_stamp) {
		t->schema_stamp = r->link->schema_stamp;
		r->link->schema_tenants++;
	}
	return now_ns >= t->schema_ns;
}

void collect_turn_spend(const struct collect_region *r, uint64_t spent_ns, uint64_t now_ns)
{
	uint64_t part = BASE_MAX(SCHEMA_PART, r->link->schema_tenants_before);
	struct collect_turn *t = turn_of(r);

	t->schema_ns = BASE_MAX(t->schema_ns, now_ns - SCHEMA_PART * SCHEMA_SAVED_NS);
	t->schema_ns += part * spent_ns;
}

uint64_t collect_turn_exemplars(struct collect_turn *t, uint64_t now_ns, uint64_t piece_ns)
{
	uint64_t at = BASE_MAX(t->exemplars_ns, now_ns);

	t->exemplars_ns = at + piece_ns;
	return at;
}
