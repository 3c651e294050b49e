/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/sidelight.h - publish metrics in memory that a collector reads by itself.
 *
 *	struct sl_publisher *p =
 *		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "shop"));
 *	struct sl_counter requests = sl_counter_create(
 *		p, &SL_OPTS(sl_metric_opts, .name = "http_requests_total"));
 *	...
 *	sl_counter_inc(requests);
 *
 * Rules for all functions:
 *  - An update takes no lock, makes no system call and allocates nothing (a thread's first update
 *    of a publisher claims a stripe and may do all three). Any thread may update and, unless a
 *    function says otherwise, any signal handler.
 *  - A handle is a small value. A refused one, like one of all zeroes, does nothing. A refusal is
 *    counted, logged once per reason through the callback and visible to the collector, so that an
 *    application needs no check; sl_..._valid() is there for one.
 *  - Creating a metric of the same name, labels and kind again returns the same metric.
 *  - No function prints, exits, waits for the agent or raises a signal.
 *  - After fork() the child publishes in a region of its own, counting from 0.
 *
 * C11 and C++17; sidelight.hpp has classes for C++. Link with -lsidelight (pkg-config sidelight).
 */
#ifndef SIDELIGHT_SIDELIGHT_H
#define SIDELIGHT_SIDELIGHT_H

#include <sidelight/common.h>
#include <sidelight/region.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_VERSION_MAJOR 0
#define SL_VERSION_MINOR 1
#define SL_VERSION_PATCH 0

/* The version of the loaded library, "0.1.0". Static storage. */
SL_API const char *sl_version(void);

/* ---- logging ---- */

enum sl_log_level { SL_LOG_ERROR = 0, SL_LOG_WARN, SL_LOG_INFO, SL_LOG_DEBUG };

/*
 * Called with one line, without a newline, from any thread. By default there is no callback, and
 * the library writes to neither stdout nor stderr. NULL removes the callback. Thread-safe.
 */
typedef void (*sl_log_fn)(enum sl_log_level level, const char *line, void *arg);
SL_API void sl_set_log(sl_log_fn fn, void *arg);

/* ---- publisher ---- */

struct sl_label {
	const char *key;   /* [a-zA-Z_][a-zA-Z0-9_]*, at most SL_NAME_MAX bytes, not "__..." */
	const char *value; /* UTF-8, at most SL_LABEL_VALUE_MAX bytes */
};

/* Two arguments, an array of labels and their number: SL_LABELS({"route", "/cart"}). C alone. */
#ifndef __cplusplus
#define SL_LABELS(...)	  SL__LABELS(((const struct sl_label[]){__VA_ARGS__}))
#define SL__LABELS(array) array, sizeof(array) / sizeof(struct sl_label)
#endif

/* Flags of a publisher. */
#define SL_PUBLISHER_DETACHED 1u /* do not look for an agent; see sl_publisher_fd() */
#define SL_PUBLISHER_EDGE     2u /* callers publish no spans to sidelight: see span.h */
#define SL_PUBLISHER_FIXED    4u /* refuse what does not fit, rather than open a further region */

/* 0 is the default. */
struct sl_publisher_opts {
	size_t sz;
	const char *service;	       /* label "service"; default: the program's name */
	const char *pod;	       /* label "pod"; default: $POD_NAME, else 12 digits of the
					* container's id, else SERVICE-PID; in a
					* container whose id is hidden the host's name */
	const char *kube_namespace;    /* label "namespace"; default: $POD_NAMESPACE, or none */
	const struct sl_label *labels; /* more labels, at most 29, copied */
	size_t label_count;
	const char *socket;    /* the agent's; default $SIDELIGHT_SOCKET, or
				* /run/sidelight/agent.sock */
	uint32_t max_cells;    /* of the first region; default 1764; a counter or gauge takes 1 */
	uint32_t max_threads;  /* threads that count without atomic operations; default
				* 2 x CPUs, between 8 and 64; at most 1024 */
	uint32_t schema_bytes; /* for names, help, labels; default 128 per cell */
	uint32_t flags;	       /* SL_PUBLISHER_... */
	uint32_t span_bytes;   /* for the spans of one thread, see span.h: SL_SPAN_BYTES or
				* more, rounded up to a power of two, 32 KiB to 256 MiB;
				* a region takes 1.4 times as much per thread. 0: no spans */
	uint32_t exemplars;    /* counters and buckets that may have one: default 63, at most
				* 4095; 256 bytes each once there is an exemplar */
};

