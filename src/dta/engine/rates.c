// SPDX-License-Identifier: Apache-2.0
/* rates.c - a token bucket per tenant; each lock protects some of the buckets */
#include "dta/engine/rates.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TENANTS 65536u
#define LOCKS	64u

struct rates_bucket {
	_Atomic uint64_t rate; /* reports per second; 0 means unlimited, which needs no lock */
	uint64_t burst;
	uint64_t at;
	double tokens;
};

struct dta_rates {
	pthread_mutex_t lock[LOCKS];
	struct rates_bucket bucket[TENANTS];
};

struct dta_rates *dta_rates_new(void)
{
	struct dta_rates *r = calloc(1, sizeof(*r));

	for (uint32_t i = 0; r && i < LOCKS; i++)
		pthread_mutex_init(&r->lock[i], NULL);
	return r;
}

void dta_rates_free(struct dta_rates *r)
{
	free(r);
}

void dta_rates_set(struct dta_rates *r, uint16_t tenant, uint64_t per_second, uint64_t burst)
{
	struct rates_bucket *b = &r->bucket[tenant];

	burst = burst ? burst : 1;
	pthread_mutex_lock(&r->lock[tenant % LOCKS]);
	if (atomic_load_explicit(&b->rate, memory_order_relaxed) != per_second ||
	    b->burst != burst) {
		b->burst = burst;
		b->tokens = (double)burst;
		atomic_store_explicit(&b->rate, per_second, memory_order_relaxed);
	}
	pthread_mutex_unlock(&r->lock[tenant % LOCKS]);
}

uint32_t dta_rates_take(struct dta_rates *r, uint16_t tenant, uint32_t count, uint64_t now_ns)
{
	struct rates_bucket *b = &r->bucket[tenant];
	uint64_t rate = atomic_load_explicit(&b->rate, memory_order_relaxed);
	double taken;

	if (!rate)
		return count;
	pthread_mutex_lock(&r->lock[tenant % LOCKS]);
	rate = atomic_load_explicit(&b->rate, memory_order_relaxed);
	if (now_ns > b->at) { /* time may go backwards, because each worker reads its own time */
		b->tokens += (double)(now_ns - b->at) * 1e-9 * (double)rate;
		if (b->tokens > (double)b->burst)
			b->tokens = (double)b->burst;
		b->at = now_ns;
	}
	taken = b->tokens < count ? (double)(uint32_t)b->tokens : count;
	b->tokens -= taken;
	pthread_mutex_unlock(&r->lock[tenant % LOCKS]);
	return rate ? (uint32_t)taken : count;
}
