/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - how the collector's files share what they know.
 *
 * Threads and what they own:
 *
 *   worker    its links, and in them connections, READs, the regions' state and last good lines.
 *             It takes no lock while it reads (one short one when a region appears for the first
 *             time, if a host has several queues).
 *   control   schemas become layouts, layouts become the index of families; the list of regions.
 *   any other takes a reference to the index and looks at boards.
 *
 * From worker to control goes mail: a bit is set in a region, and the region is pushed onto a
 * stack. From control to worker goes a struct collect_built, by one atomic pointer. To everybody
 * else go boards: what a round read, under a sequence count.
 *
 * What the files of a link share (link.c, directory.c, reads.c, ...) is in link.h.
 *
 * A layout, a board's shape and an index never change after they were made.
 */
#ifndef SL_COLLECT_INTERNAL_H
#define SL_COLLECT_INTERNAL_H

#include <pthread.h>

#include <sidelight/flow.h>
#include <sidelight/nic.h>
#include <sidelight/task.h>

#include "collect/collect.h"
#include "collect/history.h"
#include "collect/label.h"
#include "collect/plan.h"

/* Plain words that one thread writes and others look at. */
#define relaxed_load(x)	    __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define relaxed_store(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define relaxed_bump(x, n)  relaxed_store(x, (x) + (n)) /* the only writer */
#define relaxed_add(x, n)   __atomic_fetch_add(&(x), (n), __ATOMIC_RELAXED)
#define relaxed_sub(x, n)   __atomic_fetch_sub(&(x), (n), __ATOMIC_RELAXED)

static inline void collect_ref_get(unsigned int *refs)
{
	__atomic_fetch_add(refs, 1, __ATOMIC_RELAXED);
}

/* True for the last one: everything that others did to the object has happened before. */
static inline bool collect_ref_put(unsigned int *refs)
{
	return __atomic_fetch_sub(refs, 1, __ATOMIC_ACQ_REL) == 1;
}

struct collect_live;
struct dta_store_server;
struct collect_tracer;
struct collect_region;
struct collect_link;
struct collect_host;
struct collect_worker;
struct collect_home;
struct collect_old_name;
struct collect_flow_table;
struct collect_slot_table;
struct net_ring;
struct nets;

/* ---- layout.c: what a schema means ---- */

/* A family's name, found once; the rest is the control thread's scratch while it builds an index.
 */
struct collect_family_name {
	struct collect_family_name *next;
	unsigned int refs; /* under the table's lock */
	uint64_t build;	   /* index build in which the following hold */
	size_t place;	   /* in that index */
	size_t name_bytes;
	char name[]; /* without _total, _info */
};

/* The definition of a metric, shared by all regions that have the same. Immutable. */
struct collect_def {
	struct collect_def *next;
	unsigned int refs; /* under the table's lock */
	uint64_t hash;
	struct region_metric metric; /* id and cell are 0; labels as they are exposed */
	struct collect_family_name *family;
	struct collect_label_set *labels;
	enum export_family_type type;
	size_t bytes;
};

struct collect_defs {
	pthread_mutex_t lock;
	struct collect_def **bucket;
	size_t buckets, count;
	struct collect_family_name **family_bucket;
	size_t family_buckets, family_count;
};

int collect_defs_init(struct collect_defs *d);
void collect_defs_free(struct collect_defs *d);
void collect_def_ref(struct collect_collector *c, struct collect_def *d);
void collect_def_put(struct collect_collector *c, struct collect_def *d);

struct collect_column {
	struct collect_def *def;
	uint32_t cell;
	bool twin; /* exposed it would be the series that an earlier column is already */
};

/* A cell that is no sum of u64. */
struct collect_special {
	uint32_t cell;
	bool shared; /* stripe 0 only */
	bool f64;
};

struct collect_layout {
	unsigned int refs;
	struct collect_collector *c;
	uint32_t columns; /* one a metric */
	uint32_t cells, lines;
	uint64_t generation;
	uint32_t refused; /* metrics that max_series left no room for */
	bool scalar;	  /* each column is one cell */
	struct collect_column *column;
	bool *f64; /* by column, for the history */
	struct collect_special *special;
	uint32_t specials;
	size_t bytes;
};