struct sl_publisher;

/*
 * Creates a region (a sealed memfd) and, unless detached, a thread that hands it to the agent, and
 * again after each restart of the agent. opts: NULL is all defaults. Returns NULL with errno:
 * EINVAL (options, malformed labels, sizes above the limits), ENOMEM, EMFILE, ENFILE, ENOSPC (this
 * process has 63 regions). Every function accepts a NULL publisher and refuses its metrics.
 */
SL_API struct sl_publisher *sl_publisher_open(const struct sl_publisher_opts *opts);

/*
 * Tells the agent and releases everything. NULL: nothing. No thread may use the handles of this
 * publisher any more.
 */
SL_API void sl_publisher_close(struct sl_publisher *p);

/* True while an agent has the region. Thread-safe. */
SL_API bool sl_publisher_attached(const struct sl_publisher *p);

/* The region's memfd, owned by the publisher; -1 for NULL. Changes in the child after fork(). */
SL_API int sl_publisher_fd(const struct sl_publisher *p);

/*
 * A publisher that has filled its region goes on in a further one, with the same labels, at most 64
 * of them. Stores the memfds of up to n; returns how many there are. Thread-safe.
 */
SL_API size_t sl_publisher_fds(const struct sl_publisher *p, int *fds, size_t n);

struct sl_publisher_stats {
	size_t sz;
	uint32_t metrics; /* created */
	uint32_t refused; /* metrics and observations */
	uint32_t cells_used, cells_max;
	uint32_t stripes_used, stripes_max;
	uint32_t threads_sharing; /* beyond max_threads: exact, with atomic operations */
	uint32_t attaches;	  /* times that an agent admitted the first region */
	uint32_t regions;	  /* see sl_publisher_fds() */
};

/* 0, or -EINVAL: NULL, or sz is too small. Thread-safe. */
SL_API int sl_publisher_stats(const struct sl_publisher *p, struct sl_publisher_stats *stats);

/* ---- verdicts ---- */

/*
 * The verdict of a collector that analyses this publisher's metrics (sidelight collect --analyse),
 * handed on by the agent. A service can so raise its log level, or take a profile, while it is
 * anomalous. A verdict expires if it is not renewed within the collector's --verdict-ttl.
 */
struct sl_publisher_verdict {
	size_t sz;
	bool known;	   /* false: no analysis, or the verdict expired */
	bool anomalous;	   /* false unless known */
	double score;	   /* >= 0; 1 is the threshold; 0 unless known */
	uint64_t sequence; /* grows with each change of known and anomalous */
	int64_t time_ns;   /* of the verdict, the collector's CLOCK_REALTIME; 0 unless known */
};

/*
 * 0, or -EINVAL: NULL, or sz is too small. Thread-safe, async-signal-safe, no system call. In the
 * child of fork() nothing is known until its own region is analysed.
 */
SL_API int sl_publisher_verdict(const struct sl_publisher *p, struct sl_publisher_verdict *verdict);

/*
 * True while the process is anomalous; false for NULL. Any thread, async-signal-safe, one load: fit
 * for every request. (It is the first word of a publisher; the rest is private to the library.)
 */
static inline bool sl_publisher_alarmed(const struct sl_publisher *p)
{
	return p && __atomic_load_n((const uint32_t *)p, __ATOMIC_RELAXED);
}

/* ---- metrics ---- */

