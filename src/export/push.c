// SPDX-License-Identifier: Apache-2.0
/* The lock guards the queue and is never held during network I/O. */
#include "export/push.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>

#include "base/base.h"
#include "http/client.h"

#define SECOND_NS	1000000000u
#define ANSWER_SHOWN	100u	   /* bytes of an answer in the log */
#define ANSWER_MAX	(1u << 20) /* longer answers are cut off */
#define RETRY_AFTER_MAX 3600u

struct body {
	struct body *next;
	void *data;
	size_t bytes;
	uint64_t items, since_ns;
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
	uint64_t stop_ns; /* no try goes on after this */

	/* The thread's own. */
	CURL *pattern; /* of each try's handle */
	CURLSH *share; /* keeps connections between tries */
	struct curl_slist *headers;
	char answer[EXPORT_PUSH_ANSWER];
	size_t answer_bytes;
	uint64_t retry_after_ns;
};

/* ---- one try ---- */

static size_t answer_kept(const struct export_push *p)
{
	return BASE_MIN(p->answer_bytes, EXPORT_PUSH_ANSWER);
}

static size_t on_answer(char *data, size_t size, size_t n, void *arg)
{
	struct export_push *p = arg;
	size_t at = answer_kept(p);

	memcpy(p->answer + at, data, BASE_MIN(size * n, EXPORT_PUSH_ANSWER - at));
	p->answer_bytes += size * n;
	if (p->answer_bytes > ANSWER_MAX)
		return 0;
	return size * n;
}

/* Untrusted text: blanks out what could control a terminal. */
static void clean(char *text)
{
	for (; *text; text++)
		if (*text < 32 || *text > 126)
			*text = ' ';
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct export_push *p = arg;
	bool over;

	(void)a, (void)b, (void)c, (void)d;
	pthread_mutex_lock(&p->lock);
	over = p->stop && base_now_ns() >= p->stop_ns;
	pthread_mutex_unlock(&p->lock);
	return over;
}

/* True if trying the same body again may succeed. */
static bool may_pass(const struct export_push *p, long status)
{
	if (p->o.unavailable_only)
		return status == 429 || (status >= 502 && status <= 504);
	return status == 429 || (status >= 500 && status <= 599);
}

/* Items that the receiver rejected from a body that it took. */
static uint64_t left_out(struct export_push *p, const struct body *b)
{
	char why[160] = "";
	uint64_t n;

	if (!p->o.taken)
		return 0;
	n = p->o.taken(p->o.taken_arg, b->data, b->bytes, p->answer, answer_kept(p), why,
		       sizeof(why));
	n = BASE_MIN(n, b->items);
	clean(why);
	if (n || *why)
		base_log_limited(BASE_WARN, p->o.name,
				 "partly rejected url=%s rejected=%llu error=%s", p->url,
				 (unsigned long long)n, why);
	return n;
}

enum push_outcome { DONE, AGAIN, NEVER };

static enum push_outcome try(struct export_push *p, const struct body *b, char *why,
			     size_t why_bytes, uint64_t *cause)
{
	curl_off_t retry_after = 0;
	long status = 0;
	CURLcode code = CURLE_OUT_OF_MEMORY;
	struct http_client_request r = {0};
	int shown;
	/*
	 * A new handle per try: libcurl 7.88.1 of Debian 12 would use a freed header of the
	 * previous answer if the first header of this one begins with a blank (headers.c,
	 * prevhead).
	 */
	CURL *curl = curl_easy_duphandle(p->pattern);

	p->answer_bytes = 0;
	p->retry_after_ns = 0;
	*cause = offsetof(struct export_push_stats, errors_connect);
	if (curl && http_client_apply(p->client, curl, p->url, p->headers, &r, why, why_bytes)) {
		http_client_done(&r);
		curl_easy_cleanup(curl);
		*cause = offsetof(struct export_push_stats, errors_secret);
		return AGAIN;
	}
	if (curl) {
		curl_easy_setopt(curl, CURLOPT_SHARE, p->share);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, b->data);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)b->bytes);
		code = curl_easy_perform(curl);
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
		curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
		curl_easy_cleanup(curl);
		http_client_done(&r);
	}
	/* An answer that was cut off for its length still has a status. */
	if (code == CURLE_OPERATION_TIMEDOUT)
		*cause = offsetof(struct export_push_stats, errors_timeout);
	if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && status)) {
		snprintf(why, why_bytes, "%s", curl_easy_strerror(code));
		return AGAIN;
	}
	if (status >= 200 && status < 300)
		return DONE;
	shown = (int)BASE_MIN(p->answer_bytes, ANSWER_SHOWN);
	snprintf(why, why_bytes, "HTTP %ld %.*s", status, shown, p->answer);
	clean(why);
	if (!may_pass(p, status))
		return NEVER;
	*cause = offsetof(struct export_push_stats, errors_status);
	if (retry_after > 0)
		p->retry_after_ns = BASE_MIN((uint64_t)retry_after, RETRY_AFTER_MAX) * SECOND_NS;
	return AGAIN;
}

/* ---- the queue ---- */

static void body_free(struct body *b)
{
	free(b->data);
	free(b);
}

/* Under the lock. */
static void take_first(struct export_push *p, uint64_t *counter)
{
	struct body *b = p->first;

	p->first = b->next;
	if (!p->first)
		p->last = &p->first;
	p->stats.waiting--;
	p->stats.waiting_bytes -= b->bytes;
	*counter += b->items;
	body_free(b);
}

