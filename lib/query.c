// SPDX-License-Identifier: Apache-2.0
/*
 * query.c - query.h for applications: opens a store, and asks it by src/dta's functions, which the
 * collector and the command use as well. What is here is options, answers that may grow, and
 * errors.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dta/query/query.h"
#include "dta/store/stores.h"

/* What a caller of an older or newer header gave: as much of it as both know. */
#define FITS(p, last) ((p) && (p)->sz >= offsetof(__typeof__(*(p)), last) + sizeof((p)->last))
#define ANSWER(out, now)                                                                \
	do {                                                                            \
		(now).sz = (out)->sz;                                                   \
		memcpy(out, &(now), (out)->sz < sizeof(now) ? (out)->sz : sizeof(now)); \
	} while (0)

struct sl_store {
	struct dta_store_object *object;
};

static struct sl_store *opened(struct dta_store_object *o, int err)
{
	struct sl_store *s = o ? malloc(sizeof(*s)) : NULL;

	if (!s) {
		dta_store_object_free(o, false);
		errno = o ? ENOMEM : err ? err : EINVAL;
		return NULL;
	}
	s->object = o;
	return s;
}

struct sl_store *sl_store_open(const char *path, char *why, size_t why_bytes)
{
	struct dta_store_object *o;
	char unread[256];

	if (!why || !why_bytes) {
		why = unread;
		why_bytes = sizeof(unread);
	}
	errno = 0;
	o = dta_store_object_open(path ? path : "", why, why_bytes);
	return opened(o, errno);
}

struct sl_store *sl_store_open_fd(int fd, char *why, size_t why_bytes)
{
	struct dta_store_object *o;
	char unread[256];

	if (!why || !why_bytes) {
		why = unread;
		why_bytes = sizeof(unread);
	}
	errno = 0;
	o = dta_store_object_open_fd(fd, why, why_bytes);
	return opened(o, errno);
}

void sl_store_close(struct sl_store *s)
{
	if (!s)
		return;
	dta_store_object_free(s->object, false);
	free(s);
}

const struct sl_store_config *sl_store_geometry(const struct sl_store *s)
{
	return s ? s->object->view.config : NULL;
}

const char *sl_store_name(const struct sl_store *s)
{
	return s ? s->object->view.name : NULL;
}

int sl_store_now(const struct sl_store *s, struct sl_store_time *out)
{
	struct sl_store_time now = {0};
	struct dta_store_epochs e;

	if (!s || !FITS(out, oldest))
		return -EINVAL;
	if (!dta_store_epochs(&s->object->view, &e))
		return -EAGAIN;
	now.epoch = e.epoch;
	now.oldest = e.oldest;
	now.since_ns = e.since_ns;
	now.state = e.state;
	ANSWER(out, now);
	return 0;
}

/* ---- questions ---- */

/* False: it is none that this kind of store can answer. */
static bool asked(const struct sl_store *s, uint32_t kind, const void *key, size_t key_bytes,
		  const struct sl_query_opts *opts, struct dta_query *q, struct sl_query_opts *o)
{
	*o = (struct sl_query_opts){0};
	if (!s || s->object->view.config->kind != kind ||
	    (key && (key_bytes < SL_STORE_KEY_MIN || key_bytes > SL_STORE_KEY_MAX)) ||
	    (!key && kind != SL_STORE_SKETCH))
		return false;
	if (opts) {
		if (!FITS(opts, consensus))
			return false;
		memcpy(o, opts, opts->sz < sizeof(*o) ? opts->sz : sizeof(*o));
	}
	if (o->policy > SL_QUERY_CONSENSUS || o->flags & ~(SL_QUERY_OF_EPOCH | SL_QUERY_NO_ERROR) ||
	    o->copies > SL_STORE_COPIES_MAX || o->consensus > SL_STORE_COPIES_MAX)
		return false;
	*q = (struct dta_query){
		.key = key,
		.key_bytes = key_bytes,
		.epoch = o->flags & SL_QUERY_OF_EPOCH ? o->epoch : ~0ull,
		.copies = o->copies,
		.policy = (enum sl_query_policy)o->policy,
		.consensus = o->consensus ? o->consensus : 2,
	};
	/* ~0 is the word for any, and is no epoch. */
	return !(o->flags & SL_QUERY_OF_EPOCH) || o->epoch != ~0ull;
}

int sl_query_keywrite(const struct sl_store *s, const void *key, size_t key_bytes,
		      const struct sl_query_opts *opts, struct sl_keywrite_answer *out)
{
	struct sl_keywrite_answer now = {0};
	struct sl_query_opts o;
	struct dta_query_answer a;
	struct dta_query q;

	if (!FITS(out, asked) || !asked(s, SL_STORE_KEYWRITE, key, key_bytes, opts, &q, &o))
		return -EINVAL;
	dta_view_keywrite(&s->object->view, &q, &a);
	now.epoch = a.epoch;
	now.wrong = a.wrong;
	now.bytes = a.result == SL_QUERY_FOUND ? a.bytes : 0;
	now.agreed = a.agreed;
	now.verified = a.verified;
	now.occupied = a.occupied;
	now.asked = a.asked;
	memcpy(now.value, a.value, now.bytes);
	ANSWER(out, now);
	return (int)a.result;
}

int64_t sl_query_keywrite_many(const struct sl_store *s, const void *keys, size_t key_bytes,
			       size_t count, const struct sl_query_opts *opts, void *values,
			       uint8_t *results)
{
	struct sl_query_opts o;
	struct dta_query q;

	if (!count)
		return s ? 0 : -EINVAL;
	if (!asked(s, SL_STORE_KEYWRITE, keys, key_bytes, opts, &q, &o) || !values || !results)
		return -EINVAL;
	return (int64_t)dta_view_keywrite_many(&s->object->view, q.epoch, q.copies, keys, key_bytes,
					       count, values, results);
}

