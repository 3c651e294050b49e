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
 * stack. From control to worker goes a struct built, by one atomic pointer. To everybody else go
 * boards: what a round read, under a sequence count.
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
#define GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define SET(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define BUMP(x, n) SET(x, (x) + (n)) /* the only writer */
#define ADD(x, n) __atomic_fetch_add(&(x), (n), __ATOMIC_RELAXED)
#define SUB(x, n) __atomic_fetch_sub(&(x), (n), __ATOMIC_RELAXED)

static inline void ref_get(unsigned int *refs)
{
	__atomic_fetch_add(refs, 1, __ATOMIC_RELAXED);
}

/* True for the last one: everything that others did to the object has happened before. */
static inline bool ref_put(unsigned int *refs)
{
	return __atomic_fetch_sub(refs, 1, __ATOMIC_ACQ_REL) == 1;
}

struct sl_live;
struct sl_owner;
struct sl_tracer;
struct region;
struct link;
struct host;
struct worker;
struct home;
struct old_name;
struct flow_table;
struct slot_table;
struct net_ring;
struct nets;

/* ---- layout.c: what a schema means ------------------------------------------------------------ */

/* A family's name, found once; the rest is the control thread's scratch while it builds an index. */
struct family_name {
	struct family_name *next;
	unsigned int refs; /* under the table's lock */
	uint64_t build;    /* index build in which the following hold */
	size_t place;      /* in that index */
	size_t name_bytes;
	char name[];       /* without _total, _info */
};

/* The definition of a metric, shared by all regions that have the same. Immutable. */
struct def {
	struct def *next;
	unsigned int refs; /* under the table's lock */
	uint64_t hash;
	struct sl_metric metric; /* id and cell are 0; labels as they are exposed */
	struct family_name *family;
	struct sl_label_set *labels;
	enum sl_family_type type;
	size_t bytes;
};

struct defs {
	pthread_mutex_t lock;
	struct def **bucket;
	size_t buckets, count;
	struct family_name **family_bucket;
	size_t family_buckets, family_count;
};

int defs_init(struct defs *d);
void defs_free(struct defs *d);
void def_ref(struct sl_collector *c, struct def *d);
void def_put(struct sl_collector *c, struct def *d);

struct column {
	struct def *def;
	uint32_t cell;
	bool twin; /* exposed it would be the series that an earlier column is already */
};

/* A cell that is no sum of u64. */
struct special {
	uint32_t cell;
	bool shared; /* stripe 0 only */
	bool f64;
};

struct layout {
	unsigned int refs;
	struct sl_collector *c;
	uint32_t columns;    /* one a metric */
	uint32_t cells, lines;
	uint64_t generation;
	uint32_t refused;    /* metrics that max_series left no room for */
	bool scalar;         /* each column is one cell */
	struct column *column;
	bool *f64;           /* by column, for the history */
	struct special *special;
	uint32_t specials;
	size_t bytes;
};

/* What is known of a workload, by where it comes from. */
enum workload_part { WORKLOAD_FLOWS, WORKLOAD_LAYERS, WORKLOAD_TASKS, WORKLOAD_PARTS };

/* A block of a workload's cells, and what its metrics are about: role and port of the service. */
struct workload_group {
	uint16_t port; /* 0: any other */
	uint8_t role;  /* enum flow_role */
	uint8_t part;  /* enum workload_part */
	bool held;     /* it took a place of --tcp-groups */
	uint32_t at;   /* first cell */
};

/*
 * Makes a layout of a whole schema. NULL with *fault set; SL_FAULT_NONE means out of memory.
 */
struct layout *layout_new(struct sl_collector *c, struct region *r, const void *schema,
			  size_t bytes, uint64_t generation, enum sl_fault *fault);
/* The same of metrics, which are copied. NULL: out of memory. */
struct layout *layout_make(struct sl_collector *c, struct region *r, struct sl_metric *const *metrics,
			   uint32_t count, uint32_t cells, uint64_t generation);
/* That of a workload's region: workload_layout.c. */
struct layout *workload_layout(struct sl_collector *c, struct region *r,
			       const struct workload_group *group, uint32_t groups,
			       uint64_t generation);
void layout_put(struct layout *l);

/* ---- board.c: the values of a region, for everybody ------------------------------------------- */