struct sl_metric_opts {
	size_t sz;
	const char *name; /* [a-zA-Z_:][a-zA-Z0-9_:]*; base units, "_total" for counters */
	const char *help;
	const char *unit; /* "seconds", "bytes", ...; by convention the name ends with it */
	const struct sl_label *labels;
	size_t label_count;

	/*
	 * sl_histogram_create(): exponential buckets of factor 2^(2^-scale) from min to max; more
	 * than 4096 are refused, the defaults take 323 cells. min and max are normal numbers > 0,
	 * and max is in a bucket that ends below 2^1024.
	 */
	int scale; /* -4 .. 8; 0 is factor 2; default (use_scale false): 3, factor 1.09 */
	bool use_scale;
	double min; /* the zero bucket holds -min .. min; default 1e-6 */
	double max; /* one overflow bucket holds values above its bucket; default 1e6 */

	/* sl_histogram_create_classic(): ascending upper bounds, without +Inf */
	const double *bounds;
	size_t bound_count;

	/* sl_stateset_create() */
	const char *const *states;
	size_t state_count;

	/* sl_summary_create(): ranks from 0 to 1, ascending, at most SL_QUANTILES_MAX; may be 0 */
	const double *quantiles;
	size_t quantile_count;

	/* How a collector that shows the processes of a service as one combines their values. */
	enum sl_combine combine; /* SL_COMBINE_MOST_RECENT: timed gauges alone */
	bool live;		 /* values of processes that have ended do not count */

	bool mirror;	     /* the value is set as a whole, by sl_..._mirror(), and may decrease */
	bool utf8;	     /* name and label keys may be any UTF-8; keys do not start with "__" */
	uint64_t created_ns; /* since when it counts, ns since 1970; default: now */
};

/*
 * Handles. Their contents are private: bits 0-31 are the offset of the cell in a stripe, bits 32-63
 * the region's slot in struct sl__thread. One word, which a compiler loads with one instruction
 * (gcc loads two fields as a vector and takes it apart). A histogram has offset 0; its buckets
 * tell where its cells are.
 */
struct sl_counter {
	uint64_t bits;
};
struct sl_counter_f64 {
	uint64_t bits;
};
struct sl_gauge {
	uint64_t bits;
};
struct sl_gauge_f64 {
	uint64_t bits;
};
struct sl_stateset {
	uint64_t bits;
};
struct sl_histogram {
	uint64_t bits;
	const struct sl__buckets *buckets;
};
struct sl_gauge_timed {
	uint64_t bits;
};
struct sl_unknown {
	uint64_t bits;
};
struct sl_summary {
	uint64_t bits;
	uint64_t quantiles;
};
struct sl_gauge_histogram {
	uint64_t bits;
	const struct sl__buckets *buckets;
};

/*
 * Each creates a metric or finds the existing one. Thread-safe; not for signal handlers. Refused:
 * a malformed name or label, no room for cells or schema, a name that another kind has, a name and
 * labels that other buckets, states or flags have, a label "le" of a histogram, p is NULL.
 */
SL_API struct sl_counter sl_counter_create(struct sl_publisher *p, const struct sl_metric_opts *o);
SL_API struct sl_counter_f64 sl_counter_f64_create(struct sl_publisher *p,
						   const struct sl_metric_opts *o);
SL_API struct sl_gauge sl_gauge_create(struct sl_publisher *p, const struct sl_metric_opts *o);
SL_API struct sl_gauge_f64 sl_gauge_f64_create(struct sl_publisher *p,
					       const struct sl_metric_opts *o);
SL_API struct sl_histogram sl_histogram_create(struct sl_publisher *p,
					       const struct sl_metric_opts *o);
SL_API struct sl_histogram sl_histogram_create_classic(struct sl_publisher *p,
						       const struct sl_metric_opts *o);
SL_API struct sl_stateset sl_stateset_create(struct sl_publisher *p,
					     const struct sl_metric_opts *o);
