// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

#define BUFFER_MAX ((size_t)64 << 20) /* maximum bytes queued while the judge is behind */

void collect_rows_init(struct collect_rows *q)
{
	*q = (struct collect_rows){.passed = INT64_MIN, .taken_passed = INT64_MIN};
	pthread_mutex_init(&q->lock, NULL);
}

void collect_rows_fini(struct collect_rows *q)
{
	free(q->own.at);
	free(q->given.at);
	free(q->taken.at);
	pthread_mutex_destroy(&q->lock);
}

uint8_t *collect_rows_put(struct collect_rows *q, const struct collect_rows_entry *e)
{
	struct collect_rows_buffer *b = &q->own;
	size_t bytes = sizeof(*e) + e->bytes;
	uint8_t *at;

	if ((e->bytes && b->used + bytes > BUFFER_MAX) ||
	    !base_grow(&b->at, &b->room, b->used + bytes, 1))
		return NULL;
	at = b->at + b->used;
	memcpy(at, e, sizeof(*e));
	b->used += bytes;
	return at + sizeof(*e);
}

/* Appends all entries of `from` to `to`. Returns false, with nothing changed, if out of memory. */
static bool move_rows(struct collect_rows_buffer *to, struct collect_rows_buffer *from)
{
	struct collect_rows_buffer swap = *to;

	if (!to->used) {
		*to = *from;
		*from = swap;
		return true;
	}
	if (!base_grow(&to->at, &to->room, to->used + from->used, 1))
		return false;
	memcpy(to->at + to->used, from->at, from->used);
	to->used += from->used;
	from->used = 0;
	return true;
}

bool collect_rows_give(struct collect_rows *q, int64_t passed, bool wait)
{
	bool given;

	if (wait)
		pthread_mutex_lock(&q->lock);
	else if (pthread_mutex_trylock(&q->lock))
		return false;
	given = q->given.used < BUFFER_MAX && (!q->own.used || move_rows(&q->given, &q->own));
	if (given)
		q->passed = passed;
	pthread_mutex_unlock(&q->lock);
	return given;
}

void collect_rows_take(struct collect_rows *q)
{
	struct collect_rows_buffer *t = &q->taken;

	/* Keep the unread entries, in front of the new ones. */
	if (t->read)
		memmove(t->at, t->at + t->read, t->used - t->read);
	t->used -= t->read;
	t->read = 0;
	pthread_mutex_lock(&q->lock);
	if (!q->given.used || move_rows(t, &q->given))
		q->taken_passed = q->passed;
	pthread_mutex_unlock(&q->lock);
}

bool collect_rows_peek(const struct collect_rows *q, struct collect_rows_entry *e,
		       const uint8_t **bytes)
{
	const struct collect_rows_buffer *t = &q->taken;

	if (t->read == t->used)
		return false;
	memcpy(e, t->at + t->read, sizeof(*e));
	*bytes = t->at + t->read + sizeof(*e);
	return true;
}

void collect_rows_next(struct collect_rows *q)
{
	struct collect_rows_entry e;

	memcpy(&e, q->taken.at + q->taken.read, sizeof(e));
	q->taken.read += sizeof(e) + e.bytes;
}