/* What is known of a workload, by where it comes from. */
enum collect_workload_part { WORKLOAD_FLOWS, WORKLOAD_LAYERS, WORKLOAD_TASKS, WORKLOAD_PARTS };

/* A block of a workload's cells, and what its metrics are about: role and port of the service. */
struct collect_workload_group {
	uint16_t port; /* 0: any other */
	uint8_t role;  /* enum collect_flow_role */
	uint8_t part;  /* enum collect_workload_part */
	bool held;     /* it took a place of --tcp-groups */
	uint32_t at;   /* first cell */
};

/*
 * Makes a layout of a whole schema. NULL with *fault set; REGION_FAULT_NONE means out of memory.
 */
struct collect_layout *collect_layout_new(struct collect_collector *c, struct collect_region *r,
					  const void *schema, size_t bytes, uint64_t generation,
					  enum region_fault *fault);
/* The same of metrics, which are copied. NULL: out of memory. */
struct collect_layout *collect_layout_make(struct collect_collector *c, struct collect_region *r,
					   struct region_metric *const *metrics, uint32_t count,
					   uint32_t cells, uint64_t generation);
/* That of a workload's region: collect_workload_layout.c. */
struct collect_layout *collect_workload_layout(struct collect_collector *c,
					       struct collect_region *r,
					       const struct collect_workload_group *group,
					       uint32_t groups, uint64_t generation);
void collect_layout_put(struct collect_layout *l);

/* ---- board.c: the values of a region, for everybody ---- */

struct collect_snapshot {
	unsigned int refs;
	struct collect_layout *layout;
	uint64_t seq;	  /* odd while the worker writes; 0: nothing was ever written */
	uint32_t rows;	  /* of the open chunk */
	uint64_t chunk;	  /* the last one in the worker's ring, as collect_ring_append() names it */
	uint32_t target;  /* rows at which the open chunk is packed; the worker's own */
	int64_t *row_ns;  /* NULL: no history */
	uint64_t *row;	  /* [COLLECT_COLUMN_ROWS][columns] */
	size_t row_bytes; /* of both */
	struct collect_worker *worker; /* whom row_bytes are charged to */
	size_t bytes;
	uint64_t cell[]; /* [layout->cells] */
};

/* Takes a reference to the layout. NULL if out of memory. */
struct collect_snapshot *collect_snapshot_new(struct collect_layout *layout,
					      struct collect_worker *w, uint64_t seed);
void collect_snapshot_put(struct collect_snapshot *b, struct collect_collector *c);
/* The worker's: values by cell, read at real_ns. */
void collect_snapshot_publish(struct collect_snapshot *b, const uint64_t *cell, int64_t real_ns,
			      struct collect_worker *w, uint64_t instance);
/* Packs the open rows, for a board that takes this one's place. Returns the chunk. The worker's. */
uint64_t collect_snapshot_flush(const struct collect_snapshot *b, struct collect_worker *w,
				uint64_t instance);
/* Copies cells as they were together. Any thread. */
void collect_snapshot_read(const struct collect_snapshot *b, uint32_t first, uint32_t count,
			   uint64_t *out);
/* A sequence of loads that belong together: begin, loads, again if retry. */
uint64_t collect_snapshot_begin(const struct collect_snapshot *b);
bool collect_snapshot_retry(const struct collect_snapshot *b, uint64_t seq);
/* What the history keeps of a column, of the cells of its layout; and what that word means. */
uint64_t collect_history_word(const struct collect_column *col, const uint64_t *cell);
double collect_history_double(const struct region_metric *m, uint64_t word);

/* Is a region of that kind read as a table of what the kernel keeps, and not in rounds? */
static inline bool collect_is_table(uint32_t region_kind)
{
	return region_kind == SL_REGION_FLOWS || region_kind == SL_REGION_LAYERS ||
	       region_kind == SL_REGION_TASKS || region_kind == SL_REGION_NIC;
}

