/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - interfaces between the parts of libsidelight. They depend on the region format and
 * the attach protocol, but not on the internals of agent and collector.
 * - publisher.c: open, close, fork; the lock
 * - region.c: layout, memory and hot line of regions; additional regions
 * - thread.c: assigns stripes to threads
 * - attach.c: the agent's socket, and the thread that watches it
 * - identity.c: identity of process and region
 * - metric.c: creation of metrics and families: tables, cells
 * - record.c: schema records
 * - remove.c: removal of metrics, and reuse of their records
 * - text.c: checks of names, labels and texts
 * - update.c: counters, gauges, state sets; reading back
 * - mirror.c: metrics whose value is set as a whole: copies, summaries
 * - histogram.c: histograms; boundaries.py prints their table
 * - exemplar.c: exemplars of counters and histograms
 * - span.c: spans; see span.h
 * - verdict.c: verdicts on this process
 * - log.c: the application's callback
 *
 * Locking: one mutex (sl__lock) protects everything except updates. It is held with all signals
 * blocked and cancellation disabled: neither fork() nor a signal handler that makes its thread's
 * first update can find it held by a thread that is not running. A holder never blocks, and never
 * calls a callback of the application.
 */
#ifndef SL_LIB_INTERNAL_H
#define SL_LIB_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include <sidelight/attach.h>
#include <sidelight/region.h>
#include <sidelight/sidelight.h>

#include "common.h"

#define SL__PAGE	4096u
#define SL__SLOT_NONE	0u    /* slot of a handle that does nothing */
#define SL__THREADS_MAX 1024u /* threads that can own a stripe of one publisher */

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

/* Reason for refusing a metric or an observation. Each reason is logged once per publisher. */
enum sl__refusal {
	SL__REFUSED_OPTS = 1,
	SL__REFUSED_NAME,
	SL__REFUSED_LABEL,
	SL__REFUSED_TEXT,
	SL__REFUSED_SHAPE,
	SL__REFUSED_FLAGS,
	SL__REFUSED_CONFLICT,
	SL__REFUSED_CELLS,
	SL__REFUSED_SCHEMA,
	SL__REFUSED_MEMORY,
	SL__REFUSED_SPANS,
	SL__REFUSED_REGIONS,
	SL__REFUSED_COUNT
};

struct sl__metric;
struct sl__family;
struct sl__vacancy;
struct sl__exemplars;
struct sl__ring;

/*
 * A descriptor of the library, with the identity of its file. Daemons often close all descriptors
 * that they do not know: the library must not write to, pass on or close another file that got the
 * same number later.
 */
struct sl__fd {
	int fd; /* -1 means closed */
	dev_t dev;
	ino_t ino;
};
#define SL__FD_NONE ((struct sl__fd){.fd = -1})

/*
 * Single-cell metrics take their cells from a block, on a different line each time, so that updates
 * of consecutive metrics do not serialise on one check word. Four lines are enough: on a 2024 Xeon,
 * two cost 8 % more, and eight gained nothing. A reader reads at most four extra lines. Other
 * metrics are placed between the blocks.
 */
#define SL__BLOCK_LINES	  4u
#define SL__BLOCK	  (SL__BLOCK_LINES * SL_LINE_CELLS)

#define SL__VERDICT_WORDS 5
struct sl__verdict {
	/* first member of struct sl_publisher: sl_publisher_alarmed() reads it */
	_Atomic uint32_t alarmed;
	/* write count of the attach thread; bit 0 selects the valid copy */
	_Atomic uint64_t written;
	_Atomic uint64_t copy[2][SL__VERDICT_WORDS];
};

/*
 * A region and its state; see sidelight/region.h for its parts. When a region is full, the
 * publisher adds another. All changes are made under the lock. Offsets are relative to base.
 */
