/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the parts of libsidelight share. Knows the region format and the attach
 * protocol, but not the internals of agent and collector.
 *
 *   publisher.c  open, close, fork, the lock
 *   region.c     regions: their layout, memory, hot line; further ones
 *   thread.c     which thread owns which stripe
 *   attach.c     the agent's socket, and the thread that watches it
 *   identity.c   process and instance
 *   metric.c     creation of metrics and families: tables, cells
 *   record.c     their schema records
 *   remove.c     metrics that are removed, and whose place others take
 *   text.c       checks of names, labels and texts
 *   update.c     counters, gauges, state sets; reading back
 *   mirror.c     metrics whose value is set as a whole: copies, summaries
 *   histogram.c  histograms; boundaries.py prints their table
 *   exemplar.c   exemplars of counters and histograms
 *   span.c       spans; see span.h
 *   verdict.c    verdicts of an analysis
 *   log.c        the application's callback
 *
 * Locking: one mutex (sl__lock) for all but updates. It is held with all signals blocked and
 * cancellation disabled, so that neither a signal handler that makes its thread's first update nor
 * a fork() can find it held by a thread that does not run. Nothing blocks under it, and no callback
 * of the application is called.
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
#define SL__SLOT_NONE	0u    /* of a handle that does nothing */
#define SL__THREADS_MAX 1024u /* that own a stripe of a publisher */

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

/* Why a metric or an observation is refused; each is logged once per publisher. */
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
	SL__REFUSED_COUNT
};

struct sl__metric;
struct sl__family;
struct sl__vacancy;
struct sl__exemplars;
struct sl__ring;

/*
 * A descriptor of the library, identified by the file that it refers to: when an application closes
 * all descriptors that it does not know, as daemons do, the library must not write to, pass on or
 * close another file that got the same number.
 */
struct sl__fd {
	int fd; /* -1: closed */
	dev_t dev;
	ino_t ino;
};
#define SL__FD_NONE ((struct sl__fd){.fd = -1})

/*
 * Metrics of one cell take cells of a block, in turn from different lines, so that updates of
 * consecutive metrics do not wait for each other at a shared check word. Four lines are enough: on
 * a Xeon of 2024 two cost 8 % more, and eight no less. A reader reads at most four extra lines.
 * Other metrics lie between the blocks.
 */
#define SL__BLOCK_LINES	  4u
#define SL__BLOCK	  (SL__BLOCK_LINES * SL_LINE_CELLS)

#define SL__VERDICT_WORDS 5
struct sl__verdict {
	_Atomic uint32_t alarmed; /* at the start of struct sl_publisher: sl_publisher_alarmed() */
	_Atomic uint64_t written; /* by the thread; bit 0: which copy is whole */
	_Atomic uint64_t copy[2][SL__VERDICT_WORDS];
};

/*
 * A region and what is known of it; see sidelight/region.h for its parts. A publisher that has
 * filled one goes on in another. Changes under the lock only. Offsets are from base.
 */
struct sl__region {
	struct sl_publisher *publisher;
	struct sl__region *next; /* of the publisher, in the order in which they were made */
	unsigned int slot;
	struct sl__fd memfd;
	uint8_t *base;
	size_t size;
	size_t reserved; /* bytes of address space at base, a power of two */
	uint64_t instance;
	uint32_t stripe_offset, stride, stripe_count, max_cells;
	uint32_t schema_offset, schema_bytes;
	uint64_t created_offset; /* a cell for each record */
	uint32_t created_bytes;
	uint64_t exemplars_offset;
	uint32_t exemplar_elements;
	struct sl__exemplars *exemplars;
	uint32_t span_lines;	/* per ring; 0: no spans */
	uint64_t span_offset;	/* of the section */
	struct sl__ring *rings; /* [stripe_count] */

