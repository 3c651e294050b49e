/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files of the tracer share. All state belongs to the tracer's thread, except
 * the list of kept traces and the queue of answers, which have a lock each.
 *
 * In every period it reads, of each pod with spans, the heads of its rings and by them the new
 * lines of roots and index. Index entries go into a table by the hash of their trace. A root is
 * decided on one period after it was read, when the index of the other pods was read, too. A kept
 * trace is fetched and shown as far as the table has it; it stays open for later entries and is
 * then sent. A span that comes after that opens it again and is sent by itself.
 */
#ifndef SL_COLLECT_TRACE_INTERNAL_H
#define SL_COLLECT_TRACE_INTERNAL_H

#include <pthread.h>

#include "collect/collector_internal.h"
#include "collect/trace/trace.h"

#define TRACE_PERIOD_NS 100000000u
#define TRACE_RUNS	262144u /* runs of spans remembered */
#define TRACE_TRIES	4u	/* periods in which lines that do not settle are read again */
#define TRACE_BUCKETS	65536u
#define TRACE_PENDING	65536u

/* ---- pods.c ---- */

struct collect_trace_ring {
	struct region_span_head head;
	bool known;
	uint64_t roots;	     /* number of the next root line to take */
	uint64_t index;	     /* number of the index line to read again */
	uint32_t entry;	     /* entries of that line taken so far */
	uint32_t lines;	     /* lines of the last of these taken so far: it may grow */
	uint64_t lines_seen; /* head.lines when the index was last read */
	bool roots_busy, index_busy;
	uint8_t roots_tries, index_tries;
};

struct collect_trace_pod {
	struct collect_node node;
	struct collect_trace_pod *next;
	unsigned int refs; /* by requests and roots in progress, and by the list */
	uint64_t instance, mark;
	uint64_t key; /* of its service, for act/trace.h */
	struct region_info *info;
	const char *service, *pod; /* in info */
	double score;		   /* as decide.c last read it, ... */
	uint64_t score_tick;	   /* ... in this tick */
	bool gone, bad, heads_busy;
	uint32_t rings, rings_used;
	struct collect_trace_ring *ring;
	struct region_schema schema;
	uint64_t schema_used;
	bool schema_busy, schema_wanted;
};

struct collect_trace_request;
typedef void collect_trace_take_fn(struct collect_tracer *t, struct collect_trace_request *r);

void collect_trace_pod_put(struct collect_trace_pod *p);
/* NULL: not known. */
struct collect_trace_pod *collect_trace_pod_find(const struct collect_tracer *t, uint64_t instance);
/* Finds new pods and releases those that are gone. */
void collect_trace_pods_look(struct collect_tracer *t);
/* Requests the schema, which has missing names. */
void collect_trace_schema_ask(struct collect_tracer *t, struct collect_trace_pod *p);
/* NULL: not known yet, try again; "?" after some tries. Valid as long as the pod. */
const char *collect_trace_name(struct collect_tracer *t, struct collect_trace_pod *p, uint32_t id,
			       uint32_t tries);
collect_trace_take_fn collect_trace_take_hot;
collect_trace_take_fn collect_trace_take_schema;

/* ---- fetch.c ---- */

struct collect_trace_kept;

struct collect_trace_part {
	struct collect_trace_request *request;
	uint32_t at; /* in request->bytes */
};

struct collect_trace_request {
	struct collect_trace_request *next;
	struct collect_tracer *t;
	struct collect_trace_pod *pod;
	struct collect_trace_kept *kept; /* of spans; NULL: to find the trace of an error */
	collect_trace_take_fn *take;	 /* the answer; may set again */
	bool again;			 /* to be repeated in the next period */
	uint32_t ring, count, tries;
	uint64_t number, end;
	uint64_t done[4]; /* lines of spans that are done, of at most 255 */
	int status;
	unsigned int parts_left;
	struct collect_trace_part part[2];
	uint32_t length;
	uint64_t bytes[];
};

/* NULL: out of memory, which is counted. */
struct collect_trace_request *collect_trace_request_new(struct collect_tracer *t,
							struct collect_trace_pod *p,
							collect_trace_take_fn *take,
							uint32_t length);
void collect_trace_request_free(struct collect_trace_request *r);
/* Requests all of it at offset of the region. The answer is queued in the tracer. */
void collect_trace_ask(struct collect_trace_request *r, uint64_t offset);
/* Requests lines of a span ring, which may wrap around. */
void collect_trace_ask_lines(struct collect_trace_request *r);

/* ---- rings.c ---- */

/* A run of spans of one trace in one ring. */
struct collect_trace_run {
	uint64_t sequence;	       /* of its insertion; tells whether a link to it is valid */
	uint64_t next;		       /* sequence of the previous run of the bucket; 0: none */
	struct collect_trace_pod *pod; /* a reference is held; NULL: gone with its spans */
	uint64_t number;
	uint32_t ring, hash;
	uint8_t lines;
	uint64_t tick; /* of its insertion */
};

/*
 * Visits the runs of this hash that may belong to a trace of this duration that has just ended,
 * newest first. Hashes have 23 bits: at 10,000 runs per second, one short
 * trace in 500 sees a run of another.
 */
