// SPDX-License-Identifier: Apache-2.0
/* p->lock protects the queue and is never held during network I/O. */
#include "export/push.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "export/spool.h"
#include "http/client.h"

#define SECOND_NS	1000000000u
#define ANSWER_SHOWN	100u /* maximum number of bytes of an answer that are logged */
#define HEADERS_MAX	8u
#define RETRY_AFTER_MAX 3600u

struct body {
	struct body *next;
	void *data;
	size_t bytes;
	uint64_t items, since_ns;
	bool spooled; /* true if this is a copy of the first body on disk */
};

struct export_push {
	struct export_push_opts o;
	struct http_client *client;
	char *url;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct body *first, **last;
	struct export_push_stats stats;
	bool stop;
	uint64_t stop_ns; /* time after which tries are aborted */

	/* Only used by the thread. */
	char content_type[128];
	const char *headers[HEADERS_MAX + 1];
	struct http_fetched answer;
};

/* ---- headers ---- */

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, ":");

	return n == strcspn(b, ":") && !strncasecmp(a, b, n);
}

/* ---- one try ---- */

static bool is_over(void *arg)
{
	struct export_push *p = arg;
	bool over;

	pthread_mutex_lock(&p->lock);
	over = p->stop && base_now_ns() >= p->stop_ns;
	pthread_mutex_unlock(&p->lock);
	return over;
}

/* Returns true if a retry of the same body may succeed. */
static bool may_pass(const struct export_push *p, long status)
{
	if (p->o.unavailable_only)
		return status == 429 || (status >= 502 && status <= 504);
	return status == 429 || (status >= 500 && status <= 599);
}

/* Returns the number of items that the receiver rejected from an accepted body. */
static uint64_t left_out(struct export_push *p, const struct body *b)
{
	char why[160] = "";
	uint64_t n;

	if (!p->o.taken)
		return 0;
	n = p->o.taken(p->o.taken_arg, b->data, b->bytes, p->answer.body ?: "", p->answer.bytes,
		       why, sizeof(why));
	n = BASE_MIN(n, b->items);
	http_client_clean(why);
	if (n || *why)
		base_log_each(BASE_WARN, p->o.name, p->url,
			      "partly rejected by the receiver url=%s rejected=%llu error=%s",
			      p->url, (unsigned long long)n, why);
	return n;
}

static enum export_push_outcome usual_outcome(const struct export_push *p, long status)
{
	if (status >= 200 && status < 300)
		return EXPORT_PUSH_DONE;
	return may_pass(p, status) ? EXPORT_PUSH_AGAIN : EXPORT_PUSH_NEVER;
}

/*
 * Asks the hooks what the answer means. *at_once is set if the body should be retried in another
 * form without a pause.
 */
static enum export_push_outcome judge_answer(struct export_push *p, const struct export_push_try *t,
					     uint64_t *rejected, bool *at_once)
{
	const struct export_push_hooks *h = &p->o.hooks;
	enum export_push_outcome is = usual_outcome(p, p->answer.status), say;

	if (!h->judge)
		return is;
	say = h->judge(h->arg, t, p->answer.status, p->answer.numbers, is, rejected);
	*at_once = say == EXPORT_PUSH_AGAIN && is != say;
	return say;
}

struct result {
	char why[160];
	uint64_t cause, rejected, sent_bytes;
	bool at_once;
};

static enum export_push_outcome post_body(struct export_push *p, const struct export_push_try *t,
					  struct result *to)
{
	static const size_t causes[] = {
		[HTTP_FETCH_CONNECT] = offsetof(struct export_push_stats, errors_connect),
		[HTTP_FETCH_TIMEOUT] = offsetof(struct export_push_stats, errors_timeout),
		[HTTP_FETCH_TOO_LONG] = offsetof(struct export_push_stats, errors_connect),
		[HTTP_FETCH_MEMORY] = offsetof(struct export_push_stats, errors_connect),
		[HTTP_FETCH_SECRET] = offsetof(struct export_push_stats, errors_secret),
	};
	const char *headers[HEADERS_MAX + 1] = {0};
	struct http_fetch f = {.client = p->client,
			       .url = p->url,
			       .headers = headers,
			       .body = t->send,
			       .body_bytes = t->send_bytes,
			       .timeout_ns = p->o.timeout_ns,
			       .most = EXPORT_PUSH_ANSWER,
			       .cut = true,
			       .keep = true,
			       .stop = is_over,
			       .stop_arg = p};
	enum export_push_outcome outcome;
	enum http_fetch_error error;

