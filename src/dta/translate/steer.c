// SPDX-License-Identifier: Apache-2.0
/*
 * steer.c - assigns reporters to workers: a hash table in parts, each with its own lock. Packets
 * are handed over in two buffers per worker: the other workers fill one buffer while the worker
 * empties the other.
 */
#include "dta/translate/steer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/table.h"

#define PARTS	  64u
#define QUEUE_MAX (4u << 20) /* bytes waiting for one worker */

struct steer_owned {
	struct base_node node;
	struct dta_loss_identity reporter;
	uint32_t worker;
};

struct steer_part {
	pthread_mutex_t lock;
	struct base_table owned;
};

/* Header of a packet in a buffer; the packet's bytes follow, padded to a multiple of 8. */
struct steer_handed {
	struct dta_datagram d; /* data and to are not set */
	struct in6_addr to;
	uint32_t input;
};

struct steer_buffer {
	uint8_t *at;
	size_t used, room;
};

struct steer_queue {
	pthread_mutex_t lock;
	struct steer_buffer in; /* filled by other workers; protected by lock */
	bool ended;
	atomic_bool drained;
	uint64_t drops;
	int wake;
	struct steer_buffer out; /* used only by the worker itself */
	size_t taken;
};

struct dta_steer {
	uint32_t workers;
	struct steer_queue *queue;
	struct steer_part part[PARTS];
};

struct dta_steer *dta_steer_new(uint32_t workers)
{
	struct dta_steer *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->queue = calloc(workers, sizeof(*s->queue));
	if (!s->queue)
		goto fail;
	for (uint32_t i = 0; i < PARTS; i++) {
		pthread_mutex_init(&s->part[i].lock, NULL);
		if (!base_table_init(&s->part[i].owned))
			goto fail;
	}
	for (; s->workers < workers; s->workers++) {
		struct steer_queue *q = &s->queue[s->workers];

		q->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (q->wake < 0)
			goto fail;
		pthread_mutex_init(&q->lock, NULL);
	}
	return s;
fail:
	dta_steer_free(s);
	return NULL;
}

void dta_steer_free(struct dta_steer *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->workers; i++) {
		close(s->queue[i].wake);
		free(s->queue[i].in.at);
		free(s->queue[i].out.at);
	}
	free(s->queue);
	for (uint32_t i = 0; i < PARTS; i++) {
		BASE_TABLE_EACH(&s->part[i].owned, n)
			free(n);
		base_table_free(&s->part[i].owned);
	}
	free(s);
}

/* ---- windows ---- */

/* Locks the part of the table for a reporter. Returns its entry, or NULL. */
static struct steer_owned *find_owned(struct dta_steer *s, const struct dta_loss_identity *reporter,
				      struct steer_part **part, uint64_t *hash)
{
	struct steer_owned *o;

	*hash = base_hash(0, reporter, sizeof(*reporter));
	*part = &s->part[*hash >> 32 & (PARTS - 1)];
	pthread_mutex_lock(&(*part)->lock);
	o = base_table_first(&(*part)->owned, *hash);
	while (o && memcmp(&o->reporter, reporter, sizeof(*reporter)))
		o = base_table_next(o);
	return o;
}

uint32_t dta_steer_owner(struct dta_steer *s, const struct dta_loss_identity *reporter,
			 uint32_t self, bool claim)
{
	struct steer_part *part;
	uint64_t hash;
	struct steer_owned *o = find_owned(s, reporter, &part, &hash);
	uint32_t worker;

	if (!o && claim && (o = malloc(sizeof(*o)))) {
		*o = (struct steer_owned){.reporter = *reporter, .worker = self};
		base_table_add(&part->owned, o, hash);
	}
	worker = o ? o->worker : DTA_STEER_NONE;
	pthread_mutex_unlock(&part->lock);
	return worker;
}

void dta_steer_release(struct dta_steer *s, const struct dta_loss_identity *reporter, uint32_t self)
{
	struct steer_part *part;
	uint64_t hash;
	struct steer_owned *o = find_owned(s, reporter, &part, &hash);

	if (o && o->worker == self)
		base_table_remove(&part->owned, o);
	else
		o = NULL;
	pthread_mutex_unlock(&part->lock);
	free(o);
}

/* ---- packets ---- */

static size_t padded_size(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

void dta_steer_hand(struct dta_steer *s, uint32_t to, const struct dta_datagram *d, uint32_t input)
{
	struct steer_handed h = {.d = *d, .input = input};
	const size_t bytes = sizeof(h) + padded_size(d->bytes);
	struct steer_queue *q = &s->queue[to];
	struct steer_buffer *b = &q->in;
	bool first = false;

	/* As in a datagram, an IPv4 address is stored in the first 4 bytes. */
	memcpy(&h.to, d->to, IN6_IS_ADDR_V4MAPPED(&d->address) ? 4 : sizeof(h.to));
	pthread_mutex_lock(&q->lock);
	if (q->ended || b->used + bytes > QUEUE_MAX ||
	    !base_grow(&b->at, &b->room, b->used + bytes, 1)) {
		q->drops++;
	} else {
		first = !b->used;
		memcpy(b->at + b->used, &h, sizeof(h));
		memcpy(b->at + b->used + sizeof(h), d->data, d->bytes);
		b->used += bytes;
	}
	pthread_mutex_unlock(&q->lock);
	if (first && eventfd_write(q->wake, 1))
		return; /* the worker is already awake */
}

bool dta_steer_take(struct dta_steer *s, uint32_t self, struct dta_datagram *d, uint32_t *input)
{
	struct steer_queue *q = &s->queue[self];
	struct steer_handed h;
	eventfd_t count;

	if (q->taken == q->out.used) {
		const struct steer_buffer emptied = {q->out.at, 0, q->out.room};

		/*
		 * Clear the eventfd before swapping buffers, so that packets added later wake the
		 * worker again.
		 */
		if (eventfd_read(q->wake, &count))
			return false;
		pthread_mutex_lock(&q->lock);
		q->out = q->in;
		q->in = emptied;
		pthread_mutex_unlock(&q->lock);
		q->taken = 0;
		if (!q->out.used)
			return false;
	}
	memcpy(&h, q->out.at + q->taken, sizeof(h));
	*d = h.d;
	d->to = q->out.at + q->taken + offsetof(struct steer_handed, to);
	d->data = q->out.at + q->taken + sizeof(h);
	*input = h.input;
	q->taken += sizeof(h) + padded_size(d->bytes);
	return true;
}

int dta_steer_fd(const struct dta_steer *s, uint32_t self)
{
	return s->queue[self].wake;
}

uint64_t dta_steer_drops(struct dta_steer *s, uint32_t self)
{
	struct steer_queue *q = &s->queue[self];
	uint64_t drops;

	pthread_mutex_lock(&q->lock);
	drops = q->drops;
	pthread_mutex_unlock(&q->lock);
	return drops;
}

bool dta_steer_drained(struct dta_steer *s, uint32_t self)
{
	bool all = true;

	atomic_store(&s->queue[self].drained, true);
	for (uint32_t i = 0; i < s->workers; i++)
		all &= atomic_load(&s->queue[i].drained);
	return all;
}

uint64_t dta_steer_end(struct dta_steer *s, uint32_t self)
{
	struct steer_queue *q = &s->queue[self];
	struct dta_datagram d;
	uint64_t left = 0;
	uint32_t input;

	pthread_mutex_lock(&q->lock);
	q->ended = true;
	pthread_mutex_unlock(&q->lock);
	while (dta_steer_take(s, self, &d, &input))
		left++;
	return left;
}