	uint32_t cells_used;	    /* by metrics */
	uint32_t cells_end;	    /* cells below are in use, or in the block */
	uint32_t block, block_used; /* first cell of the block; cells of it in use */
	uint32_t lines_used, schema_used, generation, record_count;
	uint32_t stripe_pages;	/* allocated in each stripe in use */
	uint32_t schema_pages;	/* allocated of the schema */
	uint32_t created_pages; /* and of the section created */
	bool dense;		/* all of the region is allocated, as an agent asked for */
	_Atomic uint32_t stripes_used;
	uint32_t *free_stripes; /* of threads that ended: a stack */
	uint32_t free_count;
	_Atomic uint32_t sharing;
	bool orphan;		  /* forked: the region at base is the parent's */
	uint64_t revive_after_ns; /* after a failure: the time of the next attempt */

	struct sl__vacancy *vacancies;
	struct sl__metric *first, **last; /* in the order of their records */

	/* The agent: the last PUBLISH, and its answer. */
	uint32_t serial; /* 0: not sent over this connection, or refused */
	bool admitted;
};

struct sl_publisher {
	struct sl__verdict verdict;
	uint32_t flags;
	struct sl__region *regions; /* the first one has the spans; changes under the lock */
	uint32_t region_count;
	uint64_t further_after_ns; /* after a failure: the time of the next attempt to add one */
	bool forked;		   /* all regions are the parent's */

	uint32_t label_bytes;
	uint8_t *labels;	      /* as in the headers; a forked child needs this copy */
	uint32_t pod_at, pod_service; /* of a pod "SERVICE-PID": the value, its bytes up to "-" */

	uint32_t metric_count; /* records of all regions */
	uint32_t string_count; /* of them */
	uint32_t removed_count;
	_Atomic uint32_t refused;
	uint32_t logged; /* bits: enum sl__refusal, and the ones below */
#define SL__LOGGED_AGENT (1u << 18)

	struct sl__metric **metrics; /* hash table, chained */
	struct sl__family **families;
	struct sl__metric **models; /* of families, by their ids */
	uint32_t model_count;
	uint32_t buckets; /* of both tables, a power of two */

	/* The agent. The descriptors change under the lock only. */
	char *socket;
	struct sl__fd sock;
	struct sl__fd wake[2]; /* a pipe: the thread ends when [1] is closed */
	pthread_t thread;
	bool have_thread;
	uint64_t offer_ns; /* the thread: when to offer regions again; 0: none */
	uint32_t serial;
	_Atomic bool attached;
	_Atomic uint32_t attaches;
};

/* What an update needs of a region, in static memory: a late update after close finds zeroes. */
struct sl__slot {
	_Atomic uintptr_t
		shared; /* address of stripe 0; 0: closed, or not yet made by a forked child */
	_Atomic uint32_t free; /* stripes without an owner */
	_Atomic uint32_t
		epoch;	   /* changes at fork and close: spans open across it are not written */
	_Atomic bool edge; /* SL_PUBLISHER_EDGE */
	_Atomic(struct sl__ring *) rings;    /* NULL: no spans */
	_Atomic(struct sl__region *) region; /* changes under the lock */
};
extern SL__HIDDEN struct sl__slot sl__slots[SL_PUBLISHER_SLOTS];

struct sl__guard {
	sigset_t signals;
	int cancel;
	int error; /* errno: an update in a signal handler must not change it */
};
SL__HIDDEN void sl__lock(struct sl__guard *guard);
SL__HIDDEN void sl__unlock(const struct sl__guard *guard);

/* identity.c */
SL__HIDDEN uint64_t sl__start_ticks(void); /* 0: not known */
SL__HIDDEN void sl__boot_id(uint8_t id[16]);
SL__HIDDEN uint64_t sl__random_instance(void); /* not 0 */

/* publisher.c */
SL__HIDDEN int sl__fd_take(struct sl__fd *to, int fd);
SL__HIDDEN bool sl__fd_ours(const struct sl__fd *fd);
SL__HIDDEN void sl__fd_close(struct sl__fd *fd);

/* region.c; under the lock */
/* A region of the publisher by these options; NULL and *error: sizes, memory, no slot. */
SL__HIDDEN struct sl__region *sl__region_new(struct sl_publisher *p,
					     const struct sl_publisher_opts *o, int *error);
/* A further one, larger than those before, with room for a metric. */
SL__HIDDEN struct sl__region *sl__region_further(struct sl_publisher *p, uint32_t cells,
						 uint32_t record);