int sl_query_increment(const struct sl_store *s, const void *key, size_t key_bytes,
		       const struct sl_query_opts *opts, struct sl_increment_answer *out)
{
	struct sl_increment_answer now = {0};
	struct sl_query_opts o;
	struct dta_increment a;
	struct dta_query q;

	if (!FITS(out, probability) || !asked(s, SL_STORE_INCREMENT, key, key_bytes, opts, &q, &o))
		return -EINVAL;
	if (o.flags & SL_QUERY_NO_ERROR)
		dta_view_count(&s->object->view, &q, &a);
	else
		dta_view_increment(&s->object->view, &q, &a);
	now.epoch = a.epoch;
	now.value = a.result == SL_QUERY_FOUND ? a.value : 0;
	now.error = a.error;
	now.probability = a.probability;
	ANSWER(out, now);
	return (int)a.result;
}

int sl_query_postcard(const struct sl_store *s, const void *key, size_t key_bytes,
		      const struct sl_query_opts *opts, struct sl_postcard_answer *out)
{
	struct sl_postcard_answer now = {0};
	struct sl_query_opts o;
	struct dta_query q;
	struct dta_path p;

	if (!FITS(out, value) || !asked(s, SL_STORE_POSTCARD, key, key_bytes, opts, &q, &o))
		return -EINVAL;
	dta_view_path(&s->object->view, &q, o.values, o.value_count, &p);
	now.epoch = p.epoch;
	now.agreed = p.agreed;
	if (p.result == SL_QUERY_FOUND) {
		now.wrong = p.wrong;
		now.present = p.present;
		now.hops = p.hops;
		memcpy(now.value, p.value, 4ull * p.hops);
	}
	ANSWER(out, now);
	return (int)p.result;
}

int sl_query_sketch(const struct sl_store *s, const void *key, size_t key_bytes,
		    const struct sl_query_opts *opts, void *cells, size_t cells_bytes,
		    struct sl_sketch_answer *out)
{
	struct sl_sketch_answer now = {0};
	const struct sl_store_config *c;
	struct dta_sketch_estimate e;
	struct sl_query_opts o;
	struct dta_merged m;
	struct dta_query q;
	uint64_t bytes;
	void *to;
	int err;

	if (!FITS(out, error) || !asked(s, SL_STORE_SKETCH, key, key_bytes, opts, &q, &o))
		return -EINVAL;
	c = s->object->view.config;
	bytes = (uint64_t)c->rows * c->slots * sl_store_cell_bytes(c);
	if (bytes > DTA_QUERY_CELLS_MAX)
		return -EFBIG;
	if (cells && cells_bytes < bytes)
		return -ENOSPC;
	to = malloc(sl_pad8(bytes));
	if (!to)
		return -ENOMEM;
	err = dta_view_sketch(&s->object->view, q.epoch, to, &m);
	if (err)
		goto out;
	now.epoch = m.epoch;
	now.cells_merged = m.columns;
	now.expected = m.expected;
	now.ended = m.ended;
	now.complete = m.complete;
	if (m.result == SL_QUERY_FOUND && (key || c->sketch == SL_STORE_HLL)) {
		err = dta_sketch_estimate(c, to, key, key_bytes, &e);
		if (err == -ENOMEM)
			goto out;
		if (!err) {
			now.estimated = 1;
			now.value = e.value;
			now.error = e.error;
		}
		err = 0;
	}
	if (cells)
		memcpy(cells, to, bytes);
	ANSWER(out, now);
out:
	free(to);
	return err ? err : (int)m.result;
}

/* ---- empty ---- */

/* The copies that count; 0: of a kind that loses no keys. */
static uint32_t copies_of(const struct sl_store *s, uint32_t copies)
{
	const struct sl_store_config *c = s ? s->object->view.config : NULL;

	if (!c || (c->kind != SL_STORE_KEYWRITE && c->kind != SL_STORE_POSTCARD))
		return 0;
	return copies && copies < c->copies ? copies : c->copies;
}

double sl_query_within(const struct sl_store *s, uint32_t copies, uint64_t reports)
{
	copies = copies_of(s, copies);
	return copies ? dta_success_after(s->object->view.config, copies, (double)reports) : NAN;
}

uint64_t sl_query_reach(const struct sl_store *s, uint32_t copies, double probability)
{
	copies = copies_of(s, copies);
	if (!copies || !(probability > 0 && probability < 1))
		return 0;
	return (uint64_t)dta_success_reach(s->object->view.config, copies, probability);
}

/* ---- append ---- */

int sl_append_begin(const struct sl_store *s, struct sl_append_reader *r, uint32_t list,
		    uint32_t lane, enum sl_append_from from)
{
	const struct dta_store_view *v = s ? &s->object->view : NULL;

	if (!v || !r || v->config->kind != SL_STORE_APPEND || list >= v->config->lists ||
	    lane >= v->config->lanes)
		return -EINVAL;
	*r = (struct sl_append_reader){.list = list, .lane = lane};
	r->block = from == SL_APPEND_OLDEST ? dta_append_oldest(v, list, lane)
					    : dta_append_next(v, list, lane);
	return 0;
}

int sl_query_append(const struct sl_store *s, struct sl_append_reader *r, void *items, uint32_t max,
		    uint64_t timeout_ns)
{
	if (!s || !r || !items)
		return -EINVAL;
	return dta_append_wait(&s->object->view, r, items, max, timeout_ns);
}
