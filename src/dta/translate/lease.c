// SPDX-License-Identifier: Apache-2.0
/* lease.c - which reporter's reports the kernel takes */
#include "dta/translate/lease.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "dta/io/kernel.h"

#define TICK_NS	  10000000ull
#define PATIENCE  2u		 /* ticks that are waited for a quiet moment */
#define SILENT_NS 60000000000ull /* until its place is another's */
#define CHUNK	  64u		 /* reports at a time: as many as any window holds */

enum lease_state { NONE = 0, HELD /* by the worker */, LEASED };

struct lease {
	struct dta_loss_key key;
	uint32_t incarnation;
	uint32_t counted; /* the sequence number after the last one that is in the window */
	bool took;	  /* it took some of this incarnation */
	enum lease_state state;
	uint32_t at; /* in `active` */
	uint64_t heard_ns;
};

struct dta_leases {
	struct dta_kernel *kernel;
	struct dta_loss *loss;
	struct dta_translate_account *account;
	struct lease lease[KERNEL_REPORTERS];
	uint32_t active[KERNEL_REPORTERS], n;
	uint64_t ticked_ns;
	uint64_t fresh[DTA_LOSS_FRESH_WORDS];
};

struct dta_leases *dta_leases_new(struct dta_kernel *k, struct dta_loss *loss,
				  struct dta_translate_account *account)
{
	struct dta_leases *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->kernel = k;
	l->loss = loss;
	l->account = account;
	return l;
}

void dta_leases_free(struct dta_leases *l)
{
	free(l);
}

/* Waits while the kernel tells of a report, for less than a microsecond. */
static uint64_t state_of(const struct dta_kernel_reporter *r)
{
	uint64_t state;

	while ((state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE)) >> 32 == KERNEL_TAKING)
		sched_yield();
	return state;
}

static void activate(struct dta_leases *l, uint32_t place, enum lease_state state)
{
	struct lease *e = &l->lease[place];

	if (e->state == NONE) {
		e->at = l->n;
		l->active[l->n++] = place;
	}
	e->state = state;
}

/* Its place is free; the kernel may take it for a reporter that begins. */
static void give_up(struct dta_leases *l, uint32_t place)
{
	struct lease *e = &l->lease[place];
	const uint32_t last = l->active[--l->n];

	l->active[e->at] = last;
	l->lease[last].at = e->at;
	e->state = NONE;
	__atomic_store_n(&dta_kernel_reporter(l->kernel, place)->state, 0, __ATOMIC_RELEASE);
}

/* The kernel took what lies before next. */
static void arrived(struct dta_leases *l, struct lease *e, uint32_t next, uint64_t now)
{
	struct dta_translate_account *a = l->account;
	struct dta_header h = {.tenant = e->key.tenant,
			       .reporter = e->key.reporter,
			       .incarnation = e->incarnation};

	if ((int32_t)(next - e->counted) <= 0)
		return;
	e->heard_ns = now;
	e->took = true;
	while (e->counted != next) {
		const uint32_t left = next - e->counted;
		int fresh;

		h.sequence = e->counted;
		h.reports = left < CHUNK ? left : CHUNK;
		fresh = dta_loss_packet(l->loss, &e->key, &h, 32, now, l->fresh);
		e->counted += h.reports;
		a->packets += h.reports;
		a->packets_taken += h.reports;
		a->fresh += h.reports;
		a->reports += h.reports;
		/* One that its window did not expect is stored, and in another column as well. */
		if (fresh >= 0)
			a->reports += h.reports - (uint32_t)fresh;
	}
}

/* A reporter has begun at the kernel, or it did not see some of its reports. */
static void learn_one(struct dta_leases *l, const struct dta_kernel_event *told, uint64_t now)
{
	const uint32_t place = told->place & (KERNEL_REPORTERS - 1);
	const struct dta_kernel_reporter *r = dta_kernel_reporter(l->kernel, place);
	struct lease *e = &l->lease[place];

	if (told->missing) {
		arrived(l, e, told->first, now);
		e->counted = told->first + told->missing;
		return;
	}
	e->key = (struct dta_loss_key){.address = {.s6_addr = {[10] = 0xff, 0xff}},
				       .port = r->port,
				       .tenant = r->tenant,
				       .reporter = r->reporter};
	memcpy(e->key.address.s6_addr + 12, &r->address, 4);
	e->incarnation = r->incarnation;
	e->counted = 0;
	e->took = false;
	e->heard_ns = now;
	activate(l, place, LEASED);
}

static void learn(struct dta_leases *l, uint64_t now)
{
	struct dta_kernel_event told;

	while (dta_kernel_event(l->kernel, &told))
		learn_one(l, &told, now);
}

