// SPDX-License-Identifier: Apache-2.0
/*
 * workload.c - what the connections, layers and tasks of a workload add up to, by role and port of the service: a
 * region that nobody wrote but this worker. To everybody else it is a region as any other, so that boards,
 * history, index, exposition, analysis and the API need to know nothing of connections.
 *
 * There are --tcp-groups workloads with a role and a port; what comes after goes to port "other" of its
 * workload, or to the workload "(other)" of its host. Groups are only ever appended: a column stays what it is.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/kernel/slots.h"

#define PORTS_MAX 16u		/* of a workload and role: who has more is no service */
#define IDLE_NS	  600000000000u /* without a connection */

/* ---- workloads ----------------------------------------------------------------------------------- */

static bool take_group(struct sl_collector *c)
{
	if (ADD(c->tcp_groups, 1) < c->opts.tcp_groups)
		return true;
	SUB(c->tcp_groups, 1);
	return false;
}

static uint64_t hash(uint64_t h, const char *s)
{
	return sl_fnv1a(h, s ? s : "", s ? strlen(s) + 1 : 1);
}

static uint64_t key_of(const struct link *l, const struct flow_owner *who)
{
	uint64_t h = hash(SL_FNV_BASIS, "tcp");

	h = hash(hash(h, l->host->target), who->kube_namespace);
	h = hash(hash(h, who->pod), who->container);
	return hash(hash(h, who->service), who->unit);
}

static void label(struct sl_region_info *info, size_t *used, const char *key, const char *value)
{
	size_t k = strlen(key) + 1, v = value ? strlen(value) + 1 : 0;

	if (v <= 1 || *used + k + v > sizeof(info->label_text))
		return;
	memcpy(info->label_text + *used, key, k);
	memcpy(info->label_text + *used + k, value, v);
	info->labels[info->label_count++] = (struct sl_text_label){info->label_text + *used,
								   info->label_text + *used + k};
	*used += k + v;
}

static struct workload *make(struct link *l, const struct flow_owner *who, uint64_t key)
{
	struct sl_region_info *info = calloc(1, sizeof(*info));
	struct workload *w = calloc(1, sizeof(*w));
	struct region *r = NULL;
	uint64_t instance = key;
	size_t used = 0;

	while (!instance || table_find(l, instance))
		instance = instance * SL_LINE_K0 + 1;
	if (info && w)
		r = table_add(l, instance);
	if (!r) {
		free(info);
		free(w);
		return NULL;
	}
	info->instance = instance;
	info->kind = SL_REGION_FLOWS;
	info->start_ns = sl_realtime_ns();
	label(info, &used, "namespace", who->kube_namespace);
	label(info, &used, "pod", who->pod);
	label(info, &used, "container", who->container);
	label(info, &used, "service", who->service);
	label(info, &used, "unit", who->unit);
	if (region_made(r, info, host_name(l->host))) {
		table_remove(l, r);
		free(info);
		free(w);
		return NULL;
	}
	free(info);
	ref_get(&r->refs);
	w->region = r;
	w->key = key;
	w->next = l->workloads;
	l->workloads = w;
	ADD(l->c->memory, sizeof(*w));
	return w;
}

static bool grow(void **v, uint32_t *room, uint32_t wanted, size_t bytes, uint64_t *memory)
{
	uint32_t n = *room ? *room * 2 : 1;
	void *to;

	if (wanted <= *room)
		return true;
	n = n < wanted ? wanted : n;
	to = realloc(*v, n * bytes);
	if (!to)
		return false;
	ADD(*memory, (n - *room) * bytes);
	*v = to;
	*room = n;
	return true;
}

static bool add_group(struct link *l, struct workload *w, const struct workload_group *like)
{
	uint32_t n = workload_part_cells[like->part];
	uint64_t *memory = &l->c->memory;

	if (!grow((void **)&w->group, &w->group_room, w->groups + 1, sizeof(*w->group), memory) ||
	    !grow((void **)&w->cell, &w->cell_room, w->cells + n, sizeof(*w->cell), memory))
		return false;
	memset(w->cell + w->cells, 0, n * sizeof(*w->cell));
	w->group[w->groups] = *like;
	w->group[w->groups++].at = w->cells;
	w->cells += n;
	return true;
}

static bool find_group(const struct workload *w, const struct workload_group *like, uint32_t *group)
{
	for (uint32_t i = 0; i < w->groups; i++)
		if (w->group[i].part == like->part && w->group[i].role == like->role &&
		    w->group[i].port == like->port) {
			*group = i;
			return true;
		}
	return false;
}

/* Has a place of --tcp-groups, by whatever part; else: may it have one more? */
static bool has_place(const struct workload *w, const struct workload_group *like, bool *room)
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

