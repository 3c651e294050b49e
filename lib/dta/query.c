// SPDX-License-Identifier: Apache-2.0
/*
 * query.c - sidelight/query.h: checks options, converts errors, and fills in answers of any
 * version. The queries are implemented in src/dta, which the collector and the command line use as
 * well.
 */
#include <errno.h>
#include <stdlib.h>

#include "../common.h"
#include "dta/query/query.h"
#include "dta/store/stores.h"

/* A struct sl_store is in fact a struct dta_store_object. */
static struct dta_store_object *object_of(const struct sl_store *s)
{
	return (struct dta_store_object *)(uintptr_t)s;
}

static const struct dta_store_view *view_of(const struct sl_store *s)
{
	return &object_of(s)->view;
}

static struct sl_store *check_opened(struct dta_store_object *o)
{
	if (!o && !errno)
		errno = EINVAL;
	return (struct sl_store *)o;
}

struct sl_store *sl_store_open(const char *path, char *why, size_t why_bytes)
{
	errno = 0;
	return check_opened(dta_store_object_open(path ? path : "", why, why ? why_bytes : 0));
}

struct sl_store *sl_store_open_fd(int fd, char *why, size_t why_bytes)
{
	errno = 0;
	return check_opened(dta_store_object_open_fd(fd, why, why ? why_bytes : 0));
}

void sl_store_close(struct sl_store *s)
{
	if (s)
		dta_store_object_free(object_of(s), false);
}

const struct sl_store_config *sl_store_config_get(const struct sl_store *s)
{
	return s ? view_of(s)->config : NULL;
}

const char *sl_store_name(const struct sl_store *s)
{
	return s ? view_of(s)->name : NULL;
}

int sl_store_now(const struct sl_store *s, struct sl_store_time *out)
{
	struct sl_store_time now = {0};
	struct dta_store_epochs e;

	if (!s || !SL__HAS(out, oldest))
		return -EINVAL;
	if (!dta_store_epochs(view_of(s), &e))
		return -EAGAIN;
	now.epoch = e.epoch;
	now.oldest = e.oldest;
	now.since_ns = e.since_ns;
	now.state = e.state;
	sl__answer_give(out, &now, sizeof(now));
	return 0;
}

/* ---- queries ---- */

static bool opts_valid(const struct sl_query_opts *o)
{
	if (o->policy > SL_QUERY_CONSENSUS || o->flags & ~(SL_QUERY_OF_EPOCH | SL_QUERY_NO_ERROR) ||
	    o->copies > SL_STORE_COPIES_MAX || o->consensus > SL_STORE_COPIES_MAX)
		return false;
	/* Internally, ~0 means any epoch. */
	return !(o->flags & SL_QUERY_OF_EPOCH) || o->epoch != ~0ull;
}

/* Fills in the query. Returns -EINVAL if this kind of store does not support such queries. */
static int query_of(const struct sl_store *s, uint32_t kind, const void *key, size_t key_bytes,
		    const struct sl_query_opts *opts, struct dta_query *q, struct sl_query_opts *o)
{
	*o = (struct sl_query_opts){0};
	if (!s || view_of(s)->config->kind != kind ||
	    (key && (key_bytes < SL_STORE_KEY_MIN || key_bytes > SL_STORE_KEY_MAX)) ||
	    (!key && kind != SL_STORE_SKETCH))
		return -EINVAL;
	if (opts && (!SL__HAS(opts, consensus) || !sl__opts_take(o, sizeof(*o), opts)))
		return -EINVAL;
	if (!opts_valid(o))
		return -EINVAL;
	*q = (struct dta_query){
		.key = key,
		.key_bytes = key_bytes,
		.epoch = o->flags & SL_QUERY_OF_EPOCH ? o->epoch : ~0ull,
		.copies = o->copies,
		.policy = (enum sl_query_policy)o->policy,
		.consensus = o->consensus ? o->consensus : 2,
	};
	return 0;
}

int sl_query_keywrite(const struct sl_store *s, const void *key, size_t key_bytes,
		      const struct sl_query_opts *opts, struct sl_keywrite_answer *out)
{
	struct sl_keywrite_answer now;
	struct sl_query_opts o;
	struct dta_query q;

	if (!SL__HAS(out, asked) || query_of(s, SL_STORE_KEYWRITE, key, key_bytes, opts, &q, &o))
		return -EINVAL;
	dta_view_keywrite(view_of(s), &q, &now);
	memset(now.value + now.bytes, 0, sizeof(now.value) - now.bytes);
	sl__answer_give(out, &now, sizeof(now));
	return 0;
}

int sl_query_keywrite_many(const struct sl_store *s, const void *keys, size_t key_bytes,
			   size_t count, const struct sl_query_opts *opts, void *values,
			   uint8_t *results, size_t *found)
{
	struct sl_query_opts o;
	struct dta_query q;
	size_t n = 0;

	if (!s || (count && (query_of(s, SL_STORE_KEYWRITE, keys, key_bytes, opts, &q, &o) ||
			     !values || !results)))
		return -EINVAL;
	if (count)
		n = dta_view_keywrite_many(view_of(s), q.epoch, q.copies, keys, key_bytes, count,
					   values, results);
	if (found)
		*found = n;
	return 0;
}

