// SPDX-License-Identifier: Apache-2.0
/* thread.c - assigns a stripe to each thread. */
#include <string.h>

#include "internal.h"
#include "span.h"

__thread struct sl__thread sl__thread __attribute__((tls_model("initial-exec")));

#ifndef SL__PLAIN_UPDATES
__thread volatile uint32_t sl__f64_busy __attribute__((tls_model("initial-exec")));
#endif

/* A thread and its stripes. Stored in TLS, so that nothing needs to be allocated. */
struct stripe_owner {
	struct stripe_owner *next, **previous;
	struct sl__thread *public;
	uint16_t stripe[SL_PUBLISHER_SLOTS]; /* index of the thread's stripe; 0 means none */
	_Atomic uint64_t sharing; /* one bit per slot: the thread is counted as sharing stripe 0 */
	bool listed;
	bool ended; /* the destructor has run: later updates use the shared stripe */
};
static __thread struct stripe_owner self __attribute__((tls_model("initial-exec")));
static struct stripe_owner *owners; /* threads that own a stripe; protected by the lock */
static pthread_key_t key;

static void unlink_owner(struct stripe_owner *o)
{
	if (!o->listed)
		return;
	*o->previous = o->next;
	if (o->next)
		o->next->previous = o->previous;
	o->listed = false;
}

/*
 * Passes a thread's stripes, with their values, to the next threads that need one. The next owner
 * takes the lock after this thread released it, and so sees all of its plain stores.
 */
static void thread_ends(void *unused)
{
	struct sl__guard guard;

	(void)unused;
	sl__lock(&guard);
	self.ended = true;
	for (unsigned int slot = 1; slot < SL_PUBLISHER_SLOTS; slot++) {
		struct sl__region *r = sl__slots[slot].region;

		sl__thread.base[slot] = 0;
		if (!self.stripe[slot])
			continue;
		r->free_stripes[r->free_count++] = self.stripe[slot];
		atomic_fetch_add_explicit(&sl__slots[slot].free, 1, memory_order_relaxed);
		self.stripe[slot] = 0;
	}
	unlink_owner(&self);
	sl__unlock(&guard);
}

int sl__thread_key(void)
{
	return -pthread_key_create(&key, thread_ends);
}

/* The publisher of this slot closes: removes its stripes from the TLS of all threads. */
void sl__stripes_forget(unsigned int slot)
{
	for (struct stripe_owner *o = owners; o; o = o->next) {
		o->stripe[slot] = 0;
		atomic_fetch_and(&o->sharing, ~(1ull << slot));
		__atomic_store_n(&o->public->base[slot], 0, __ATOMIC_RELAXED);
	}
}

/* Runs in a forked child, which has only this thread: its stripes belong to the parent. */
void sl__threads_forked(void)
{
	memset(&sl__thread, 0, sizeof(sl__thread));
	memset(self.stripe, 0, sizeof(self.stripe));
	sl__spans_forked();
	self.sharing = 0;
	owners = NULL;
	self.listed = false;
}

uint32_t sl__stripe_index(unsigned int slot)
{
	return self.stripe[slot];
}

static uint32_t take_stripe(struct sl__region *r)
{
	uint32_t index;

	if (r->free_count) {
		atomic_fetch_sub_explicit(&sl__slots[r->slot].free, 1, memory_order_relaxed);
		return r->free_stripes[--r->free_count];
	}
	index = atomic_load_explicit(&r->stripes_used, memory_order_relaxed);
	if (index == r->stripe_count)
		return 0;
	if (sl__allocate(r, r->stripe_offset + (uint64_t)index * r->stride,
			 (uint64_t)r->stripe_pages * SL__PAGE))
		return 0;
	/* Pairs with the acquire of readers in this process, which then find the stripe's pages. */
	atomic_store_explicit(&r->stripes_used, index + 1, memory_order_release);
	sl__hot_change(r);
	return index;
}

/* Returns this thread's stripe, claiming a free one if necessary; 0 means use the shared stripe. */
uintptr_t sl__stripe_claim(unsigned int slot)
{
	uint64_t bit = 1ull << slot;
	struct sl__region *r;
	struct sl__guard guard;
	uintptr_t stripe = 0;
	uint32_t index;
	bool known;

	if (self.ended)
		return 0;
	/*
	 * A thread without a stripe retries after another thread has exited. A hint, hence relaxed.
	 */
	if ((atomic_load_explicit(&self.sharing, memory_order_relaxed) & bit) &&
	    !atomic_load_explicit(&sl__slots[slot].free, memory_order_relaxed))
		return 0;
	sl__lock(&guard);
	r = atomic_load_explicit(&sl__slots[slot].region, memory_order_relaxed);
	if (!r || (r->orphan && sl__revive(r)))
		goto out;
	/*
	 * The thread may already own one: a signal handler came first, or its base happens to be 0.
	 */
	index = self.stripe[slot];
	/* Only a thread whose destructor will run may own a stripe or be listed. */
	known = self.listed || !pthread_setspecific(key, &self);
	if (!index && known)
		index = take_stripe(r);
	/* List the thread even without a stripe: sl__stripes_forget() resets its sharing bit. */
	if (!self.listed && known) {
		self.public = &sl__thread;
		self.previous = &owners;
		self.next = owners;
		if (owners)
			owners->previous = &self.next;
		owners = &self;
		self.listed = true;
	}
	if (index) {
		self.stripe[slot] = (uint16_t)index;
		sl__span_thread_reset(slot);
		stripe = (uintptr_t)r->base + r->stripe_offset + (uintptr_t)index * r->stride;
		sl__thread.base[slot] = stripe - (uintptr_t)((uint64_t)slot << 32);
	} else if (!(self.sharing & bit)) {
		atomic_fetch_or(&self.sharing, bit);
		atomic_fetch_add_explicit(&r->sharing, 1, memory_order_relaxed);
		sl__hot_add(r, SL_HOT_STATE, 1u << 8);
	}
out:
	sl__unlock(&guard);
	return stripe;
}
