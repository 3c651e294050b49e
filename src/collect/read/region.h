/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region.h - a region in the collector, from its first directory entry until it is gone. It belongs
 * to one worker; control takes its schema and publishes its snapshot; other threads may read only
 * the marked fields.
 */
#ifndef SL_COLLECT_READ_REGION_H
#define SL_COLLECT_READ_REGION_H

#include "collect/read/collect.h"
#include "collect/read/plan.h"
#include "collect/read/snapshot.h"
#include "collect/read/tenant.h"
#include "collect/read/attach.h"

struct collect_host;
struct collect_link;

/*
 * Maximum number of a region's labels: the header's labels, host, process, and the tenant's labels.
 */
#define COLLECT_REGION_LABELS (REGION_LABELS_MAX + 2 + COLLECT_TENANT_LABELS)

enum collect_step {
	STEP_UNBOUND, /* no directory entry names the region (the agent restarted): wait */
	STEP_MAP,     /* the region must be mapped */
	STEP_HEADER,  /* the header has been requested */
	STEP_BOUND,   /* the region is read in every round */
	/* the publisher is dead or has closed the region, and its final values were read */
	STEP_FINAL,
	STEP_DROPPED,	/* the region is hostile or unreadable; try again at retry_ns */
	STEP_SYNTHETIC, /* the values come from an attached part, not from READs */
	STEP_GONE,
};

enum collect_schema_step { SCHEMA_IDLE, SCHEMA_WANTED, SCHEMA_READING, SCHEMA_BUILDING };

/* Reasons for which a region is queued for control. */
enum collect_event {
	EVENT_NEW = 1,	    /* add the region to the list */
	EVENT_SCHEMA = 2,   /* schema_bytes is complete: make a layout */
	EVENT_SNAPSHOT = 4, /* the pending snapshot has values */
	EVENT_GONE = 8,
	EVENT_CHANGED = 16, /* the region's step or state changed */
};

/* The layout or fault that control derived from a schema. */
struct collect_built {
	/* NULL if there is a fault (see fault) or if out of memory */
	struct collect_snapshot *snapshot;
	enum region_fault fault;
};

struct collect_exemplars;

struct collect_region {
	struct base_node node; /* node of the link's table */
	unsigned int refs;
	struct collect_collector *c;
	struct collect_host *host;
	struct collect_link *link;
	struct collect_worker *worker;
	uint64_t instance;
	uint64_t age;	     /* number in the order in which the link found its regions */
	int64_t found_ns;    /* CLOCK_REALTIME */
	uint64_t last_chunk; /* last chunk of the history; set before EVENT_GONE */
	/* the host is no longer read, and the publisher may go on; set before EVENT_GONE */
	bool left;

	/* Immutable after EVENT_NEW. */
	struct region_info *info;
	struct collect_tenant *tenant;	  /* unknown until the tenant's record has been read */
	struct collect_label_set *labels; /* labels with host, identity and process */
	struct collect_label_set *group;  /* labels without process */
	/* the values come from an attached part (STEP_SYNTHETIC) */
	bool synthetic;
	uint64_t period_ns; /* for a synthetic region: time between two passes */
	/* SL_REGION_ORIGIN, from a tenant that may set it: the metrics' labels are complete */
	bool origin;

	/* Written by the worker, read by any thread. */
	uint32_t state; /* enum sl_region_state from the directory */
	uint32_t step;	/* enum collect_step */
	uint32_t fault;
	uint64_t changed_ns;   /* CLOCK_REALTIME */
	uint64_t fresh_ns;     /* CLOCK_MONOTONIC when the values were last known to be current */
	uint64_t last_read_ns; /* CLOCK_REALTIME */
	uint64_t rounds, unsettled, refused, sharing;
	struct collect_exemplars *exemplars; /* exemplars, set once; NULL means none yet */
	/* the layout waits for its tenant's share of CPU time; also written by control */
	bool held_layout;
	uint32_t entry;	   /* index of the region's directory entry */
	uint64_t admitted; /* id of the region's current or last entry; ids only grow */