void collect_trace_each_run(struct collect_tracer *t, uint32_t hash, uint64_t duration_ns,
			    void (*fn)(struct collect_tracer *, struct collect_trace_run *, void *),
			    void *arg);
void collect_trace_ask_heads(struct collect_tracer *t, struct collect_trace_pod *p);
collect_trace_take_fn collect_trace_take_heads;
collect_trace_take_fn collect_trace_take_roots;
collect_trace_take_fn collect_trace_take_index;

/* ---- decide.c ---- */

struct collect_trace_pending {
	struct collect_trace_pod *pod; /* a reference is held */
	const char *name;
	struct region_span_root root;
};

void collect_trace_decide(struct collect_tracer *t, const struct collect_trace_pending *p);
/* A span with status error was found without its root: its trace is kept if the budget allows. */
void collect_trace_found_error(struct collect_tracer *t, const struct region_span_data *d);
/*
 * Attaches the trace to the anomalies of the pods that have one of these spans. since_ns: when the
 * trace was kept; complete: this is the last call for it. Under the lock. True: there was an
 * anomaly.
 */
bool collect_trace_notify_verdicts(struct collect_tracer *t, const struct collect_trace *k,
				   uint64_t since_ns, bool complete);

/* ---- kept.c ---- */

struct collect_trace_kept {
	struct collect_node node;
	struct collect_trace t;
	struct collect_trace_kept *open_next;
	struct collect_trace_kept *older, *newer;
	uint32_t outstanding;
	uint64_t since_ns, close_ns; /* CLOCK_MONOTONIC */
	bool open;
	bool notified; /* an anomaly has it */
	bool closed;   /* once: later spans are sent by themselves, unless ... */
	bool known;    /* ... the receiver has it from an earlier process */
	bool untidy;   /* spans were added since they were sorted */
	size_t bytes;
	char *text; /* of t.root and t.service, or NULL */
};

struct collect_trace_kept *collect_trace_kept_find(const struct collect_tracer *t, uint64_t hi,
						   uint64_t lo);
/* root: NULL if it was not seen. */
void collect_trace_keep(struct collect_tracer *t, uint64_t hi, uint64_t lo,
			enum act_trace_reason reason, const struct collect_trace_pending *root);
/* The root of a kept trace arrived later. */
void collect_trace_kept_root(struct collect_tracer *t, struct collect_trace_kept *k,
			     const struct collect_trace_pending *root);
/* A run was found: fetches it if its trace is kept or may have to be. */
void collect_trace_kept_run(struct collect_tracer *t, const struct collect_trace_run *run,
			    bool error);
/* The spans requested so far arrived. */
void collect_trace_kept_show(struct collect_tracer *t, struct collect_trace_kept *k);
collect_trace_take_fn collect_trace_take_spans;
/*
 * Sorts the spans and counts what depends on all of them. Any thread, under the lock. Out of
 * memory: the next call does it.
 */
void collect_trace_kept_tidy(struct collect_tracer *t, struct collect_trace_kept *k);
/* Closes traces that were open long enough. */
void collect_trace_close_some(struct collect_tracer *t, uint64_t now_ns);
void collect_trace_kept_free_all(struct collect_tracer *t);

/* ---- export.c ---- */

/*
 * Sends the spans that were not sent yet. A trace that began before since_ns, the start of this
 * process, may have been sent by an earlier process; if that is not known, its resources have the
 * attribute sidelight.trace.maybe_again. False: out of memory for part of it.
 */
bool collect_trace_export(struct export_otlp *o, const struct collect_trace *t, uint64_t since_ns);

/* ---- the whole ---- */

struct collect_tracer {
	struct collect_collector *c;
	struct collect_tracer_opts o;
	struct act_trace_policy *policy;
	uint64_t policy_lost;	  /* of its stats, counted so far */
	struct export_otlp *otlp; /* or NULL */
	uint64_t since_ns;	  /* CLOCK_REALTIME of its start */
	pthread_t thread;
	bool running;
	bool judged; /* there are verdicts */

	pthread_mutex_t queue_lock;
	pthread_cond_t queue_filled;
	struct collect_trace_request *queue;
	bool stop;

	struct collect_trace_pod *pods;
	struct collect_hash by_instance;
	uint64_t tick;
	struct collect_trace_request *again; /* to be repeated in the next period */
	size_t asked;			     /* bytes of spans in flight */
	struct collect_trace_run run[TRACE_RUNS];
	struct region_span_data data; /* the span being parsed: too large for the stack */
	uint64_t sequence;	      /* of the next run; the first one is 1 */
	uint64_t bucket[TRACE_BUCKETS];
	struct collect_trace_pending pending[TRACE_PENDING];
	size_t pendings, decidable; /* the first of them, which are a period old */

	pthread_mutex_t lock; /* of kept traces and of the published stats */
	struct collect_trace_kept *newest, *oldest;
	struct collect_trace_kept *open;
	struct collect_hash by_id; /* by sl_span_hash() */
	uint32_t opens;
	struct collect_tracer_stats shown;

	struct collect_tracer_stats stats; /* the thread's own */
};

#endif
