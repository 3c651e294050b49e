/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - internal state of the tracer. All state belongs to the tracer's thread, except for
 * the list of kept traces and the queue of answers, which have a lock each.
 *
 * In every period, the tracer reads the ring heads of each pod with spans, and then the new lines
 * of roots and index that the heads announce. Index entries go into a table by the hash of their
 * trace. The decision on a root is made one period after the root was read, when the index of the
 * other pods has been read, too. The spans of a kept trace are fetched and shown as far as the
 * table lists them; the trace stays open for later entries and is then sent. A span that arrives
 * after that reopens the trace and is sent separately.
 */
#ifndef SL_COLLECT_TRACE_INTERNAL_H
#define SL_COLLECT_TRACE_INTERNAL_H

#include <pthread.h>

#include "base/table.h"
#include "collect/read/collector_internal.h"
#include "collect/read/exemplars.h"
#include "act/verdict.h"
#include "collect/trace/trace.h"

struct collect_trace_kept;
struct collect_trace_pod;
struct collect_trace_request;

extern const struct collect_part collect_tracer_part; /* families.c */
/* Lists kept traces as exemplars, for collect_part.trace_links. */
size_t collect_tracer_links(void *tracer, struct collect_trace_link *out);

/* ---- fetch.c ---- */

typedef void collect_trace_take_fn(struct collect_tracer *t, struct collect_trace_request *r);

struct collect_trace_part {
	struct collect_trace_request *request;
	uint32_t at; /* position in request->bytes */
};

struct collect_trace_request {
	struct collect_trace_request *next;
	struct collect_tracer *t;
	struct collect_trace_pod *pod;
	/* trace that the spans belong to; NULL means find the trace of an error */
	struct collect_trace_kept *kept;
	collect_trace_take_fn *take; /* handles the answer; may set `again` to repeat the request */
	bool again;		     /* repeat the request in the next period */
	uint32_t ring, count, tries;
	uint64_t number, end;
	uint64_t done[4]; /* bitmap of the span lines (at most 255) that are done */
	int status;
	unsigned int parts_left;
	struct collect_trace_part part[2];
	uint32_t length;
	uint64_t bytes[];
};

/* Returns NULL if out of memory, which is counted. */
struct collect_trace_request *collect_trace_request_new(struct collect_tracer *t,
							struct collect_trace_pod *p,
							collect_trace_take_fn *take,
							uint32_t length);
void collect_trace_request_free(struct collect_trace_request *r);
/* Requests r->length bytes at offset of the region. The answer is queued in the tracer. */
void collect_trace_ask(struct collect_trace_request *r, uint64_t offset);
/* Requests lines of a span ring, which may wrap around. */
void collect_trace_ask_lines(struct collect_trace_request *r);

/* ---- pods.c ---- */

struct collect_trace_ring {
	struct region_span_head head;
	bool known;
	uint64_t roots; /* number of the next root line to take */
	uint64_t index; /* number of entries of that line already processed */
	/* number of lines processed for the last of these entries, which may still grow */
	uint32_t entry;
	/* lines of the last of these entries taken so far; the entry may still grow */
	uint32_t lines;
	uint64_t lines_seen; /* head.lines when the index was last read */
	bool roots_busy, index_busy;
	uint8_t roots_tries, index_tries;
};

/*
 * The publisher of pods. How much of its spans may be READ depends on how many it publishes, not on
 * how many other tenants publish.
 */
struct collect_trace_tenant {
	struct base_node node; /* by a keyed hash of host and key */
	unsigned int refs;     /* number of its pods */
	bool exempt;	       /* trusted, or not known */
	/* lines published, without those that were overwritten before their head was read */
	uint64_t lines_due;
	uint64_t moved; /* bytes of roots and index requested, and of spans READ */
	uint64_t asked; /* bytes of spans in flight */
	size_t pendings;
};