struct sl__region {
	struct sl_publisher *publisher;
	struct sl__region *next; /* next region of the publisher, in order of creation */
	unsigned int slot;
	struct sl__fd memfd;
	uint8_t *base;
	size_t size;
	size_t reserved; /* bytes of address space reserved at base, a power of two */
	uint64_t instance;
	uint32_t stripe_offset, stride, stripe_count, max_cells;
	uint32_t schema_offset, schema_bytes;
	uint64_t created_offset; /* section with the creation time of each record, a cell each */
	uint32_t created_bytes;
	uint64_t exemplars_offset;
	uint32_t exemplar_elements;
	struct sl__exemplars *exemplars;
	uint32_t span_lines;	/* lines per ring; 0 means no spans */
	uint64_t span_offset;	/* offset of the span section */
	struct sl__ring *rings; /* array of stripe_count rings */

	uint32_t cells_used;	    /* cells used by metrics */
	uint32_t cells_end;	    /* cells below this one are in use or belong to the block */
	uint32_t block, block_used; /* first cell of the block; number of its cells in use */
	uint32_t lines_used, schema_used, generation, record_count;
	uint32_t stripe_pages;	/* pages allocated in each stripe in use */
	uint32_t schema_pages;	/* pages allocated for the schema */
	uint32_t created_pages; /* pages allocated for the section created */
	bool dense;		/* the whole region is allocated, as an agent requested */
	_Atomic uint32_t stripes_used;
	uint32_t *free_stripes; /* stack of stripes whose threads have exited */
	uint32_t free_count;
	_Atomic uint32_t sharing;
	bool orphan;		  /* after fork(): the region at base is the parent's */
	uint64_t revive_after_ns; /* after a failure: time of the next attempt */

	struct sl__vacancy *vacancies;
	struct sl__metric *first, **last; /* list of metrics, in the order of their records */

	/* State of the last PUBLISH message for this region. */
	uint32_t serial; /* its serial number; 0 means not sent on this connection, or refused */
	bool admitted;
	uint8_t again; /* number of EAGAIN answers since it was last admitted */
};

struct sl_publisher {
	struct sl__verdict verdict;
	uint32_t flags;
	/* list of regions, the one with the spans first; changes under the lock */
	struct sl__region *regions;
	uint32_t region_count;
	uint64_t time_ns;	   /* with SL_PUBLISHER_ORIGIN: see sl_publisher_set_time() */
	uint64_t further_after_ns; /* after a failure to add a region: time of the next attempt */
	bool forked;		   /* after fork(): all regions are the parent's */

	uint32_t label_bytes;
	uint8_t *labels; /* encoded labels, as in the headers; a forked child needs this copy */
	/* offset of the pod label's value; length of its prefix "SERVICE-" without the "-" */
	uint32_t pod_at, pod_service;

	uint32_t metric_count; /* records in all regions */
	uint32_t string_count; /* string records among metric_count */
	uint32_t removed_count;
	_Atomic uint32_t refused;
	uint32_t logged; /* reasons already logged: bits of enum sl__refusal, and the bits below */
#define SL__LOGGED_AGENT (1u << 18)

	struct sl__metric **metrics; /* hash table with chaining */
	struct sl__family **families;
	struct sl__metric **models; /* models of families, by id */
	uint32_t model_count;
	uint32_t buckets; /* size of both hash tables, a power of two */

	/* Connection to the agent. The descriptors change under the lock only. */
	char *socket;
	struct sl__fd sock;
	/* a pipe: the thread wakes up for a byte, and exits when the write end [1] is closed */
	struct sl__fd wake[2];
	pthread_t thread;
	bool have_thread;
	/* time to offer regions again; 0 means none; set under the lock, read by the thread */
	_Atomic uint64_t offer_ns;
	uint32_t serial;
	_Atomic bool attached;
	_Atomic uint32_t attaches;
};

