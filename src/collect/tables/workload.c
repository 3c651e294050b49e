// SPDX-License-Identifier: Apache-2.0
/*
 * workload.c - the synthetic region of a workload. Snapshots, history, index, exposition, analysis
 * and the API treat it like any other region.
 *
 * --tcp-groups bounds the workloads with a role and a port; the rest is counted under port "other"
 * of its workload, or under the workload "(other)" of its host. Cells are only appended, so that a
 * column keeps its meaning: the column of a port that loses its name is removed, and returns
 * together with the name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "collect/read/host.h"
#include "collect/tables/slots.h"
#include "collect/tables/workload.h"
#include "collect/read/link.h"
#include "collect/read/ref.h"

/* maximum number of named ports per workload and role; more ports are unlikely to be services */
#define PORTS_MAX 16u
/* maximum number of ports per workload whose traffic is counted for the ranking */
#define KNOWN_MAX   256u
#define COLUMN_MAX  128u /* maximum number of ports per workload that have ever had a name */
#define RANK_PASSES 60u	 /* passes between two rankings */
#define FORGET	    8u	 /* each ranking forgets 1 / FORGET of the earlier traffic */
#define AHEAD	    2u	 /* factor by which a port must be busier to take another port's name */
#define IDLE_NS	    600000000000u /* a workload without a connection expires after this long */
#define EXPIRE_NS   1000000000u	  /* time between two searches for idle workloads */

/* ---- workloads ---- */

static bool take_group(struct collect_host_tables *h)
{
	if (!collect_tables_take(h->all, &h->all->groups, h->all->o.groups, h->groups, 1))
		return false;
	h->groups++;
	return true;
}

static void give_group(struct collect_host_tables *h, bool held)
{
	h->groups -= held;
	relaxed_sub(h->all->groups, held);
}

static uint64_t key_of(const struct collect_link *l, const struct collect_flow_owner *who)
{
	uint64_t h = base_hash_text(base_hash_text(0, "tcp"), l->host->target);

	for (int i = 0; i < SL_CGROUP_TEXTS; i++)
		h = base_hash_text(h, who->name[i]);
	return h;
}

static uint64_t extend_hash(uint64_t h, const char *s)
{
	return sl_fnv1a(h, s, strlen(s) + 1);
}

/*
 * Unlike the key, the instance is the same at all collectors that read the host, because alerts
 * identify the workload by it.
 */
static uint64_t make_instance(struct collect_link *l, const struct collect_flow_owner *who)
{
	uint64_t h = extend_hash(extend_hash(SL_FNV_BASIS, "tcp"), l->host->target);

	for (int i = 0; i < SL_CGROUP_TEXTS; i++)
		h = extend_hash(h, who->name[i]);
	while (!h || collect_table_find(l, h))
		h = h * SL_LINE_K0 + 1;
	return h;
}

static struct collect_workload *make_workload(struct collect_link *l,
					      const struct collect_flow_owner *who, uint64_t key)
{
	static const char *const keys[SL_CGROUP_TEXTS] = {"namespace", "pod", "container",
							  "service", "unit"};
	struct collect_host_tables *h = collect_tables_of(l);
	struct region_info *info = calloc(1, sizeof(*info));
	struct collect_workload *w = calloc(1, sizeof(*w));
	struct collect_region *r = NULL;
	const uint64_t instance = make_instance(l, who);
	size_t used = 0;

	if (info && w)
		r = collect_table_add(l, instance);
	if (r) {
		info->instance = instance;
		info->kind = SL_REGION_FLOWS;
		info->start_ns = base_realtime_ns();
		for (int i = 0; i < SL_CGROUP_TEXTS; i++)
			if (*who->name[i])
				region_add_label(info, &used, keys[i], who->name[i]);
	}
	if (r &&
	    collect_region_synthesize(r, info, collect_host_name(l->host), h->all->o.period_ns)) {
		collect_table_remove(l, r);
		r = NULL;
	}
	free(info);
	if (!r) {
		free(w);
		return NULL;
	}
	collect_ref_get(&r->refs);
	w->region = r;
	w->key = key;
	w->rank_period_ns = RANK_PASSES * h->all->o.period_ns;
	w->next = h->workloads;
	h->workloads = w;
	relaxed_add(l->c->memory, sizeof(*w));
	return w;
}

static bool grow_array(struct collect_collector *c, void *array, uint32_t *room, uint32_t count,
		       size_t size)
{
	size_t n = *room;

	if (!base_grow(array, &n, count, size))
		return false;
	relaxed_add(c->memory, (n - *room) * size);
	*room = (uint32_t)n;
	return true;
}

