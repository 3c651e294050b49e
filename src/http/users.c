// SPDX-License-Identifier: Apache-2.0
#include "http/web.h"

#include <crypt.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"

#define CREDENTIALS_MAX 1024u /* maximum size of the decoded credentials */
/* Limit on guesses per peer, with room for typing errors. */
#define PEER_GUESSES  10u
#define PEER_EVERY_NS 5000000000ull
/*
 * Guesses of all peers together take at most a tenth of a CPU, and up to 1.5 s can be saved up.
 * Their time is measured, because it depends on the cost in the bcrypt hash.
 */
#define TOTAL_PART   10
#define TOTAL_MAX_NS 1500000000ll

bool http_users_basic(const char *authorization)
{
	return authorization && !strncasecmp(authorization, "Basic ", 6);
}

/* ---- limits ---- */

static bool take_guess(struct http_ration *r, uint32_t most, uint64_t every_ns)
{
	uint64_t now = base_now_ns(), grown = (now - r->since_ns) / every_ns;

	if (!r->since_ns || grown >= most - r->left) {
		r->left = most;
		r->since_ns = now;
	} else {
		r->left += (uint32_t)grown;
		r->since_ns += grown * every_ns;
	}
	if (!r->left)
		return false;
	r->left--;
	return true;
}

static bool has_time(struct http_users *u)
{
	const uint64_t now = base_now_ns(), since = u->time_since_ns;

	u->time_ns = since ? u->time_ns + (int64_t)(now - since) / TOTAL_PART : TOTAL_MAX_NS;
	u->time_ns = BASE_MIN(u->time_ns, TOTAL_MAX_NS);
	u->time_since_ns = now;
	return u->time_ns > 0;
}

/* Returns the peer's entry, or replaces the least recently used one. */
static struct http_ration *ration_of(struct http_users *u, const unsigned char peer[HTTP_PEER_KEY])
{
	size_t oldest = 0, i;

	for (i = 0; i < HTTP_USERS_PEERS; i++) {
		if (u->peers[i].used_ns && !memcmp(u->peers[i].peer, peer, HTTP_PEER_KEY))
			break;
		if (u->peers[i].used_ns < u->peers[oldest].used_ns)
			oldest = i;
	}
	if (i == HTTP_USERS_PEERS) {
		i = oldest;
		u->peers[i].ration = (struct http_ration){0};
		memcpy(u->peers[i].peer, peer, HTTP_PEER_KEY);
	}
	u->peers[i].used_ns = base_now_ns();
	return &u->peers[i].ration;
}

/* ---- passwords known to be correct ---- */

/* Covers the hash in the settings, so that an old password is not accepted after a change. */
static bool fingerprint_of(struct http_users *u, const struct http_web_user *user,
			   const char *password, unsigned char mac[32])
{
	const size_t n = strlen(user->name) + 1, m = strlen(user->hash) + 1;
	const size_t k = strlen(password) + 1;
	char text[CREDENTIALS_MAX + 256];
	bool good;

	if (!u->keyed)
		u->keyed = !gnutls_rnd(GNUTLS_RND_KEY, u->key, sizeof(u->key));
	if (!u->keyed || n + m + k > sizeof(text))
		return false;
	memcpy(text, user->name, n);
	memcpy(text + n, user->hash, m);
	memcpy(text + n + m, password, k);
	good = !gnutls_hmac_fast(GNUTLS_MAC_SHA256, u->key, sizeof(u->key), text, n + m + k, mac);
	gnutls_memset(text, 0, sizeof(text));
	return good;
}

static bool is_known(struct http_users *u, const unsigned char mac[32])
{
	for (size_t i = 0; i < HTTP_USERS_KNOWN; i++)
		if (u->known[i].used_ns && !gnutls_memcmp(u->known[i].mac, mac, 32)) {
			u->known[i].used_ns = base_now_ns();
			return true;
		}
	return false;
}

static void remember_password(struct http_users *u, const unsigned char mac[32])
{
	size_t oldest = 0;

	for (size_t i = 1; i < HTTP_USERS_KNOWN; i++)
		if (u->known[i].used_ns < u->known[oldest].used_ns)
			oldest = i;
	memcpy(u->known[oldest].mac, mac, 32);
	u->known[oldest].used_ns = base_now_ns();
}

/* ---- checking a password ---- */

/* Decodes "user:password". Returns false if malformed. */
static bool decode_basic(const char *authorization, char text[CREDENTIALS_MAX + 1], char **password)
{
	const char *coded = authorization + 6 + strspn(authorization + 6, " ");
	const gnutls_datum_t in = {(unsigned char *)(uintptr_t)coded, (unsigned int)strlen(coded)};
	gnutls_datum_t out = {0};
	bool good = in.size <= 2 * CREDENTIALS_MAX && !gnutls_base64_decode2(&in, &out) &&
		    out.size <= CREDENTIALS_MAX && !memchr(out.data, 0, out.size);

	if (good) {
		memcpy(text, out.data, out.size);
		text[out.size] = 0;
		*password = strchr(text, ':');
		good = *password;
		if (good)
			*(*password)++ = 0;
	}
	if (out.data)
		gnutls_memset(out.data, 0, out.size);
	gnutls_free(out.data);
	return good;
}

static bool password_matches(struct http_users *u, const char *password, const char *hash)
{
	const uint64_t begun = base_now_ns();
	struct crypt_data *data = calloc(1, sizeof(*data)); /* 32 KiB */
	const char *got = data ? crypt_rn(password, hash, data, sizeof(*data)) : NULL;
	bool same = got && strlen(got) == strlen(hash) && !gnutls_memcmp(got, hash, strlen(hash));

	u->time_ns -= (int64_t)(base_now_ns() - begun);
	if (data)
		gnutls_memset(data, 0, sizeof(*data));
	free(data);
	return same;
}

static const struct http_web_user *find_user(const struct http_web *w, const char *name)
{
	for (size_t i = 0; i < w->user_count; i++)
		if (!strcmp(w->users[i].name, name))
			return &w->users[i];
	return NULL;
}

/* The caller holds the lock. */
static enum http_guess check_guess(struct http_users *u, const struct http_web *w,
				   const unsigned char *peer, const struct http_web_user *user,
				   const char *password)
{
	unsigned char mac[32];
	bool cached = user && fingerprint_of(u, user, password, mac);

	if (cached && is_known(u, mac))
		return HTTP_GUESS_RIGHT;
	if (!take_guess(ration_of(u, peer), PEER_GUESSES, PEER_EVERY_NS) || !has_time(u))
		return HTTP_GUESS_TOO_MANY;
	if (!password_matches(u, password, user ? user->hash : w->dummy) || !user)
		return HTTP_GUESS_WRONG;
	if (cached)
		remember_password(u, mac);
	return HTTP_GUESS_RIGHT;
}

enum http_guess http_users_try(struct http_users *u, const struct http_web *w,
			       const unsigned char peer[HTTP_PEER_KEY], const char *authorization,
			       const struct http_web_user **user)
{
	char text[CREDENTIALS_MAX + 1], *password;
	enum http_guess got;

	*user = NULL;
	if (!w->user_count || !decode_basic(authorization, text, &password))
		return HTTP_GUESS_WRONG;
	pthread_mutex_lock(&u->lock);
	got = check_guess(u, w, peer, find_user(w, text), password);
	pthread_mutex_unlock(&u->lock);
	if (got == HTTP_GUESS_RIGHT)
		*user = find_user(w, text);
	gnutls_memset(text, 0, sizeof(text));
	return got;
}