/* State of a region needed for an update. Static memory: a late update after close finds zeros. */
struct sl__slot {
	/* address of stripe 0; 0 means closed, or not yet recreated after fork() */
	_Atomic uintptr_t shared;
	_Atomic uint32_t free;	/* number of stripes without an owner */
	_Atomic uint32_t epoch; /* changes at fork and close: spans open across it are discarded */
	_Atomic bool edge;	/* SL_PUBLISHER_EDGE */
	_Atomic(struct sl__ring *) rings;    /* NULL means no spans */
	_Atomic(struct sl__region *) region; /* changes under the lock only */
};
extern SL__HIDDEN struct sl__slot sl__slots[SL_PUBLISHER_SLOTS];

struct sl__guard {
	sigset_t signals;
	int cancel;
	int error; /* saved errno: an update in a signal handler must not change it */
};
SL__HIDDEN void sl__lock(struct sl__guard *guard);
SL__HIDDEN void sl__unlock(const struct sl__guard *guard);

/* identity.c */
SL__HIDDEN uint64_t sl__start_ticks(void); /* returns 0 if unknown */
SL__HIDDEN void sl__boot_id(uint8_t id[16]);
SL__HIDDEN uint64_t sl__random_instance(void); /* never 0 */

/* publisher.c */
SL__HIDDEN int sl__fd_take(struct sl__fd *to, int fd);
SL__HIDDEN bool sl__fd_ours(const struct sl__fd *fd);
SL__HIDDEN void sl__fd_close(struct sl__fd *fd);

/* region.c; caller holds the lock */
/* Creates a region. On failure returns NULL and sets *error: bad sizes, no memory, no free slot. */
SL__HIDDEN struct sl__region *sl__region_new(struct sl_publisher *p,
					     const struct sl_publisher_opts *o, int *error);
/* Adds a region, larger than the previous ones, with space for the given metric. */
/* Returns true if this process has as many regions as it can have. */
SL__HIDDEN bool sl__regions_full(void);
SL__HIDDEN struct sl__region *sl__region_further(struct sl_publisher *p, uint32_t cells,
						 uint32_t record);
SL__HIDDEN void sl__region_close(struct sl__region *r);
SL__HIDDEN void sl__region_free(struct sl__region *r);
SL__HIDDEN int sl__allocate(struct sl__region *r, uint64_t offset, uint64_t bytes);
SL__HIDDEN void sl__hot_change(struct sl__region *r);
/* Runs in a forked child: replaces each of the parent's regions. Returns 0 or -errno for r. */
SL__HIDDEN int sl__revive(struct sl__region *r);

/* Adds n to a cell of the hot line. May be called by any thread, without the lock. */
SL__HIDDEN void sl__hot_add(struct sl__region *r, enum sl_hot_cell cell, uint64_t n);

/* thread.c */
SL__HIDDEN int sl__thread_key(void);
SL__HIDDEN uintptr_t sl__stripe_claim(unsigned int slot); /* takes the lock */
SL__HIDDEN void sl__stripes_forget(unsigned int slot);	  /* caller holds the lock */
SL__HIDDEN uint32_t sl__stripe_index(unsigned int slot);  /* stripe of this thread; 0 means none */
SL__HIDDEN void sl__threads_forked(void);

/* Extracts the slot of a handle. */
static inline unsigned int sl__slot_of(uint64_t bits)
{
	return bits >> 32 < SL_PUBLISHER_SLOTS ? (unsigned int)(bits >> 32) : SL__SLOT_NONE;
}

/* Returns the address of this thread's stripe, which it claims first if it has none; or 0. */
static inline uintptr_t sl__stripe_of(unsigned int slot)
{
	uintptr_t base = sl__thread.base[slot];

	return likely(base) ? base + (uintptr_t)((uint64_t)slot << 32) : sl__stripe_claim(slot);
}