/* ---- region.c: one region, from its entry to its end ---- */

enum collect_step {
	STEP_UNBOUND, /* no entry names it (the agent was restarted): wait */
	STEP_MAP,     /* to be mapped */
	STEP_HEADER,  /* header asked for */
	STEP_BOUND,   /* read in every round */
	STEP_FINAL,   /* dead and read to the end: nothing changes any more */
	STEP_DROPPED, /* hostile or unreadable, until retry_ns */
	STEP_MADE,    /* of what was read elsewhere: workload.c */
	STEP_GONE,
};

enum collect_schema_step { SCHEMA_IDLE, SCHEMA_WANTED, SCHEMA_READING, SCHEMA_BUILDING };

enum collect_queue {
	QUEUE_NEW = 1,	    /* appears in the list of regions */
	QUEUE_SCHEMA = 2,   /* schema_bytes is whole: make a layout */
	QUEUE_SNAPSHOT = 4, /* the new board has values */
	QUEUE_GONE = 8,
	QUEUE_CHANGED = 16, /* condition changed */
};

/* What control made of a schema. */
struct collect_built {
	struct collect_snapshot *snapshot; /* NULL: fault, or memory */
	enum region_fault fault;
};

struct collect_region {
	unsigned int refs;
	struct collect_collector *c;
	struct collect_host *host;
	struct collect_link *link;
	struct collect_worker *worker;
	uint64_t instance;
	uint64_t age; /* order of appearance */

	/* Immutable after QUEUE_NEW. */
	struct region_info *info;
	struct collect_label_set *labels; /* with host and process */
	struct collect_label_set *group;  /* without process */
	bool made;			  /* by a worker: see STEP_MADE */

	/* Looked at by anybody. */
	uint32_t state; /* enum sl_region_state as the directory says */
	uint32_t step;	/* enum collect_step */
	uint32_t fault;
	uint64_t changed_ns;   /* CLOCK_REALTIME */
	uint64_t fresh_ns;     /* CLOCK_MONOTONIC: known to be right */
	uint64_t last_read_ns; /* CLOCK_REALTIME */
	uint64_t rounds, unsettled, refused, sharing;

	/* The worker's. */
	struct collect_region *hash_next;
	uint32_t kind;	/* as its entry says */
	uint32_t entry; /* index in the directory; looked at by tell.c */
	uint64_t entry_id;
	struct fabric_remote remote;
	bool mapped, urgent, gone;
	uint32_t ops, plan_ops; /* READs on the way, and those of them that are of the pass */
	bool want_pass;		/* soon, not only in the next round */
	bool anonymous;		/* info is made up */
	bool pass, failed;	/* being read; something of it failed */
	uint32_t pass_read;	/* next of plan.read to post */
	bool hot_seen;		/* in this pass */
	uint32_t missing;	/* lines that stayed unsettled in this pass */
	uint32_t final_passes;
	struct collect_plan plan;
	struct region_values values;
	size_t values_bytes;
	struct region_hot hot;
	uint64_t hot_ok_ns;
	struct collect_snapshot *snapshot;
	bool board_new;	   /* no pass was made for it yet */
	uint64_t board_ns; /* when it took its place */
	uint32_t held;	   /* passes that were not published: see unseen */
	/*
	 * Bit i is line i: unsettled in this pass in some stripe; not settled in all stripes in any
	 * pass since the board is there. A board is held back while there are such lines.
	 */
	uint64_t *stale, *unseen;
	size_t mark_words;
	bool any_stale, any_unseen;
	void *tap_own[COLLECT_TAPS_MAX];
	struct collect_flow_table
		*flows; /* NULL: not a table of connections; set before others see it */
	struct collect_slot_table *slots; /* likewise, of layers and of tasks */
	struct net_ring *net;		  /* likewise, a ring of segments */
	uint64_t since_ns, retry_ns, backoff_ns;
	enum collect_schema_step schema_step;
	uint64_t schema_at_ns, schema_pause_ns; /* not before; how long between two */
	uint32_t schema_posted, schema_got, schema_tries;
	bool schema_failed;
	uint64_t schema_seen; /* generation that was handed over last */

