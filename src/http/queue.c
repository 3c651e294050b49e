// SPDX-License-Identifier: Apache-2.0
/*
 * queue.c - costly requests. A few threads run their handlers, oldest request first, and a bounded
 * number of requests may wait. The channels' threads, which answer all other requests, therefore
 * never wait for a query. Each request has a budget of samples and of time. Waiting uses up time as
 * well, which limits the wait: all earlier requests have earlier deadlines.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "http/internal.h"

#define WAITING_MAX 20u

static void count_refusal(struct http_request *req, enum http_refusal cause)
{
	relaxed_add(req->http->refused[cause], 1);
}

struct base_budget *http_budget(struct http_request *req)
{
	return req->route && req->route->costly ? &req->budget : NULL;
}

void http_reply_full(struct http_request *req, const char *why)
{
	http_add_header(req, "Retry-After", "1");
	count_refusal(req, HTTP_REFUSED_ANSWERS);
	http_reply_error(req, 503, "%s", why);
}

static enum http_refusal cause_of(const struct base_budget *b)
{
	return b->err == -EDQUOT ? HTTP_REFUSED_SAMPLES : HTTP_REFUSED_TIME;
}

bool http_over_budget(struct http_request *req)
{
	const struct http_opts *o = &req->http->opts;
	const struct base_budget *b = http_budget(req);
	char why[192];

	if (!b || !b->err)
		return false;
	if (b->err == -ECANCELED) { /* counted by work_once(); no client reads the answer */
		http_reply_error(req, 503, "the client has disconnected");
		return true;
	}
	if (b->err == -EDQUOT)
		snprintf(why, sizeof(why),
			 "the query touches more than %llu samples: narrow the selection or the "
			 "time range, or raise --query-samples",
			 (unsigned long long)o->query_samples);
	else
		snprintf(why, sizeof(why),
			 "the query, including its time in the queue, took longer than %g s: "
			 "narrow the selection or the time range, or raise --query-timeout",
			 (double)o->query_timeout_ns * 1e-9);
	count_refusal(req, cause_of(b));
	http_reply_refused(req, b->err == -EDQUOT ? 422 : 503,
			   b->err == -EDQUOT ? "execution" : "timeout", why);
	return true;
}

/* ---- the threads ---- */

static void run_handler(struct http_request *req)
{
	if (base_now_ns() >= req->budget.end_ns)
		req->budget.err = -ETIMEDOUT;
	if (http_over_budget(req))
		return;
	req->route->fn(req, req->route->arg);
	if (!req->answered)
		http_reply_error(req, 500, "%s: the server produced no response", req->in.path);
}

static void read_piece(struct http_request *req)
{
	req->bytes_read = http_reply_next(req, req->piece, req->most);
	if (req->bytes_read < 0 && req->budget.err && req->budget.err != -ECANCELED)
		count_refusal(req, cause_of(&req->budget));
}

/* Works on the first request. Releases the lock meanwhile. */
static void work_once(struct http_queue *q)
{
	struct http_request *req = q->first;
	uint32_t number = req->number, serial = req->serial;
	struct http *h = req->http;
	uint64_t begun, now;
	bool awaited, left;

	q->first = req->next;
	if (!q->first)
		q->end = &q->first;
	q->waiting -= !req->piece;
	req->state = HTTP_WORKING;
	pthread_mutex_unlock(&q->lock);
	begun = base_now_ns();
	if (req->piece) {
		/* The time that a slow client takes between pieces does not count. */
		req->budget.end_ns = begun + req->unused_ns;
		read_piece(req);
	} else {
		run_handler(req);
	}
	now = base_now_ns();
	req->unused_ns = now < req->budget.end_ns ? req->budget.end_ns - now : 0;
	pthread_mutex_lock(&q->lock);
	left = req->state == HTTP_LEFT;
	awaited = req->awaited;
	req->state = HTTP_WORKED;
	pthread_mutex_unlock(&q->lock);
	if (left) {
		/* A query that had already been answered did not end because its client left. */
		if (req->budget.err == -ECANCELED)
			count_refusal(req, HTTP_REFUSED_LEFT);
		http_request_free(req);
	} else if (awaited) {
		http_back_wake(h, number, serial);
	}
	pthread_mutex_lock(&q->lock);
}