/* Gives a group its own cells. */
static bool own_cells(struct collect_link *l, struct collect_workload *w, uint32_t group)
{
	struct collect_workload_group *g = &w->group[group];
	uint32_t n = collect_workload_part_cells[g->part];

	if (g->own)
		return true;
	if (!grow_array(l->c, &w->cell, &w->cell_room, w->cells + n, sizeof(*w->cell)))
		return false;
	memset(w->cell + w->cells, 0, n * sizeof(*w->cell));
	g->own = w->cells + 1;
	w->cells += n;
	return true;
}

/* Makes a group count in the cells starting at `at`, and moves its open connections there. */
static void move_group(struct collect_workload *w, struct collect_workload_group *g, uint32_t at)
{
	if (g->part == WORKLOAD_FLOWS) {
		w->cell[g->at + COLLECT_OPEN] -= g->open;
		w->cell[at + COLLECT_OPEN] += g->open;
	}
	g->at = at;
	w->named++;
}

/* at: first of the cells in which the group counts if it is not named. */
static bool add_group(struct collect_link *l, struct collect_workload *w,
		      const struct collect_workload_group *like, uint32_t at)
{
	if (!grow_array(l->c, &w->group, &w->group_room, w->groups + 1, sizeof(*w->group)))
		return false;
	w->group[w->groups] = *like;
	w->group[w->groups].at = at;
	if (like->named || !like->port) {
		if (!own_cells(l, w, w->groups))
			return false;
		w->group[w->groups].at = w->group[w->groups].own - 1;
		w->named++;
	}
	w->groups++;
	return true;
}

static bool find_group(const struct collect_workload *w, const struct collect_workload_group *like,
		       uint32_t *group)
{
	for (uint32_t i = 0; i < w->groups; i++)
		if (w->group[i].part == like->part && w->group[i].role == like->role &&
		    w->group[i].port == like->port) {
			*group = i;
			return true;
		}
	return false;
}

/* ---- names of ports ---- */

static bool is_of(const struct collect_workload_group *g, uint8_t role, uint16_t port)
{
	return g->role == role && g->port == port;
}

/*
 * Returns true if this role and port already have a name in some part. *held: number of the role's
 * groups that hold a place.
 */
static bool has_name(const struct collect_workload *w, uint8_t role, uint16_t port, uint32_t *held)
{
	bool named = false;

	*held = 0;
	for (uint32_t i = 0; i < w->groups; i++) {
		*held += w->group[i].role == role && w->group[i].held;
		named |= is_of(&w->group[i], role, port) && w->group[i].named;
	}
	return named;
}

/*
 * Takes a place for a port, which counts against PORTS_MAX and --tcp-groups. Returns false if there
 * is none.
 */
static bool take_place(struct collect_link *l, struct collect_workload *w, uint8_t role)
{
	uint32_t held;

	has_name(w, role, 0, &held);
	if (held >= PORTS_MAX)
		return false;
	if (!w->held)
		return take_group(collect_tables_of(l));
	w->held = false; /* the port takes over the workload's place */
	return true;
}

/* Gives a role and port its name in each part, or takes the name away. */
static void set_name(struct collect_link *l, struct collect_workload *w, uint8_t role,
		     uint16_t port, bool named)
{
	for (uint32_t i = 0; i < w->groups; i++) {
		struct collect_workload_group like = w->group[i];
		uint32_t other;

		if (!is_of(&like, role, port) || like.named == named)
			continue;
		like.port = 0;
		if (!find_group(w, &like, &other) || (named && !own_cells(l, w, i)))
			continue; /* out of memory: it counts under "other" */
		w->group[i].named = named;
		move_group(w, &w->group[i], named ? w->group[i].own - 1 : w->group[other].at);
	}
}

/*
 * Finds or adds the group of all other ports, for which there is always room. Its series are shown
 * once it is used.
 */
static bool find_rest(struct collect_link *l, struct collect_workload *w,
		      struct collect_workload_group like, bool used, uint32_t *group)
{
	like.port = 0;
	like.named = false;
	if (!find_group(w, &like, group)) {
		if (!add_group(l, w, &like, 0))
			return false;
		*group = w->groups - 1;
	}
	w->named += used && !w->group[*group].named;
	w->group[*group].named |= used;
	return true;
}