	/* Handed to control with QUEUE_SCHEMA, and back with built. */
	uint8_t *schema_bytes;
	uint32_t schema_length;
	uint64_t schema_generation;
	struct collect_built reply, *built; /* built: NULL or &reply */

	/* The stack. */
	unsigned int queued;
	struct collect_region *box_next;

	/* Control's. */
	size_t list_index;
	bool listed;
	struct collect_snapshot *pending, *shown;
	uint32_t series; /* taken from max_series, given back at the end */
	uint32_t series_refused;
};

struct collect_region *collect_region_new(struct collect_link *l, uint64_t instance, uint64_t age);
void collect_region_put(struct collect_region *r);
void collect_region_queue(struct collect_region *r, enum collect_queue queued);
/* Takes what a copy of the header says. */
enum region_fault collect_region_identify(struct collect_region *r,
					  const struct sl_region_header *copy,
					  const char *hostname);
/* One that nobody published: labels and identity as info says, which is copied. 0 or -ENOMEM. */
int collect_region_made(struct collect_region *r, const struct region_info *info,
			const char *hostname);
/* A region whose header is not believed still needs a face in the list. */
int collect_region_anonymous(struct collect_region *r);
/* The sums over all stripes, by cell. */
void collect_region_flatten(const struct collect_region *r, const struct collect_layout *layout,
			    uint64_t *out);

/* ---- host.c ---- */

struct collect_host {
	struct collect_collector *c;
	const char *target, *fabric;
	struct collect_link **link;
	unsigned int links;
	char *hostname;	       /* never freed before the collector; replaced by an atomic store */
	uint64_t last_read_ns; /* CLOCK_REALTIME */
	uint64_t fresh_ns;     /* CLOCK_MONOTONIC */
	/* Which link has which region, if there are several links. */
	pthread_mutex_t lock;
	struct collect_home *home;
	size_t homes, home_capacity;
	struct collect_region *flows; /* its table of connections, or NULL */
	uint64_t releases; /* homes given up: whose instance may have come back in another entry */
	uint32_t *load;
	struct collect_old_name *retired_names;
	unsigned int renames;
};

int collect_host_init(struct collect_host *h, struct collect_collector *c, const char *target,
		      unsigned int links);
void collect_host_free(struct collect_host *h);
/*
 * 1 if this link is to have the region, 0 if another one is, -ENOMEM: the least loaded one gets it,
 * and keeps it until it gives it up.
 */
int collect_host_claim(struct collect_host *h, struct collect_link *l, uint64_t instance);
void collect_host_release(struct collect_host *h, struct collect_link *l, uint64_t instance);
void collect_host_set_name(struct collect_host *h, const char *name);
const char *collect_host_name(const struct collect_host *h);
enum collect_host_condition collect_host_condition(const struct collect_host *h,
						   uint64_t now_ns); /* stats.c */

/* ---- worker.c ---- */

struct collect_worker {
	struct collect_collector *c;
	unsigned int number;
	pthread_t thread;
	bool started;
	int cpu;
	struct collect_link *link;
	unsigned int links;
	struct collect_ring ring;
	uint64_t row_bytes, row_limit; /* open chunks: in use, at most */
	uint64_t *flat;
	size_t flat_cells;
	double *row; /* for taps */
	size_t row_columns;
	/* Seen by others; written by the worker alone. */
	uint64_t rounds, missed, reads, bytes, lines, unsettled, samples, busy_ns, start_ns;
	uint64_t wrong_instance, map_errors, rows_lost;
	uint64_t faults[REGION_FAULT_COUNT], read_errors, latency[COLLECT_LATENCY_BUCKETS],
		latency_sum_ns;
};

void *collect_worker_main(void *arg);
unsigned int collect_latency_bucket(uint64_t ns);
/* Upper bound of a bucket in seconds. */
double collect_latency_bound(unsigned int bucket);

/* ---- index.c: families and series, as the exposition wants them ---- */