struct board {
	unsigned int refs;
	struct layout *layout;
	uint64_t seq;      /* odd while the worker writes; 0: nothing was ever written */
	uint32_t rows;     /* of the open chunk */
	uint64_t chunk;    /* the last one in the worker's ring, as sl_ring_append() names it */
	uint32_t target;   /* rows at which the open chunk is packed; the worker's own */
	int64_t *row_ns;   /* NULL: no history */
	uint64_t *row;     /* [SL_COLUMN_ROWS][columns] */
	size_t row_bytes;  /* of both */
	struct worker *worker; /* whom row_bytes are charged to */
	size_t bytes;
	uint64_t cell[];   /* [layout->cells] */
};

/* Takes a reference to the layout. NULL if out of memory. */
struct board *board_new(struct layout *layout, struct worker *w, uint64_t seed);
void board_put(struct board *b, struct sl_collector *c);
/* The worker's: values by cell, read at real_ns. */
void board_publish(struct board *b, const uint64_t *cell, int64_t real_ns, struct worker *w,
		   uint64_t instance);
/* Packs the open rows, for a board that takes this one's place. Returns the chunk. The worker's. */
uint64_t board_flush(const struct board *b, struct worker *w, uint64_t instance);
/* Copies cells as they were together. Any thread. */
void board_read(const struct board *b, uint32_t first, uint32_t count, uint64_t *out);
/* A sequence of loads that belong together: begin, loads, again if retry. */
uint64_t board_begin(const struct board *b);
bool board_retry(const struct board *b, uint64_t seq);
/* What the history keeps of a column, of the cells of its layout; and what that word means. */
uint64_t history_word(const struct column *col, const uint64_t *cell);
double history_double(const struct sl_metric *m, uint64_t word);

/* Is a region of that kind read as a table of what the kernel keeps, and not in rounds? */
static inline bool is_table(uint32_t region_kind)
{
	return region_kind == SL_REGION_FLOWS || region_kind == SL_REGION_LAYERS ||
	       region_kind == SL_REGION_TASKS || region_kind == SL_REGION_NIC;
}

/* ---- region.c: one region, from its entry to its end ------------------------------------------- */

enum step {
	STEP_UNBOUND, /* no entry names it (the agent was restarted): wait */
	STEP_MAP,     /* to be mapped */
	STEP_HEADER,  /* header asked for */
	STEP_BOUND,   /* read in every round */
	STEP_FINAL,   /* dead and read to the end: nothing changes any more */
	STEP_DROPPED, /* hostile or unreadable, until retry_ns */
	STEP_MADE, /* of what was read elsewhere: workload.c */
	STEP_GONE,
};

enum schema_step { SCHEMA_IDLE, SCHEMA_WANTED, SCHEMA_READING, SCHEMA_BUILDING };

enum mail {
	MAIL_NEW = 1,    /* appears in the list of regions */
	MAIL_SCHEMA = 2, /* schema_bytes is whole: make a layout */
	MAIL_BOARD = 4,  /* the new board has values */
	MAIL_GONE = 8,
	MAIL_CHANGED = 16, /* condition changed */
};

/* What control made of a schema. */
struct built {
	struct board *board; /* NULL: fault, or memory */
	enum sl_fault fault;
};

struct region {
	unsigned int refs;
	struct sl_collector *c;
	struct host *host;
	struct link *link;
	struct worker *worker;
	uint64_t instance;
	uint64_t age; /* order of appearance */

	/* Immutable after MAIL_NEW. */
	struct sl_region_info *info;
	struct sl_label_set *labels; /* with host and process */
	struct sl_label_set *group;  /* without process */
	bool made;		     /* by a worker: see STEP_MADE */

	/* Looked at by anybody. */
	uint32_t state;        /* enum sl_region_state as the directory says */
	uint32_t step;         /* enum step */
	uint32_t fault;
	uint64_t changed_ns;   /* CLOCK_REALTIME */
	uint64_t fresh_ns;     /* CLOCK_MONOTONIC: known to be right */
	uint64_t last_read_ns; /* CLOCK_REALTIME */
	uint64_t rounds, unsettled, refused, sharing;