/* A gauge that keeps when it was set, for SL_COMBINE_MOST_RECENT, its default. */
SL_API struct sl_gauge_timed sl_gauge_timed_create(struct sl_publisher *p,
						   const struct sl_metric_opts *o);
/* A number of which no type is known, copied from elsewhere. */
SL_API struct sl_unknown sl_unknown_create(struct sl_publisher *p, const struct sl_metric_opts *o);
/* Sum and number of observations, and quantiles computed elsewhere; no label "quantile". */
SL_API struct sl_summary sl_summary_create(struct sl_publisher *p, const struct sl_metric_opts *o);
/* Histograms of what there is now, whose buckets may decrease: queue lengths, ages. */
SL_API struct sl_gauge_histogram sl_gauge_histogram_create(struct sl_publisher *p,
							   const struct sl_metric_opts *o);
SL_API struct sl_gauge_histogram sl_gauge_histogram_create_classic(struct sl_publisher *p,
								   const struct sl_metric_opts *o);
/* The labels of an info metric are its value. 0, or the -errno of a refusal. */
SL_API int sl_info_create(struct sl_publisher *p, const struct sl_metric_opts *o);
/* Removes the info of this name and these labels, as sl_counter_remove(). */
SL_API int sl_info_remove(struct sl_publisher *p, const struct sl_metric_opts *o);

/* ---- families ---- */

/*
 * Metrics that differ in their labels alone: the options, without labels, are given once, and
 * ..._with() creates the metric of these labels or finds the existing one:
 *
 *	f = sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "http_requests_total"));
 *	ok = sl_counter_with(f, SL_LABELS({"route", "/cart"}, {"code", "200"}));
 *
 * Nothing is published before the first ..._with(). That call takes a lock and searches a table:
 * keep its handle rather than calling it for each update. Thread-safe; not for signal handlers.
 * Refused as metrics are; a metric of a refused family is refused. No family for info metrics.
 */
struct sl_counter_family {
	uint64_t bits;
};
struct sl_counter_f64_family {
	uint64_t bits;
};
struct sl_gauge_family {
	uint64_t bits;
};
struct sl_gauge_f64_family {
	uint64_t bits;
};
struct sl_stateset_family {
	uint64_t bits;
};
struct sl_histogram_family {
	uint64_t bits;
};
struct sl_gauge_timed_family {
	uint64_t bits;
};
struct sl_unknown_family {
	uint64_t bits;
};
struct sl_summary_family {
	uint64_t bits;
};
struct sl_gauge_histogram_family {
	uint64_t bits;
};

SL_API struct sl_counter_family sl_counter_family_create(struct sl_publisher *p,
							 const struct sl_metric_opts *o);
SL_API struct sl_counter_f64_family sl_counter_f64_family_create(struct sl_publisher *p,
								 const struct sl_metric_opts *o);
SL_API struct sl_gauge_family sl_gauge_family_create(struct sl_publisher *p,
						     const struct sl_metric_opts *o);
SL_API struct sl_gauge_f64_family sl_gauge_f64_family_create(struct sl_publisher *p,
							     const struct sl_metric_opts *o);
SL_API struct sl_stateset_family sl_stateset_family_create(struct sl_publisher *p,
							   const struct sl_metric_opts *o);
SL_API struct sl_histogram_family sl_histogram_family_create(struct sl_publisher *p,
							     const struct sl_metric_opts *o);
SL_API struct sl_histogram_family
sl_histogram_family_create_classic(struct sl_publisher *p, const struct sl_metric_opts *o);

SL_API struct sl_gauge_timed_family sl_gauge_timed_family_create(struct sl_publisher *p,
								 const struct sl_metric_opts *o);
SL_API struct sl_unknown_family sl_unknown_family_create(struct sl_publisher *p,
							 const struct sl_metric_opts *o);
SL_API struct sl_summary_family sl_summary_family_create(struct sl_publisher *p,
							 const struct sl_metric_opts *o);
