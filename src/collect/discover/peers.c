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
#include "http/client.h"

#define SECOND_NS  1000000000ull
#define EVERY_NS   (SECOND_NS / 2)
#define DEAD_NS	   (2 * SECOND_NS)
#define TIMEOUT_MS 1000l
#define ANSWER_MAX 65536u
#define SAY_NS	   (10 * SECOND_NS) /* between two lines about a peer's failures */
#define GRACE_NS   (2 * SECOND_NS)  /* for a peer heard again to hear this one, too */
#define LONELY_NS  (30 * SECOND_NS) /* without joining, after which a line says why */
#define LIFETIME_S 60l		    /* of a connection, so that new certificates are seen */

const char *const collect_peer_failure_names[COLLECT_PEER_FAILURES] = {
	[COLLECT_PEER_CONNECT] = "connect", [COLLECT_PEER_TIMEOUT] = "timeout",
	[COLLECT_PEER_TLS] = "tls",	    [COLLECT_PEER_STATUS] = "status",
	[COLLECT_PEER_ANSWER] = "answer",   [COLLECT_PEER_SECRET] = "secret",
};

struct ring_peer {
	char *name;
	bool named;			      /* by a source, now */
	bool joined;			      /* hosts are shared with it, as it says */
	uint64_t known_by;		      /* collectors that hear it, as it says, with itself */
	CURL *curl;			      /* under way; NULL: none */
	struct http_outgoing outgoing;	      /* with it */
	uint64_t asked_ns, heard_ns, died_ns; /* 0: never */
	uint64_t started;		      /* CLOCK_REALTIME, as it says */
	bool knows_us;
	uint64_t unknown_ns; /* since when it lives and does not know us; 0: it does */
	uint64_t double_ns;  /* since when both share, and it does not know us; 0: it is not so */
	bool doubled;	     /* counted as an overlap */
	char answer[ANSWER_MAX];
	size_t bytes;
	char error[CURL_ERROR_SIZE], said[CURL_ERROR_SIZE]; /* libcurl's; "": nothing was said */
	uint64_t said_ns;
};

struct collect_peers {
	char *self;
	struct http_client *client;
	bool configured, tls; /* by a file; which has peers asked by TLS */
	uint64_t started, begun_ns;
	bool named;  /* this one, by a source, now */
	bool joined; /* it takes part in sharing hosts */
	CURLM *multi;
	struct ring_peer *peer[COLLECT_PEERS_MAX];
	size_t n;
	pthread_mutex_t lock;			 /* of the following, which other threads read */
	const char *ring[COLLECT_PEERS_MAX + 1]; /* this one is the first */
	bool shares[COLLECT_PEERS_MAX + 1];	 /* hosts, so it lives */
	bool heard[COLLECT_PEERS_MAX + 1];	 /* named, and it lives */
	size_t rings;
	uint64_t known_by; /* collectors, with this one */
	uint64_t overlaps, leaves, failed[COLLECT_PEER_FAILURES];
};

static bool is_alive(const struct ring_peer *x, uint64_t now)
{
	return x->heard_ns && now - x->heard_ns < DEAD_NS;
}

/*
 * One that sources no longer name goes on sharing until it says that it has left: it may take a
 * while until it learns of it, and reads its hosts meanwhile.
 */