/* Under the lock. */
static void wait_until(struct export_push *p, uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / SECOND_NS), .tv_nsec = (long)(ns % SECOND_NS)};

	pthread_cond_timedwait(&p->wake, &p->lock, &t);
}

/* Under the lock. False when the thread shall end. */
static bool next_body(struct export_push *p)
{
	while (!p->first && !p->stop)
		pthread_cond_wait(&p->wake, &p->lock);
	return p->first && !(p->stop && base_now_ns() >= p->stop_ns);
}

static void *push_main(void *arg)
{
	struct export_push *p = arg;
	uint64_t pause = p->o.pause_min_ns, cause, now, until;
	char why[160];

	pthread_mutex_lock(&p->lock);
	while (next_body(p)) {
		struct body *b = p->first; /* stays: only this thread removes bodies */
		enum push_outcome outcome;
		uint64_t out = 0;

		if (base_now_ns() - b->since_ns > p->o.max_age_ns) {
			take_first(p, &p->stats.dropped_old);
			continue;
		}
		pthread_mutex_unlock(&p->lock);
		outcome = try(p, b, why, sizeof(why), &cause);
		if (outcome == DONE)
			out = left_out(p, b);
		pthread_mutex_lock(&p->lock);
		if (outcome == DONE) {
			p->stats.sent++;
			p->stats.sent_bytes += b->bytes;
			p->stats.dropped_partial += out;
			b->items -= out;
			take_first(p, &p->stats.sent_items);
			pause = p->o.pause_min_ns;
			continue;
		}
		snprintf(p->stats.last_error, sizeof(p->stats.last_error), "%s", why);
		if (outcome == NEVER) {
			base_log_limited(BASE_WARN, p->o.name,
					 "refused and dropped url=%s error=%s", p->url, why);
			take_first(p, &p->stats.dropped_refused);
			continue;
		}
		++*(uint64_t *)((char *)&p->stats + cause);
		p->stats.retries++;
		base_log_limited(BASE_WARN, p->o.name, "failed, will retry url=%s error=%s", p->url,
				 why);
		now = base_now_ns();
		until = BASE_MAX(p->retry_after_ns, pause);
		until = now + BASE_MIN(until, p->o.pause_max_ns);
		pause = BASE_MIN(pause * 2, p->o.pause_max_ns);
		while (!p->stop && base_now_ns() < until)
			wait_until(p, until);
		/*
		 * When stopping, pauses are short, but tries still do not follow each other at
		 * once.
		 */
		for (until = now + p->o.pause_min_ns; p->stop && base_now_ns() < until;)
			wait_until(p, until);
	}
	while (p->first)
		take_first(p, &p->stats.dropped_stopping);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int export_push_send(struct export_push *p, void *body, size_t bytes, uint64_t items)
{
	struct body *b = malloc(sizeof(*b));
	int err = 0;

	pthread_mutex_lock(&p->lock);
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
	pthread_mutex_unlock(&p->lock);
}

/* ---- start and end ---- */

static void curl_start(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool add_header(struct export_push *p, const char *header)
{
	struct curl_slist *to = curl_slist_append(p->headers, header);

	if (to)
		p->headers = to;
	return to != NULL;
}

static int prepare(struct export_push *p)
{
	char type[128];
	bool good;

	snprintf(type, sizeof(type), "Content-Type: %s", p->o.content_type);
	/* An empty "Expect:", as a receiver that ignores it would cost a second per body. */
	good = add_header(p, type) && add_header(p, "Expect:");
	for (const char *const *h = p->o.headers; h && *h; h++)
		good = good && add_header(p, *h);
	p->pattern = curl_easy_init();
	p->share = curl_share_init();
	if (!good || !p->pattern || !p->share ||
	    curl_share_setopt(p->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT))
		return -ENOMEM;
	curl_easy_setopt(p->pattern, CURLOPT_NOSIGNAL, 1l);
	curl_easy_setopt(p->pattern, CURLOPT_POST, 1l);
	curl_easy_setopt(p->pattern, CURLOPT_USERAGENT, "sidelight/" SL_VERSION_STRING);
	curl_easy_setopt(p->pattern, CURLOPT_FOLLOWLOCATION, 0l);
	curl_easy_setopt(p->pattern, CURLOPT_TIMEOUT_MS, (long)(p->o.timeout_ns / 1000000u));
	curl_easy_setopt(p->pattern, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(p->pattern, CURLOPT_WRITEDATA, p);
	curl_easy_setopt(p->pattern, CURLOPT_NOPROGRESS, 0l);
	curl_easy_setopt(p->pattern, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(p->pattern, CURLOPT_XFERINFODATA, p);
	return curl_easy_setopt(p->pattern, CURLOPT_PROTOCOLS_STR, "http,https") ? -EINVAL : 0;
}

static void release(struct export_push *p)
{
	curl_easy_cleanup(p->pattern);
	curl_share_cleanup(p->share);
	curl_slist_free_all(p->headers);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	http_client_close(p->client);
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
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct export_push *p = calloc(1, sizeof(*p));
	struct export_push_opts *o;
	char why[256] = "";
	int err = -ENOMEM;

	pthread_once(&once, curl_start);
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
	/* libcurl would report a bad URL only at the first try. */
	err = http_client_url(p->url, why, sizeof(why));
	if (!err) {
		p->client = http_client_open(opts->config, why, sizeof(why));
		err = p->client ? prepare(p) : -errno;
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
	else /* the URL may hold a secret */
		snprintf(error, error_bytes, "%s: %s", opts->name, *why ? why : strerror(-err));
	if (p)
		release(p);
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
	release(p);
}
