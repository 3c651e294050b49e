/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.h - the sums of a workload's flows, layers and tasks, as ordinary series of a synthetic
 * region. All state belongs to the link's worker.
 */
#ifndef SL_COLLECT_TABLES_WORKLOAD_H
#define SL_COLLECT_TABLES_WORKLOAD_H

#include "collect/tables/workload_layout.h"
#include "collect/tables/internal.h"
#include "region/flows.h"

/*
 * The owner of a flow as SL_CGROUP_... texts, with a unit in place of the path. "" means unknown.
 */
struct collect_flow_owner {
	const char *name[SL_CGROUP_TEXTS];
};
#define COLLECT_FLOW_OWNER(unit)                                      \
	{                                                             \
		.name = { "", "", "", "", [SL_CGROUP_PATH] = (unit) } \
	}

/* A workload's synthetic region; the cells are sums by group. */
struct collect_workload {
	struct collect_workload *next; /* next workload of the link */
	struct collect_region *region; /* a reference is held */
	uint64_t key;
	uint32_t flows;	    /* number of open flows, and of slots that may still grow */
	uint64_t active_ns; /* when `flows` was last above 0 */
	struct collect_workload_group *group;
	bool held; /* the workload counts against --tcp-groups even without a port */
	uint32_t groups, group_room, cells, cell_room;
	/* version of the names, and the version in the last requested layout */
	uint32_t named, requested;
	bool waiting;		 /* a port waits for a name */
	uint64_t ranked_ns;	 /* when the ports were last ranked; 0 means never */
	uint64_t rank_period_ns; /* time between two rankings */
	uint64_t *cell;
};

/*
 * Returns the owner's workload, or "(other)" beyond --tcp-groups, or NULL if out of memory. Sets
 * *group to the workload's group of this part, role and port, or to its group of other ports. If
 * `now` is set and there is room, the port gets its name at once; otherwise it competes with the
 * other ports of this pass by traffic.
 */
struct collect_workload *collect_workload_of(struct collect_link *l,
					     const struct collect_flow_owner *who,
					     enum collect_workload_part part, uint32_t role,
					     uint16_t port, bool now, uint32_t *group);
/* Finds or adds the workload's group of all ports. Returns false if out of memory. */
bool collect_workload_all_ports(struct collect_link *l, struct collect_workload *w,
				enum collect_workload_part part, uint32_t role, uint32_t *group);
/* Returns the workload "(other)". */
struct collect_workload *collect_workload_other(struct collect_link *l,
						enum collect_workload_part part, uint32_t role,
						uint32_t *group);
static inline uint64_t *collect_workload_cells(const struct collect_workload *w, uint32_t group)
{
	return w->cell + w->group[group].at;
}
/* Returns the growth of a counter, or 0 if it decreased. */
static inline uint64_t collect_grown(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}
/* Called when a pass is complete: requests new layouts and publishes values. */
void collect_workloads_show(struct collect_link *l, uint64_t now_ns);
/* Removes idle workloads; searches for them once per second. */
void collect_workloads_expire(struct collect_link *l, uint64_t now_ns);
void collect_workloads_free(struct collect_link *l);

/* Adds to a cell of an f64 counter or of a histogram's sum. */
void collect_workload_add_f64(uint64_t *cell, double v);
/* Adds to a sum that is kept in ns and shown in seconds, so that no addition rounds. */
void collect_workload_add_ns(uint64_t *sum_ns, uint64_t *shown, uint64_t ns);

/* ---- workload_flows.c ---- */

/* Adds the difference between two states of a flow. */
void collect_workload_add(struct collect_workload *w, uint32_t group,
			  const struct region_flow *before, const struct region_flow *now);
/* Adds to the traffic by which ports are ranked. */
static inline void collect_workload_busy(struct collect_workload *w, uint32_t group, uint64_t bytes)
{
	w->group[group].traffic += bytes;
}
/* Adds bytes that are known only from the journal. */
void collect_workload_add_bytes(struct collect_workload *w, uint32_t group, uint64_t acked,
				uint64_t received);
void collect_workload_opened(struct collect_workload *w, uint32_t group,
			     const struct region_flow *f, bool counts);
/* f holds the final values of the flow, or is NULL if they were not seen. */
void collect_workload_closed(struct collect_workload *w, uint32_t group,
			     const struct region_flow *f, bool counts);
/* Called when an open flow moves to another workload, or is no longer seen. */
void collect_workload_left(struct collect_workload *w, uint32_t group);

#endif
