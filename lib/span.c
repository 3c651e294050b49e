// SPDX-License-Identifier: Apache-2.0
/*
 * span.c - spans, and the rings that hold them.
 *
 * Only a stripe's owner writes to the ring of the stripe: with plain stores, without atomic
 * operations. A signal handler that ends a span while its thread is writing one finds `busy` set
 * and writes to ring 0, as do threads without a stripe. There an atomic add gives each writer its
 * line numbers. If a writer is so slow that the ring wraps meanwhile, two writers share a line: it
 * ends up mixed and does not verify, or has the older content. A reader detects and counts both.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "span.h"

struct span_thread {
	/* each is valid while sl__thread.base[] is set */
	struct sl__ring *ring[SL_PUBLISHER_SLOTS];
	uint64_t id, id_step; /* next id and distance between ids; id_step is 0 until seeded */
	volatile bool busy;
};
static __thread struct span_thread self __attribute__((tls_model("initial-exec")));

SL_STATIC_ASSERT(sizeof(struct sl_trace_context) == 32, "context");
SL_STATIC_ASSERT(1 + SL_SPAN_WORDS_MAX == 6 * (SL_SPAN_LINES_MAX - 1), "words fill their lines");

/* ---- ids ---- */

/*
 * The finalizer of splitmix64, a bijection: https://prng.di.unimi.it/splitmix64.c (public domain).
 */