	/* Used only by the worker. */
	uint32_t kind; /* kind claimed by the entry; verified against info->kind */
	uint64_t entry_id;
	uint64_t attested;	    /* entry_id whose record in SL_SECTION_TENANTS was read */
	uint64_t header_instance;   /* instance according to that record */
	uint64_t named;		    /* entry_id whose record in SL_SECTION_NAMES was read */
	struct region_names *names; /* NULL means the region has no names */
	struct fabric_remote remote;
	bool mapped, urgent, gone;
	uint32_t ops, plan_ops; /* READs in flight, and how many of these belong to the pass */
	bool want_pass;		/* start a pass before the next round */
	bool anonymous;		/* info is a placeholder */
	bool pass, failed;	/* a pass is in progress; one of its READs failed */
	bool slow;		/* no round waits for this pass (turn.h) */
	uint64_t lap;		/* lap of the tenant in which the last pass began (tenant.h) */
	uint32_t pass_read;	/* next READ of plan.read to post */
	bool hot_seen;		/* the hot line's check word matched in this pass */
	uint32_t missing;	/* lines that stayed unsettled in this pass */
	uint32_t final_passes;
	struct collect_plan plan;
	struct region_values values;
	size_t values_bytes;
	struct region_hot hot;
	int64_t origin_ns; /* with .origin: hot.changed_ns of the last pass with new values */
	int64_t values_ns; /* CLOCK_REALTIME of the values of the last pass */
	uint64_t hot_ok_ns;
	uint64_t hot_ns; /* when the READ of hot was posted */
	/* hot_ns of the last hot line with the generation of the current layout */
	uint64_t layout_ns;
	struct collect_snapshot *snapshot;
	bool snapshot_new; /* no pass has been made for the snapshot yet */
	bool renamed; /* some cells changed metric: hold the snapshot back until all are read */
	uint64_t snapshot_ns; /* time when the snapshot was installed */
	uint32_t held;	      /* number of passes held back, not published (see unseen) */
	/*
	 * Bitmaps of lines. stale: the line was unsettled in some stripe in this pass. unseen:
	 * since the snapshot was installed, there has been no pass in which the line was settled in
	 * all stripes. The snapshot is held back while a line is unseen.
	 */
	uint64_t *stale, *unseen;
	size_t mark_words;
	bool any_stale, any_unseen;
	void *tap_own[COLLECT_TAPS_MAX];
	void *beside; /* data of the attached collect_reader, or NULL */
	/* Used by link_exemplars.c. */
	uint64_t exemplars_at_ns, exemplars_set;
	/*
	 * earliest time at which this region may read a piece of exemplars, in turn with the
	 * tenant's other regions; 0 means not requested
	 */
	uint64_t exemplars_turn_ns;
	/* exemplars dropped by the publisher; may be accessed by any thread */
	uint64_t exemplars_dropped;
	uint32_t exemplars_next, exemplars_end; /* range of elements to read; equal: none */
	bool exemplars_busy;
	uint64_t since_ns, retry_ns, backoff_ns;
	enum collect_schema_step schema_step;
	/* earliest time of the next schema read; minimum time between two reads */
	uint64_t schema_at_ns, schema_pause_ns;
	uint64_t schema_hot_ns; /* hot_ns of the hot line that contained schema_generation */
	uint32_t schema_posted, schema_got, schema_tries;
	bool schema_failed;
	uint64_t schema_seen; /* generation of the current layout */

	/* Passed to control with EVENT_SCHEMA, and returned with `built`. */
	uint8_t *schema_bytes; /* created_bytes of the section created, then the schema */
	uint32_t schema_length, created_bytes;
	uint64_t schema_generation;
	struct collect_built reply, *built; /* built is NULL or &reply */

	/* Links of control's queues: events, and the schemas of the region's tenant. */
	unsigned int events;
	struct collect_region *queue_next, *build_next;

	/* Used only by control. */
	size_t list_index;
	bool listed, ended;
	struct collect_snapshot *pending, *shown;
	uint32_t series; /* series taken from max_series, returned when the region is gone */
	uint32_t series_refused;
};

struct collect_region *collect_region_new(struct collect_link *l, uint64_t instance, uint64_t age);
void collect_region_put(struct collect_region *r);
/* Queues the region for control. Worker thread only. */
void collect_region_queue(struct collect_region *r, enum collect_event event);
/*
 * Notes that the region's layout has to wait until its tenant may spend more time on layouts.
 * Called by the owner of the schema.
 */
void collect_region_hold(struct collect_region *r);
/*
 * Takes identity and labels from a copy of the header, or verifies them if they are already known.
 */
enum region_fault collect_region_identify(struct collect_region *r,
					  const struct sl_region_header *copy,
					  const char *hostname);
/*
 * Makes r a synthetic region with the labels and identity of info, which is copied. The region gets
 * new values every period_ns. Returns 0 or -ENOMEM.
 */
int collect_region_synthesize(struct collect_region *r, const struct region_info *info,
			      const char *hostname, uint64_t period_ns);
/* Gives a region with an invalid header a placeholder identity, so that it can be listed. */
int collect_region_anonymous(struct collect_region *r);
/*
 * Copies only the used label bytes, since the label buffer is most of the structure. Returns NULL
 * if out of memory.
 */
struct region_info *collect_region_info_copy(const struct region_info *from);
/* Returns true if the values are recent enough to be exposed. */
bool collect_region_visible(const struct collect_region *r, uint64_t now_ns);

#endif