/* Returns the address of stripe 0; 0 for a handle that does nothing. May take the lock. */
SL__HIDDEN uintptr_t sl__shared_slow(unsigned int slot);
static inline uintptr_t sl__shared(unsigned int slot)
{
	/* Relaxed: the caller obtained its handle after the store in sl_publisher_open(). */
	uintptr_t shared = atomic_load_explicit(&sl__slots[slot].shared, memory_order_relaxed);

	return likely(shared) ? shared : sl__shared_slow(slot);
}

/* The stripes in use, for reading back; stripes is 0 for a handle that does nothing. */
struct sl__view {
	uintptr_t shared;
	uint32_t stride, stripes;
};
SL__HIDDEN struct sl__view sl__view(unsigned int slot);
SL__HIDDEN uint64_t sl__read_u64(unsigned int slot, uint32_t offset);
SL__HIDDEN double sl__read_f64(unsigned int slot, uint32_t offset);
/* Reads the cell of a handle whose values are in stripe 0 only. */
SL__HIDDEN uint64_t sl__read_shared(uint64_t bits);

/* attach.c */
SL__HIDDEN int sl__attach_start(struct sl_publisher *p);  /* caller holds the lock */
SL__HIDDEN void sl__attach_further(struct sl__region *r); /* caller holds the lock */
SL__HIDDEN bool sl__attach_stop(struct sl_publisher *p);  /* caller does not hold the lock */
SL__HIDDEN void sl__attach_forked(struct sl_publisher *p);

/* verdict.c; called by the attach thread, or when there is no such thread */
SL__HIDDEN void sl__verdict_take(struct sl_publisher *p, const struct sl_msg_verdict *said);
/* returns -1 if there is no verdict */
SL__HIDDEN int sl__verdict_left_ms(const struct sl_publisher *p);
SL__HIDDEN void sl__verdict_expire(struct sl_publisher *p);
SL__HIDDEN void sl__verdict_forget(struct sl_publisher *p);

/* Returns the pages of the section created for this many records. */
static inline uint32_t sl__created_pages(uint32_t records)
{
	uint64_t lines = (records + SL_LINE_CELLS - 1) / SL_LINE_CELLS;

	return (uint32_t)((lines * SL_LINE_SIZE + SL__PAGE - 1) / SL__PAGE);
}

/* metric.c */
SL__HIDDEN void sl__metrics_free(struct sl__region *r);
SL__HIDDEN void sl__tables_free(struct sl_publisher *p);
SL__HIDDEN void sl__metrics_rewrite(struct sl__region *r);

/* text.c. Lengths exclude the NUL; sidelight/region.h defines the maxima. */
SL__HIDDEN bool sl__name_valid(const char *s, bool colon); /* colon: allow colons */
SL__HIDDEN bool sl__label_key_valid(const char *key, const char *reserved, bool utf8);
SL__HIDDEN bool sl__unit_valid(const char *s, size_t *length);
SL__HIDDEN bool sl__utf8(const char *s, size_t max, size_t *length);
/*
 * Sets the label "pod" to the value for this process, unless the caller or the environment gave
 * one. Caller holds the lock.
 */
SL__HIDDEN void sl__labels_renew(struct sl_publisher *p);
#define SL__CONTAINER_ID 12u /* hexadecimal digits, as container runtimes print them */
/*
 * Finds the ID of this process's container. Returns false if there is none, or it is not visible.
 */
SL__HIDDEN bool sl__container_id(char id[SL__CONTAINER_ID + 1]);
/*
 * Encodes labels as key NUL value NUL ..., sorted by key; the caller frees *bytes. reserved: a key
 * to refuse, or NULL. utf8: allow any UTF-8 in keys. Returns 0, -EINVAL or -ENOMEM.
 */
SL__HIDDEN int sl__labels_encode(const struct sl_label *labels, size_t count, const char *reserved,
				 bool utf8, uint8_t **bytes, uint32_t *length);

