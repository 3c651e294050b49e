// SPDX-License-Identifier: Apache-2.0
#include "collect/discover/peers.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>
#include <jansson.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "collect/discover/ring.h"

#define SECOND_NS  1000000000ull
#define EVERY_NS   (SECOND_NS / 2)
#define DEAD_NS	   (2 * SECOND_NS)
#define TIMEOUT_MS 1000l
#define ANSWER_MAX 65536u

struct ring_peer {
	char *name;
	bool named;			      /* by a source, now */
	CURL *curl;			      /* under way; NULL: none */
	uint64_t asked_ns, heard_ns, died_ns; /* 0: never */
	uint64_t started;		      /* CLOCK_REALTIME, as it says */
	bool knows_us;
	char answer[ANSWER_MAX];
	size_t bytes;
};

struct collect_peers {
	char *self;
	uint64_t started, begun_ns;
	CURLM *multi;
	struct ring_peer *peer[COLLECT_PEERS_MAX];
	size_t n;
	pthread_mutex_t lock;			 /* of the following, which other threads read */
	const char *ring[COLLECT_PEERS_MAX + 1]; /* this one is the first */
	bool alive[COLLECT_PEERS_MAX + 1];
	size_t rings;
	uint64_t overlaps;
};

static bool is_alive(const struct ring_peer *x, uint64_t now)
{
	return x->heard_ns && now - x->heard_ns < DEAD_NS;
}

/* ---- names ---- */

static struct ring_peer *find(struct collect_peers *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->peer[i]->name, name))
			return p->peer[i];
	return NULL;
}

void collect_peers_named(struct collect_peers *p, size_t source, const struct collect_targets *t)
{
	/* The first source begins anew. */
	for (size_t i = 0; !source && i < p->n; i++)
		p->peer[i]->named = false;
	for (size_t i = 0; i < t->n; i++) {
		struct ring_peer *x = find(p, t->name[i]);

		if (!strcmp(t->name[i], p->self))
			continue;
		if (!x && p->n < COLLECT_PEERS_MAX && (x = calloc(1, sizeof(*x)))) {
			x->name = strdup(t->name[i]);
			if (!x->name) {
				free(x);
				continue;
			}
			p->peer[p->n++] = x;
		}
		if (x)
			x->named = true;
	}
}

/* ---- questions and answers ---- */

static size_t on_answer(char *data, size_t size, size_t n, void *arg)
{
	struct ring_peer *x = arg;

	if (size * n > sizeof(x->answer) - x->bytes)
		return 0;
	memcpy(x->answer + x->bytes, data, size * n);
	x->bytes += size * n;
	return size * n;
}

static void ask(struct collect_peers *p, struct ring_peer *x, uint64_t now)
{
	char url[COLLECT_TARGET_MAX + 32];

	x->asked_ns = now;
	x->bytes = 0;
	x->curl = curl_easy_init();
	if (!x->curl)
		return;
	snprintf(url, sizeof(url), "http://%s/api/v1/peer", x->name);
	curl_easy_setopt(x->curl, CURLOPT_URL, url);
	curl_easy_setopt(x->curl, CURLOPT_NOSIGNAL, 1l);
	curl_easy_setopt(x->curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(x->curl, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(x->curl, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
	curl_easy_setopt(x->curl, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(x->curl, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(x->curl, CURLOPT_PRIVATE, x);
	if (curl_multi_add_handle(p->multi, x->curl)) {
		curl_easy_cleanup(x->curl);
		x->curl = NULL;
	}
}

/* A peer that was thought dead and had not ended: both may have read the same hosts. */
static void back(struct collect_peers *p, struct ring_peer *x, uint64_t started)
{
	if (!x->died_ns || started != x->started)
		return;
	pthread_mutex_lock(&p->lock);
	p->overlaps++;
	pthread_mutex_unlock(&p->lock);
	base_logf(BASE_WARN, "discover",
		  "a peer thought dead was not: hosts may have been read by both peer=%s "
		  "seconds=%.1f",
		  x->name, (double)(base_now_ns() - x->died_ns) * 1e-9);
}

static void hear(struct collect_peers *p, struct ring_peer *x)
{
	json_t *j = json_loadb(x->answer, x->bytes, 0, NULL), *alive, *one;
	const char *id = json_string_value(json_object_get(j, "id"));
	uint64_t started = (uint64_t)json_integer_value(json_object_get(j, "started"));
	size_t i;

	if (!id || strcmp(id, x->name)) {
		base_log_limited(BASE_WARN, "discover",
				 "what answers is not this peer peer=%s id=%.100s: check --self",
				 x->name, id ?: "");
		json_decref(j);
		return;
	}
	alive = json_object_get(j, "alive");
	x->knows_us = false;
	json_array_foreach(alive, i,
			   one) if (json_is_string(one) && !strcmp(json_string_value(one), p->self))
		x->knows_us = true;
	back(p, x, started);
	x->died_ns = 0;
	x->started = started;
	x->heard_ns = base_now_ns();
	json_decref(j);
}

static void take_answers(struct collect_peers *p)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(p->multi, &left))) {
		CURLcode code = m->data.result;
		struct ring_peer *x = NULL;
		long status = 0;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x);
		curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE, &status);
		curl_multi_remove_handle(p->multi, x->curl);
		curl_easy_cleanup(x->curl);
		x->curl = NULL;
		if (code == CURLE_OK && status == 200)
			hear(p, x);
	}
}