SL__HIDDEN void sl__region_close(struct sl__region *r);
SL__HIDDEN void sl__region_free(struct sl__region *r);
SL__HIDDEN int sl__allocate(struct sl__region *r, uint64_t offset, uint64_t bytes);
SL__HIDDEN void sl__hot_change(struct sl__region *r);
/* In a forked child: a region of its own for each of the parent's. 0 or -errno, of this one. */
SL__HIDDEN int sl__revive(struct sl__region *r);

/* Any thread, no lock: adds n to a hot cell. */
SL__HIDDEN void sl__hot_add(struct sl__region *r, enum sl_hot_cell cell, uint64_t n);

/* thread.c */
SL__HIDDEN int sl__thread_key(void);
SL__HIDDEN uintptr_t sl__stripe_claim(unsigned int slot); /* takes the lock */
SL__HIDDEN void sl__stripes_forget(unsigned int slot);	  /* under the lock */
SL__HIDDEN uint32_t sl__stripe_index(unsigned int slot);  /* of this thread; 0: it owns none */
SL__HIDDEN void sl__threads_forked(void);

/* The parts of a handle. */
static inline unsigned int sl__slot_of(uint64_t bits)
{
	return bits >> 32 < SL_PUBLISHER_SLOTS ? (unsigned int)(bits >> 32) : SL__SLOT_NONE;
}

/* Address of the stripe of this thread; 0: call sl__stripe_claim(). */
static inline uintptr_t sl__own_stripe(unsigned int slot)
{
	uintptr_t base = sl__thread.base[slot];

	return base ? base + (uintptr_t)((uint64_t)slot << 32) : 0;
}

/* Address of stripe 0; 0 for a handle that does nothing. May take the lock. */
SL__HIDDEN uintptr_t sl__shared_slow(unsigned int slot);
static inline uintptr_t sl__shared(unsigned int slot)
{
	/* Relaxed: a handle was obtained after the store in sl_publisher_open(). */
	uintptr_t shared = atomic_load_explicit(&sl__slots[slot].shared, memory_order_relaxed);

	return likely(shared) ? shared : sl__shared_slow(slot);
}

/* The stripes in use, for reading back; none for a handle that does nothing. */
struct sl__view {
	uintptr_t shared;
	uint32_t stride, stripes;
};
SL__HIDDEN struct sl__view sl__view(unsigned int slot);
SL__HIDDEN uint64_t sl__read_u64(unsigned int slot, uint32_t offset);
SL__HIDDEN double sl__read_f64(unsigned int slot, uint32_t offset);

/* attach.c */
SL__HIDDEN int sl__attach_start(struct sl_publisher *p);  /* under the lock */
SL__HIDDEN void sl__attach_further(struct sl__region *r); /* under the lock */
SL__HIDDEN bool sl__attach_stop(struct sl_publisher *p);  /* not under the lock */
SL__HIDDEN void sl__attach_forked(struct sl_publisher *p);

/* verdict.c; called by the attach thread, or without one */
SL__HIDDEN void sl__verdict_take(struct sl_publisher *p, const struct sl_msg_verdict *said);
SL__HIDDEN int sl__verdict_left_ms(const struct sl_publisher *p); /* -1: no verdict */
SL__HIDDEN void sl__verdict_expire(struct sl_publisher *p);
SL__HIDDEN void sl__verdict_forget(struct sl_publisher *p);

/* Pages of the section created for this many records. */
static inline uint32_t sl__created_pages(uint32_t records)
{
	uint64_t lines = (records + SL_LINE_CELLS - 1) / SL_LINE_CELLS;

	return (uint32_t)((lines * SL_LINE_SIZE + SL__PAGE - 1) / SL__PAGE);
}

/* metric.c */
SL__HIDDEN void sl__metrics_free(struct sl__region *r);
SL__HIDDEN void sl__tables_free(struct sl_publisher *p);
SL__HIDDEN void sl__metrics_rewrite(struct sl__region *r);