/* The kernel takes no more of it. */
static void revoke(struct dta_leases *l, uint32_t place, uint64_t now)
{
	struct lease *e = &l->lease[place];
	struct dta_kernel_reporter *r = dta_kernel_reporter(l->kernel, place);
	__u64 was;

	do
		was = state_of(r);
	while (!__atomic_compare_exchange_n(&r->state, &was, KERNEL_STATE(KERNEL_BUSY, 0), false,
					    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	learn(l, now);
	arrived(l, e, (uint32_t)was, now);
	e->state = HELD;
}

static bool is_of(const struct lease *e, const struct dta_loss_key *key)
{
	return e->key.tenant == key->tenant && e->key.reporter == key->reporter &&
	       !memcmp(&e->key.address, &key->address, sizeof(key->address));
}

void dta_leases_before(struct dta_leases *l, const struct dta_loss_key *key,
		       const struct dta_header *h, uint64_t now)
{
	struct dta_kernel_reporter *r;
	uint32_t address, place;
	__u64 nobody = 0;
	struct lease *e;

	if (h->flags & DTA_AUTHENTICATED || !IN6_IS_ADDR_V4MAPPED(&key->address))
		return;
	memcpy(&address, key->address.s6_addr + 12, 4);
	place = dta_kernel_place(address, key->tenant, key->reporter);
	r = dta_kernel_reporter(l->kernel, place);
	e = &l->lease[place];
	if (e->state == NONE) {
		state_of(r);
		if (__atomic_compare_exchange_n(&r->state, &nobody, KERNEL_STATE(KERNEL_BUSY, 0),
						false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			activate(l, place, HELD);
			e->key = *key;
			e->incarnation = h->incarnation;
			e->took = false;
			e->heard_ns = now;
			return;
		}
		learn(l, now); /* it began at the kernel */
	}
	if (e->state == NONE || !is_of(e, key))
		return;
	if (e->state == LEASED) {
		const uint32_t next = (uint32_t)state_of(r);
		uint32_t top;

		/* Older ones the kernel leaves alone. */
		if (e->incarnation == h->incarnation &&
		    (int32_t)(h->sequence + h->reports - next) <= 0) {
			learn(l, now);
			arrived(l, e, next, now);
			/* Unless it jumped where the window does not follow. */
			if (!dta_loss_next(l->loss, key, h->incarnation, &top) ||
			    (int32_t)(h->sequence - top) < 0)
				return;
		}
		revoke(l, place, now);
	}
	e->took &= e->incarnation == h->incarnation;
	e->incarnation = h->incarnation;
	e->key = *key;
	e->heard_ns = now;
}

uint32_t dta_leases_overtaken(const struct dta_leases *l, const struct dta_loss_key *key,
			      const struct dta_packet *packet, uint64_t *fresh)
{
	const struct dta_header *h = &packet->header;
	uint32_t address, report = 0, n = 0, old = dta_loss_old(l->loss);
	const struct lease *e;

	if (h->flags & DTA_AUTHENTICATED || !IN6_IS_ADDR_V4MAPPED(&key->address))
		return 0;
	memcpy(&address, key->address.s6_addr + 12, 4);
	e = &l->lease[dta_kernel_place(address, key->tenant, key->reporter)];
	if (e->state == NONE || !e->took || !is_of(e, key) || e->incarnation != h->incarnation)
		return 0;
	for (uint32_t k = 0; k < h->blocks; k++) {
		const struct dta_block *b = &packet->block[k];

		for (uint32_t i = 0; i < b->count && report < old; i++, report++) {
			const uint64_t bit = 1ull << report % 64;

			if (b->opcode != DTA_KEYWRITE || b->flags & DTA_ESSENTIAL ||
			    !(fresh[report / 64] & bit))
				continue;
			fresh[report / 64] &= ~bit;
			n++;
		}
	}
	return n;
}

/* The kernel may go on where the window ends. */
static void lease(struct dta_leases *l, uint32_t place)
{
	struct lease *e = &l->lease[place];
	struct dta_kernel_reporter *r = dta_kernel_reporter(l->kernel, place);
	uint32_t next;

	if (!dta_loss_next(l->loss, &e->key, e->incarnation, &next))
		return;
	memcpy(&r->address, e->key.address.s6_addr + 12, 4);
	r->reporter = e->key.reporter;
	r->incarnation = e->incarnation;
	r->tenant = e->key.tenant;
	r->port = e->key.port;
	e->counted = next;
	e->state = LEASED;
	__atomic_store_n(&r->state, KERNEL_STATE(KERNEL_LEASED, next), __ATOMIC_RELEASE);
}

void dta_leases_tick(struct dta_leases *l, bool quiet, uint64_t now)
{
	if (now - l->ticked_ns < (quiet ? TICK_NS : PATIENCE * TICK_NS))
		return;
	l->ticked_ns = now;
	learn(l, now);
	for (uint32_t i = l->n; i-- > 0;) {
		const uint32_t place = l->active[i];
		struct lease *e = &l->lease[place];

		if (e->state == LEASED) {
			const uint32_t next =
				(uint32_t)state_of(dta_kernel_reporter(l->kernel, place));

			learn(l, now);
			arrived(l, e, next, now);
		} else if (quiet) {
			lease(l, place);
		}
		if (now - e->heard_ns < SILENT_NS)
			continue;
		if (e->state == LEASED)
			revoke(l, place, now);
		if (now - e->heard_ns >= SILENT_NS)
			give_up(l, place);
	}
}

void dta_leases_end(struct dta_leases *l, uint64_t now)
{
	learn(l, now);
	for (uint32_t i = l->n; i-- > 0;)
		if (l->lease[l->active[i]].state == LEASED)
			revoke(l, l->active[i], now);
}
