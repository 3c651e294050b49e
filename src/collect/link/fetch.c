// SPDX-License-Identifier: Apache-2.0
/*
 * fetch.c - memory of a region that somebody else than the pass asks for, once: from any thread to
 * the region's worker by a stack, from there to a queue, from there to READs beside the rounds.
 *
 * What is asked for is read under the same conditions as in a round: the region is bound to an
 * entry, and the directory was read within its lease. Whoever asks gets an answer exactly once.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "collect/link/link.h"

#define FETCHES_OUT 8u /* on the way at once: most of the landing memory is the rounds' */

struct fetch {
	struct fetch *next;
	struct region *region; /* a reference is held */
	uint64_t offset;
	uint32_t length;
	uint64_t since_ns; /* when the worker saw it first */
	sl_fetch_fn *fn;
	void *arg;
};

static void answer(struct fetch *f, int status, const void *bytes, int64_t ns)
{
	f->fn(f->arg, status, bytes, f->length, ns);
	region_put(f->region);
	free(f);
}

/* ---- the READ ------------------------------------------------------------------------------------ */

static bool take(struct link *l, struct op *op, struct sl_read *read, uint64_t now_ns)
{
	struct region *r = op->region;
	bool readable = !r->gone && (r->step == STEP_BOUND || r->step == STEP_FINAL);

	(void)now_ns;
	/* It was dropped or taken from its entry meanwhile: that may be anybody's memory by now. */
	answer(op->fetch, readable ? 0 : -EAGAIN, readable ? read->to : NULL, l->real_ns);
	op->fetch = NULL;
	return true;
}

static void failed(struct link *l, struct op *op, int status, uint64_t now_ns)
{
	(void)now_ns;
	answer(op->fetch, status ? status : -ENOTCONN, NULL, l->real_ns);
	op->fetch = NULL;
}

static void over(struct link *l, struct op *op, const struct sl_read *read, uint64_t now_ns)
{
	(void)op, (void)read, (void)now_ns;
	l->fetches_out--;
}

static const struct op_kind fetch_read = {.take = take, .failed = failed, .over = over};

/* ---- the queue ----------------------------------------------------------------------------------- */

/* Behind what is queued already, in the order in which they were asked for. */
static void open_box(struct link *l, uint64_t now_ns)
{
	/* Pairs with the release of sl_collector_fetch(). */
	struct fetch *f = __atomic_exchange_n(&l->fetch_box, NULL, __ATOMIC_ACQUIRE), *first = NULL;
	struct fetch **end = &l->fetch;

	while (f) {
		struct fetch *next = f->next;

		f->since_ns = now_ns;
		f->next = first;
		first = f;
		f = next;
	}
	while (*end)
		end = &(*end)->next;
	*end = first;
}

/* 0: to be read now; -EINPROGRESS: to be asked again; otherwise what stands against it. */
static int condition(struct link *l, const struct fetch *f, uint64_t now_ns)
{
	const struct region *r = f->region;

	if (r->gone)
		return -ENOENT;
	if (l->state != SL_FABRIC_UP || (r->step != STEP_BOUND && r->step != STEP_FINAL))
		return -EAGAIN;
	if (f->offset > r->remote.length || f->length > r->remote.length - f->offset)
		return -ERANGE;
	if (directory_lease_holds(l, now_ns))
		return l->fetches_out < FETCHES_OUT ? 0 : -EINPROGRESS;
	if (now_ns - f->since_ns > l->c->opts.read_timeout_ns)
		return -ETIMEDOUT;
	directory_read(l, now_ns);
	return -EINPROGRESS;
}

void fetch_turn(struct link *l, uint64_t now_ns)
{
	struct fetch **at = &l->fetch;

	if (__atomic_load_n(&l->fetch_box, __ATOMIC_RELAXED))
		open_box(l, now_ns);
	while (*at) {
		struct fetch *f = *at;
		int status = condition(l, f, now_ns);
		struct op *op = NULL;

		if (!status)
			op = reads_new(l, &fetch_read, f->region, &f->region->remote, f->offset,
				       f->length);
		if (op) {
			op->fetch = f;
			l->fetches_out++;
		} else if (!status || status == -EINPROGRESS) {
			return; /* those behind it wait as well */
		}
		*at = f->next;
		if (!op)
			answer(f, status, NULL, (int64_t)sl_realtime_ns());
	}
}

void fetch_free(struct link *l)
{
	open_box(l, 0);
	for (uint32_t i = 0; l->op && i < l->op_head; i++)
		if (l->op[i].fetch)
			answer(l->op[i].fetch, -ECANCELED, NULL, 0);
	while (l->fetch) {
		struct fetch *f = l->fetch;

		l->fetch = f->next;
		answer(f, -ECANCELED, NULL, 0);
	}
}

int sl_collector_fetch(struct sl_collector *c, uint64_t instance, uint64_t offset, uint32_t length,
		       sl_fetch_fn *fn, void *arg)
{
	struct index *x;
	struct fetch *f;
	struct link *l;
	ssize_t at;

	if (!length || length > SL_FETCH_MAX)
		return -ERANGE;
	x = index_get(c);
	at = x ? index_find(x, instance) : -1;
	f = at >= 0 ? malloc(sizeof(*f)) : NULL;
	if (f) {
		*f = (struct fetch){.region = x->region[at],
				    .offset = offset,
				    .length = length,
				    .fn = fn,
				    .arg = arg};
		ref_get(&f->region->refs);
	}
	index_put(x);
	if (!f)
		return at < 0 ? -ENOENT : -ENOMEM;
	l = f->region->link;
	f->next = __atomic_load_n(&l->fetch_box, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&l->fetch_box, &f->next, f, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
	return 0;
}
