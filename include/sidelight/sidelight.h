/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/sidelight.h - publish metrics in memory that a collector reads directly.
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
 *  - A handle is a small value. A refused handle, like one of all zeros, does nothing. A
 *    refusal is counted, logged once per reason through the callback and visible to the collector,
 *    so an application need not check for it; if it wants to, there is sl_..._valid(). The call
 *    that refuses a metric sets errno: EINVAL, EEXIST (its name has another kind), ENOSPC (no room)
 *    or ENOMEM.
 *  - Creating a metric twice with the same name, labels and kind returns the same metric.
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
 * The callback receives one line, without a newline, from any thread. By default there is no
 * callback, and the library writes to neither stdout nor stderr. NULL removes the callback.
 * Thread-safe.
 */
typedef void (*sl_log_fn)(enum sl_log_level level, const char *line, void *arg);
SL_API void sl_set_log(sl_log_fn fn, void *arg);

/* ---- publisher ---- */

struct sl_label {
	const char *key;   /* [a-zA-Z_][a-zA-Z0-9_]*, at most SL_NAME_MAX bytes, not "__..." */
	const char *value; /* UTF-8, at most SL_LABEL_VALUE_MAX bytes */
};

/* Expands to an array of labels and their number: SL_LABELS({"route", "/cart"}). C only. */
#ifndef __cplusplus
#define SL_LABELS(...)	  SL__LABELS(((const struct sl_label[]){__VA_ARGS__}))
#define SL__LABELS(array) array, sizeof(array) / sizeof(struct sl_label)
#endif

/* Flags of a publisher. */
#define SL_PUBLISHER_DETACHED 1u /* do not look for an agent; see sl_publisher_fd() */
/* callers of this service publish no spans to sidelight: see span.h */
#define SL_PUBLISHER_EDGE 2u
/* refuse metrics that do not fit, instead of opening another region */
#define SL_PUBLISHER_FIXED 4u
/*
 * The labels of each metric name the publisher that its value is from, and readers add none. An
 * agent refuses such a publisher unless --origin-uid names its user. See sl_publisher_set_time().
 */
#define SL_PUBLISHER_ORIGIN 8u

/* Options of a publisher. 0 is the default. */
struct sl_publisher_opts {
	size_t sz;
	const char *service; /* label "service"; default: the program's name */
	/*
	 * label "pod"; default: $POD_NAME, else 12 digits of the container's id, else SERVICE-PID;
	 * in a container whose id is hidden, the host name
	 */
	const char *pod;
	const char *kube_namespace;    /* label "namespace"; default: $POD_NAMESPACE, or none */
	const struct sl_label *labels; /* additional labels, at most 29, which are copied */
	size_t label_count;
	/* path of the agent's socket; default $SIDELIGHT_SOCKET, or /run/sidelight/agent.sock */
	const char *socket;
	/* cells of the first region; default 1764; a counter or gauge takes 1 */
	uint32_t max_cells;
	/* threads that need no atomic operations; default 2 x CPUs, 8 to 64; at most 1024 */
	uint32_t max_threads;
	uint32_t schema_bytes; /* space for names, help, labels; default 128 per cell */
	uint32_t flags;	       /* SL_PUBLISHER_... */
	/*
	 * space for the spans of one thread, see span.h: SL_SPAN_BYTES or more, rounded up to a
	 * power of two, 32 KiB to 256 MiB; a region takes 1.4 times as much per thread. 0 means no
	 * spans
	 */
	uint32_t span_bytes;
	/*
	 * maximum number of counters and buckets with an exemplar: default 63, at most 4095; 256
	 * bytes each once the first exemplar is set
	 */
	uint32_t exemplars;
};

struct sl_publisher;

/*
 * Creates a region (a sealed memfd) and, unless detached, a thread that hands it to the agent, and
 * again after each restart of the agent. opts: NULL means all defaults. On failure returns NULL
 * with errno set: EINVAL (options, malformed labels, sizes above the limits), ENOMEM, EMFILE,
 * ENFILE, ENOSPC (this process has 63 regions). Every function accepts a NULL publisher and refuses
 * its metrics.
 */
SL_API struct sl_publisher *sl_publisher_open(const struct sl_publisher_opts *opts);

/* Tells the agent and releases everything, including all handles. NULL is ignored. */
SL_API void sl_publisher_close(struct sl_publisher *p);

/* True while an agent has the region. Thread-safe. */
SL_API bool sl_publisher_attached(const struct sl_publisher *p);