/* text.c. Lengths are without NUL; maxima as in sidelight/region.h. */
SL__HIDDEN bool sl__name_valid(const char *s, bool colon); /* colons are allowed */
SL__HIDDEN bool sl__label_key_valid(const char *key, const char *reserved, bool utf8);
SL__HIDDEN bool sl__unit_valid(const char *s, size_t *length);
SL__HIDDEN bool sl__utf8(const char *s, size_t max, size_t *length);
/* Sets the label "pod" to this process's, unless it was given. Under the lock. */
SL__HIDDEN void sl__labels_renew(struct sl_publisher *p);
#define SL__CONTAINER_ID 12u /* digits, as container runtimes show them */
/* The id of the container that this process runs in; false: it is in none, or cannot see it. */
SL__HIDDEN bool sl__container_id(char id[SL__CONTAINER_ID + 1]);
/*
 * key NUL value NUL ..., sorted by key, in *bytes, which the caller frees. reserved: a key that is
 * refused, or NULL. utf8: keys may be any UTF-8. 0, -EINVAL or -ENOMEM.
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
/* A handle; refused: bits is 0, error the reason. */
struct sl__handle {
	uint64_t bits;
	const struct sl__buckets *buckets;
	uint32_t bounds; /* of the record */
	int error;
};
SL__HIDDEN struct sl__handle sl__metric_create(struct sl_publisher *p, uint32_t kind,
					       const struct sl_metric_opts *opts);
/* A name or key of spans: slot << 32 | id of its record; 0: refused. */
SL__HIDDEN uint64_t sl__string_create(struct sl_publisher *p, const char *text);

/* Counts an observation that is refused. Any thread, no lock. */
SL__HIDDEN void sl__refuse_observation(unsigned int slot);

/* exemplar.c; the first three under the lock */
SL__HIDDEN int sl__exemplars_make(struct sl__region *r); /* 0 or -errno */
SL__HIDDEN void sl__exemplars_free(struct sl__region *r);
SL__HIDDEN uint64_t sl__exemplars_bytes(uint32_t elements);
/* Any thread, no lock but for the first exemplar of a cell. NULL: nothing. */
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

/* ---- the words of a line ---- */

/* The offset of the cell that is n further than that at this offset. */
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
 * Adds to a cell of the hot line, which several threads write, and to its check word. Relaxed
 * read-modify-writes: both are sums, whose terms may come in any order, and a reader checks the
 * equation between the words, not the order of stores.
 */
static inline void sl__plain_add(uintptr_t cell, uint64_t n)
{
	__atomic_fetch_add((uint64_t *)cell, n, __ATOMIC_RELAXED);
	__atomic_fetch_add((uint64_t *)(cell | 56), n * sl__k(cell), __ATOMIC_RELAXED);
}

/* Updates the check word of a mixed line (region.h), for a cell of stripe 0. Relaxed, as above. */
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
 * Sets such a cell. The exchange returns the value that this store replaced, so that each writer
 * adds its own difference, and the check is right once all have.
 */
static inline void sl__shared_set(uintptr_t cell, uint64_t v)
{
	uint64_t old = __atomic_exchange_n((uint64_t *)cell, v, __ATOMIC_RELAXED);

	sl__shared_changed(cell, old, v);
}

/* Adds a double to a cell that several threads write. */
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
 * The same in a cell that only this thread writes. False: use the shared stripe. No instruction
 * adds a double to memory, so that a signal handler of this thread may run between load and store,
 * and its addition would be lost; it finds the flag set instead. (An unlocked exchange in place of
 * the flag is 3 ns slower: its operands travel between vector and integer registers.)
 */
#ifdef SL__PLAIN_UPDATES
#define SL__F64_BUSY sl__thread.busy /* as any update */
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
	atomic_signal_fence(memory_order_seq_cst); /* pairs with a handler of this thread */
#ifndef SL__PLAIN_UPDATES
	/* sl_f64_of_cell() and sl_cell_of_f64(), all of it in vector registers. */
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
 * Adds to a cell that only this thread writes. False: use the shared stripe. Not sl__own_update()
 * on x86-64: its second instruction takes longer beside the sum of doubles that goes with a bucket.
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