/* That of a port, or of all others; there is always room for that. */
static struct workload *in_group(struct link *l, struct workload *w, struct workload_group like,
				 bool taken, uint32_t *group)
{
	bool room;

	if (find_group(w, &like, group))
		return w;
	if (like.port && !has_place(w, &like, &room)) {
		like.held = taken || (room && take_group(l->c));
		if (!like.held) {
			BUMP(l->flow_stats.other, 1);
			like.port = 0;
			if (find_group(w, &like, group))
				return w;
		}
	}
	if (!add_group(l, w, &like)) {
		SUB(l->c->tcp_groups, like.held);
		return NULL;
	}
	*group = w->groups - 1;
	return w;
}

static struct workload *find(struct link *l, uint64_t key)
{
	for (struct workload *w = l->workloads; w; w = w->next)
		if (w->key == key)
			return w;
	return NULL;
}

struct workload *workload_other(struct link *l, enum workload_part part, uint32_t role,
				uint32_t *group)
{
	static const struct flow_owner other = {.unit = "(other)"};
	struct workload_group like = {.role = (uint8_t)role, .part = (uint8_t)part};
	uint64_t key = key_of(l, &other);
	struct workload *w = find(l, key);

	if (!w)
		w = make(l, &other, key);
	return w ? in_group(l, w, like, false, group) : NULL;
}

struct workload *workload_of(struct link *l, const struct flow_owner *who, enum workload_part part,
			     uint32_t role, uint16_t port, uint32_t *group)
{
	struct workload_group like = {.role = (uint8_t)role, .port = port, .part = (uint8_t)part};
	uint64_t key = key_of(l, who);
	struct workload *w = find(l, key);
	bool taken = !w && take_group(l->c);

	if (!w && !taken) {
		BUMP(l->flow_stats.other, 1);
		return workload_other(l, part, role, group);
	}
	if (!w) {
		w = make(l, who, key);
		if (!w) {
			SUB(l->c->tcp_groups, 1);
			return workload_other(l, part, role, group);
		}
		w->held = !port;
	}
	return in_group(l, w, like, taken, group);
}

static void workload_free(struct link *l, struct workload *w)
{
	SUB(l->c->tcp_groups, w->held);
	for (uint32_t i = 0; i < w->groups; i++)
		SUB(l->c->tcp_groups, w->group[i].held);
	SUB(l->c->memory,
	    sizeof(*w) + w->cell_room * sizeof(*w->cell) + w->group_room * sizeof(*w->group));
	region_put(w->region);
	free(w->group);
	free(w->cell);
	free(w);
}

void workloads_expire(struct link *l, uint64_t now_ns)
{
	struct workload **at = &l->workloads, *w;

	while ((w = *at)) {
		if (w->flows || !w->active_ns)
			w->active_ns = now_ns;
		if (now_ns - w->active_ns < IDLE_NS || w->region->schema_step != SCHEMA_IDLE) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		slots_forget(l, w);
		ADD(l->c->expired, 1);
		table_remove(l, w->region);
		workload_free(l, w);
	}
}

void workloads_free(struct link *l)
{
	struct workload *w;

	while ((w = l->workloads)) {
		l->workloads = w->next;
		workload_free(l, w);
	}
}

/* ---- showing ------------------------------------------------------------------------------------- */

/* Control makes the layout, as it does for regions that were read. */
static void ask_for_layout(struct workload *w)
{
	struct region *r = w->region;
	size_t bytes = w->groups * sizeof(*w->group);

	if (r->schema_step != SCHEMA_IDLE ||
	    (w->asked == w->groups && r->schema_seen == r->schema_generation))
		return;
	r->schema_bytes = malloc(bytes);
	if (!r->schema_bytes)
		return;
	memcpy(r->schema_bytes, w->group, bytes);
	r->schema_length = (uint32_t)bytes;
	r->schema_generation++;
	r->hot.lines_used = UINT32_MAX; /* whatever the layout has is there */
	w->asked = w->groups;
	r->schema_step = SCHEMA_BUILDING;
	region_mail(r, MAIL_SCHEMA);
}

static void show(struct link *l, struct workload *w, uint64_t now_ns)
{
	struct region *r = w->region;

	if (r->schema_step == SCHEMA_BUILDING)
		schema_install(l, r, now_ns);
	ask_for_layout(w);
	if (r->board)
		pass_show(l, r, w->cell, now_ns);
}

void workloads_show(struct link *l, uint64_t now_ns)
{
	for (struct workload *w = l->workloads; w; w = w->next)
		show(l, w, now_ns);
}

void workload_add_f64(uint64_t *cell, double v)
{
	double sum;

	memcpy(&sum, cell, 8);
	sum += v;
	memcpy(cell, &sum, 8);
}