/* What the ring is made of now. */
static void publish(struct collect_peers *p)
{
	uint64_t now = base_now_ns();

	pthread_mutex_lock(&p->lock);
	p->rings = 0;
	p->ring[p->rings] = p->self;
	p->alive[p->rings++] = true;
	for (size_t i = 0; i < p->n; i++) {
		struct ring_peer *x = p->peer[i];
		bool alive = is_alive(x, now);

		if (x->heard_ns && !alive && !x->died_ns) {
			x->died_ns = now;
			base_logf(BASE_WARN, "discover", "peer is dead peer=%s", x->name);
		}
		if (!x->named)
			continue;
		p->ring[p->rings] = x->name;
		p->alive[p->rings++] = alive;
	}
	pthread_mutex_unlock(&p->lock);
}

void collect_peers_poll(struct collect_peers *p, int ms)
{
	uint64_t now = base_now_ns(), end = now + (uint64_t)ms * 1000000u;
	int running;

	for (size_t i = 0; i < p->n; i++) {
		struct ring_peer *x = p->peer[i];

		if (x->named && !x->curl && now - x->asked_ns >= EVERY_NS)
			ask(p, x, now);
	}
	do {
		curl_multi_perform(p->multi, &running);
		take_answers(p);
		now = base_now_ns();
		if (now < end)
			curl_multi_poll(p->multi, NULL, 0, (int)((end - now) / 1000000u) + 1, NULL);
	} while (base_now_ns() < end);
	curl_multi_perform(p->multi, &running);
	take_answers(p);
	publish(p);
}

void collect_peers_restart(struct collect_peers *p)
{
	p->begun_ns = base_now_ns();
	for (size_t i = 0; i < p->n; i++) {
		p->peer[i]->heard_ns = 0;
		p->peer[i]->knows_us = false;
		p->peer[i]->died_ns = 0;
	}
}

/* ---- what it means ---- */

bool collect_peers_know_us(const struct collect_peers *p)
{
	uint64_t now = base_now_ns();

	/* Those that live had the time to say so. */
	if (now - p->begun_ns < DEAD_NS)
		return false;
	for (size_t i = 0; i < p->n; i++)
		if (p->peer[i]->named && is_alive(p->peer[i], now) && !p->peer[i]->knows_us) {
			if (now - p->begun_ns > 30 * SECOND_NS)
				base_log_limited(BASE_WARN, "discover",
						 "a peer does not know this one, which reads "
						 "nothing more peer=%s: give it the same --peers",
						 p->peer[i]->name);
			return false;
		}
	return true;
}

bool collect_peers_own(const struct collect_peers *p, const char *host)
{
	return collect_ring_owner(host, p->ring, p->alive, p->rings) == 0;
}

void collect_peers_stats(struct collect_peers *p, uint64_t *peers, uint64_t *alive,
			 uint64_t *overlaps)
{
	pthread_mutex_lock(&p->lock);
	*peers = p->rings;
	*alive = 0;
	for (size_t i = 0; i < p->rings; i++)
		*alive += p->alive[i];
	*overlaps = p->overlaps;
	pthread_mutex_unlock(&p->lock);
}

void collect_peers_put(struct collect_peers *p, struct base_json *j)
{
	base_put(j, KV("id", (const char *)p->self), KV("started", p->started));
	base_json_kbegin(j, "alive", '[');
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->rings; i++)
		if (p->alive[i])
			base_json_string(j, p->ring[i]);
	pthread_mutex_unlock(&p->lock);
	base_json_end(j, ']');
}

/* ---- start and end ---- */

struct collect_peers *collect_peers_new(const char *self, size_t sources)
{
	struct collect_peers *p = calloc(1, sizeof(*p));

	(void)sources;
	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	p->self = strdup(self);
	p->multi = curl_multi_init();
	if (!p->self || !p->multi) {
		collect_peers_free(p);
		return NULL;
	}
	p->started = base_realtime_ns() / 1000000;
	p->begun_ns = base_now_ns();
	publish(p);
	return p;
}

void collect_peers_free(struct collect_peers *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++) {
		struct ring_peer *x = p->peer[i];

		if (x->curl) {
			curl_multi_remove_handle(p->multi, x->curl);
			curl_easy_cleanup(x->curl);
		}
		free(x->name);
		free(x);
	}
	curl_multi_cleanup(p->multi);
	pthread_mutex_destroy(&p->lock);
	free(p->self);
	free(p);
}