static inline uint64_t mix_bits(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Seeds start and step at random: two threads with the same pair would produce the same ids. */
static __attribute__((noinline, cold)) void seed_ids(void)
{
	uint64_t s[2], step;

	if (getrandom(s, sizeof(s), GRND_NONBLOCK) != sizeof(s)) {
		s[0] = mix_bits(sl__realtime_ns() ^ mix_bits((uintptr_t)&self) ^ sl__ticks());
		s[1] = mix_bits(s[0] + ((uint64_t)getpid() << 32) + sl__realtime_ns());
	}
	/* A regular bit pattern in the step gives similar ids: mixGamma() of the paper. */
	step = s[1] | 1;
	if (__builtin_popcountll(step ^ step >> 1) < 24)
		step ^= 0xaaaaaaaaaaaaaaaaull;
	__atomic_store_n(&self.id, s[0], __ATOMIC_RELAXED);
	__atomic_store_n(&self.id_step, step, __ATOMIC_RELAXED);
}

/*
 * Adds to a word of this thread with one instruction, so it is atomic with respect to signal
 * handlers.
 */
static inline uint64_t fetch_add_own(uint64_t *word, uint64_t n)
{
#if defined(__x86_64__)
	__asm__ volatile("xaddq %1, %0" : "+m"(*word), "+r"(n) : : "cc");
	return n;
#else
	return __atomic_fetch_add(word, n, __ATOMIC_RELAXED);
#endif
}

/*
 * Reserves n ids. G. L. Steele, D. Lea, C. H. Flood: Fast splittable pseudorandom number
 * generators, OOPSLA 2014: multiples of a constant step, mixed, so a thread never repeats an id;
 * each thread has its own step. The ids are distinct, not secret.
 */
static inline uint64_t next_ids(unsigned int n)
{
	return fetch_add_own(&self.id, n * self.id_step);
}

static inline uint64_t to_id(uint64_t at)
{
	uint64_t id = mix_bits(at);

	return likely(id) ? id : 1;
}

/* ---- time ---- */

static inline uint64_t read_clock(uint32_t clock)
{
	return likely(clock == SL__CLOCK_TICKS) ? sl__ticks() : sl__realtime_ns();
}

struct scale {
	uint64_t ticks, ns, mult;
};

/* Returns the current rate. Calibrates first if due. at: current ticks. */
static inline struct scale scale_now(uint64_t at)
{
	for (;;) {
		/* Pairs with the release in calibrate_clock(). */
		uint32_t turn = atomic_load_explicit(&sl__clock_state.turn, memory_order_acquire);
		const struct sl__rate *r = &sl__clock_state.rate[turn % 8];
		struct scale s = {
			__atomic_load_n(&r->ticks, __ATOMIC_RELAXED),
			__atomic_load_n(&r->ns, __ATOMIC_RELAXED),
			__atomic_load_n(&r->mult, __ATOMIC_RELAXED),
		};
		uint64_t refresh = __atomic_load_n(&r->refresh, __ATOMIC_RELAXED);

		if (unlikely(sl__rate_expired(at, s.ticks, refresh))) {
			sl__clock_refresh();
			if (atomic_load_explicit(&sl__clock_state.turn, memory_order_relaxed) !=
			    turn)
				continue;
		}
		/*
		 * The entry is overwritten seven calibrations later, that is, after seven seconds.
		 */
		atomic_thread_fence(memory_order_acquire);
		if (likely(atomic_load_explicit(&sl__clock_state.turn, memory_order_relaxed) -
				   turn <
			   7))
			return s;
	}
}

static inline uint64_t to_ns(const struct scale *s, uint64_t ticks)
{
	/* Signed: the span may have started before the calibration. */
	__extension__ __int128 product = (__int128)(int64_t)(ticks - s->ticks) * (int64_t)s->mult;

	return s->ns + (uint64_t)(product >> 32);
}

/* ---- start and attributes ---- */

/* Initialises the fields that do not depend on the parent. */
static inline __attribute__((always_inline)) void begin_span(struct sl_span *span,
							     struct sl_span_name name,
							     enum sl_span_kind kind,
							     unsigned int slot, uint32_t clock)
{
	span->slot = slot;
	/* Relaxed: only used to detect a fork or close in between. */
	span->epoch = atomic_load_explicit(&sl__slots[slot].epoch, memory_order_relaxed);
	span->clock = (uint8_t)clock;
	span->words = span->dropped = span->cut = span->set = 0;
	span->stream[0] = SL_SPAN_META(name.bits, kind & 15, SL_SPAN_UNSET, span->context.flags,
				       span->remote, 0);
	span->start = read_clock(clock);
}

static __attribute__((noinline)) void start_slow(struct sl_span *span, struct sl_span_name name,
						 enum sl_span_kind kind,
						 const struct sl_trace_context *parent)
{
	unsigned int slot = sl__slot_of(name.bits);
	bool root = !parent || !sl_trace_context_valid(parent);
	struct sl_trace_context context = root ? (struct sl_trace_context){0} : *parent;
	uint64_t at;

	span->parent_id = context.span_id;
	span->remote = context.remote != 0;
	if (unlikely(slot == SL__SLOT_NONE)) {
		span->context = context; /* continue the parent's trace without this span */
		span->slot = 0;
		span->words = span->dropped = span->cut = span->set = 0;
		return;
	}
	if (unlikely(!self.id_step))
		seed_ids();
	at = next_ids(3);
	span->context = (struct sl_trace_context){
		.trace_hi = root ? to_id(at + self.id_step) : context.trace_hi,
		.trace_lo = root ? to_id(at + 2 * self.id_step) : context.trace_lo,
		.span_id = to_id(at),
		.flags = root ? SL_TRACE_SAMPLED : context.flags,
	};
	begin_span(span, name, kind, slot,
		   atomic_load_explicit(&sl__clock_state.source, memory_order_relaxed));
}

/* The common case makes no call, which saves a dozen stores to the stack. */
void sl_span_start(struct sl_span *span, struct sl_span_name name, enum sl_span_kind kind,
		   const struct sl_trace_context *parent)
{
	unsigned int slot = sl__slot_of(name.bits);

	if (unlikely(slot == SL__SLOT_NONE || !parent || !sl_trace_context_valid(parent) ||
		     !self.id_step ||
		     atomic_load_explicit(&sl__clock_state.source, memory_order_relaxed) !=
			     SL__CLOCK_TICKS)) {
		start_slow(span, name, kind, parent);
		return;
	}
	span->parent_id = parent->span_id;
	span->remote = parent->remote != 0;
	span->context = (struct sl_trace_context){.trace_hi = parent->trace_hi,
						  .trace_lo = parent->trace_lo,
						  .span_id = to_id(next_ids(1)),
						  .flags = parent->flags};
	begin_span(span, name, kind, slot, SL__CLOCK_TICKS);
}

/* Reserves an attribute of 1 + n words. Returns NULL if it does not fit. */
static inline uint64_t *reserve_attribute(struct sl_span *span, uint32_t n)
{
	uint64_t *at = span->stream + 1 + span->words;

	if (unlikely(span->words + 1 + n > SL_SPAN_WORDS_MAX)) {
		span->dropped += span->dropped < 255;
		return NULL;
	}
	span->words = (uint8_t)(span->words + 1 + n);
	span->stream[0] += 1ull << 56;
	return at;
}

/*
 * True if the key belongs to the span's publisher: the ids of another publisher mean other strings.
 */
static inline bool key_usable(const struct sl_span *span, struct sl_span_key key)
{
	return likely(span->slot && span->slot == key.bits >> 32);
}

static inline void set_word(struct sl_span *span, struct sl_span_key key, enum sl_span_type type,
			    uint64_t value)
{
	uint64_t *at;

	if (!key_usable(span, key) || !(at = reserve_attribute(span, 1)))
		return;
	at[0] = SL_SPAN_ATTR(key.bits, type, 0, 0);
	at[1] = value;
}

void sl_span_set_i64(struct sl_span *span, struct sl_span_key key, int64_t value)
{
	set_word(span, key, SL_SPAN_TYPE_I64, (uint64_t)value);
}

void sl_span_set_f64(struct sl_span *span, struct sl_span_key key, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	set_word(span, key, SL_SPAN_TYPE_F64, bits);
}

void sl_span_set_bool(struct sl_span *span, struct sl_span_key key, bool value)
{
	set_word(span, key, SL_SPAN_TYPE_BOOL, value);
}

/*
 * Loads the last 1 to 7 bytes as a word, without reading beyond them. A memcpy() into a zeroed word
 * would stall the load of the whole word at the end of the span (store forwarding).
 */
static inline uint64_t last_word(const char *from, size_t bytes)
{
	uint32_t low = 0, high = 0;

	if (bytes >= 4) {
		memcpy(&low, from, 4);
		memcpy(&high, from + bytes - 4, 4);
		return low | (uint64_t)high << (bytes - 4) * 8;
	}
	if (bytes == 1)
		return (uint8_t)*from;
	memcpy(&low, from, 2);
	memcpy(&high, from + bytes - 2, 2);
	return low | (uint64_t)high << (bytes - 2) * 8;
}

static void set_string(struct sl_span *span, uint32_t key, enum sl_span_type type,
		       const char *value, size_t bytes)
{
	bool cut = unlikely(bytes > SL_SPAN_STRING_MAX);
	uint64_t *at;

	if (unlikely(cut)) {
		/* Do not cut within a character: continuation bytes of UTF-8 are 10xxxxxx. */
		bytes = SL_SPAN_STRING_MAX;
		while (bytes && (value[bytes] & 0xc0) == 0x80)
			bytes--;
	}
	at = reserve_attribute(span, (uint32_t)(bytes + 7) / 8);
	if (!at)
		return;
	if (unlikely(cut))
		span->cut += span->cut < 255;
	*at++ = SL_SPAN_ATTR(key, type, bytes, cut);
	for (; bytes >= 8; bytes -= 8, value += 8)
		memcpy(at++, value, 8);
	if (bytes)
		*at = last_word(value, bytes);
}

void sl_span_set_text(struct sl_span *span, struct sl_span_key key, const char *value, size_t bytes)
{
	if (key_usable(span, key) && (value || !bytes))
		set_string(span, (uint32_t)key.bits, SL_SPAN_TYPE_STRING, value, bytes);
}

void sl_span_set_status(struct sl_span *span, enum sl_span_status status, const char *message)
{
	if (!span->slot)
		return;
	span->stream[0] = (span->stream[0] & ~(15ull << 36)) | (uint64_t)(status & 15) << 36;
	if (message && *message)
		set_string(span, 0, SL_SPAN_TYPE_MESSAGE, message,
			   strnlen(message, SL_SPAN_STRING_MAX + 1));
}

#define SET_START 1u
#define SET_END	  2u

void sl_span_set_start(struct sl_span *span, uint64_t ns)
{
	if (!span->slot)
		return;
	if (!(span->set & SET_START) && span->clock == SL__CLOCK_TICKS)
		/* the end uses this clock too, unless it is set */
		span->clock = SL__CLOCK_REALTIME;
	span->start = ns;
	span->set |= SET_START;
}

void sl_span_set_end(struct sl_span *span, uint64_t ns)
{
	if (!span->slot)
		return;
	span->end = ns;
	span->set |= SET_END;
}

/* ---- end ---- */

/*
 * Relaxed: a reader across a network sees stores in no particular order; it relies on the check
 * word. Atomic because in ring 0 two writers may write the same line if one of them is slow.
 */
static inline void store_word(uint64_t *to, uint64_t v)
{
	__atomic_store_n(to, v, __ATOMIC_RELAXED);
}

static inline void put_line(uint64_t *to, uint64_t tag, uint64_t a, uint64_t b, uint64_t c,
			    uint64_t d, uint64_t e, uint64_t f)
{
	store_word(to + 0, tag);
	store_word(to + 1, a);
	store_word(to + 2, b);
	store_word(to + 3, c);
	store_word(to + 4, d);
	store_word(to + 5, e);
	store_word(to + 6, f);
	store_word(to + 7, sl_sealed_check((const uint64_t[]){tag, a, b, c, d, e, f, 0}));
}

static inline uint64_t *ring_line(const struct sl__ring *r, uint64_t at, uint64_t place)
{
	return (uint64_t *)(r->base + at + place * SL_LINE_SIZE);
}

static inline void put_span(const struct sl__ring *r, const struct sl_span *s, uint64_t number,
			    uint32_t lines, uint64_t start, uint64_t duration)
{
	uint64_t at = SL_SPAN_LINES_AT(r->mask + 1ull);
	const uint64_t *w = s->stream;

	put_line(ring_line(r, at, number & r->mask), SL_SPAN_TAG(number, lines, 0),
		 s->context.trace_hi, s->context.trace_lo, s->context.span_id, s->parent_id, start,
		 duration);
	for (uint32_t i = 1; i < lines; i++, w += 6)
		put_line(ring_line(r, at, (number + i) & r->mask),
			 SL_SPAN_TAG(number + i, lines, i), w[0], w[1], w[2], w[3], w[4], w[5]);
}

static void put_root(const struct sl__ring *r, const struct sl_span *s, uint64_t number,
		     uint64_t start, uint64_t duration)
{
	put_line(ring_line(r, SL_SPAN_ROOTS_AT(0), number & r->mask >> 2), SL_SPAN_TAG_ROOT(number),
		 s->context.trace_hi, s->context.trace_lo, start, duration,
		 s->stream[0] & ~(0xffull << 56), s->context.span_id);
}

static inline uint64_t *index_line(const struct sl__ring *r, uint64_t number)
{
	return ring_line(r, SL_SPAN_INDEX_AT(r->mask + 1ull), number & r->mask >> 3);
}

/* Returns the contribution of the last entry's pair of cells to the check word of its line. */
static inline uint64_t open_pair(const struct sl__ring *r, uint64_t entry)
{
	return sl_seal_pair(entry, r->open_other, r->open_k, r->open_other_k);
}

/* Prepares a new entry; the caller stores it. Returns true if it begins a new line. */
static inline __attribute__((always_inline)) bool open_entry(struct sl__ring *r, uint64_t entry)
{
	static const uint64_t k[8] = {SL_LINE_K0, SL_LINE_K1, SL_LINE_K2, SL_LINE_K3,
				      SL_LINE_K4, SL_LINE_K5, SL_LINE_K6, SL_LINE_K0};
	bool opened = !r->open || r->open == SL_SPAN_ENTRIES;
	uint32_t other;

	if (opened) {
		memset(r->open_cells, 0, sizeof(r->open_cells));
		r->open_cells[0] = SL_SPAN_TAG_INDEX(r->index);
		r->open_line = index_line(r, r->index++);
		for (int i = 0; i < 7; i++)
			store_word(r->open_line + i, r->open_cells[i]);
		r->open = 0;
	} else {
		r->open_cells[r->open] = r->entry;
	}
	r->open++;
	other = r->open ^ 1;
	r->open_k = k[r->open];
	r->open_other_k = k[other];
	r->open_other = r->open_cells[other];
	r->open_cells[r->open] = entry;
	r->open_rest = sl_sealed_check(r->open_cells) - open_pair(r, entry);
	return opened;
}

/* True if the span belongs in the journal of roots. */
static inline bool is_root(const struct sl_span *s)
{
	return !s->parent_id || (s->remote && sl__slots[s->slot].edge);
}

/*
 * Writes a span to this thread's ring. If the previous span belongs to the same trace, its index
 * entry is extended; otherwise a new entry is added. A reader that copies a line between two stores
 * finds that it does not verify, and reads it again.
 */
static inline __attribute__((always_inline)) void write_own(struct sl__ring *r,
							    const struct sl_span *s, uint32_t lines,
							    uint64_t start, uint64_t duration)
{
	uint64_t hash = sl_span_hash(s->context.trace_hi, s->context.trace_lo), entry, check;
	bool error = SL_SPAN_META_STATUS(s->stream[0]) == SL_SPAN_ERROR, root = is_root(s),
	     opened = false;

	put_span(r, s, r->lines, lines, start, duration);
	if (unlikely(root))
		put_root(r, s, r->roots++, start, duration);

	entry = r->entry;
	if (likely(r->open && SL_SPAN_ENTRY_HASH(entry) == hash &&
		   SL_SPAN_ENTRY_LINES(entry) + lines <= 255)) {
		entry = (entry + ((uint64_t)lines << 32)) | (uint64_t)error << 40;
	} else {
		entry = SL_SPAN_ENTRY(r->lines, lines, error, hash);
		opened = open_entry(r, entry);
	}
	r->entry = entry;
	store_word(r->open_line + r->open, entry);
	store_word(r->open_line + 7, r->open_rest + open_pair(r, entry));

	/*
	 * Write the head last: it tells a reader which lines to expect; the lines verify
	 * themselves.
	 */
	check = r->head_check + lines * SL_LINE_K0 + SL_LINE_K3;
	r->lines += lines;
	r->spans++;
	atomic_thread_fence(memory_order_release);
	if (unlikely(root | s->dropped | s->cut | opened)) {
		r->dropped += s->dropped;
		r->cut += s->cut;
		check += root * SL_LINE_K1 + opened * SL_LINE_K2 + s->dropped * SL_LINE_K4 +
			 s->cut * SL_LINE_K5;
		store_word(r->head + SL_SPAN_HEAD_ROOTS, r->roots);
		store_word(r->head + SL_SPAN_HEAD_INDEX, r->index);
		store_word(r->head + SL_SPAN_HEAD_DROPPED, r->dropped);
		store_word(r->head + SL_SPAN_HEAD_CUT, r->cut);
	}
	store_word(r->head + SL_SPAN_HEAD_LINES, r->lines);
	store_word(r->head + SL_SPAN_HEAD_SPANS, r->spans);
	store_word(r->head + 7, check);
	r->head_check = check;
}

static uint64_t take_numbers(uint64_t *next, uint32_t n)
{
	/* Relaxed: the numbers only need to be unique. */
	return __atomic_fetch_add(next, n, __ATOMIC_RELAXED);
}

static void head_add(struct sl__ring *r, enum sl_span_head_cell cell, uint64_t n)
{
	if (n)
		sl__plain_add((uintptr_t)(r->head + cell), n);
}

/*
 * Writes a span to ring 0. Each span gets its own index line, as extending the last entry would
 * need a lock. The head is ahead of the lines: a reader waits for lines that are still missing.
 */
static void write_shared(struct sl__ring *r, const struct sl_span *s, uint32_t lines,
			 uint64_t start, uint64_t duration)
{
	uint64_t hash = sl_span_hash(s->context.trace_hi, s->context.trace_lo);
	bool error = SL_SPAN_META_STATUS(s->stream[0]) == SL_SPAN_ERROR, root = is_root(s);
	uint64_t number = take_numbers(&r->lines, lines), index = take_numbers(&r->index, 1);

	head_add(r, SL_SPAN_HEAD_LINES, lines);
	head_add(r, SL_SPAN_HEAD_INDEX, 1);
	head_add(r, SL_SPAN_HEAD_ROOTS, root);
	head_add(r, SL_SPAN_HEAD_SPANS, 1);
	head_add(r, SL_SPAN_HEAD_DROPPED, s->dropped);
	head_add(r, SL_SPAN_HEAD_CUT, s->cut);
	put_span(r, s, number, lines, start, duration);
	put_line(index_line(r, index), SL_SPAN_TAG_INDEX(index),
		 SL_SPAN_ENTRY(number, lines, error, hash), 0, 0, 0, 0, 0);
	if (root)
		put_root(r, s, take_numbers(&r->roots, 1), start, duration);
}

/* Finds the ring for a thread's first span of a publisher; NULL means use ring 0. */
static __attribute__((noinline, cold)) struct sl__ring *claim_ring(unsigned int slot)
{
	struct sl__ring *ring = NULL;
	struct sl__region *region;
	struct sl__guard guard;
	uint32_t index;

	if (!sl__thread.base[slot] && !sl__stripe_claim(slot))
		return NULL;
	sl__lock(&guard);
	region = atomic_load_explicit(&sl__slots[slot].region, memory_order_relaxed);
	if (!region || region->orphan || !region->rings)
		goto out;
	index = sl__stripe_index(slot);
	if (!index || index >= region->stripe_count)
		goto out;
	ring = &region->rings[index];
	if (!ring->ready) {
		/* Tried only once per thread: if memory is exhausted, the thread uses ring 0. */
		if (sl__allocate(region, (uint64_t)(ring->base - region->base),
				 SL_SPAN_STRIDE(region->span_lines))) {
			ring = &region->rings[0];
		} else {
			ring->ready = true;
		}
	}
	self.ring[slot] = ring;
out:
	sl__unlock(&guard);
	return ring;
}

static __attribute__((noinline)) void write_slow(const struct sl_span *s, unsigned int slot,
						 uint32_t lines, uint64_t start, uint64_t duration)
{
	struct sl__ring *ring = NULL, *shared;

	if (!self.busy) {
		ring = sl__thread.base[slot] ? self.ring[slot] : NULL;
		if (!ring)
			ring = claim_ring(slot);
	}
	/* the publisher is closed, or this is a forked child without a region */
	if (!sl__shared(slot))
		return;
	/* Acquire pairs with the store in region_start(). */
	shared = atomic_load_explicit(&sl__slots[slot].rings, memory_order_acquire);
	if (!shared)
		return;
	if (!ring || ring == shared) {
		write_shared(shared, s, lines, start, duration);
		return;
	}
	self.busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	write_own(ring, s, lines, start, duration);
	atomic_signal_fence(memory_order_seq_cst);
	self.busy = false;
}

void sl_span_end(struct sl_span *s)
{
	unsigned int slot = s->slot;
	uint64_t start = s->start, end;
	struct sl__ring *ring;
	uint32_t lines;

	if (unlikely(slot == SL__SLOT_NONE || slot >= SL_PUBLISHER_SLOTS))
		return;
	if (unlikely(s->epoch !=
		     atomic_load_explicit(&sl__slots[slot].epoch, memory_order_relaxed))) {
		s->slot = SL__SLOT_NONE;
		return;
	}
	if (likely(s->clock == SL__CLOCK_TICKS)) {
		struct scale scale;

		end = sl__ticks();
		if (unlikely((int64_t)(end - start) < 0)) /* a suspension has reset the counter */
			start = end;
		scale = scale_now(end);
		start = to_ns(&scale, start);
		end = to_ns(&scale, end);
	} else {
		end = sl__realtime_ns();
		sl__clock_refresh(); /* may switch the clock to the TSC */
	}
	if (unlikely(s->set & SET_END))
		end = s->end;
	end = end > start ? end - start : 0; /* the clock may have been set back */

	lines = 1 + (1 + s->words + 5u) / 6;
	/* Pads the last line. Always writing five words is cheaper than computing the number. */
	for (uint32_t i = 0; i < 5; i++)
		s->stream[1u + s->words + i] = 0;

	ring = self.ring[slot];
	if (likely(ring && sl__thread.base[slot] && !self.busy && ring->own)) {
		self.busy = true;
		/* orders `busy` for a signal handler of this thread */
		atomic_signal_fence(memory_order_seq_cst);
		write_own(ring, s, lines, start, end);
		atomic_signal_fence(memory_order_seq_cst);
		self.busy = false;
	} else {
		write_slow(s, slot, lines, start, end);
	}
	s->slot = SL__SLOT_NONE;
}

/* ---- rings ---- */

uint64_t sl__rings_bytes(uint32_t span_lines, uint32_t rings)
{
	return span_lines ? SL_SPAN_HEADS_BYTES(rings) + rings * SL_SPAN_STRIDE(span_lines) : 0;
}

int sl__rings_make(struct sl__region *r)
{
	struct sl__ring *rings = r->rings;
	uint64_t heads = SL_SPAN_HEADS_BYTES(r->stripe_count);
	int error;

	if (!r->span_lines)
		return 0;
	/* Allocates the heads, and ring 0, which any thread may use. */
	error = sl__allocate(r, r->span_offset, heads + SL_SPAN_STRIDE(r->span_lines));
	if (error)
		return error;
	if (!rings) {
		rings = calloc(r->stripe_count, sizeof(*rings));
		if (!rings)
			return -ENOMEM;
		r->rings = rings;
	}
	for (uint32_t i = 0; i < r->stripe_count; i++)
		rings[i] = (struct sl__ring){
			.head = (uint64_t *)(r->base + r->span_offset + i * (size_t)SL_LINE_SIZE),
			.base = r->base + r->span_offset + heads +
				i * (size_t)SL_SPAN_STRIDE(r->span_lines),
			.mask = r->span_lines - 1,
			.ready = !i,
			.own = i != 0,
		};
	return 0;
}

void sl__rings_free(struct sl__region *r)
{
	free(r->rings);
	r->rings = NULL;
}

void sl__span_thread_reset(unsigned int slot)
{
	self.ring[slot] = NULL;
}

void sl__spans_forked(void)
{
	memset(&self, 0, sizeof(self));
}

/* ---- names and keys ---- */

struct sl_span_name sl_span_name_create(struct sl_publisher *p, const char *name)
{
	return (struct sl_span_name){sl__string_create(p, name)};
}

struct sl_span_key sl_span_key_create(struct sl_publisher *p, const char *key)
{
	return (struct sl_span_key){sl__string_create(p, key)};
}
