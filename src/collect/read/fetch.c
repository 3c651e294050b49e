// SPDX-License-Identifier: Apache-2.0
/*
 * fetch.c - single READs of a region's memory for other threads: they push a request onto the
 * worker's stack; the worker queues the request and posts a READ outside the rounds.
 *
 * The conditions are the same as for a round: the region is bound to an entry, and the directory
 * was read within its lease. Each request is answered exactly once.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "collect/read/index.h"
#include "collect/read/link.h"
#include "collect/read/ref.h"

/* maximum fetches in flight, since most of the landing memory is for the rounds */
#define FETCHES_OUT 8u

struct collect_fetch {
	struct collect_fetch *next;
	struct collect_region *region; /* a reference is held */
	uint64_t offset;
	uint32_t length;
	uint64_t since_ns; /* when the worker accepted the fetch */
	collect_fetch_fn *fn;
	void *arg;
};

static void answer_fetch(struct collect_fetch *f, int status, const void *bytes, int64_t ns)
{
	f->fn(f->arg, status, bytes, f->length, ns);
	collect_region_put(f->region);
	free(f);
}

/* ---- the READ ---- */

static bool take_bytes(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		       uint64_t now_ns)
{
	struct collect_region *r = op->region;
	bool readable = !r->gone && (r->step == STEP_BOUND || r->step == STEP_FINAL);

	(void)now_ns;
	/*
	 * If the region was dropped or unbound in the meantime, its memory may belong to another
	 * publisher.
	 */
	answer_fetch(op->fetch, readable ? 0 : -EAGAIN, readable ? read->to : NULL, l->real_ns);
	op->fetch = NULL;
	return true;
}

static void fail_fetch(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns)
{
	(void)now_ns;
	answer_fetch(op->fetch, status ? status : -ENOTCONN, NULL, l->real_ns);
	op->fetch = NULL;
}

static void end_read(struct collect_link *l, struct collect_op *op, uint64_t now_ns)
{
	(void)op, (void)now_ns;
	l->fetches_out--;
}

static const struct collect_op_kind fetch_read = {
	.take = take_bytes, .failed = fail_fetch, .over = end_read};

/* ---- the queue ---- */

/* Moves the requests from the stack to the end of the queue, oldest first. */
static void accept_requests(struct collect_link *l, uint64_t now_ns)
{
	/* Pairs with the release in collect_collector_fetch(). */
	struct collect_fetch *f = __atomic_exchange_n(&l->fetch_queue, NULL, __ATOMIC_ACQUIRE),
			     *first = NULL;
	struct collect_fetch **end = &l->fetch;

	while (f) {
		struct collect_fetch *next = f->next;

		f->since_ns = now_ns;
		f->next = first;
		first = f;
		f = next;
	}
	while (*end)
		end = &(*end)->next;
	*end = first;
}

/* Returns 0 to read now, -EINPROGRESS to try again later, or the final status of the fetch. */
static int check_fetch(struct collect_link *l, const struct collect_fetch *f, uint64_t now_ns)
{
	const struct collect_region *r = f->region;

	if (r->gone)
		return -ENOENT;
	if (l->state != FABRIC_UP || (r->step != STEP_BOUND && r->step != STEP_FINAL))
		return -EAGAIN;
	if (f->offset > r->remote.length || f->length > r->remote.length - f->offset)
		return -ERANGE;
	if (collect_directory_lease_holds(l, now_ns))
		return l->fetches_out < FETCHES_OUT ? 0 : -EINPROGRESS;
	if (now_ns - f->since_ns > l->c->opts.read_timeout_ns)
		return -ETIMEDOUT;
	collect_directory_read(l, now_ns);
	return -EINPROGRESS;
}

void collect_fetch_poll(struct collect_link *l, uint64_t now_ns)
{
	struct collect_fetch **at = &l->fetch;

	if (__atomic_load_n(&l->fetch_queue, __ATOMIC_RELAXED))
		accept_requests(l, now_ns);
	while (*at) {
		struct collect_fetch *f = *at;
		int status = check_fetch(l, f, now_ns);
		struct collect_op *op = NULL;

		if (!status)
			op = collect_reads_new(l, &fetch_read, f->region, &f->region->remote,
					       f->offset, f->length);
		if (op) {
			op->fetch = f;
			l->fetches_out++;
		} else if (!status || status == -EINPROGRESS) {
			return; /* later requests must wait, too */
		}
		*at = f->next;
		if (!op)
			answer_fetch(f, status, NULL, (int64_t)base_realtime_ns());
	}
}

void collect_fetch_free(struct collect_link *l)
{
	accept_requests(l, 0);
	for (uint32_t i = 0; l->op && i < l->op_head; i++)
		if (l->op[i].fetch)
			answer_fetch(l->op[i].fetch, -ECANCELED, NULL, 0);
	while (l->fetch) {
		struct collect_fetch *f = l->fetch;

		l->fetch = f->next;
		answer_fetch(f, -ECANCELED, NULL, 0);
	}
}

int collect_collector_fetch(struct collect_collector *c, uint64_t instance, uint64_t offset,
			    uint32_t length, collect_fetch_fn *fn, void *arg)
{
	struct collect_index *x;
	struct collect_fetch *f;
	struct collect_link *l;
	ssize_t at;

	if (!length || length > COLLECT_FETCH_MAX)
		return -ERANGE;
	x = collect_index_get(c);
	at = x ? collect_index_find(x, instance) : -1;
	f = at >= 0 ? malloc(sizeof(*f)) : NULL;
	if (f) {
		*f = (struct collect_fetch){.region = x->region[at],
					    .offset = offset,
					    .length = length,
					    .fn = fn,
					    .arg = arg};
		collect_ref_get(&f->region->refs);
	}
	collect_index_put(x);
	if (!f)
		return at < 0 ? -ENOENT : -ENOMEM;
	l = f->region->link;
	f->next = __atomic_load_n(&l->fetch_queue, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&l->fetch_queue, &f->next, f, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
	return 0;
}
