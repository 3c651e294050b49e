// SPDX-License-Identifier: Apache-2.0
/*
 * workload.c - the synthetic region of a workload. Snapshots, history, index, exposition, analysis
 * and the API treat it like any other region.
 *
 * --tcp-groups bounds the workloads with a role and a port; the rest goes to port "other" of its
 * workload, or to the workload "(other)" of its host. Groups are only appended, so that a column
 * keeps its meaning.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "collect/read/host.h"
#include "collect/tables/slots.h"
#include "collect/tables/workload.h"
#include "collect/read/pass.h"
#include "collect/read/schema.h"
#include "collect/read/table.h"
#include "collect/read/ref.h"

/* maximum ports per workload and role; more ports are unlikely to be services */
#define PORTS_MAX 16u
#define IDLE_NS	  600000000000u /* a workload without a connection expires after this long */
#define EXPIRE_NS 1000000000u	/* time between two searches for idle workloads */

/* ---- workloads ---- */

static bool take_group(struct collect_tables *all)
{
	if (relaxed_add(all->groups, 1) < all->o.groups)
		return true;
	relaxed_sub(all->groups, 1);
	return false;
}

static uint64_t hash_text(uint64_t h, const char *s)
{
	return base_hash_text(h, s ? s : "");
}

static uint64_t key_of(const struct collect_link *l, const struct collect_flow_owner *who)
{
	uint64_t h = hash_text(hash_text(0, "tcp"), l->host->target);

	for (int i = 0; i < SL_CGROUP_TEXTS; i++)
		h = hash_text(h, who->name[i]);
	return h;
}

static uint64_t extend_hash(uint64_t h, const char *s)
{
	s = s ? s : "";
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

static void add_label(struct region_info *info, size_t *used, const char *key, const char *value)
{
	size_t k = strlen(key) + 1, v = value ? strlen(value) + 1 : 0;

	if (v <= 1 || *used + k + v > sizeof(info->label_text))
		return;
	memcpy(info->label_text + *used, key, k);
	memcpy(info->label_text + *used + k, value, v);
	info->labels[info->label_count++] =
		(struct region_text_label){info->label_text + *used, info->label_text + *used + k};
	*used += k + v;
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
			add_label(info, &used, keys[i], who->name[i]);
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

static bool add_group(struct collect_link *l, struct collect_workload *w,
		      const struct collect_workload_group *like)
{
	uint32_t n = collect_workload_part_cells[like->part];

	if (!grow_array(l->c, &w->group, &w->group_room, w->groups + 1, sizeof(*w->group)) ||
	    !grow_array(l->c, &w->cell, &w->cell_room, w->cells + n, sizeof(*w->cell)))
		return false;
	memset(w->cell + w->cells, 0, n * sizeof(*w->cell));
	w->group[w->groups] = *like;
	w->group[w->groups++].at = w->cells;
	w->cells += n;
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

/*
 * Returns true if the role and port are already counted against --tcp-groups. Sets *room to whether
 * another port may be added.
 */
static bool has_place(const struct collect_workload *w, const struct collect_workload_group *like,
		      bool *room)
{
	uint32_t ports = 0;

	for (uint32_t i = 0; i < w->groups; i++) {
		if (w->group[i].role != like->role || !w->group[i].held)
			continue;
		if (w->group[i].port == like->port)
			return true;
		ports++;
	}
	*room = ports < PORTS_MAX;
	return false;
}

/* Finds or adds the group of a port, or the group of all other ports, which always has room. */
static struct collect_workload *in_group(struct collect_link *l, struct collect_workload *w,
					 struct collect_workload_group like, bool taken,
					 uint32_t *group)
{
	bool room;

	if (find_group(w, &like, group))
		return w;
	if (like.port && !has_place(w, &like, &room)) {
		like.held = taken || (room && take_group(collect_tables_of(l)->all));
		if (!like.held) {
			relaxed_bump(collect_tables_of(l)->flow_stats.other, 1);
			like.port = 0;
			if (find_group(w, &like, group))
				return w;
		}
	}
	if (!add_group(l, w, &like)) {
		relaxed_sub(collect_tables_of(l)->all->groups, like.held);
		return NULL;
	}
	*group = w->groups - 1;
	return w;
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
	static const struct collect_flow_owner other = {.name[SL_CGROUP_PATH] = "(other)"};
	struct collect_workload_group like = {.role = (uint8_t)role, .part = (uint8_t)part};
	uint64_t key = key_of(l, &other);
	struct collect_workload *w = find_workload(l, key);

	if (!w)
		w = make_workload(l, &other, key);
	return w ? in_group(l, w, like, false, group) : NULL;
}

struct collect_workload *collect_workload_of(struct collect_link *l,
					     const struct collect_flow_owner *who,
					     enum collect_workload_part part, uint32_t role,
					     uint16_t port, uint32_t *group)
{
	const uint8_t *folded = collect_tables_of(l)->all->o.folded;
	struct collect_workload_group like = {
		.role = (uint8_t)role,
		.port = folded && folded[port / 8] >> port % 8 & 1 ? 0 : port,
		.part = (uint8_t)part};
	uint64_t key = key_of(l, who);
	struct collect_workload *w = find_workload(l, key);
	bool taken = !w && take_group(collect_tables_of(l)->all);

	if (!w && !taken) {
		relaxed_bump(collect_tables_of(l)->flow_stats.other, 1);
		return collect_workload_other(l, part, role, group);
	}
	if (!w) {
		w = make_workload(l, who, key);
		if (!w) {
			relaxed_sub(collect_tables_of(l)->all->groups, 1);
			return collect_workload_other(l, part, role, group);
		}
		w->held = !like.port;
	}
	return in_group(l, w, like, taken, group);
}

static void workload_free(struct collect_link *l, struct collect_workload *w)
{
	relaxed_sub(collect_tables_of(l)->all->groups, w->held);
	for (uint32_t i = 0; i < w->groups; i++)
		relaxed_sub(collect_tables_of(l)->all->groups, w->group[i].held);
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

/* Lets control make the layout, as for regions that are read. */
static void request_layout(struct collect_workload *w)
{
	struct collect_region *r = w->region;
	size_t bytes = w->groups * sizeof(*w->group);

	if (r->schema_step != SCHEMA_IDLE ||
	    (w->requested == w->groups && r->schema_seen == r->schema_generation))
		return;
	r->schema_bytes = malloc(bytes);
	if (!r->schema_bytes)
		return;
	memcpy(r->schema_bytes, w->group, bytes);
	r->schema_length = (uint32_t)bytes;
	r->schema_generation++;
	r->hot.lines_used = UINT32_MAX; /* all cells exist */
	w->requested = w->groups;
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
	for (struct collect_workload *w = collect_tables_of(l)->workloads; w; w = w->next)
		show_workload(l, w, now_ns);
}

void collect_workload_add_f64(uint64_t *cell, double v)
{
	v += region_f64(*cell);
	memcpy(cell, &v, sizeof(v));
}

void collect_workload_add_ns(uint64_t *sum_ns, uint64_t *shown, uint64_t ns)
{
	double seconds = (double)(*sum_ns += ns) / 1e9;

	memcpy(shown, &seconds, sizeof(seconds));
}