static void *run_queue(void *arg)
{
	struct http_queue *q = arg;

	pthread_mutex_lock(&q->lock);
	while (!q->stopping) {
		if (q->first)
			work_once(q);
		else
			pthread_cond_wait(&q->wake, &q->lock);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

int http_queue_start(struct http *h)
{
	struct http_queue *q = &h->queue;
	bool needed = false;
	int err = 0;

	for (size_t i = 0; i < h->route_count; i++)
		needed |= h->routes[i].costly;
	while (needed && !err && q->threads < h->opts.query_concurrency) {
		err = -pthread_create(&q->thread[q->threads], NULL, run_queue, q);
		if (!err)
			pthread_setname_np(q->thread[q->threads++], "sl-http-query");
	}
	if (err)
		http_queue_stop(h);
	return err;
}

void http_queue_stop(struct http *h)
{
	struct http_queue *q = &h->queue;

	pthread_mutex_lock(&q->lock);
	q->stopping = true;
	pthread_cond_broadcast(&q->wake);
	pthread_mutex_unlock(&q->lock);
	while (q->threads)
		pthread_join(q->thread[--q->threads], NULL);
}

/* ---- the channels ---- */

/* Needs the lock. */
static void append_request(struct http_queue *q, struct http_request *req)
{
	req->state = HTTP_QUEUED;
	req->awaited = false;
	req->next = NULL;
	*q->end = req;
	q->end = &req->next;
	q->waiting += !req->piece;
	pthread_cond_signal(&q->wake);
}

bool http_queue_add(struct http_request *req)
{
	struct http *h = req->http;
	struct http_queue *q = &h->queue;
	bool room;

	/* Copy the caller, because the slot may have another client when the handler ends. */
	req->owner = *req->caller;
	req->owner.of = NULL;
	req->caller = &req->owner;
	req->slot = NULL;
	req->budget = (struct base_budget){.end_ns = base_now_ns() + h->opts.query_timeout_ns,
					   .samples = h->opts.query_samples};
	pthread_mutex_lock(&q->lock);
	/* Half of the queue is reserved for clients that have no other answer in progress. */
	room = q->waiting < WAITING_MAX && (q->waiting < WAITING_MAX / 2 || http_answers(req) <= 1);
	if (room)
		append_request(q, req);
	pthread_mutex_unlock(&q->lock);
	if (room)
		return true;
	http_add_header(req, "Retry-After", "1");
	count_refusal(req, HTTP_REFUSED_QUEUE);
	http_reply_refused(req, 503, "unavailable",
			   "too many queries are waiting: try again later");
	return false;
}

bool http_queue_read(struct http_request *req, size_t most)
{
	struct http_queue *q = &req->http->queue;

	req->piece = req->piece ?: malloc(HTTP_PIECE);
	if (!req->piece)
		return false;
	req->most = most;
	pthread_mutex_lock(&q->lock);
	append_request(q, req);
	pthread_mutex_unlock(&q->lock);
	return true;
}

bool http_queue_take(struct http_request *req)
{
	struct http_queue *q = &req->http->queue;
	bool there;

	pthread_mutex_lock(&q->lock);
	there = req->state == HTTP_WORKED;
	if (there)
		req->state = HTTP_IDLE;
	pthread_mutex_unlock(&q->lock);
	return there;
}

void http_queue_await(struct http_request *req)
{
	struct http_queue *q = &req->http->queue;
	bool there;

	pthread_mutex_lock(&q->lock);
	there = req->state == HTTP_WORKED;
	req->awaited = true;
	pthread_mutex_unlock(&q->lock);
	if (there)
		http_back_wake(req->http, req->number, req->serial);
}

/* Needs the lock. */
static void unlink_request(struct http_queue *q, const struct http_request *req)
{
	struct http_request **at = &q->first;

	while (*at != req)
		at = &(*at)->next;
	*at = req->next;
	if (!*at)
		q->end = at;
	q->waiting -= !req->piece;
}

void http_queue_drop(struct http_request *req)
{
	struct http_queue *q = &req->http->queue;
	bool works;

	pthread_mutex_lock(&q->lock);
	works = req->state == HTTP_WORKING;
	if (req->state == HTTP_QUEUED) {
		unlink_request(q, req);
		count_refusal(req, HTTP_REFUSED_LEFT);
	}
	if (works) {
		req->state = HTTP_LEFT;
		relaxed_store(req->budget.left, true);
	}
	pthread_mutex_unlock(&q->lock);
	if (!works)
		http_request_free(req);
}