SL_API struct sl_gauge_histogram_family
sl_gauge_histogram_family_create(struct sl_publisher *p, const struct sl_metric_opts *o);
SL_API struct sl_gauge_histogram_family
sl_gauge_histogram_family_create_classic(struct sl_publisher *p, const struct sl_metric_opts *o);

SL_API struct sl_counter sl_counter_with(struct sl_counter_family f, const struct sl_label *labels,
					 size_t count);
SL_API struct sl_counter_f64 sl_counter_f64_with(struct sl_counter_f64_family f,
						 const struct sl_label *labels, size_t count);
SL_API struct sl_gauge sl_gauge_with(struct sl_gauge_family f, const struct sl_label *labels,
				     size_t count);
SL_API struct sl_gauge_f64 sl_gauge_f64_with(struct sl_gauge_f64_family f,
					     const struct sl_label *labels, size_t count);
SL_API struct sl_stateset sl_stateset_with(struct sl_stateset_family f,
					   const struct sl_label *labels, size_t count);
SL_API struct sl_histogram sl_histogram_with(struct sl_histogram_family f,
					     const struct sl_label *labels, size_t count);

SL_API struct sl_gauge_timed sl_gauge_timed_with(struct sl_gauge_timed_family f,
						 const struct sl_label *labels, size_t count);
SL_API struct sl_unknown sl_unknown_with(struct sl_unknown_family f, const struct sl_label *labels,
					 size_t count);
SL_API struct sl_summary sl_summary_with(struct sl_summary_family f, const struct sl_label *labels,
					 size_t count);
SL_API struct sl_gauge_histogram sl_gauge_histogram_with(struct sl_gauge_histogram_family f,
							 const struct sl_label *labels,
							 size_t count);

/*
 * Removes the metric of these labels, or all of the family. Its last value is gone, and its memory
 * is used for another metric of the family, or of one like it, no sooner than 11 s later. The same
 * labels again give the metric back, counting from 0. No handle of a removed metric may be used any
 * more: what it counts is lost, and later counts in another metric. Thread-safe; not for signal
 * handlers. 0, -ENOENT: there is none, -EINVAL: a refused family, or labels ill-formed, -ENOMEM.
 */
SL_API int sl_counter_remove(struct sl_counter_family f, const struct sl_label *labels,
			     size_t count);
SL_API int sl_counter_clear(struct sl_counter_family f);
SL_API int sl_counter_f64_remove(struct sl_counter_f64_family f, const struct sl_label *labels,
				 size_t count);
SL_API int sl_counter_f64_clear(struct sl_counter_f64_family f);
SL_API int sl_gauge_remove(struct sl_gauge_family f, const struct sl_label *labels, size_t count);
SL_API int sl_gauge_clear(struct sl_gauge_family f);
SL_API int sl_gauge_f64_remove(struct sl_gauge_f64_family f, const struct sl_label *labels,
			       size_t count);
SL_API int sl_gauge_f64_clear(struct sl_gauge_f64_family f);
SL_API int sl_gauge_timed_remove(struct sl_gauge_timed_family f, const struct sl_label *labels,
				 size_t count);
SL_API int sl_gauge_timed_clear(struct sl_gauge_timed_family f);
SL_API int sl_unknown_remove(struct sl_unknown_family f, const struct sl_label *labels,
			     size_t count);
SL_API int sl_unknown_clear(struct sl_unknown_family f);
SL_API int sl_summary_remove(struct sl_summary_family f, const struct sl_label *labels,
			     size_t count);
SL_API int sl_summary_clear(struct sl_summary_family f);
SL_API int sl_histogram_remove(struct sl_histogram_family f, const struct sl_label *labels,
			       size_t count);
SL_API int sl_histogram_clear(struct sl_histogram_family f);
SL_API int sl_gauge_histogram_remove(struct sl_gauge_histogram_family f,
				     const struct sl_label *labels, size_t count);
SL_API int sl_gauge_histogram_clear(struct sl_gauge_histogram_family f);
SL_API int sl_stateset_remove(struct sl_stateset_family f, const struct sl_label *labels,
			      size_t count);