int sl_query_increment(const struct sl_store *s, const void *key, size_t key_bytes,
		       const struct sl_query_opts *opts, struct sl_increment_answer *out)
{
	struct sl_increment_answer now;
	struct sl_query_opts o;
	struct dta_query q;

	if (!SL__HAS(out, probability) ||
	    query_of(s, SL_STORE_INCREMENT, key, key_bytes, opts, &q, &o))
		return -EINVAL;
	q.no_error = o.flags & SL_QUERY_NO_ERROR;
	dta_view_increment(view_of(s), &q, &now);
	if (now.result != SL_QUERY_FOUND)
		now.value = 0;
	sl__answer_give(out, &now, sizeof(now));
	return 0;
}

int sl_query_postcard(const struct sl_store *s, const void *key, size_t key_bytes,
		      const struct sl_query_opts *opts, struct sl_postcard_answer *out)
{
	struct sl_postcard_answer now;
	struct sl_query_opts o;
	struct dta_query q;

	if (!SL__HAS(out, value) || query_of(s, SL_STORE_POSTCARD, key, key_bytes, opts, &q, &o))
		return -EINVAL;
	dta_view_path(view_of(s), &q, o.values, o.value_count, &now);
	if (now.result != SL_QUERY_FOUND)
		now = (struct sl_postcard_answer){
			.result = now.result, .epoch = now.epoch, .agreed = now.agreed};
	memset(now.value + now.hops, 0, sizeof(now.value) - 4ull * now.hops);
	sl__answer_give(out, &now, sizeof(now));
	return 0;
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

	if (!SL__HAS(out, error) || query_of(s, SL_STORE_SKETCH, key, key_bytes, opts, &q, &o))
		return -EINVAL;
	c = view_of(s)->config;
	bytes = (uint64_t)c->rows * c->slots * sl_store_cell_bytes(c);
	if (bytes > DTA_QUERY_CELLS_MAX)
		return -EFBIG;
	if (cells && cells_bytes < bytes)
		return -ENOSPC;
	to = malloc(sl_pad8(bytes));
	if (!to)
		return -ENOMEM;
	err = dta_view_sketch(view_of(s), q.epoch, NULL, to, &m);
	if (err)
		goto out;
	now.result = m.result;
	now.epoch = m.epoch;
	now.cells_merged = m.columns;
	now.expected = m.expected;
	now.ended = m.ended;
	now.complete = m.complete;
	if (m.result == SL_QUERY_FOUND && (key || c->sketch == SL_STORE_HLL)) {
		/* Without an estimate, the answer consists only of the merged cells. */
		if (!dta_sketch_estimate(c, to, key, key_bytes, &e)) {
			now.estimated = 1;
			now.value = e.value;
			now.error = e.error;
		}
	}
	if (cells)
		memcpy(cells, to, bytes);
	sl__answer_give(out, &now, sizeof(now));
out:
	free(to);
	return err;
}

/* ---- the meaning of SL_QUERY_EMPTY ---- */

/* Returns the number of copies to consider; 0 means that this kind of store loses no keys. */
static uint32_t copies_of(const struct sl_store *s, uint32_t copies)
{
	const struct sl_store_config *c = s ? view_of(s)->config : NULL;

	if (!c || (c->kind != SL_STORE_KEYWRITE && c->kind != SL_STORE_POSTCARD))
		return 0;
	return copies && copies < c->copies ? copies : c->copies;
}

int sl_query_found_probability(const struct sl_store *s, uint32_t copies, uint64_t reports,
			       double *probability)
{
	copies = copies_of(s, copies);
	if (!copies || !probability)
		return -EINVAL;
	*probability = dta_success_after(view_of(s)->config, copies, (double)reports);
	return 0;
}

int sl_query_reports_until(const struct sl_store *s, uint32_t copies, double probability,
			   uint64_t *reports)
{
	copies = copies_of(s, copies);
	if (!copies || !reports || !(probability > 0 && probability < 1))
		return -EINVAL;
	*reports = (uint64_t)dta_success_reach(view_of(s)->config, copies, probability);
	return 0;
}

/* ---- append ---- */

int sl_query_append_begin(const struct sl_store *s, struct sl_query_append_reader *r, uint32_t list,
			  uint32_t lane, enum sl_query_append_from from)
{
	const struct dta_store_view *v = s ? view_of(s) : NULL;

	if (!v || !r || v->config->kind != SL_STORE_APPEND || list >= v->config->lists ||
	    lane >= v->config->lanes)
		return -EINVAL;
	*r = (struct sl_query_append_reader){.list = list, .lane = lane};
	r->block = from == SL_QUERY_APPEND_OLDEST ? dta_append_oldest(v, list, lane, NULL)
						  : dta_append_next(v, list, lane, NULL);
	return 0;
}

int sl_query_append(const struct sl_store *s, struct sl_query_append_reader *r, void *items,
		    uint32_t max, uint64_t timeout_ns, uint32_t *count)
{
	int n;

	if (!s || !r || !items || !count)
		return -EINVAL;
	n = dta_append_wait(view_of(s), r, items, max, timeout_ns);
	*count = n > 0 ? (uint32_t)n : 0;
	return n < 0 ? n : 0;
}