struct sl__shape {
	uint32_t cells;
	int scale;
	int32_t first_bucket;
	double zero_threshold;
	const double *bounds;
	uint32_t bound_count;
	const char *const *states;
	uint32_t state_count, state_bytes;
};
/* Returns the name or key of spans as slot << 32 | record id; 0 if refused. */
SL__HIDDEN uint64_t sl__string_create(struct sl_publisher *p, const char *text);

/* Counts a refused observation. May be called by any thread, without the lock. */
SL__HIDDEN void sl__refuse_observation(unsigned int slot);

/* exemplar.c; the caller of the first three holds the lock */
SL__HIDDEN int sl__exemplars_make(struct sl__region *r); /* returns 0 or -errno */
SL__HIDDEN void sl__exemplars_free(struct sl__region *r);
SL__HIDDEN uint64_t sl__exemplars_bytes(uint32_t elements);
/*
 * May be called by any thread. Takes the lock for the first exemplar of a cell only. Has no effect
 * if exemplar is NULL.
 */
SL__HIDDEN void sl__exemplar_set(unsigned int slot, uint32_t cell, double value, bool mirror,
				 const struct sl_exemplar *exemplar);

/* histogram.c */
SL__HIDDEN int sl__shape_exponential(const struct sl_metric_opts *o, struct sl__shape *shape);
SL__HIDDEN int sl__shape_classic(const struct sl_metric_opts *o, struct sl__shape *shape);
SL__HIDDEN const struct sl__buckets *sl__buckets_get(const struct sl_schema_record *r,
						     uint32_t cell);
SL__HIDDEN void sl__buckets_put(const struct sl__buckets *b);