static struct collect_workload *in_group(struct collect_link *l, struct collect_workload *w,
					 struct collect_workload_group like, bool now,
					 uint32_t *group)
{
	uint32_t held;

	if (like.port && find_group(w, &like, group))
		return w;
	if (like.port) {
		like.named = has_name(w, like.role, like.port, &held);
		if (!like.named)
			like.held = like.named = now && take_place(l, w, like.role);
		w->waiting |= !like.named && !now;
		if (now && !like.named)
			relaxed_bump(collect_tables_of(l)->flow_stats.other, 1);
	}
	if (!find_rest(l, w, like, !like.port || (now && !like.named), group) ||
	    (like.port && (like.named || w->groups < KNOWN_MAX) &&
	     !add_group(l, w, &like, w->group[*group].at))) {
		give_group(collect_tables_of(l), like.held);
		return NULL;
	}
	if (like.port)
		find_group(w, &like, group);
	return w;
}

/* A busier port comes first; among equally busy ports, the lower one. */
static bool is_ahead(const struct collect_workload_group *g, const struct collect_workload_group *h)
{
	return g->traffic != h->traffic ? g->traffic > h->traffic : g->port < h->port;
}

/*
 * Finds the busiest port without a name and the least busy port with a name; -1 if there is none.
 * Returns the number of groups that have their own cells.
 */
static uint32_t find_extremes(const struct collect_workload *w, uint8_t role, int *best, int *worst)
{
	uint32_t columns = 0;

	*best = *worst = -1;
	for (uint32_t i = 0; i < w->groups; i++) {
		const struct collect_workload_group *g = &w->group[i];

		columns += g->own > 0;
		if (g->part != WORKLOAD_FLOWS || g->role != role || !g->port)
			continue;
		if (!g->named && (g->open || g->traffic) &&
		    (*best < 0 || is_ahead(g, &w->group[*best])))
			*best = (int)i;
		if (g->named && g->held && (*worst < 0 || is_ahead(&w->group[*worst], g)))
			*worst = (int)i;
	}
	return columns;
}

/*
 * Gives free names to the busiest ports. swap: a port that was ahead of a named port at two
 * rankings in a row takes over its place, so that names follow the traffic but not its
 * fluctuations.
 */
static void rank_ports(struct collect_link *l, struct collect_workload *w, uint8_t role, bool swap)
{
	int best, worst;

	while (find_extremes(w, role, &best, &worst) < COLUMN_MAX && best >= 0) {
		struct collect_workload_group *g = &w->group[best];

		if (take_place(l, w, role)) {
			g->held = true;
			set_name(l, w, role, g->port, true);
			continue;
		}
		if (!swap || worst < 0 || g->traffic / AHEAD <= w->group[worst].traffic) {
			g->led &= !swap;
			return;
		}
		if (!g->led) {
			g->led = true;
			return;
		}
		w->group[worst].held = false;
		g->held = true;
		set_name(l, w, role, w->group[worst].port, false);
		set_name(l, w, role, g->port, true);
	}
}

static void rank_workload(struct collect_link *l, struct collect_workload *w, uint64_t now_ns)
{
	bool first = !w->ranked_ns, swap = !first && now_ns - w->ranked_ns >= w->rank_period_ns;
	uint32_t rest;

	if (!first && !swap && !w->waiting)
		return;
	for (uint8_t role = FLOW_SERVER; role <= FLOW_CLIENT; role++)
		rank_ports(l, w, role, swap);
	w->waiting = false;
	for (uint32_t i = 0; i < w->groups; i++)
		if (!w->group[i].named && w->group[i].port)
			find_rest(l, w, w->group[i], true, &rest);
	if (!first && !swap)
		return;
	w->ranked_ns = now_ns;
	for (uint32_t i = 0; swap && i < w->groups; i++)
		w->group[i].traffic -= w->group[i].traffic / FORGET;
}

static struct collect_workload *find_workload(struct collect_link *l, uint64_t key)
{
	for (struct collect_workload *w = collect_tables_of(l)->workloads; w; w = w->next)
		if (w->key == key)
			return w;
	return NULL;
}

struct collect_workload *collect_workload_other(struct collect_link *l,
						enum collect_workload_part part, uint32_t role,
						uint32_t *group)
{
	static const struct collect_flow_owner other = COLLECT_FLOW_OWNER("(other)");
	struct collect_workload_group like = {.role = (uint8_t)role, .part = (uint8_t)part};
	uint64_t key = key_of(l, &other);
	struct collect_workload *w = find_workload(l, key);

	if (!w)
		w = make_workload(l, &other, key);
	return w ? in_group(l, w, like, true, group) : NULL;
}