	/* The worker's. */
	struct region *hash_next;
	uint32_t kind;	/* as its entry says */
	uint32_t entry; /* index in the directory; looked at by tell.c */
	uint64_t entry_id;
	struct sl_remote remote;
	bool mapped, urgent, gone;
	uint32_t ops, plan_ops; /* READs on the way, and those of them that are of the pass */
	bool want_pass;    /* soon, not only in the next round */
	bool anonymous;    /* info is made up */
	bool pass, failed; /* being read; something of it failed */
	uint32_t pass_read; /* next of plan.read to post */
	bool hot_seen;     /* in this pass */
	uint32_t missing;  /* lines that stayed unsettled in this pass */
	uint32_t final_passes;
	struct sl_plan plan;
	struct sl_values values;
	size_t values_bytes;
	struct sl_hot hot;
	uint64_t hot_ok_ns;
	struct board *board;
	bool board_new;   /* no pass was made for it yet */
	uint64_t board_ns; /* when it took its place */
	uint32_t held;    /* passes that were not published: see unseen */
	/*
	 * Bit i is line i: unsettled in this pass in some stripe; not settled in all stripes in any
	 * pass since the board is there. A board is held back while there are such lines.
	 */
	uint64_t *stale, *unseen;
	size_t mark_words;
	bool any_stale, any_unseen;
	void *tap_own[SL_TAPS_MAX];
	struct flow_table *flows; /* NULL: not a table of connections; set before others see it */
	struct slot_table *slots; /* likewise, of layers and of tasks */
	struct net_ring *net;	  /* likewise, a ring of segments */
	uint64_t since_ns, retry_ns, backoff_ns;
	enum schema_step schema_step;
	uint64_t schema_at_ns, schema_pause_ns; /* not before; how long between two */
	uint32_t schema_posted, schema_got, schema_tries;
	bool schema_failed;
	uint64_t schema_seen; /* generation that was handed over last */

	/* Handed to control with MAIL_SCHEMA, and back with built. */
	uint8_t *schema_bytes;
	uint32_t schema_length;
	uint64_t schema_generation;
	struct built reply, *built; /* built: NULL or &reply */

	/* The stack. */
	unsigned int mail;
	struct region *box_next;

	/* Control's. */
	size_t list_index;
	bool listed;
	struct board *pending, *shown;
	uint32_t series; /* taken from max_series, given back at the end */
	uint32_t series_refused;
};

struct region *region_new(struct link *l, uint64_t instance, uint64_t age);
void region_put(struct region *r);
void region_mail(struct region *r, enum mail mail);
/* Takes what a copy of the header says. */
enum sl_fault region_identify(struct region *r, const struct sl_region_header *copy,
			      const char *hostname);
/* One that nobody published: labels and identity as info says, which is copied. 0 or -ENOMEM. */
int region_made(struct region *r, const struct sl_region_info *info, const char *hostname);
/* A region whose header is not believed still needs a face in the list. */
int region_anonymous(struct region *r);
/* The sums over all stripes, by cell. */
void region_flatten(const struct region *r, const struct layout *layout, uint64_t *out);

/* ---- host.c ------------------------------------------------------------------------------------- */

struct host {
	struct sl_collector *c;
	const char *target, *fabric;
	struct link **link;
	unsigned int links;
	char *hostname; /* never freed before the collector; replaced by an atomic store */
	uint64_t last_read_ns;  /* CLOCK_REALTIME */
	uint64_t fresh_ns;      /* CLOCK_MONOTONIC */
	/* Which link has which region, if there are several links. */
	pthread_mutex_t lock;
	struct home *home;
	size_t homes, home_capacity;
	struct region *flows; /* its table of connections, or NULL */
	uint64_t releases; /* homes given up: whose instance may have come back in another entry */
	uint32_t *load;
	struct old_name *retired_names;
	unsigned int renames;
};

int host_init(struct host *h, struct sl_collector *c, const char *target, unsigned int links);
void host_free(struct host *h);
/*
 * 1 if this link is to have the region, 0 if another one is, -ENOMEM: the least loaded one gets it,
 * and keeps it until it gives it up.
 */
int host_claim(struct host *h, struct link *l, uint64_t instance);
void host_release(struct host *h, struct link *l, uint64_t instance);
void host_set_name(struct host *h, const char *name);
const char *host_name(const struct host *h);
enum sl_host_condition host_condition(const struct host *h, uint64_t now_ns); /* stats.c */

/* ---- worker.c ----------------------------------------------------------------------------------- */