	for (size_t i = 0; p->headers[i]; i++) {
		const char *const *r = t->replace;

		while (r && *r && !same_name(*r, p->headers[i]))
			r++;
		headers[i] = r && *r ? *r : p->headers[i];
	}
	memcpy(f.numbers, p->o.hooks.numbers, sizeof(f.numbers));
	error = http_fetch(&f, &p->answer);
	if (error) {
		to->cause = causes[error];
		snprintf(to->why, sizeof(to->why), "%.159s", p->answer.why);
		p->answer.retry_after_s = 0;
		return EXPORT_PUSH_AGAIN;
	}
	outcome = judge_answer(p, t, &to->rejected, &to->at_once);
	if (outcome == EXPORT_PUSH_DONE)
		return outcome;
	snprintf(to->why, sizeof(to->why), "HTTP %ld %.*s", p->answer.status,
		 (int)BASE_MIN(p->answer.bytes, ANSWER_SHOWN), p->answer.body ?: "");
	http_client_clean(to->why);
	to->cause = offsetof(struct export_push_stats, errors_status);
	return outcome;
}

static enum export_push_outcome try_body(struct export_push *p, const struct body *b,
					 struct result *to)
{
	struct export_push_try t = {.body = b->data,
				    .send = b->data,
				    .bytes = b->bytes,
				    .send_bytes = b->bytes,
				    .items = b->items};
	enum export_push_outcome outcome;

	*to = (struct result){0};
	if (p->o.hooks.make && !p->o.hooks.make(p->o.hooks.arg, &t)) {
		snprintf(to->why, sizeof(to->why), "cannot be encoded in the receiver's format");
		return EXPORT_PUSH_NEVER;
	}
	outcome = post_body(p, &t, to);
	to->sent_bytes = t.send_bytes;
	free(t.made);
	if (outcome == EXPORT_PUSH_DONE && !to->rejected)
		to->rejected = left_out(p, b);
	to->rejected = BASE_MIN(to->rejected, b->items);
	return outcome;
}

/* ---- the queue ---- */

static void body_free(struct body *b)
{
	free(b->data);
	free(b);
}

/* Removes the first body. Needs the lock. */
static void take_first(struct export_push *p, uint64_t *counter)
{
	struct body *b = p->first;

	p->first = b->next;
	if (!p->first)
		p->last = &p->first;
	if (b->spooled) {
		export_spool_done(p->o.spool);
	} else {
		p->stats.waiting--;
		p->stats.waiting_bytes -= b->bytes;
	}
	*counter += b->items;
	body_free(b);
}

/* Reads the first body on disk into memory. Needs the lock. */
static void load_first(struct export_push *p)
{
	struct body *b = calloc(1, sizeof(*b));

	if (b && !export_spool_take(p->o.spool, &b->data, &b->bytes, &b->items)) {
		b->spooled = true;
		b->since_ns = base_now_ns();
		*p->last = b;
		p->last = &b->next;
		return;
	}
	free(b);
}

/* Waits for a body. Needs the lock. Returns false when the thread must exit. */
static bool next_body(struct export_push *p)
{
	for (;;) {
		if (!p->first && p->o.spool)
			load_first(p);
		if (p->first || p->stop)
			break;
		pthread_cond_wait(&p->wake, &p->lock);
	}
	return p->first && !(p->stop && base_now_ns() >= p->stop_ns);
}

/* Counts the outcome of the first body's last try and removes the body. Needs the lock. */
static void note_outcome(struct export_push *p, enum export_push_outcome outcome,
			 const struct result *res)
{
	struct body *b = p->first;
	const uint64_t out = res->rejected;

	b->items -= out;
	if (outcome == EXPORT_PUSH_DONE) {
		p->stats.sent++;
		p->stats.sent_bytes += res->sent_bytes;
		p->stats.dropped_partial += out;
		take_first(p, &p->stats.sent_items);
		return;
	}
	base_log_each(BASE_WARN, p->o.name, p->url,
		      "refused by the receiver and dropped url=%s "
		      "error=%s",
		      p->url, res->why);
	/* The receiver may have accepted items of a refused body that it did not list. */
	p->stats.dropped_refused += out ?: b->items;
	p->stats.sent_items += out ? b->items : 0;
	b->items = 0;
	take_first(p, &p->stats.dropped_refused);
}