struct collect_workload *collect_workload_of(struct collect_link *l,
					     const struct collect_flow_owner *who,
					     enum collect_workload_part part, uint32_t role,
					     uint16_t port, bool now, uint32_t *group)
{
	const uint8_t *folded = collect_tables_of(l)->all->o.folded;
	struct collect_workload_group like = {
		.role = (uint8_t)role,
		.port = folded && folded[port / 8] >> port % 8 & 1 ? 0 : port,
		.part = (uint8_t)part};
	uint64_t key = key_of(l, who);
	struct collect_workload *w = find_workload(l, key);
	bool taken = !w && take_group(collect_tables_of(l));

	if (!w && !taken) {
		relaxed_bump(collect_tables_of(l)->flow_stats.other, 1);
		return collect_workload_other(l, part, role, group);
	}
	if (!w) {
		w = make_workload(l, who, key);
		if (!w) {
			give_group(collect_tables_of(l), true);
			return collect_workload_other(l, part, role, group);
		}
		w->held = true; /* until a port takes over the place */
	}
	return in_group(l, w, like, now, group);
}

bool collect_workload_all_ports(struct collect_link *l, struct collect_workload *w,
				enum collect_workload_part part, uint32_t role, uint32_t *group)
{
	struct collect_workload_group like = {.role = (uint8_t)role, .part = (uint8_t)part};

	return find_rest(l, w, like, true, group);
}

static void workload_free(struct collect_link *l, struct collect_workload *w)
{
	give_group(collect_tables_of(l), w->held);
	for (uint32_t i = 0; i < w->groups; i++)
		give_group(collect_tables_of(l), w->group[i].held);
	relaxed_sub(l->c->memory, sizeof(*w) + w->cell_room * sizeof(*w->cell) +
					  w->group_room * sizeof(*w->group));
	collect_region_put(w->region);
	free(w->group);
	free(w->cell);
	free(w);
}

void collect_workloads_expire(struct collect_link *l, uint64_t now_ns)
{
	struct collect_host_tables *h = collect_tables_of(l);
	struct collect_workload **at = &h->workloads, *w;

	if (!*at || now_ns < h->workloads_ns)
		return;
	h->workloads_ns = now_ns + EXPIRE_NS;
	while ((w = *at)) {
		if (w->flows || !w->active_ns)
			w->active_ns = now_ns;
		if (now_ns - w->active_ns < IDLE_NS || w->region->schema_step != SCHEMA_IDLE) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		collect_slots_forget(l, w);
		relaxed_add(l->c->expired, 1);
		collect_table_remove(l, w->region);
		workload_free(l, w);
	}
}

void collect_workloads_free(struct collect_link *l)
{
	struct collect_host_tables *h = collect_tables_of(l);
	struct collect_workload *w;

	while ((w = h->workloads)) {
		h->workloads = w->next;
		workload_free(l, w);
	}
}

/* ---- publishing ---- */

static int by_cells(const void *a, const void *b)
{
	const struct collect_workload_group *g = a, *h = b;

	return BASE_ORDER(g->own, h->own);
}

/* Asks control to build the layout, by the same steps as for a region with a schema. */
static void request_layout(struct collect_workload *w)
{
	struct collect_region *r = w->region;
	struct collect_workload_group *groups;
	uint32_t n = 0;

	if (r->schema_step != SCHEMA_IDLE ||
	    (w->requested == w->named && r->schema_seen == r->schema_generation))
		return;
	groups = malloc(w->groups * sizeof(*groups));
	if (!groups)
		return;
	for (uint32_t i = 0; i < w->groups; i++)
		if (w->group[i].own)
			groups[n++] = w->group[i];
	qsort(groups, n, sizeof(*groups), by_cells);
	r->schema_bytes = (uint8_t *)groups;
	r->schema_length = (uint32_t)(n * sizeof(*groups));
	r->schema_generation++;
	r->hot.lines_used = UINT32_MAX; /* all cells exist */
	w->requested = w->named;
	r->schema_step = SCHEMA_BUILDING;
	collect_region_queue(r, EVENT_SCHEMA);
}

static void show_workload(struct collect_link *l, struct collect_workload *w, uint64_t now_ns)
{
	struct collect_region *r = w->region;

	if (r->schema_step == SCHEMA_BUILDING)
		collect_schema_install(l, r, now_ns);
	request_layout(w);
	if (r->snapshot)
		collect_pass_publish(l, r, w->cell, now_ns);
}

void collect_workloads_show(struct collect_link *l, uint64_t now_ns)
{
	for (struct collect_workload *w = collect_tables_of(l)->workloads; w; w = w->next) {
		rank_workload(l, w, now_ns);
		show_workload(l, w, now_ns);
	}
}

void collect_workload_add_f64(uint64_t *cell, double v)
{
	*cell = region_f64_bits(region_f64(*cell) + v);
}

void collect_workload_add_ns(uint64_t *sum_ns, uint64_t *shown, uint64_t ns)
{
	*sum_ns += ns;
	*shown = region_f64_bits((double)*sum_ns / 1e9);
}