/* log.c */
SL__HIDDEN void sl__log(enum sl_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- words of a line ---- */

/* Returns the offset of the cell n cells after the one at `offset`. */
static inline uint32_t sl__cell_after(uint32_t offset, uint32_t n)
{
	return (uint32_t)sl_cell_offset(offset / SL_LINE_SIZE * SL_LINE_CELLS +
					offset % SL_LINE_SIZE / 8 + n);
}

static inline uint64_t sl__k(uintptr_t cell)
{
	return *(const uint64_t *)((const char *)sl_line_k + (cell & 56));
}

/*
 * Adds to a cell of the hot line, which several threads write, and to its check word. Relaxed: both
 * words are sums, so the order of additions does not matter, and a reader verifies the equation
 * between the words rather than the order of stores.
 */
static inline void sl__plain_add(uintptr_t cell, uint64_t n)
{
	__atomic_fetch_add((uint64_t *)cell, n, __ATOMIC_RELAXED);
	__atomic_fetch_add((uint64_t *)(cell | 56), n * sl__k(cell), __ATOMIC_RELAXED);
}

/* Updates the check word of a mixed line (region.h) for a cell of stripe 0. Relaxed, as above. */
static inline void sl__shared_changed(uintptr_t cell, uint64_t old, uint64_t now)
{
	uint32_t i = cell / 8 % 8;

	__atomic_fetch_add((uint64_t *)(cell | 56), sl_cell_mix(now, i) - sl_cell_mix(old, i),
			   __ATOMIC_RELAXED);
}

/* Adds to a cell of stripe 0, which several threads write. */
static inline void sl__shared_add(uintptr_t cell, uint64_t n)
{
	uint64_t old = __atomic_fetch_add((uint64_t *)cell, n, __ATOMIC_RELAXED);

	sl__shared_changed(cell, old, old + n);
}

/*
 * Sets a cell of stripe 0. The exchange returns the value replaced by this store, so each writer
 * adds its own difference, and the check word is right once all have.
 */
static inline void sl__shared_set(uintptr_t cell, uint64_t v)
{
	uint64_t old = __atomic_exchange_n((uint64_t *)cell, v, __ATOMIC_RELAXED);

	sl__shared_changed(cell, old, v);
}

/* Adds a double to a cell of stripe 0. */
static inline void sl__shared_add_f64(uintptr_t cell, double v)
{
	uint64_t old = __atomic_load_n((uint64_t *)cell, __ATOMIC_RELAXED), sum;

	do
		sum = sl_cell_of_f64(sl_f64_of_cell(old) + v);
	while (!__atomic_compare_exchange_n((uint64_t *)cell, &old, sum, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
	sl__shared_changed(cell, old, sum);
}

/*
 * Adds a double to a cell that only this thread writes. Returns false if the caller must use the
 * shared stripe. No instruction adds a double to memory: a signal handler that runs between load
 * and store would lose its addition. It finds the flag set, and uses the shared stripe. (An
 * unlocked exchange instead of the flag is 3 ns slower, as its operands move between vector and
 * integer registers.)
 */
#ifdef SL__PLAIN_UPDATES
#define SL__F64_BUSY sl__thread.busy /* the flag that all other updates use, too */
#else
extern SL__HIDDEN __thread volatile uint32_t sl__f64_busy
	__attribute__((tls_model("initial-exec")));
#define SL__F64_BUSY sl__f64_busy
#endif

static inline bool sl__own_add_f64(uintptr_t cell, double v)
{
	volatile uint32_t *busy = &SL__F64_BUSY;
	uint64_t difference;

	if (unlikely(*busy))
		return false;
	*busy = 1;
	/* orders the flag for a signal handler of this thread */
	atomic_signal_fence(memory_order_seq_cst);
#ifndef SL__PLAIN_UPDATES
	/* sl_f64_of_cell() and sl_cell_of_f64(), entirely in vector registers. */
	__m128i old, sum;

	__asm__ volatile("movq %1, %0" : "=x"(old) : "m"(*(uint64_t *)cell));
	sum = _mm_xor_si128(old, _mm_srli_epi64(old, 32));
	sum = _mm_castpd_si128(_mm_add_sd(_mm_castsi128_pd(sum), _mm_set_sd(v)));
	sum = _mm_xor_si128(sum, _mm_srli_epi64(sum, 32));
	__asm__ volatile("movq %1, %0" : "=m"(*(uint64_t *)cell) : "x"(sum));
	difference = (uint64_t)_mm_cvtsi128_si64(_mm_sub_epi64(sum, old));
	atomic_signal_fence(memory_order_seq_cst);
	*busy = 0;
	__asm__ volatile("addq %1, %0"
			 : "+m"(*(uint64_t *)(cell | 56))
			 : "r"(difference * sl__k(cell))
			 : "cc");
#else
	uint64_t old = __atomic_load_n((uint64_t *)cell, __ATOMIC_RELAXED);
	uint64_t sum = sl_cell_of_f64(sl_f64_of_cell(old) + v), *check = (uint64_t *)(cell | 56);

	difference = (sum - old) * sl__k(cell);
	__atomic_store_n((uint64_t *)cell, sum, __ATOMIC_RELAXED);
	__atomic_store_n(check, __atomic_load_n(check, __ATOMIC_RELAXED) + difference,
			 __ATOMIC_RELAXED);
	atomic_signal_fence(memory_order_seq_cst);
	*busy = 0;
#endif
	return true;
}

/*
 * Adds to a cell that only this thread writes. Returns false if the caller must use the shared
 * stripe. Not sl__own_update() on x86-64: its second instruction is slower next to the addition of
 * doubles for the sum.
 */
static inline bool sl__own_add(uintptr_t cell, uint64_t n)
{
#ifdef SL__PLAIN_UPDATES
	return sl__own_update(cell, n, sl__k(cell));
#else
	__asm__ volatile("addq %1, %0" : "+m"(*(uint64_t *)cell) : "er"(n) : "cc");
	__asm__ volatile("addq %1, %0"
			 : "+m"(*(uint64_t *)(cell | 56))
			 : "er"(n * sl__k(cell))
			 : "cc");
	return true;
#endif
}

#endif
