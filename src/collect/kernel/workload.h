/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.h - what a workload's connections, layers and tasks add up to: ordinary series of a
 * region that is made here. All of it is the link's worker's.
 *
 *   workload.c         which workloads there are, and showing them
 *   workload_flows.c   adds up connections, by role and port
 *   collect_workload_layout.c  metrics, and which cells are theirs
 */
#ifndef SL_COLLECT_KERNEL_WORKLOAD_H
#define SL_COLLECT_KERNEL_WORKLOAD_H

#include "collect/link/link.h"

enum collect_flow_role { FLOW_SERVER = 0, FLOW_CLIENT, FLOW_UNKNOWN, FLOW_NEITHER /* of tasks */ };

/* Whose a flow is. Empty: not known, or not said. */
struct collect_flow_owner {
	const char *kube_namespace, *pod, *container, *service, *unit;
};

/* A region made here; its cells are what is known of a workload, by group and part. */
struct collect_workload {
	struct collect_workload *next; /* of the link */
	struct collect_region *region; /* a reference is held */
	uint64_t key;
	uint32_t flows;	    /* and slots that may still add something */
	uint64_t active_ns; /* when there was one last */
	struct collect_workload_group *group;
	bool held; /* it takes a place of --tcp-groups without a port, which is 0 */
	uint32_t groups, group_room, cells, cell_room;
	uint32_t asked; /* groups of the layout that was asked for last */
	uint64_t *cell;
};

/*
 * The workload of that owner, made if there is room for it; else that of all others. NULL: out of
 * memory. *group: of it, that of this part, role and port, or of the other ports.
 */
struct collect_workload *collect_workload_of(struct collect_link *l,
					     const struct collect_flow_owner *who,
					     enum collect_workload_part part, uint32_t role,
					     uint16_t port, uint32_t *group);
/* The one of those that there was no room for. */
struct collect_workload *collect_workload_other(struct collect_link *l,
						enum collect_workload_part part, uint32_t role,
						uint32_t *group);
static inline uint64_t *collect_workload_cells(const struct collect_workload *w, uint32_t group)
{
	return w->cell + w->group[group].at;
}
/* A pass is complete: new layouts are asked for, values shown. */
void collect_workloads_show(struct collect_link *l, uint64_t now_ns);
/* Those without anything that may add to them for long go. */
void collect_workloads_expire(struct collect_link *l, uint64_t now_ns);
void collect_workloads_free(struct collect_link *l);

/* Adds to a cell of an f64 counter or of a histogram's sum. */
void collect_workload_add_f64(uint64_t *cell, double v);

/* ---- workload_flows.c ---- */

/* Adds what happened between two snapshots of a flow. */
void collect_workload_add(struct collect_workload *w, uint32_t group,
			  const struct region_flow *before, const struct region_flow *now);
/* What only the journal knows of. */
void collect_workload_add_bytes(struct collect_workload *w, uint32_t group, uint64_t acked,
				uint64_t received);
void collect_workload_opened(struct collect_workload *w, uint32_t group,
			     const struct region_flow *f, bool counts);
/* f: its final values; NULL: nobody has seen them. */
void collect_workload_closed(struct collect_workload *w, uint32_t group,
			     const struct region_flow *f, bool counts);
/* It goes on, but not here. */
void collect_workload_left(struct collect_workload *w, uint32_t group);

/* ---- collect_workload_layout.c: cells ---- */

/* Exponential buckets: 2^low to 2^high of their unit, 2^scale of them an octave. */
#define SHAPE_CELLS(scale, low, high) (SL_HIST_BUCKETS + 2 + (((high) - (low)) << (scale)))

enum {
	RTT_SCALE = 3,
	RTT_LOW = -20, /* a microsecond */
	RTT_HIGH = 6,
	LIFE_SCALE = 1,
	LIFE_LOW = -10,
	LIFE_HIGH = 20, /* twelve days */
	RTT_CELLS = SHAPE_CELLS(RTT_SCALE, RTT_LOW, RTT_HIGH),
	LIFE_CELLS = SHAPE_CELLS(LIFE_SCALE, LIFE_LOW, LIFE_HIGH),
};

enum collect_flow_cell {
	COLLECT_SENT,
	COLLECT_ACKED,
	COLLECT_RECEIVED,
	COLLECT_RESENT,
	SEGMENTS_OUT,
	SEGMENTS_IN,
	COLLECT_RETRANSMITS,
	RE_FAST,
	RE_TIMEOUT,
	RE_PROBE,
	RE_SYN,
	COLLECT_SPURIOUS,
	COLLECT_TIMEOUTS,
	COLLECT_RECOVERIES,
	ZERO_PEER,
	ZERO_LOCAL,
	OUT_OF_ORDER,
	COLLECT_CE,
	COLLECT_OPENED,
	COLLECT_CLOSED,
	COLLECT_OPEN,
	RESET_IN,
	RESET_OUT,
	COLLECT_DROPS,
	BY_APPLICATION,
	BY_RECEIVE_WINDOW,
	BY_CONGESTION_WINDOW,
	BY_SEND_BUFFER,
	COLLECT_RTT,
	COLLECT_HANDSHAKE = COLLECT_RTT + RTT_CELLS,
	COLLECT_LIFE = COLLECT_HANDSHAKE + RTT_CELLS,
	FLOW_CELLS = COLLECT_LIFE + LIFE_CELLS,
};

/* Histograms are those of the kernel, bucket by bucket: sums become f64. */
enum {
	LAYER_HIST_CELLS = SL_HIST_BUCKETS + SL_LAYER_CELLS - SL_LAYER_ZERO,
	WAIT_HIST_CELLS = SL_HIST_BUCKETS + SL_CPU_BUCKETS,
	WAIT_ZERO = SL_CPU_BUCKET_FIRST, /* the first bucket holds all up to 2^(17/2) ns */
};

#define WORKLOAD_LAYER_METRIC	"sidelight_tcp_layer_nanoseconds"
#define WORKLOAD_REQUEST_METRIC "sidelight_tcp_request_nanoseconds"

enum collect_layer_cell {
	LAYER_REQUESTS,
	LAYER_COMPLETE,
	LAYER_INCOMPLETE,
	LAYER_PIPELINED,
	LAYER_UNATTRIBUTED,
	LAYER_HISTOGRAMS,
	LAYER_SHOWN = LAYER_HISTOGRAMS + SL_LAYERS * LAYER_HIST_CELLS,
	/* No metric, but what the API's quantiles are of: all of them as they were LAYER_WINDOW_NS
	   ago or longer. */
	LAYER_OLD = LAYER_SHOWN,
	LAYER_MIDDLE = 2 * LAYER_SHOWN,
	LAYER_OLD_NS = 3 * LAYER_SHOWN, /* CLOCK_REALTIME; 0: there are none yet */
	LAYER_MIDDLE_NS,
	LAYER_CELLS,
};
#define LAYER_WINDOW_NS 10000000000ll

enum collect_task_cell {
	TASK_RUN,
	TASK_WAIT,
	TASK_SWITCH_VOLUNTARY,
	TASK_SWITCH_INVOLUNTARY,
	TASK_MIGRATIONS,
	TASK_ENDED,
	TASK_WAITS,
	TASK_CELLS = TASK_WAITS + WAIT_HIST_CELLS,
};

extern const uint32_t collect_workload_part_cells[WORKLOAD_PARTS];

#endif