SL_API int sl_stateset_clear(struct sl_stateset_family f);

/* One per region of a process; slot 0 is that of handles that do nothing. */
#define SL_PUBLISHER_SLOTS 64u

static inline bool sl_counter_valid(struct sl_counter c)
{
	return c.bits >> 32;
}
static inline bool sl_counter_f64_valid(struct sl_counter_f64 c)
{
	return c.bits >> 32;
}
static inline bool sl_gauge_valid(struct sl_gauge g)
{
	return g.bits >> 32;
}
static inline bool sl_gauge_f64_valid(struct sl_gauge_f64 g)
{
	return g.bits >> 32;
}
static inline bool sl_stateset_valid(struct sl_stateset s)
{
	return s.bits >> 32;
}
static inline bool sl_histogram_valid(struct sl_histogram h)
{
	return h.bits >> 32;
}

static inline bool sl_gauge_timed_valid(struct sl_gauge_timed h)
{
	return h.bits >> 32;
}
static inline bool sl_unknown_valid(struct sl_unknown h)
{
	return h.bits >> 32;
}
static inline bool sl_summary_valid(struct sl_summary h)
{
	return h.bits >> 32;
}
static inline bool sl_gauge_histogram_valid(struct sl_gauge_histogram h)
{
	return h.bits >> 32;
}

/* ---- updates ---- */

/*
 * x86-64 adds to memory by one instruction, between whose load and store no signal handler of the
 * thread runs. Other processors have a load and a store, or an exclusive pair, which is far slower
 * (Armv8.0, as Cortex-A72, has nothing else), or an atomic addition. There a thread adds by plain
 * loads and stores while it says that it is busy, and its handlers then count in the shared stripe.
 */
#if !defined(__x86_64__) && !defined(SL__PLAIN_UPDATES)
#define SL__PLAIN_UPDATES 1
#endif

/*
 * Private. Per thread and slot: the address of the stripe that this thread owns, minus (slot <<
 * 32), so that adding the bits of a handle gives the address of its cell. 0: it owns none, and the
 * slow path decides whether it gets one.
 */
struct sl__thread {
	uintptr_t base[SL_PUBLISHER_SLOTS];
#ifdef SL__PLAIN_UPDATES
	volatile uint32_t busy; /* in sl__own_add() */
#endif
};
extern SL_API __thread struct sl__thread sl__thread __attribute__((tls_model("initial-exec")));

SL_API void sl__counter_add_slow(struct sl_counter c, uint64_t n);

/*
 * Adds n to a cell that only this thread writes, and n * k to the check word of its line. 0: a
 * signal handler came while its thread was in here, and adds to the shared stripe.
 */