/* The region's memfd, owned by the publisher; -1 for NULL. Changes in the child after fork(). */
SL_API int sl_publisher_fd(const struct sl_publisher *p);

/*
 * A publisher that has filled its region adds another one with the same labels, up to a total of
 * 64. Stores up to n memfds; returns the number of regions. Thread-safe.
 */
SL_API size_t sl_publisher_fds(const struct sl_publisher *p, int *fds, size_t n);

/*
 * For SL_PUBLISHER_ORIGIN: the values are those of this time, ns since 1970. Call it each time
 * after the values have been set, also if they have not changed: otherwise they are stale.
 * Thread-safe.
 */
SL_API void sl_publisher_set_time(struct sl_publisher *p, uint64_t time_ns);

struct sl_publisher_stats {
	size_t sz;
	uint32_t metrics; /* metrics created */
	uint32_t refused; /* refused metrics and observations */
	uint32_t cells_used, cells_max;
	uint32_t stripes_used, stripes_max;
	/* threads beyond max_threads: their counts are exact, but need atomic operations */
	uint32_t threads_sharing;
	uint32_t attaches; /* number of times an agent admitted the first region */
	uint32_t regions;  /* number of regions, see sl_publisher_fds() */
};

/* Returns 0, or -EINVAL for NULL, or if sz is too small. Thread-safe. */
SL_API int sl_publisher_stats(const struct sl_publisher *p, struct sl_publisher_stats *stats);

/* ---- verdicts ---- */

/*
 * The verdict of a collector that analyses this publisher's metrics (sidelight collect --analyse),
 * forwarded by the agent. It lets a service raise its log level, or take a profile, while it is
 * anomalous. A verdict expires if it is not renewed within the collector's --verdict-ttl.
 */
struct sl_publisher_verdict {
	size_t sz;
	bool known;	   /* false if the pod is not analysed or the verdict has expired */
	bool anomalous;	   /* true if the pod is anomalous; false unless known */
	double score;	   /* a number >= 0, where 1 is the threshold; 0 unless known */
	uint64_t sequence; /* incremented by each change of known or anomalous */
	/* time of the verdict, by the collector's CLOCK_REALTIME; 0 unless known */
	int64_t time_ns;
};

/*
 * Returns 0, or -EINVAL for NULL, or if sz is too small. Thread-safe, async-signal-safe, no system
 * call. In the child of fork() nothing is known until its own region is analysed.
 */
SL_API int sl_publisher_verdict(const struct sl_publisher *p, struct sl_publisher_verdict *verdict);

/*
 * True while the process is anomalous; false for NULL. Thread-safe, async-signal-safe, a single
 * load: cheap enough for every request. (It reads the first word of a publisher; the rest is
 * private to the library.)
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
	const char *unit; /* "seconds", "bytes", ...; by convention the last part of the name */
	const struct sl_label *labels;
	size_t label_count;

	/*
	 * sl_histogram_create(): exponential buckets of factor 2^(2^-scale) from min to max. More
	 * than 4096 buckets are refused; the defaults take 323 cells. min and max are normal
	 * numbers > 0, and max is in a bucket that ends below 2^1024.
	 */
	int scale; /* -4 to 8; 0 is factor 2; default (use_scale false): 3, factor 1.09 */
	bool use_scale;
	double min; /* the zero bucket covers -min to min; default 1e-6 */
	double max; /* an overflow bucket counts values above the bucket of max; default 1e6 */

	/* sl_histogram_create_classic(): ascending upper bounds, without +Inf */
	const double *bounds;
	size_t bound_count;

	/* sl_stateset_create(): names of the states */
	const char *const *states;
	size_t state_count;

	/* sl_summary_create(): ranks from 0 to 1, ascending, at most SL_QUANTILES_MAX; may be 0 */
	const double *quantiles;
	size_t quantile_count;

	/* How a collector combines the values when it shows a service's processes as one. */
	enum sl_combine combine; /* SL_COMBINE_MOST_RECENT: timed gauges only */
	bool live;		 /* exclude values of processes that have exited */

	bool mirror; /* the value is set as a whole by sl_..._mirror(), and may decrease */
	bool utf8;   /* allow any UTF-8 in the name and label keys; keys do not start with "__" */
	uint64_t created_ns; /* time from which the metric counts, ns since 1970; default: now */
};

