/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_internal.h - the tracer: what its files share. Everything but the list of kept traces,
 * which has a lock, and the box of answers, which has another, is its own thread's.
 *
 *   trace.c         the thread and its periods; start and end; what others look at
 *   trace_pods.c    pods that have spans, and the names that their spans use
 *   trace_fetch.c   requests: bytes of a region, asked for and answered
 *   trace_rings.c   heads, roots and index of a pod's rings; the table of runs
 *   collect_trace_decide.c  which traces to keep: facts for act/trace.h
 *   collect_trace_kept.c    kept traces, their spans, and their end
 *
 * Every period, of each pod that has spans: the heads of its rings; by them the new lines of roots
 * and index. An index entry goes into a table by the hash of its trace. A root is decided upon one
 * period after it was read, when the index of the other pods has come too. A trace that is kept is
 * fetched and shown at once, as far as the table has it, and is open for a while to what comes to
 * the table later. Then it is sent. A span that comes later still opens it again, and is sent by
 * itself: spans of a trace may come in any number of requests.
 */
#ifndef SL_COLLECT_TRACE_INTERNAL_H
#define SL_COLLECT_TRACE_INTERNAL_H

#include <pthread.h>

#include "collect/collector_internal.h"
#include "collect/trace/trace.h"

#define TRACE_TRIES   4u /* periods in which something that does not settle is read again */
#define TRACE_BUCKETS 65536u
#define TRACE_PENDING 65536u

/* ---- trace_pods.c ---- */

struct collect_trace_ring {
	struct region_span_head head;
	bool known;
	uint64_t roots;	     /* number of the next root line to take */
	uint64_t index;	     /* number of the index line to look at again */
	uint32_t entry;	     /* entries of it that were taken */
	uint32_t lines;	     /* of the last of these, that were taken: it may have grown */
	uint64_t lines_seen; /* head.lines when the index was read last */
	bool roots_busy, index_busy;
	uint8_t roots_tries, index_tries;
};

struct collect_trace_pod {
	struct collect_trace_pod *next, *hash_next;
	unsigned int refs; /* requests and roots under way, and one of the list */
	uint64_t instance, mark;
	uint64_t key; /* of its service, as act/trace.h wants it */
	struct region_info *info;
	const char *service, *pod; /* in info */
	double score;		   /* as collect_trace_decide.c last looked at it, ... */
	uint64_t score_tick;	   /* ... then */
	bool gone, bad, heads_busy;
	uint32_t rings, rings_used;
	struct collect_trace_ring *ring;
	struct region_schema schema;
	uint64_t schema_used;
	bool schema_busy, schema_wanted;
};

struct collect_trace_request;

void collect_trace_pod_put(struct collect_trace_pod *p);
/* NULL: it is not read. */
struct collect_trace_pod *collect_trace_pod_find(const struct collect_tracer *t, uint64_t instance);
/* Finds new ones and lets go of those that are no more. */
void collect_trace_pods_look(struct collect_tracer *t);
/* Asks for names that somebody misses. */
void collect_trace_schema_ask(struct collect_tracer *t, struct collect_trace_pod *p);
/* "?" for one that is not there after some tries; NULL: come again. Valid as long as the pod. */
const char *collect_trace_name(struct collect_tracer *t, struct collect_trace_pod *p, uint32_t id,
			       uint32_t tries);
void collect_trace_take_hot(struct collect_tracer *t, struct collect_trace_request *r);
void collect_trace_take_schema(struct collect_tracer *t, struct collect_trace_request *r);

/* ---- trace_fetch.c ---- */

enum collect_trace_want {
	TRACE_WANT_HEADS,
	TRACE_WANT_ROOTS,
	TRACE_WANT_INDEX,
	TRACE_WANT_SPANS,
	TRACE_WANT_HOT,
	TRACE_WANT_SCHEMA
};

struct collect_trace_kept;

struct collect_trace_part {
	struct collect_trace_request *request;
	uint32_t at; /* in request->bytes */
};

struct collect_trace_request {
	struct collect_trace_request *next;
	struct collect_tracer *t;
	struct collect_trace_pod *pod;
	struct collect_trace_kept *kept; /* of SPANS; NULL: to find out whose an error is */
	enum collect_trace_want want;
	uint32_t ring, count, tries;
	uint64_t number, end;
	uint64_t done[4]; /* lines of SPANS that are dealt with, of 255 at most */
	int status;
	unsigned int parts_left;
	struct collect_trace_part part[2];
	uint32_t length;
	uint64_t bytes[];
};

/* NULL: no memory, which is counted. */
struct collect_trace_request *collect_trace_request_new(struct collect_tracer *t,
							struct collect_trace_pod *p,
							enum collect_trace_want want,
							uint32_t length);
void collect_trace_request_free(struct collect_trace_request *r);
/* All of it, from offset of the region. It comes to t->box. */
void collect_trace_ask(struct collect_trace_request *r, uint64_t offset);
/* Lines of a span ring, which may go over its end. */
void collect_trace_ask_lines(struct collect_trace_request *r);

/* ---- trace_rings.c ---- */

/* A run of spans of one trace in one ring. */
struct collect_trace_run {
	uint64_t sequence; /* that it was put under; tells whether a link to it still holds */
	uint64_t next;	   /* sequence of the run before it in the bucket; 0: none */
	struct collect_trace_pod
		*pod; /* a reference is held; NULL: it is gone, and so are the spans */
	uint64_t number;
	uint32_t ring, hash;
	uint8_t lines;
	uint64_t tick; /* when it was taken */
};