static bool is_sharing(const struct ring_peer *x, uint64_t now)
{
	return is_alive(x, now) && x->joined;
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
	if (!source)
		p->named = false;
	for (size_t i = 0; !source && i < p->n; i++)
		p->peer[i]->named = false;
	for (size_t i = 0; i < t->n; i++) {
		struct ring_peer *x = find(p, t->name[i]);

		if (!strcmp(t->name[i], p->self)) {
			p->named = true;
			continue;
		}
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
		else
			base_log_limited(
				BASE_WARN, "discover",
				"peer is not asked peer=%s: more than %u, or out of memory",
				t->name[i], COLLECT_PEERS_MAX);
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

/* Counts it, and says it where that is news. */
static void fail(struct collect_peers *p, struct ring_peer *x, enum collect_peer_failure cause,
		 const char *why)
{
	uint64_t now = base_now_ns();

	pthread_mutex_lock(&p->lock);
	p->failed[cause]++;
	pthread_mutex_unlock(&p->lock);
	if (!strcmp(x->said, why) || (x->said_ns && now - x->said_ns < SAY_NS))
		return;
	snprintf(x->said, sizeof(x->said), "%s", why);
	x->said_ns = now;
	base_logf(BASE_WARN, "discover", "peer cannot be asked peer=%s cause=%s error=\"%s\"",
		  x->name, collect_peer_failure_names[cause], why);
}

static void end(struct collect_peers *p, struct ring_peer *x)
{
	if (!x->curl)
		return;
	curl_multi_remove_handle(p->multi, x->curl);
	curl_easy_cleanup(x->curl);
	http_client_done(&x->outgoing);
	x->curl = NULL;
}

static void free_peer(struct collect_peers *p, struct ring_peer *x)
{
	end(p, x);
	free(x->name);
	free(x);
}

static void set_up(const struct collect_peers *p, struct ring_peer *x)
{
	curl_easy_setopt(x->curl, CURLOPT_NOSIGNAL, 1l);
	if (!p->configured)
		curl_easy_setopt(x->curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(x->curl, CURLOPT_PROTOCOLS_STR, p->tls ? "https" : "http");
	curl_easy_setopt(x->curl, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
	curl_easy_setopt(x->curl, CURLOPT_MAXLIFETIME_CONN, LIFETIME_S);
	curl_easy_setopt(x->curl, CURLOPT_CA_CACHE_TIMEOUT, 0l);
	curl_easy_setopt(x->curl, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(x->curl, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(x->curl, CURLOPT_ERRORBUFFER, x->error);
	curl_easy_setopt(x->curl, CURLOPT_PRIVATE, x);
}

static void ask(struct collect_peers *p, struct ring_peer *x, uint64_t now)
{
	char url[COLLECT_TARGET_MAX + 32], why[CURL_ERROR_SIZE] = "";
	int err;

	x->asked_ns = now;
	x->bytes = 0;
	x->error[0] = 0;
	x->curl = curl_easy_init();
	if (!x->curl)
		return;
	snprintf(url, sizeof(url), "%s://%s/api/v1/peer", p->tls ? "https" : "http", x->name);
	set_up(p, x);
	err = http_client_apply(p->client, x->curl, url, NULL, &x->outgoing, why, sizeof(why));
	if (err)
		fail(p, x, COLLECT_PEER_SECRET, why);
	if (err || curl_multi_add_handle(p->multi, x->curl))
		end(p, x);
}

/*
 * Hosts may have been read by both: a peer thought dead had not ended, or both had joined before
 * this one heard it.
 */
static bool overlapped(const struct collect_peers *p, const struct ring_peer *x, uint64_t started)
{
	const bool was_alive = x->heard_ns && !x->died_ns;

	return !was_alive && ((x->died_ns && started == x->started) || (x->joined && p->joined));
}

static void count_overlap(struct collect_peers *p)
{
	pthread_mutex_lock(&p->lock);
	p->overlaps++;
	pthread_mutex_unlock(&p->lock);
}

static void overlap(struct collect_peers *p, const struct ring_peer *x)
{
	uint64_t since = x->died_ns ?: p->begun_ns;

	count_overlap(p);
	base_logf(BASE_WARN, "discover",
		  "a peer thought dead was not: hosts may have been read by both peer=%s "
		  "seconds=%.1f",
		  x->name, (double)(base_now_ns() - since) * 1e-9);
}

/* Takes what a peer says of this one: is it among those that it hears? */
static void hear_of_us(struct collect_peers *p, struct ring_peer *x, json_t *alive)
{
	uint64_t now = base_now_ns();
	bool before = x->knows_us && is_alive(x, now);
	json_t *one;
	size_t i;

	x->knows_us = false;
	json_array_foreach(alive, i,
			   one) if (json_is_string(one) && !strcmp(json_string_value(one), p->self))
		x->knows_us = true;
	if (x->knows_us) {
		x->unknown_ns = 0;
	} else if (before) {
		x->unknown_ns = now - GRACE_NS; /* it heard this one, and does no more */
	} else if (!x->unknown_ns || !is_alive(x, now)) {
		x->unknown_ns = now;
	}
}

static void hear(struct collect_peers *p, struct ring_peer *x)
{
	json_t *j = json_loadb(x->answer, x->bytes, 0, NULL);
	const char *id = json_string_value(json_object_get(j, "id"));
	uint64_t started = (uint64_t)json_integer_value(json_object_get(j, "started"));
	json_int_t known_by;
	char why[160];

	if (!id || strcmp(id, x->name)) {
		snprintf(why, sizeof(why), "another answers, id=%.100s: check its --self",
			 id ?: "");
		fail(p, x, COLLECT_PEER_ANSWER, why);
		json_decref(j);
		return;
	}
	hear_of_us(p, x, json_object_get(j, "alive"));
	x->joined = json_is_true(json_object_get(j, "joined"));
	known_by = json_integer_value(json_object_get(j, "known_by"));
	x->known_by = known_by > 0 ? (uint64_t)known_by : 0;
	if (overlapped(p, x, started))
		overlap(p, x);
	x->died_ns = 0;
	x->started = started;
	x->heard_ns = base_now_ns();
	x->said[0] = 0;
	json_decref(j);
}

/* What a status other than 200 means. */
static void refused(struct collect_peers *p, struct ring_peer *x, long status)
{
	const char *hint = status == 401   ? ": not authenticated, check --peers-config"
			   : status == 403 ? ": no role that reads, check the peer's --roles"
			   : status == 404 ? ": check the peer's --peers"
					   : "";
	char why[96];

	snprintf(why, sizeof(why), "HTTP %ld%s", status, hint);
	fail(p, x, COLLECT_PEER_STATUS, why);
}

static void broken(struct collect_peers *p, struct ring_peer *x, CURLcode code)
{
	const char *tls = http_client_tls_error(code, x->error), *why = curl_easy_strerror(code);
	char text[CURL_ERROR_SIZE];

	if (tls)
		fail(p, x, COLLECT_PEER_TLS, tls);
	else if (code == CURLE_OPERATION_TIMEDOUT)
		fail(p, x, COLLECT_PEER_TIMEOUT, why);
	else if (code == CURLE_WRITE_ERROR)
		fail(p, x, COLLECT_PEER_ANSWER, "the answer is too long");
	else if (!p->tls && (code == CURLE_GOT_NOTHING || code == CURLE_UNSUPPORTED_PROTOCOL ||
			     code == CURLE_WEIRD_SERVER_REPLY)) {
		snprintf(text, sizeof(text), "%s: does it serve TLS? See --peers-config", why);
		fail(p, x, COLLECT_PEER_CONNECT, text);
	} else {
		fail(p, x, COLLECT_PEER_CONNECT, why);
	}
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
		end(p, x);
		if (code != CURLE_OK)
			broken(p, x, code);
		else if (status != 200)
			refused(p, x, status);
		else
			hear(p, x);
	}
}

/*
 * A peer that hears this one takes no host of it. One that does not will read the same hosts, and
 * cannot be told. Then the one that more collectors hear goes on, so that a collector that hears no
 * other does not end their reading; if as many hear either, the one that still hears the other
 * leaves.
 */
static bool is_outvoted(const struct collect_peers *p, const struct ring_peer *x, uint64_t now)
{
	return x->named && is_sharing(x, now) && !x->knows_us && x->known_by >= p->known_by;
}

static const char unknown[] = "the peer has another --peers, or cannot ask this one";

static void leave(struct collect_peers *p, const char *peer, const char *why)
{
	p->joined = false;
	p->leaves++;
	base_logf(BASE_WARN, "discover", "this one leaves its hosts to others peer=%s: %s", peer,
		  why);
}

static void say_why_not(const struct collect_peers *p, const char *peer, const char *why,
			uint64_t now)
{
	if (!p->joined && now - p->begun_ns > LONELY_NS)
		base_log_limited(BASE_WARN, "discover", "this one reads nothing peer=%s: %s", peer,
				 why);
}

/* It does not hear this one, and both read. */
static void note_double(struct collect_peers *p, struct ring_peer *x, uint64_t now)
{
	if (!x->named || !is_sharing(x, now) || x->knows_us || !p->joined) {
		x->double_ns = 0;
		x->doubled = false;
		return;
	}
	x->double_ns = x->double_ns ?: now;
	if (x->doubled || now - x->double_ns < DEAD_NS + GRACE_NS)
		return;
	x->doubled = true;
	p->overlaps++;
	base_logf(BASE_WARN, "discover", "hosts may be read by this one and by peer=%s: %s",
		  x->name, unknown);
}

/* Whether this one takes part. Under the lock. */
static void decide(struct collect_peers *p, uint64_t now)
{
	bool may_join = p->named;

	/* The others may not know of it yet, or not any more: a pod that is not ready. */
	if (!p->named && p->joined)
		leave(p, p->self, "no source names it");
	if (!p->named)
		say_why_not(p, p->self, "no source names it: check --self", now);
	p->known_by = 1;
	for (size_t i = 0; i < p->n; i++)
		p->known_by += p->peer[i]->named && is_alive(p->peer[i], now) &&
			       p->peer[i]->knows_us;
	for (size_t i = 0; i < p->n; i++) {
		struct ring_peer *x = p->peer[i];

		/* Those that live had the time to say so. */
		if (x->named && !x->heard_ns && now - p->begun_ns < DEAD_NS)
			may_join = false;
		if (is_outvoted(p, x, now)) {
			may_join = false;
			say_why_not(p, x->name, unknown, now);
			if (p->joined && now - x->unknown_ns >= GRACE_NS)
				leave(p, x->name, unknown);
		}
		note_double(p, x, now);
	}
	p->joined = p->joined || may_join;
}

/* What the ring is made of now. */
static void publish(struct collect_peers *p)
{
	uint64_t now = base_now_ns();
	size_t kept = 0;

	pthread_mutex_lock(&p->lock);
	decide(p, now);
	p->ring[0] = p->self;
	p->heard[0] = true;
	p->shares[0] = p->joined;
	p->rings = 1;
	for (size_t i = 0; i < p->n; i++) {
		struct ring_peer *x = p->peer[i];
		bool alive = is_alive(x, now);

		if (x->heard_ns && !alive && !x->died_ns) {
			x->died_ns = now;
			base_logf(BASE_WARN, "discover", "peer is dead peer=%s", x->name);
		}
		if (!x->named && !is_sharing(x, now)) {
			free_peer(p, x); /* pods come and go, each with an address of its own */
			continue;
		}
		p->peer[kept++] = x;
		p->ring[p->rings] = x->name;
		p->heard[p->rings] = x->named && alive;
		p->shares[p->rings++] = is_sharing(x, now);
	}
	p->n = kept;
	pthread_mutex_unlock(&p->lock);
}

void collect_peers_poll(struct collect_peers *p, int ms)
{
	uint64_t now = base_now_ns(), until = now + (uint64_t)ms * 1000000u;
	int running;

	for (size_t i = 0; i < p->n; i++) {
		struct ring_peer *x = p->peer[i];

		if ((x->named || is_sharing(x, now)) && !x->curl && now - x->asked_ns >= EVERY_NS)
			ask(p, x, now);
	}
	do {
		curl_multi_perform(p->multi, &running);
		take_answers(p);
		now = base_now_ns();
		if (now < until)
			curl_multi_poll(p->multi, NULL, 0, (int)((until - now) / 1000000u) + 1,
					NULL);
	} while (base_now_ns() < until);
	curl_multi_perform(p->multi, &running);
	take_answers(p);
	publish(p);
}

void collect_peers_restart(struct collect_peers *p)
{
	p->begun_ns = base_now_ns();
	pthread_mutex_lock(&p->lock);
	p->joined = p->shares[0] = false;
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < p->n; i++) {
		struct ring_peer *x = p->peer[i];

		x->heard_ns = x->died_ns = x->unknown_ns = 0;
		x->knows_us = x->joined = false;
	}
}

/* ---- what it means ---- */

bool collect_peers_own(const struct collect_peers *p, const char *host)
{
	return collect_ring_owner(host, p->ring, p->shares, p->rings) == 0;
}

void collect_peers_stats(struct collect_peers *p, struct collect_peers_stats *out)
{
	pthread_mutex_lock(&p->lock);
	*out = (struct collect_peers_stats){
		.known = p->rings, .overlaps = p->overlaps, .leaves = p->leaves};
	for (size_t i = 0; i < p->rings; i++) {
		out->alive += p->heard[i];
		out->joined += p->shares[i];
	}
	memcpy(out->failed, p->failed, sizeof(p->failed));
	pthread_mutex_unlock(&p->lock);
}

void collect_peers_put(struct collect_peers *p, struct base_json *j)
{
	pthread_mutex_lock(&p->lock);
	base_put(j, KV("id", (const char *)p->self), KV("started", p->started),
		 KV_BOOL("joined", p->joined), KV("known_by", p->known_by));
	base_json_kbegin(j, "alive", '[');
	for (size_t i = 0; i < p->rings; i++)
		if (p->heard[i])
			base_json_string(j, p->ring[i]);
	base_json_end(j, ']');
	pthread_mutex_unlock(&p->lock);
}

/* ---- start and end ---- */

struct collect_peers *collect_peers_new(const char *self, const char *config, char *error,
					size_t error_bytes)
{
	struct collect_peers *p = calloc(1, sizeof(*p));

	snprintf(error, error_bytes, "out of memory");
	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	p->client = http_client_open(config, error, error_bytes);
	if (!p->client) {
		collect_peers_free(p);
		return NULL;
	}
	p->configured = config;
	p->tls = http_client_tls(p->client);
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
	for (size_t i = 0; i < p->n; i++)
		free_peer(p, p->peer[i]);
	curl_multi_cleanup(p->multi);
	http_client_close(p->client);
	pthread_mutex_destroy(&p->lock);
	free(p->self);
	free(p);
}