struct collect_trace_pod {
	struct base_node node;
	unsigned int refs; /* references held by the table, requests, runs and pending roots */
	struct collect_tracer *t;
	struct collect_trace_tenant *tenant;
	uint64_t instance, mark;
	uint64_t key; /* key of the pod's service for act/trace.h */
	struct region_info *info;
	const char *service, *pod;	 /* point into info */
	char owner[ACT_POD_LABEL_BYTES]; /* act_pod_name.owner */
	double score, suspicion;	 /* score and suspicion as last read by decide.c */
	uint64_t score_tick;		 /* tick of that reading */
	bool gone, bad, heads_busy;
	uint32_t rings, rings_used;
	struct collect_trace_ring *ring;
	struct region_schema schema;
	uint64_t schema_used;
	bool schema_busy, schema_wanted;
};

void collect_trace_pod_put(struct collect_trace_pod *p);
/* Returns NULL if the pod is unknown. */
struct collect_trace_pod *collect_trace_pod_find(const struct collect_tracer *t, uint64_t instance);
/* Finds new pods and releases the pods that are gone. */
void collect_trace_pods_look(struct collect_tracer *t);
/* Requests the schema again because names are missing. */
void collect_trace_schema_ask(struct collect_tracer *t, struct collect_trace_pod *p);
/*
 * Returns the name with this id, NULL if it is not known yet (try again), or "?" after several
 * tries. The name is valid as long as the pod.
 */
const char *collect_trace_name(struct collect_tracer *t, struct collect_trace_pod *p, uint32_t id,
			       uint32_t tries);
collect_trace_take_fn collect_trace_take_hot;
collect_trace_take_fn collect_trace_take_schema;

/* ---- rings.c ---- */

/* A run of spans of one trace in one ring. */
struct collect_trace_run {
	/* sequence number of the run's insertion, which shows whether a link to the run is valid */
	uint64_t sequence;
	uint64_t next; /* sequence of the previous run in the bucket; 0 means none */
	/* a reference is held; NULL means the pod is gone with its spans */
	struct collect_trace_pod *pod;
	uint64_t number;
	uint32_t ring, hash;
	uint8_t lines;
	uint64_t tick; /* tick of the insertion */
};

/*
 * Visits the runs of this hash that may belong to a trace of this duration that has just ended,
 * newest first. Hashes have 23 bits: at 10,000 runs per second, one short trace in 500 also visits
 * a run of another trace.
 */
void collect_trace_each_run(struct collect_tracer *t, uint32_t hash, uint64_t duration_ns,
			    void (*fn)(struct collect_tracer *, struct collect_trace_run *, void *),
			    void *arg);
void collect_trace_ask_heads(struct collect_tracer *t, struct collect_trace_pod *p);
collect_trace_take_fn collect_trace_take_heads;
collect_trace_take_fn collect_trace_take_roots;
collect_trace_take_fn collect_trace_take_index;

/* Returns true if the share of bytes that may be READ of the pod's tenant is not used up. */
bool collect_trace_may_read(const struct collect_tracer *t, const struct collect_trace_pod *p);
/*
 * Returns true if the share has room for `bytes` of spans, regardless of the size of their trace.
 */
bool collect_trace_may_read_spans(const struct collect_tracer *t, const struct collect_trace_pod *p,
				  uint64_t bytes);

/* ---- decide.c ---- */

struct collect_trace_pending {
	struct collect_trace_pod *pod; /* a reference is held */
	const char *name;
	struct region_span_root root;
};

void collect_trace_decide(struct collect_tracer *t, const struct collect_trace_pending *p);
/*
 * Called when a span with status error was found without its root: keeps the trace if the budget
 * allows.
 */
void collect_trace_found_error(struct collect_tracer *t, const struct collect_trace_pod *p,
			       const struct region_span_data *d);
/*
 * Attaches the trace to the anomalies of the pods that have one of these spans. since_ns: when the
 * trace was kept; complete: this is the last call for the trace. Called with the lock held. Returns
 * true if there was an anomaly.
 */
bool collect_trace_notify_verdicts(struct collect_tracer *t, const struct collect_trace *k,
				   uint64_t since_ns, bool complete);