/*
 * Every run of this hash that may be of a trace that lasted so long and ended a moment ago, newest
 * first; fn says whether to go on. Hashes have 23 bits: with 10,000 runs a second, one short trace
 * in 500 is shown a run of another one.
 */
void collect_trace_each_run(struct collect_tracer *t, uint32_t hash, uint64_t duration_ns,
			    bool (*fn)(struct collect_tracer *, struct collect_trace_run *, void *),
			    void *arg);
void collect_trace_ask_heads(struct collect_tracer *t, struct collect_trace_pod *p);
void collect_trace_take_heads(struct collect_tracer *t, struct collect_trace_request *r);
void collect_trace_take_roots(struct collect_tracer *t, struct collect_trace_request *r);
void collect_trace_take_index(struct collect_tracer *t, struct collect_trace_request *r);

/* ---- collect_trace_decide.c ---- */

struct collect_trace_pending {
	struct collect_trace_pod *pod; /* a reference is held */
	const char *name;
	struct region_span_root root;
};

void collect_trace_decide(struct collect_tracer *t, const struct collect_trace_pending *p);
/* A span with status error was found by itself: its trace is kept, if the budget allows. */
void collect_trace_found_error(struct collect_tracer *t, const struct region_span_data *d);
/*
 * An anomaly gets a trace that shows it: that of each pod that has one of these spans. since_ns:
 * when the trace was kept; complete: it is not called again. Under the lock. True: there was one.
 */
bool collect_trace_notify_verdicts(struct collect_tracer *t, const struct collect_trace *k,
				   uint64_t since_ns, bool complete);

/* ---- collect_trace_kept.c ---- */

struct collect_trace_kept {
	struct collect_trace t;
	struct collect_trace_kept *hash_next; /* while it is open */
	struct collect_trace_kept *id_next;
	struct collect_trace_kept *older, *newer;
	uint32_t hash, outstanding;
	uint64_t since_ns, close_ns; /* CLOCK_MONOTONIC */
	bool open;
	bool notified; /* an anomaly has got it */
	bool closed;   /* once, so that what is new is added to what was sent; or not, if ... */
	bool known;    /* ... the receiver had it from a process before us */
	bool untidy;   /* spans came since they were put in order */
	size_t bytes;
	char *text; /* that t.root and t.service point to, or NULL */
};

struct collect_trace_kept *collect_trace_kept_find(const struct collect_tracer *t, uint64_t hi,
						   uint64_t lo);
/* root: NULL if it was not seen. */
void collect_trace_keep(struct collect_tracer *t, uint64_t hi, uint64_t lo,
			enum act_trace_reason reason, const struct collect_trace_pending *root);
/* The root of a trace that is kept already came after all. */
void collect_trace_kept_root(struct collect_tracer *t, struct collect_trace_kept *k,
			     const struct collect_trace_pending *root);
/* A run was found: it is fetched if its trace is kept, or may have to be. */
void collect_trace_kept_run(struct collect_tracer *t, const struct collect_trace_run *run,
			    bool error);
/* Its spans came, as far as they were asked for. */
void collect_trace_kept_show(struct collect_tracer *t, struct collect_trace_kept *k);
/* True if all that can be known is known; false: to be read again. */
bool collect_trace_take_spans(struct collect_tracer *t, struct collect_trace_request *r);
/*
 * Puts spans in order, and counts what depends on all of them. Any thread, under the lock. Without
 * memory it is done when somebody looks again.
 */
void collect_trace_kept_tidy(struct collect_tracer *t, struct collect_trace_kept *k);
/* Those that were open for long enough. */
void collect_trace_close_some(struct collect_tracer *t, uint64_t now_ns);
void collect_trace_kept_free_all(struct collect_tracer *t);

/* ---- the whole ---- */

struct collect_tracer {
	struct collect_collector *c;
	struct collect_tracer_opts o;
	struct act_trace_policy *policy;
	uint64_t policy_lost;	  /* of its stats, that were counted */
	struct export_otlp *otlp; /* or NULL */
	uint64_t since_ns;	  /* when it was made, by CLOCK_REALTIME */
	pthread_t thread;
	bool running;
	bool judged; /* there are verdicts to ask for */

	pthread_mutex_t box_lock;
	pthread_cond_t box_filled;
	struct collect_trace_request *queue;
	bool stop;

	struct collect_trace_pod *pods, *by_instance[1024];
	uint64_t tick;
	struct collect_trace_request *again; /* to be asked again in the next period */
	size_t asked;			     /* bytes of spans that are on the way */
	struct collect_trace_run *run;
	struct region_span_data data; /* the span that is being looked at: too large for a stack */
	uint64_t sequence;	      /* of the next run; the first one is 1 */
	uint64_t bucket[TRACE_BUCKETS];
	struct collect_trace_pending *pending;
	size_t pendings, decidable; /* the first of them are a period old */

	pthread_mutex_t lock; /* kept traces, and what is shown of the stats */
	struct collect_trace_kept *newest, *oldest;
	struct collect_trace_kept *open[1024], *by_id[4096];
	uint32_t opens;
	struct collect_tracer_stats shown;

	struct collect_tracer_stats stats; /* the thread's own */
};

#endif