static inline int sl__own_update(uintptr_t cell, uint64_t n, uint64_t k)
{
#ifdef SL__PLAIN_UPDATES
	uint64_t *word = (uint64_t *)cell, *check = (uint64_t *)(cell | 56);

	if (__builtin_expect(sl__thread.busy, 0))
		return 0;
	sl__thread.busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* pairs with a handler of this thread */
	/* Relaxed: readers pair by the check word, whatever the order in which they see both. */
	__atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
	__atomic_store_n(check, __atomic_load_n(check, __ATOMIC_RELAXED) + n * k, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sl__thread.busy = 0;
#else
	uint64_t change = n * k;

	__asm__ volatile("addq %1, %0" : "+m"(*(uint64_t *)cell) : "er"(n) : "cc");
	/*
	 * Repeated updates of one metric add to this word: recent Intel cores forward a store to
	 * the load of an xadd (without lock) at once, but take five cycles for an add of a register
	 * to memory.
	 */
	__asm__ volatile("xaddq %1, %0" : "+m"(*(uint64_t *)(cell | 56)), "+r"(change) : : "cc");
#endif
	return 1;
}

/* Adds n. Exact under any number of threads; async-signal-safe after the thread's first update. */
static inline void sl_counter_add(struct sl_counter c, uint64_t n)
{
	uintptr_t base = sl__thread.base[c.bits >> 32];
	uintptr_t cell = base + (uintptr_t)c.bits;

	if (__builtin_expect(!base, 0)) {
		sl__counter_add_slow(c, n);
		return;
	}
	/* Lines have 64 bytes: bits 3-5 of an offset index the cell's constant. */
	if (__builtin_expect(
		    !sl__own_update(cell, n,
				    *(const uint64_t *)((const char *)sl_line_k + (c.bits & 56))),
		    0))
		sl__counter_add_slow(c, n);
}

static inline void sl_counter_inc(struct sl_counter c)
{
	sl_counter_add(c, 1);
}

/* counters[i] += n[i], for `count` counters. Thread-safe. */
SL_API void sl_counter_add_batch(const struct sl_counter *counters, const uint64_t *n,
				 size_t count);

/*
 * Adds v >= 0; a negative, infinite or NaN v is dropped and counted as refused. Exact up to the
 * rounding of doubles; async-signal-safe as sl_counter_add().
 */
SL_API void sl_counter_f64_add(struct sl_counter_f64 c, double v);

/* Gauges: the last set wins, adds are exact. Any thread; async-signal-safe. */
SL_API void sl_gauge_set(struct sl_gauge g, int64_t v);
SL_API void sl_gauge_add(struct sl_gauge g, int64_t v);
SL_API void sl_gauge_set_batch(const struct sl_gauge *gauges, const int64_t *v, size_t count);
SL_API void sl_gauge_f64_set(struct sl_gauge_f64 g, double v);
SL_API void sl_gauge_f64_add(struct sl_gauge_f64 g, double v);
SL_API void sl_gauge_f64_set_batch(const struct sl_gauge_f64 *gauges, const double *v,
				   size_t count);

/*
 * Observes v, in the metric's unit. NaN, and by an exponential histogram a value below -min, is
 * refused and counted in a cell of the metric. Any thread; async-signal-safe as the counters.
 */
SL_API void sl_histogram_observe(struct sl_histogram h, double v);
/*
 * Adds many observations: the number in each of the n buckets, in the order and number of
 * sl_gauge_histogram_set(), and their sum. 0, or -EINVAL: n differs. A sum that is infinite or NaN
 * is refused, with its observations. Any thread; async-signal-safe as the counters.
 */
SL_API int sl_histogram_add(struct sl_histogram h, const uint64_t *buckets, size_t n, double sum);

/*
 * An exemplar: an observation of which more is known, as the trace that it belongs to. The latest
 * one of each counter and bucket is kept. Ids of 0 and labels of none are left out. All labels take
 * at most SL_EXEMPLAR_LABELS bytes, key and value each with a NUL; trace_id and span_id take 67.
 */
struct sl_exemplar {
	size_t sz;
	uint64_t trace_hi, trace_lo; /* label "trace_id", 32 hexadecimal digits */
	uint64_t span_id;	     /* label "span_id", 16 of them */
	const struct sl_label *labels;
	size_t label_count;
	uint64_t time_ns; /* since 1970; default: now */
};

/*
 * Count as the functions without exemplar, and keep it: NULL is none. One that is ill-formed, for
 * which there is no room, or that comes while another thread sets that of the same counter or
 * bucket, is dropped and counted. Any thread; async-signal-safe after the first exemplar of a
 * counter or bucket, which takes a lock.
 */
SL_API void sl_counter_add_exemplar(struct sl_counter c, uint64_t n,
				    const struct sl_exemplar *exemplar);
SL_API void sl_counter_f64_add_exemplar(struct sl_counter_f64 c, double v,
					const struct sl_exemplar *exemplar);
SL_API void sl_histogram_observe_exemplar(struct sl_histogram h, double v,
					  const struct sl_exemplar *exemplar);

/* Switches the state with this index on or off; out of range: nothing. */
SL_API void sl_stateset_set(struct sl_stateset s, unsigned int state, bool on);

/* Sets the value, and when: now, or ns since 1970. Any thread; async-signal-safe. */
SL_API void sl_gauge_timed_set(struct sl_gauge_timed g, double v);
SL_API void sl_gauge_timed_set_at(struct sl_gauge_timed g, double v, uint64_t time_ns);

SL_API void sl_unknown_set(struct sl_unknown u, double v);

/*
 * Adds an observation, or `count` of them and their sum. A sum that is infinite or NaN is dropped
 * and counted as refused. Any thread; async-signal-safe as the counters.
 */
SL_API void sl_summary_observe(struct sl_summary s, double v);
SL_API void sl_summary_add(struct sl_summary s, double sum, uint64_t count);
/* The values of all quantiles, in the order of their ranks; NaN: unknown. 0, or -EINVAL: n differs.
 */
SL_API int sl_summary_set_quantiles(struct sl_summary s, const double *values, size_t n);

/*
 * Sets the histogram as a whole: the number of observations of each of the n buckets, not
 * cumulated. Classic: those up to each bound, and those above the last one. Exponential: those from
 * -min to min, those of each bucket, and those above the last one. A reader may see some buckets
 * set and others not yet. 0, or -EINVAL: n is not that of sl_gauge_histogram_size().
 */
SL_API int sl_gauge_histogram_set(struct sl_gauge_histogram h, const uint64_t *buckets, size_t n,
				  double sum);
SL_API size_t sl_gauge_histogram_size(struct sl_gauge_histogram h); /* 0 if refused */

/* ---- mirrors ---- */

/*
 * For bridges: sets the value of a metric created with .mirror to one that something else counts,
 * which may begin anew. What is added to such a metric in another way does not count. Histograms as
 * by sl_gauge_histogram_set(). Any thread; async-signal-safe.
 */
SL_API void sl_counter_mirror(struct sl_counter c, uint64_t value);
SL_API void sl_counter_f64_mirror(struct sl_counter_f64 c, double value);
SL_API void sl_summary_mirror(struct sl_summary s, double sum, uint64_t count);
SL_API int sl_histogram_mirror(struct sl_histogram h, const uint64_t *buckets, size_t n,
			       double sum);
/*
 * Keeps an exemplar beside the value, of a bucket by its number in the n of sl_histogram_mirror().
 * A time_ns of 0 is an unknown time. Otherwise as sl_counter_f64_add_exemplar().
 */
SL_API void sl_counter_f64_mirror_exemplar(struct sl_counter_f64 c, double value,
					   const struct sl_exemplar *exemplar);
SL_API void sl_histogram_mirror_exemplar(struct sl_histogram h, size_t bucket, double value,
					 const struct sl_exemplar *exemplar);

/* ---- reading back ---- */

/* What a collector would show: sums over all stripes. Slow: takes a lock. Thread-safe. 0 if
 * refused. */
SL_API uint64_t sl_counter_value(struct sl_counter c);
SL_API double sl_counter_f64_value(struct sl_counter_f64 c);
SL_API int64_t sl_gauge_value(struct sl_gauge g);
SL_API double sl_gauge_f64_value(struct sl_gauge_f64 g);
SL_API uint64_t sl_histogram_count(struct sl_histogram h);
SL_API double sl_histogram_sum(struct sl_histogram h);
/* The number in each of the n buckets, as of sl_histogram_add(). 0, or -EINVAL: n differs. If h is
 * refused, buckets are left as they are. */
SL_API int sl_histogram_buckets(struct sl_histogram h, uint64_t *buckets, size_t n);
SL_API double sl_gauge_timed_value(struct sl_gauge_timed g);
SL_API double sl_unknown_value(struct sl_unknown u);
SL_API uint64_t sl_summary_count(struct sl_summary s);
SL_API double sl_summary_sum(struct sl_summary s);

#ifdef __cplusplus
}
#endif
#endif
