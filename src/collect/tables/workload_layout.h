/* SPDX-License-Identifier: Apache-2.0 */
/* workload_layout.h - the cells of a workload's region, and the layout that names them */
#ifndef SL_COLLECT_TABLES_WORKLOAD_LAYOUT_H
#define SL_COLLECT_TABLES_WORKLOAD_LAYOUT_H

#include <sidelight/flow.h>
#include <sidelight/task.h>

#include "collect/read/layout.h"
#include "region/layers.h"

enum collect_flow_role { FLOW_SERVER = 0, FLOW_CLIENT, FLOW_UNKNOWN, FLOW_NEITHER /* for tasks */ };

/* The kernel table that a group's values come from; WORKLOAD_STACK: the layers of all ports. */
enum collect_workload_part {
	WORKLOAD_FLOWS,
	WORKLOAD_LAYERS,
	WORKLOAD_STACK,
	WORKLOAD_TASKS,
	WORKLOAD_PARTS,
};

/* A block of a workload's cells: one part, and the role and port of the service. */
struct collect_workload_group {
	uint16_t port; /* port of the service; 0 means any other port */
	uint8_t role;  /* enum collect_flow_role */
	uint8_t part;  /* enum collect_workload_part */
	bool held;     /* the group counts against --tcp-groups */
	/* true if the group has its own series; otherwise it counts in the series of port 0 */
	bool named;
	bool led;    /* the port was ahead of a named port at the last ranking */
	uint32_t at; /* index of the first cell that counts */
	/* index of the group's own first cell + 1; 0 if it never had its own cells */
	uint32_t own;
	uint32_t open;	  /* number of open connections */
	uint64_t traffic; /* recent traffic in bytes */
};

/*
 * Makes the layout of a workload's region. Its schema_bytes are the groups that have their own
 * cells, in the order of those cells. The cells of a group without a name are marked as removed.
 * Returns NULL if out of memory.
 */
struct collect_layout *collect_workload_layout(struct collect_region *r);

/*
 * Number of cells in an exponential histogram from 2^low to 2^high units, with 2^scale buckets per
 * octave.
 */
#define SHAPE_CELLS(scale, low, high) (SL_HIST_BUCKETS + 2 + (((high) - (low)) << (scale)))

enum {
	RTT_SCALE = 3,
	RTT_LOW = -20, /* 2^-20 s, about a microsecond */
	RTT_HIGH = 6,
	LIFE_SCALE = 1,
	LIFE_LOW = -10,
	LIFE_HIGH = 20, /* 2^20 s, about twelve days */
	RTT_CELLS = SHAPE_CELLS(RTT_SCALE, RTT_LOW, RTT_HIGH),
	LIFE_CELLS = SHAPE_CELLS(LIFE_SCALE, LIFE_LOW, LIFE_HIGH),
};

/* If a metric has one series per label value, their cells are adjacent: RE_FAST to RE_SYN. */
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
	FAILED_REFUSED,
	FAILED_UNANSWERED,
	FAILED_OTHER,
	FAILED_KEEPALIVE,
	FAILED_RTO,
	FAILED_USER_TIMEOUT,
	BY_APPLICATION,
	BY_RECEIVE_WINDOW,
	BY_CONGESTION_WINDOW,
	BY_SEND_BUFFER,
	COLLECT_RTT,
	COLLECT_HANDSHAKE = COLLECT_RTT + RTT_CELLS,
	COLLECT_LIFE = COLLECT_HANDSHAKE + RTT_CELLS,
	FLOW_CELLS = COLLECT_LIFE + LIFE_CELLS,
};

/* Histograms with the same buckets as the kernel's. */
enum {
	LAYER_HIST_CELLS = SL_HIST_BUCKETS + SL_LAYER_CELLS - SL_LAYER_ZERO,
	WAIT_HIST_CELLS = SL_HIST_BUCKETS + SL_CPU_BUCKETS,
};

#define WORKLOAD_LAYERS_METRIC	"sidelight_tcp_layer_seconds"
#define WORKLOAD_REQUEST_METRIC "sidelight_tcp_request_seconds"
#define WORKLOAD_STACK_METRIC	"sidelight_tcp_stack_seconds"

/* The cells of WORKLOAD_LAYERS. WORKLOAD_STACK has those up to LAYER_SHOWN. */
enum collect_layer_cell {
	LAYER_REQUESTS,
	LAYER_COMPLETE,
	LAYER_INCOMPLETE,
	LAYER_PIPELINED,
	LAYER_UNATTRIBUTED,
	LAYER_HISTOGRAMS,
	LAYER_SUMS = LAYER_HISTOGRAMS + SL_LAYERS * LAYER_HIST_CELLS, /* in ns, not exposed */
	LAYER_SHOWN = LAYER_SUMS + SL_LAYERS,
	/*
	 * Not exposed: the counts of at least LAYER_WINDOW_NS ago, for the API's recent quantiles.
	 */
	LAYER_OLD = LAYER_SHOWN,
	LAYER_MIDDLE = 2 * LAYER_SHOWN,
	LAYER_OLD_NS = 3 * LAYER_SHOWN, /* CLOCK_REALTIME; 0 if there are no earlier counts yet */
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
	TASK_WAITS_SUM = TASK_WAITS + WAIT_HIST_CELLS, /* in ns, not exposed */
	TASK_CELLS,
};

extern const uint32_t collect_workload_part_cells[WORKLOAD_PARTS];

#endif