/* ---- kept.c ---- */

struct collect_trace_kept {
	struct base_node node;
	struct collect_trace t;
	struct collect_trace_kept *open_next;
	struct collect_trace_kept *older, *newer;
	uint32_t outstanding;
	/* CLOCK_MONOTONIC when the trace was kept, and when to close it */
	uint64_t since_ns, close_ns;
	bool open;
	bool notified; /* an anomaly refers to the trace */
	bool closed;   /* closed once: later spans are sent separately */
	bool known;    /* an earlier process has sent the trace to the receiver */
	bool untidy;   /* spans were added since the last sort */
	size_t bytes;
	char *text; /* text of t.root and t.service, or NULL */
};

struct collect_trace_kept *collect_trace_kept_find(const struct collect_tracer *t, uint64_t hi,
						   uint64_t lo);
/* root is NULL if the root was not seen. */
void collect_trace_keep(struct collect_tracer *t, uint64_t hi, uint64_t lo,
			enum act_trace_reason reason, const struct collect_trace_pending *root);
/* Adds the root of a kept trace that arrived later. */
void collect_trace_kept_root(struct collect_tracer *t, struct collect_trace_kept *k,
			     const struct collect_trace_pending *root);
/* Called when a run was found: fetches the run if its trace is kept or may have to be kept. */
void collect_trace_kept_run(struct collect_tracer *t, const struct collect_trace_run *run,
			    bool error);
/* Called when the spans requested so far have arrived. */
void collect_trace_kept_show(struct collect_tracer *t, struct collect_trace_kept *k);
collect_trace_take_fn collect_trace_take_spans;
/*
 * Sorts the spans and computes the totals over them. Thread-safe with the lock held. If out of
 * memory, the next call tries again.
 */
void collect_trace_kept_tidy(struct collect_tracer *t, struct collect_trace_kept *k);
/* Closes the traces that have been open long enough. */
void collect_trace_close_some(struct collect_tracer *t, uint64_t now_ns);
void collect_trace_kept_free_all(struct collect_tracer *t);

/* ---- the tracer ---- */

#define TRACE_PERIOD_NS 100000000u
#define TRACE_RUNS	262144u /* number of span runs remembered */
#define TRACE_TRIES	4u	/* periods in which unsettled lines are read again */
#define TRACE_BUCKETS	65536u
#define TRACE_PENDING	65536u

struct collect_tracer {
	struct collect_collector *c;
	struct collect_tracer_opts o;
	struct act_trace_policy *policy;
	uint64_t policy_lost;	  /* the policy's lost counter, as last added to stats */
	struct export_otlp *otlp; /* OTLP exporter, or NULL */
	uint64_t since_ns;	  /* CLOCK_REALTIME when the tracer started */
	pthread_t thread;
	bool running;
	bool judged; /* an analysis with verdicts is attached */

	pthread_mutex_t queue_lock;
	pthread_cond_t queue_filled;
	struct collect_trace_request *queue;
	bool stop;

	struct base_table pods; /* by instance */
	struct base_table tenants;
	uint64_t tick;
	struct collect_trace_request *again; /* requests to be repeated in the next period */
	size_t asked;			     /* bytes of spans in flight */
	struct collect_trace_run run[TRACE_RUNS];
	struct region_span_data data; /* the span being parsed, which is too large for the stack */
	uint64_t sequence;	      /* sequence of the next run; the first run is 1 */
	uint64_t bucket[TRACE_BUCKETS];
	struct collect_trace_pending pending[TRACE_PENDING];
	size_t pendings, decidable; /* pending roots; the first `decidable` ones are a period old */

	pthread_mutex_t lock; /* protects the kept traces and the published stats */
	struct collect_trace_kept *newest, *oldest;
	struct collect_trace_kept *open;
	struct base_table by_id; /* kept traces by sl_span_hash() */
	uint32_t opens;
	struct collect_tracer_stats shown;

	struct collect_tracer_stats stats; /* updated only by the tracer's thread */
};

#endif