/*
 * Handles. Their contents are private: bits 0-31 are the offset of the cell in a stripe, bits 32-63
 * the region's slot in struct sl__thread. A single word, so that a compiler loads it with one
 * instruction (gcc loads two fields as a vector and splits them). A histogram has offset 0; its
 * buckets contain the location of its cells.
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
 * Each function creates a metric or finds the existing one. Thread-safe; not for signal handlers.
 * Refused: a malformed name or label, no space for cells or schema, a name used by another kind, a
 * name and labels used with other buckets, states or flags, a label "le" on a histogram, a NULL
 * publisher.
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
/* A gauge that also records the time it was set, for SL_COMBINE_MOST_RECENT, its default. */
SL_API struct sl_gauge_timed sl_gauge_timed_create(struct sl_publisher *p,
						   const struct sl_metric_opts *o);
/* A number of unknown type, copied from elsewhere. */
SL_API struct sl_unknown sl_unknown_create(struct sl_publisher *p, const struct sl_metric_opts *o);
/*
 * A summary: the sum and number of observations, and quantiles computed elsewhere. The label
 * "quantile" is not allowed.
 */
SL_API struct sl_summary sl_summary_create(struct sl_publisher *p, const struct sl_metric_opts *o);
/* Histograms of a current state, whose buckets may decrease: queue lengths, ages. */
SL_API struct sl_gauge_histogram sl_gauge_histogram_create(struct sl_publisher *p,
							   const struct sl_metric_opts *o);
SL_API struct sl_gauge_histogram sl_gauge_histogram_create_classic(struct sl_publisher *p,
								   const struct sl_metric_opts *o);
/* The labels of an info metric are its value. Returns 0, or the -errno of a refusal. */
SL_API int sl_info_create(struct sl_publisher *p, const struct sl_metric_opts *o);
/* Removes the info metric with this name and these labels, like sl_counter_remove(). */
SL_API int sl_info_remove(struct sl_publisher *p, const struct sl_metric_opts *o);

/* ---- families ---- */

/*
 * Metrics that differ only in their labels: the options, without labels, are given once, and
 * ..._with() creates the metric with these labels or finds the existing one:
 *
 *	f = sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "http_requests_total"));
 *	ok = sl_counter_with(f, SL_LABELS({"route", "/cart"}, {"code", "200"}));
 *
 * Nothing is published before the first ..._with(). That call takes a lock and searches a table:
 * keep its handle instead of calling it for each update. Thread-safe; not for signal handlers. The
 * same rules apply as for metrics; the metrics of a refused family are refused. There are no
 * families of info metrics.
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
 * Removes the metric with these labels, or all metrics of the family. The last value is lost, and
 * the memory is reused for a metric of the same or a similar family after 11 s at the earliest.
 * Creating the same labels again restores the metric, counting from 0. A handle of a removed metric
 * must not be used any more: its updates are lost, and later count in another metric. Thread-safe;
 * not for signal handlers. Returns 0, -ENOENT (no such metric), -EINVAL (a refused family, or
 * malformed labels) or -ENOMEM.
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

/* Number of slots: one per region of a process, and slot 0 for handles that do nothing. */
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
 * x86-64 adds to memory in one instruction, which no signal handler of the thread can interrupt
 * between load and store. Other processors need a load and a store, an exclusive pair, which is far
 * slower (Armv8.0, such as Cortex-A72, has nothing else), or an atomic addition. There a thread
 * uses plain loads and stores while its busy flag is set, and its handlers then count in the shared
 * stripe.
 */
#if !defined(__x86_64__) && !defined(SL__PLAIN_UPDATES)
#define SL__PLAIN_UPDATES 1
#endif

/*
 * Private. Per thread and slot: the address of this thread's stripe minus (slot << 32), so that
 * adding the bits of a handle gives the address of its cell. 0 means the thread owns no stripe, and
 * the slow path decides whether it gets one.
 */
struct sl__thread {
	uintptr_t base[SL_PUBLISHER_SLOTS];
#ifdef SL__PLAIN_UPDATES
	volatile uint32_t busy; /* set while sl__own_update() is running */
#endif
};
extern SL_API __thread struct sl__thread sl__thread __attribute__((tls_model("initial-exec")));

SL_API void sl__counter_add_slow(struct sl_counter c, uint64_t n);

/*
 * Adds n to a cell that only this thread writes, and n * k to the check word of its line. Returns 0
 * in a signal handler that interrupted this function on its own thread: the handler then adds to
 * the shared stripe.
 */