/* Waits before a retry. Needs the lock, which is released meanwhile. */
static void pause_for(struct export_push *p, uint64_t *pause)
{
	const uint64_t asked = BASE_MIN(p->answer.retry_after_s, RETRY_AFTER_MAX) * SECOND_NS;
	uint64_t now = base_now_ns(), until = BASE_MAX(asked, *pause);

	until = now + BASE_MIN(until, p->o.pause_max_ns);
	*pause = BASE_MIN(*pause * 2, p->o.pause_max_ns);
	while (!p->stop && base_now_ns() < until)
		base_cond_wait(&p->wake, &p->lock, until);
	/* When stopping, pauses are short, but tries still don't follow each other immediately. */
	for (until = now + p->o.pause_min_ns; p->stop && base_now_ns() < until;)
		base_cond_wait(&p->wake, &p->lock, until);
}

static void *push_main(void *arg)
{
	struct export_push *p = arg;
	uint64_t pause = p->o.pause_min_ns;
	struct result res;

	pthread_mutex_lock(&p->lock);
	while (next_body(p)) {
		struct body *b = p->first; /* stays valid: only this thread removes bodies */
		enum export_push_outcome outcome;

		if (!b->spooled && base_now_ns() - b->since_ns > p->o.max_age_ns) {
			take_first(p, &p->stats.dropped_old);
			continue;
		}
		pthread_mutex_unlock(&p->lock);
		if (p->o.spool)
			export_spool_sync(p->o.spool);
		outcome = try_body(p, b, &res);
		pthread_mutex_lock(&p->lock);
		if (outcome != EXPORT_PUSH_DONE)
			snprintf(p->stats.last_error, sizeof(p->stats.last_error), "%s", res.why);
		if (outcome != EXPORT_PUSH_AGAIN) {
			note_outcome(p, outcome, &res);
			if (outcome == EXPORT_PUSH_DONE)
				pause = p->o.pause_min_ns;
			continue;
		}
		p->stats.retries++;
		if (res.at_once)
			continue;
		++*(uint64_t *)((char *)&p->stats + res.cause);
		base_log_each(BASE_WARN, p->o.name, p->url,
			      "sending failed, will retry url=%s error=%s", p->url, res.why);
		pause_for(p, &pause);
	}
	if (p->first && p->first->spooled) { /* the body stays on disk */
		body_free(p->first);
		p->first = NULL;
	}
	while (p->first)
		take_first(p, &p->stats.dropped_stopping);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Needs the lock. */
static int queue_on_disk(struct export_push *p, const void *body, size_t bytes, uint64_t items)
{
	uint64_t dropped = 0;
	int err = body ? export_spool_add(p->o.spool, body, bytes, items, &dropped) : -ENOMEM;

	p->stats.dropped_full += dropped + (err ? items : 0);
	if (dropped)
		base_log_each(BASE_WARN, p->o.name, p->url,
			      "the queue on disk is full: dropping the oldest items url=%s "
			      "items=%llu",
			      p->url, (unsigned long long)dropped);
	if (err)
		base_log_each(BASE_ERROR, p->o.name, p->url,
			      "cannot add to the queue on disk url=%s error=%s", p->url,
			      strerror(-err));
	pthread_cond_signal(&p->wake);
	return err ? -ENOSPC : 0;
}

int export_push_send(struct export_push *p, void *body, size_t bytes, uint64_t items)
{
	struct body *b = malloc(sizeof(*b));
	int err = 0;

	pthread_mutex_lock(&p->lock);
	if (p->o.spool) {
		err = queue_on_disk(p, body, bytes, items);
		pthread_mutex_unlock(&p->lock);
		free(body);
		free(b);
		return err;
	}
	if (!b || !body || p->stats.waiting >= p->o.max_bodies ||
	    bytes > p->o.max_bytes - p->stats.waiting_bytes) {
		p->stats.dropped_full += items;
		err = -ENOSPC;
	} else {
		*b = (struct body){
			.data = body, .bytes = bytes, .items = items, .since_ns = base_now_ns()};
		*p->last = b;
		p->last = &b->next;
		p->stats.waiting++;
		p->stats.waiting_bytes += bytes;
		pthread_cond_signal(&p->wake);
	}
	pthread_mutex_unlock(&p->lock);
	if (err) {
		free(body);
		free(b);
	}
	return err;
}

bool export_push_busy(struct export_push *p)
{
	bool busy;

	if (p->o.spool)
		return false;
	pthread_mutex_lock(&p->lock);
	busy = p->stats.waiting > p->o.max_bodies / 2 ||
	       p->stats.waiting_bytes > p->o.max_bytes / 2;
	pthread_mutex_unlock(&p->lock);
	return busy;
}

void export_push_stats(struct export_push *p, struct export_push_stats *out)
{
	pthread_mutex_lock(&p->lock);
	*out = p->stats;
	if (p->o.spool) {
		struct export_spool_stats disk;

		export_spool_stats(p->o.spool, &disk);
		out->waiting = disk.bodies;
		out->waiting_bytes = disk.bytes;
		out->dropped_corrupt = disk.corrupt;
	}
	pthread_mutex_unlock(&p->lock);
}

void export_push_add(struct export_push_stats *sum, const struct export_push_stats *s)
{
	for (size_t i = 0; i < offsetof(struct export_push_stats, last_error) / sizeof(uint64_t);
	     i++)
		((uint64_t *)sum)[i] += ((const uint64_t *)s)[i];
	if (!sum->last_error[0])
		memcpy(sum->last_error, s->last_error, sizeof(sum->last_error));
}

/* ---- start and end ---- */

static int prepare_headers(struct export_push *p)
{
	size_t n = 0;

	snprintf(p->content_type, sizeof(p->content_type), "Content-Type: %s", p->o.content_type);
	p->headers[n++] = p->content_type;
	/*
	 * Send an empty "Expect:", because a receiver that ignores it would cost a second per body.
	 */
	p->headers[n++] = "Expect:";
	for (const char *const *h = p->o.headers; h && *h; h++) {
		if (n == HEADERS_MAX)
			return -E2BIG;
		p->headers[n++] = *h;
	}
	return 0;
}

static void release_push(struct export_push *p)
{
	free(p->answer.body);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	http_client_close(p->client);
	export_spool_close(p->o.spool);
	free(p->url);
	free(p);
}

static void init_lock(struct export_push *p)
{
	pthread_mutex_init(&p->lock, NULL);
	base_cond_init(&p->wake);
}

struct export_push *export_push_new(const struct export_push_opts *opts, char *error,
				    size_t error_bytes)
{
	struct export_push *p = calloc(1, sizeof(*p));
	struct export_push_opts *o;
	char why[256] = "";
	int err = -ENOMEM;

	if (!p)
		goto fail;
	init_lock(p);
	p->o = *opts;
	o = &p->o;
	o->max_bytes = o->max_bytes ? o->max_bytes : (size_t)32 << 20;
	o->max_bodies = o->max_bodies ? o->max_bodies : 4096;
	o->timeout_ns = o->timeout_ns ? o->timeout_ns : 10ull * SECOND_NS;
	o->pause_min_ns = o->pause_min_ns ? o->pause_min_ns : SECOND_NS / 10;
	o->pause_max_ns = o->pause_max_ns ? o->pause_max_ns : 30ull * SECOND_NS;
	o->max_age_ns = o->max_age_ns ? o->max_age_ns : 600ull * SECOND_NS;
	p->last = &p->first;
	p->url = strdup(opts->url);
	if (!p->url)
		goto fail;
	/* Check the URL here, because libcurl would report a bad one only at the first try. */
	err = http_client_url(p->url, why, sizeof(why));
	if (!err) {
		p->client = http_client_open(opts->config, why, sizeof(why));
		err = p->client ? prepare_headers(p) : -errno;
	}
	if (!err)
		err = -pthread_create(&p->thread, NULL, push_main, p);
	if (!err) {
		pthread_setname_np(p->thread, "push");
		return p;
	}
fail:
	if (p && p->client)
		snprintf(error, error_bytes, "%s: %s", opts->url, strerror(-err));
	/* log the name, because the URL may contain a secret */
	else
		snprintf(error, error_bytes, "%s: %s", opts->name, *why ? why : strerror(-err));
	if (p)
		release_push(p);
	else
		export_spool_close(opts->spool);
	errno = -err;
	return NULL;
}

void export_push_free(struct export_push *p, uint64_t linger_ns)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	p->stop_ns = base_now_ns() + linger_ns;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	release_push(p);
}