/* What expired processes left to a sum. Immutable. */
struct collect_retired {
	unsigned int refs;
	struct collect_retired *next;
	struct collect_def *def; /* a reference is held */
	struct collect_label_set *labels;
	size_t bytes;
	uint64_t cell[];
};

struct collect_item {
	uint32_t source; /* of index.board, or with ITEM_RETIRED of index.retired */
	uint32_t column;
};
#define ITEM_RETIRED 0x80000000u
#define ITEM_MORE    0x80000000u /* in column: belongs to the series of the item before */

struct collect_index_family {
	struct export_family f;
	const struct collect_def *def; /* the first one */
	size_t first, items;
};

struct collect_index {
	unsigned int refs;
	struct collect_collector *c;
	struct collect_index_family *family;
	size_t families;
	struct collect_item *item;
	size_t items;
	struct collect_region **region;	    /* by age; all listed ones */
	struct collect_snapshot **snapshot; /* of the region, or NULL */
	uint32_t *by_instance;
	size_t regions;
	struct collect_retired **retired;
	size_t retireds;
	size_t series;
	size_t bytes;
};

struct collect_index *collect_index_new(struct collect_collector *c);
struct collect_index *collect_index_get(struct collect_collector *c);
void collect_index_put(struct collect_index *x);
/* Adds what a region counted to the sums that outlive it. Control's. */
void collect_retire_region(struct collect_collector *c, struct collect_region *r);
void collect_retired_free(struct collect_collector *c);
int collect_retired_init(struct collect_collector *c);
/* Adds the cells of a counter or histogram, u64 and f64 as they are. */
void collect_sum_cells(const struct region_metric *m, uint64_t *to, const uint64_t *from);
ssize_t collect_index_find(const struct collect_index *x, uint64_t instance);
/* Are the values of this region to be believed now? */
bool collect_region_visible(const struct collect_region *r, uint64_t now_ns);

/* ---- control.c ---- */

void *collect_control_main(void *arg);
void collect_control_wake(struct collect_collector *c);

/* ---- self.c ---- */

struct collect_self;
size_t collect_self_families(void);
void collect_self_family(size_t i, struct export_family *out);
bool collect_self_has(const char *name);
struct collect_self *collect_self_begin(struct collect_collector *c, struct collect_index *x);
/* Families of what is not asked for are left out. */
bool collect_self_there(const struct collect_self *s, size_t family);
void collect_self_enter(struct collect_self *s, size_t family);
int collect_self_next(struct collect_self *s, struct export_series *out);
void collect_self_end(struct collect_self *s);

/* ---- the whole ---- */

struct collect_collector {
	struct collect_collector_opts opts;
	struct collect_host *host;
	size_t hosts;
	struct collect_worker *worker;
	unsigned int workers;
	uint64_t seed; /* of hash tables */
	bool stop, running;
	bool over; /* no worker runs any more: control reads what they wrote, and ends */
	struct collect_tracer *tracer; /* NULL: none; set likewise */
	struct collect_live *live;     /* NULL: none; set before the threads start */
	struct dta_store_server *dta;  /* NULL: none; likewise */
	struct nets *nets;	       /* latency between hosts: nets.h */
	struct collect_tap tap[COLLECT_TAPS_MAX];
	unsigned int taps;
	pthread_t control;
	int wake_fd;
	struct collect_region *queue; /* mail */

	/* Control's. */
	struct collect_region **region;
	size_t regions, region_capacity, departed;
	bool dirty;
	uint64_t build;
	struct collect_retired **retired_bucket;
	size_t retireds, retired_cells;
	struct collect_defs defs;

	pthread_mutex_t index_lock; /* around the pointer, never longer */
	struct collect_index *index;
	uint64_t index_builds;

	/* Seen by anybody. */
	uint64_t age, region_count, series_count, memory;
	uint64_t expired, refused_regions, refused_series, refused_history, dropped;
	uint64_t conflicts_kind, conflicts_name, conflicts_duplicate, conflicts_sum;
	uint64_t retired_lost;
	uint64_t tcp_groups, flow_slots; /* in use */
};

#endif