static inline int sl__own_update(uintptr_t cell, uint64_t n, uint64_t k)
{
#ifdef SL__PLAIN_UPDATES
	uint64_t *word = (uint64_t *)cell, *check = (uint64_t *)(cell | 56);

	if (__builtin_expect(sl__thread.busy, 0))
		return 0;
	sl__thread.busy = 1;
	/* orders the flag for a signal handler of this thread */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	/*
	 * Relaxed: a reader matches both by the check word, in whatever order it sees the stores.
	 */
	__atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
	__atomic_store_n(check, __atomic_load_n(check, __ATOMIC_RELAXED) + n * k, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sl__thread.busy = 0;
#else
	uint64_t change = n * k;

	__asm__ volatile("addq %1, %0" : "+m"(*(uint64_t *)cell) : "er"(n) : "cc");
	/*
	 * Repeated updates of one metric add to this word: recent Intel cores forward a store to
	 * the load of an xadd (without lock) immediately, but take five cycles for an add of a
	 * register to memory.
	 */
	__asm__ volatile("xaddq %1, %0" : "+m"(*(uint64_t *)(cell | 56)), "+r"(change) : : "cc");
#endif
	return 1;
}

/* Adds n. Exact with any number of threads; async-signal-safe after the thread's first update. */
static inline void sl_counter_add(struct sl_counter c, uint64_t n)
{
	uintptr_t base = sl__thread.base[c.bits >> 32];
	uintptr_t cell = base + (uintptr_t)c.bits;

	if (__builtin_expect(!base, 0)) {
		sl__counter_add_slow(c, n);
		return;
	}
	/* Lines are 64 bytes long: bits 3-5 of an offset are the index of the cell's constant. */
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

/* Adds n[i] to counters[i], for `count` counters. Thread-safe. */
SL_API void sl_counter_add_batch(const struct sl_counter *counters, const uint64_t *n,
				 size_t count);

/*
 * Adds v >= 0; a negative, infinite or NaN v is dropped and counted as refused. Exact up to the
 * rounding of doubles; async-signal-safe like sl_counter_add().
 */
SL_API void sl_counter_f64_add(struct sl_counter_f64 c, double v);

/* Gauges: the last set wins, additions are exact. Thread-safe; async-signal-safe. */
SL_API void sl_gauge_set(struct sl_gauge g, int64_t v);
SL_API void sl_gauge_add(struct sl_gauge g, int64_t v);
SL_API void sl_gauge_set_batch(const struct sl_gauge *gauges, const int64_t *v, size_t count);
SL_API void sl_gauge_f64_set(struct sl_gauge_f64 g, double v);
SL_API void sl_gauge_f64_add(struct sl_gauge_f64 g, double v);
SL_API void sl_gauge_f64_set_batch(const struct sl_gauge_f64 *gauges, const double *v,
				   size_t count);

/*
 * Observes v, in the metric's unit. NaN, and in an exponential histogram a value below -min, is
 * refused and counted in a cell of the metric. Thread-safe; async-signal-safe like counters.
 */
SL_API void sl_histogram_observe(struct sl_histogram h, double v);
/*
 * Adds many observations: the number in each of the n buckets, in the order of
 * sl_gauge_histogram_set(), and their sum. Returns 0, or -EINVAL if n is wrong. If the sum is
 * infinite or NaN, all of the observations are refused. Thread-safe; async-signal-safe like
 * counters.
 */
SL_API int sl_histogram_add(struct sl_histogram h, const uint64_t *buckets, size_t n, double sum);

/*
 * An exemplar: additional information on one observation, such as its trace. The latest one of each
 * counter and bucket is kept. Ids that are 0 are left out. The labels take at most
 * SL_EXEMPLAR_LABELS bytes in total, counting a NUL after each key and value; trace_id and span_id
 * take 67.
 */
struct sl_exemplar {
	size_t sz;
	uint64_t trace_hi, trace_lo; /* label "trace_id", 32 hexadecimal digits */
	uint64_t span_id;	     /* label "span_id", 16 hexadecimal digits */
	const struct sl_label *labels;
	size_t label_count;
	uint64_t time_ns; /* ns since 1970; default: now */
};

/*
 * Like the functions without exemplar, but also keep the exemplar; NULL means none. An exemplar is
 * dropped and counted if it is malformed, if there is no space for it, or if another thread is
 * setting one for the same counter or bucket. Thread-safe; async-signal-safe after the first
 * exemplar of a counter or bucket, which takes a lock.
 */
SL_API void sl_counter_add_exemplar(struct sl_counter c, uint64_t n,
				    const struct sl_exemplar *exemplar);
SL_API void sl_counter_f64_add_exemplar(struct sl_counter_f64 c, double v,
					const struct sl_exemplar *exemplar);
SL_API void sl_histogram_observe_exemplar(struct sl_histogram h, double v,
					  const struct sl_exemplar *exemplar);

/* Switches the state with this index on or off; ignored if out of range. */
SL_API void sl_stateset_set(struct sl_stateset s, unsigned int state, bool on);

/* Sets the value and its time: now, or ns since 1970. Thread-safe; async-signal-safe. */
SL_API void sl_gauge_timed_set(struct sl_gauge_timed g, double v);
SL_API void sl_gauge_timed_set_at(struct sl_gauge_timed g, double v, uint64_t time_ns);

SL_API void sl_unknown_set(struct sl_unknown u, double v);

/*
 * Adds an observation, or `count` observations and their sum. A sum that is infinite or NaN is
 * dropped and counted as refused. Thread-safe; async-signal-safe like counters.
 */
SL_API void sl_summary_observe(struct sl_summary s, double v);
SL_API void sl_summary_add(struct sl_summary s, double sum, uint64_t count);
/*
 * Sets the values of all quantiles, in the order of their ranks; NaN means unknown. Returns 0, or
 * -EINVAL if n is wrong.
 */
SL_API int sl_summary_set_quantiles(struct sl_summary s, const double *values, size_t n);

/*
 * Sets the whole histogram: the number of observations in each of the n buckets, not cumulative.
 * Classic: one bucket per bound, and one above the last bound. Exponential: one for -min to min,
 * the exponential buckets, and one above the last. A reader may see some buckets set and others not
 * yet. Returns 0, or -EINVAL if n differs from sl_gauge_histogram_size().
 */
SL_API int sl_gauge_histogram_set(struct sl_gauge_histogram h, const uint64_t *buckets, size_t n,
				  double sum);
SL_API size_t sl_gauge_histogram_size(struct sl_gauge_histogram h); /* returns 0 if h was refused */

/* ---- mirrors ---- */

/*
 * For bridges: sets the value of a metric created with .mirror to a value counted elsewhere, which
 * may restart from 0. Additions to such a metric are ignored. Histograms are set as by
 * sl_gauge_histogram_set(). Thread-safe; async-signal-safe.
 */
SL_API void sl_counter_mirror(struct sl_counter c, uint64_t value);
SL_API void sl_counter_f64_mirror(struct sl_counter_f64 c, double value);
SL_API void sl_summary_mirror(struct sl_summary s, double sum, uint64_t count);
SL_API int sl_histogram_mirror(struct sl_histogram h, const uint64_t *buckets, size_t n,
			       double sum);
/*
 * Attaches an exemplar to the value, or to the bucket with this index in the array that was passed
 * to sl_histogram_mirror(). A time_ns of 0 means that the time is unknown. Otherwise like
 * sl_counter_f64_add_exemplar().
 */
SL_API void sl_counter_f64_mirror_exemplar(struct sl_counter_f64 c, double value,
					   const struct sl_exemplar *exemplar);
SL_API void sl_histogram_mirror_exemplar(struct sl_histogram h, size_t bucket, double value,
					 const struct sl_exemplar *exemplar);

/* ---- reading back ---- */

/*
 * Sums over all stripes, as a collector shows them. Slow: takes a lock. Thread-safe. Returns 0 if
 * refused.
 */
SL_API uint64_t sl_counter_value(struct sl_counter c);
SL_API double sl_counter_f64_value(struct sl_counter_f64 c);
SL_API int64_t sl_gauge_value(struct sl_gauge g);
SL_API double sl_gauge_f64_value(struct sl_gauge_f64 g);
SL_API uint64_t sl_histogram_count(struct sl_histogram h);
SL_API double sl_histogram_sum(struct sl_histogram h);
/*
 * Stores the number of observations in each of the n buckets, in the order of sl_histogram_add().
 * Returns 0, or -EINVAL if n is wrong. Leaves buckets unchanged if h was refused.
 */
SL_API int sl_histogram_buckets(struct sl_histogram h, uint64_t *buckets, size_t n);
SL_API double sl_gauge_timed_value(struct sl_gauge_timed g);
SL_API double sl_unknown_value(struct sl_unknown u);
SL_API uint64_t sl_summary_count(struct sl_summary s);
SL_API double sl_summary_sum(struct sl_summary s);

#ifdef __cplusplus
}
#endif
#endif
