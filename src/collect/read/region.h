/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region.h - a region as the collector knows it, from its first directory entry until it is gone.
 * It belongs to one worker; control takes its schema and publishes its snapshot; other threads read
 * the fields that say so.
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

/* The most labels of a region: its header's, host, process and the tenant's. */
#define COLLECT_REGION_LABELS (SL_LABELS_MAX + 2 + COLLECT_TENANT_LABELS)

enum collect_step {
	STEP_UNBOUND,	/* no entry names it (the agent restarted): wait */
	STEP_MAP,	/* to be mapped */
	STEP_HEADER,	/* header requested */
	STEP_BOUND,	/* read in every round */
	STEP_FINAL,	/* its publisher ended and its final values were read */
	STEP_DROPPED,	/* hostile or unreadable, until retry_ns */
	STEP_SYNTHETIC, /* made here by an attached part */
	STEP_GONE,
};

enum collect_schema_step { SCHEMA_IDLE, SCHEMA_WANTED, SCHEMA_READING, SCHEMA_BUILDING };

/* What a region queued for control is about. */
enum collect_event {
	EVENT_NEW = 1,	    /* add to the list of regions */
	EVENT_SCHEMA = 2,   /* schema_bytes is complete: make a layout */
	EVENT_SNAPSHOT = 4, /* the pending snapshot has values */
	EVENT_GONE = 8,
	EVENT_CHANGED = 16, /* its step or state changed */
};

/* Control's result for a schema. */
struct collect_built {
	struct collect_snapshot *snapshot; /* NULL: fault, or out of memory */
	enum region_fault fault;
};

struct collect_exemplars;

struct collect_region {
	struct collect_node node; /* of the link's table */
	unsigned int refs;
	struct collect_collector *c;
	struct collect_host *host;
	struct collect_link *link;
	struct collect_worker *worker;
	uint64_t instance;
	uint64_t age; /* order of appearance */

	/* Immutable after EVENT_NEW. */
	struct region_info *info;
	struct collect_tenant *tenant;	  /* unknown until its record was read */
	struct collect_label_set *labels; /* with host, identity and process */
	struct collect_label_set *group;  /* without process */
	bool synthetic;			  /* see STEP_SYNTHETIC */
	uint64_t period_ns;		  /* of a synthetic one: time between two passes */

	/* Written by the worker, read by any thread. */
	uint32_t state; /* enum sl_region_state of the directory */
	uint32_t step;	/* enum collect_step */
	uint32_t fault;
	uint64_t changed_ns;   /* CLOCK_REALTIME */
	uint64_t fresh_ns;     /* CLOCK_MONOTONIC: last known to be current */
	uint64_t last_read_ns; /* CLOCK_REALTIME */
	uint64_t rounds, unsettled, refused, sharing;
	struct collect_exemplars *exemplars; /* NULL: none yet; set once */
	uint32_t entry;			     /* index in the directory */
	uint64_t admitted; /* id of its entry, or of the last one: ids only grow */

	/* The worker's. */
	uint32_t kind; /* claimed by its entry; verified against info->kind */
	uint64_t entry_id;
	uint64_t attested;	    /* the entry_id whose record of SL_SECTION_TENANTS was read */
	uint64_t header_instance;   /* according to it */
	uint64_t named;		    /* the entry_id whose record of SL_SECTION_NAMES was read */
	struct region_names *names; /* NULL: it has none */
	struct fabric_remote remote;
	bool mapped, urgent, gone;
	uint32_t ops, plan_ops; /* READs in flight, and those of them that belong to the pass */
	bool want_pass;		/* before the next round */
	bool anonymous;		/* info is a placeholder */
	bool pass, failed;	/* a pass is in progress; a READ of it failed */
	bool slow;		/* no round waits for this pass: turn.h */
	uint64_t pass_round;	/* of the link, in which it began */
	uint32_t pass_read;	/* next of plan.read to post */
	bool hot_seen;		/* in this pass */
	uint32_t missing;	/* lines that stayed unsettled in this pass */
	uint32_t final_passes;
	struct collect_plan plan;
	struct region_values values;
	size_t values_bytes;
	struct region_hot hot;
	uint64_t hot_ok_ns;
	uint64_t hot_ns;    /* when the READ of hot was posted */
	uint64_t layout_ns; /* of the last hot line of the generation of the layout in use */
	struct collect_snapshot *snapshot;
	bool snapshot_new; /* no pass was made for it yet */
	bool renamed; /* cells have another metric than before: it is held back until all are read
		       */
	uint64_t snapshot_ns; /* when it was installed */
	uint32_t held;	      /* passes not published: see unseen */
	/*
	 * Bit i is line i. stale: unsettled in some stripe in this pass. unseen: not settled in all
	 * stripes in any pass since the snapshot was installed. The snapshot is held back while a
	 * line is unseen.
	 */
	uint64_t *stale, *unseen;
	size_t mark_words;
	bool any_stale, any_unseen;
	void *tap_own[COLLECT_TAPS_MAX];
	void *beside; /* of the attached collect_reader, or NULL */
	/* link_exemplars.c's */
	uint64_t exemplars_at_ns, exemplars_set;
	uint64_t exemplars_turn_ns; /* when its tenant's next piece is its own; 0: not asked for */
	uint64_t exemplars_dropped; /* by the publisher; any thread */
	uint32_t exemplars_next, exemplars_end; /* elements to read; equal: none */
	bool exemplars_busy;
	uint64_t since_ns, retry_ns, backoff_ns;
	enum collect_schema_step schema_step;
	uint64_t schema_at_ns, schema_pause_ns; /* next read not before; minimum between two */
	uint64_t schema_hot_ns;			/* hot_ns of schema_generation */
	uint32_t schema_posted, schema_got, schema_tries;
	bool schema_failed;
	uint64_t schema_seen; /* generation of the layout in use */

	/* Handed to control with EVENT_SCHEMA, and back with built. */
	uint8_t *schema_bytes; /* created_bytes of the section created, then the schema */
	uint32_t schema_length, created_bytes;
	uint64_t schema_generation;
	struct collect_built reply, *built; /* built: NULL or &reply */

	/* Control's queues: of events, and of its tenant's schemas. */
	unsigned int events;
	struct collect_region *queue_next, *build_next;

	/* Control's. */
	size_t list_index;
	bool listed, ended;
	struct collect_snapshot *pending, *shown;
	uint32_t series; /* taken from max_series, returned when the region is gone */
	uint32_t series_refused;
};

struct collect_region *collect_region_new(struct collect_link *l, uint64_t instance, uint64_t age);
void collect_region_put(struct collect_region *r);
/* Queues the region for control. Worker only. */
void collect_region_queue(struct collect_region *r, enum collect_event event);
/* Takes identity and labels from a copy of the header, or verifies them if they are known. */
enum region_fault collect_region_identify(struct collect_region *r,
					  const struct sl_region_header *copy,
					  const char *hostname);
/*
 * Makes r a synthetic region with the labels and identity of info, which is copied. It has new
 * values every period_ns. 0, -ENOMEM.
 */
int collect_region_synthesize(struct collect_region *r, const struct region_info *info,
			      const char *hostname, uint64_t period_ns);
/* Gives a region whose header is not believed a placeholder identity, so that it can be listed. */
int collect_region_anonymous(struct collect_region *r);
/* Copies only the label bytes in use, which are most of the structure. NULL: out of memory. */
struct region_info *collect_region_info_copy(const struct region_info *from);
/* The values are recent enough to be exposed. */
bool collect_region_visible(const struct collect_region *r, uint64_t now_ns);

#endif