struct worker {
	struct sl_collector *c;
	unsigned int number;
	pthread_t thread;
	bool started;
	int cpu;
	struct link *link;
	unsigned int links;
	struct sl_ring ring;
	uint64_t row_bytes, row_limit; /* open chunks: in use, at most */
	uint64_t *flat;
	size_t flat_cells;
	double *row; /* for taps */
	size_t row_columns;
	/* Seen by others; written by the worker alone. */
	uint64_t rounds, missed, reads, bytes, lines, unsettled, samples, busy_ns, start_ns;
	uint64_t wrong_instance, map_errors, rows_lost;
	uint64_t faults[SL_FAULT_COUNT], read_errors, latency[SL_LATENCY_BUCKETS], latency_sum_ns;
};

void *worker_main(void *arg);
unsigned int latency_bucket(uint64_t ns);
/* Upper bound of a bucket in seconds. */
double latency_bound(unsigned int bucket);

/* ---- index.c: families and series, as the exposition wants them --------------------------------- */

/* What expired processes left to a sum. Immutable. */
struct retired {
	unsigned int refs;
	struct retired *next;
	struct def *def; /* a reference is held */
	struct sl_label_set *labels;
	size_t bytes;
	uint64_t cell[];
};

struct item {
	uint32_t source; /* of index.board, or with ITEM_RETIRED of index.retired */
	uint32_t column;
};
#define ITEM_RETIRED 0x80000000u
#define ITEM_MORE    0x80000000u /* in column: belongs to the series of the item before */

struct index_family {
	struct sl_family f;
	const struct def *def; /* the first one */
	size_t first, items;
};

struct index {
	unsigned int refs;
	struct sl_collector *c;
	struct index_family *family;
	size_t families;
	struct item *item;
	size_t items;
	struct region **region; /* by age; all listed ones */
	struct board **board;   /* of the region, or NULL */
	uint32_t *by_instance;
	size_t regions;
	struct retired **retired;
	size_t retireds;
	size_t series;
	size_t bytes;
};

struct index *index_new(struct sl_collector *c);
struct index *index_get(struct sl_collector *c);
void index_put(struct index *x);
/* Adds what a region counted to the sums that outlive it. Control's. */
void retire_region(struct sl_collector *c, struct region *r);
void retired_free(struct sl_collector *c);
int retired_init(struct sl_collector *c);
/* Adds the cells of a counter or histogram, u64 and f64 as they are. */
void sum_cells(const struct sl_metric *m, uint64_t *to, const uint64_t *from);
ssize_t index_find(const struct index *x, uint64_t instance);
/* Are the values of this region to be believed now? */
bool region_visible(const struct region *r, uint64_t now_ns);

/* ---- control.c ---------------------------------------------------------------------------------- */

void *control_main(void *arg);
void control_wake(struct sl_collector *c);

/* ---- self.c ------------------------------------------------------------------------------------- */

struct self;
size_t self_families(void);
void self_family(size_t i, struct sl_family *out);
bool self_has(const char *name);
struct self *self_begin(struct sl_collector *c, struct index *x);
/* Families of what is not asked for are left out. */
bool self_there(const struct self *s, size_t family);
void self_enter(struct self *s, size_t family);
int self_next(struct self *s, struct sl_series *out);
void self_end(struct self *s);

/* ---- the whole ---------------------------------------------------------------------------------- */

struct sl_collector {
	struct sl_collector_opts opts;
	struct host *host;
	size_t hosts;
	struct worker *worker;
	unsigned int workers;
	uint64_t seed; /* of hash tables */
	bool stop, running;
	bool over; /* no worker runs any more: control reads what they wrote, and ends */
	struct sl_tracer *tracer; /* NULL: none; set likewise */
	struct sl_live *live; /* NULL: none; set before the threads start */
	struct sl_owner *dta; /* NULL: none; likewise */
	struct nets *nets;    /* latency between hosts: nets.h */
	struct sl_tap tap[SL_TAPS_MAX];
	unsigned int taps;
	pthread_t control;
	int wake_fd;
	struct region *box; /* mail */

	/* Control's. */
	struct region **region;
	size_t regions, region_capacity, departed;
	bool dirty;
	uint64_t build;
	struct retired **retired_bucket;
	size_t retireds, retired_cells;
	struct defs defs;

	pthread_mutex_t index_lock; /* around the pointer, never longer */
	struct index *index;
	uint64_t index_builds;

	/* Seen by anybody. */
	uint64_t age, region_count, series_count, memory;
	uint64_t expired, refused_regions, refused_series, refused_history, dropped;
	uint64_t conflicts_kind, conflicts_name, conflicts_duplicate, conflicts_sum;
	uint64_t retired_lost;
	uint64_t tcp_groups, flow_slots; /* in use */
};

#endif
