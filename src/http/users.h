/* SPDX-License-Identifier: Apache-2.0 */
/*
 * users.h - passwords of the users of web.yml. A guess costs bcrypt's time, so that who guesses
 * could take all of a CPU: guesses are rationed, per peer and together, and right ones remembered.
 */
#ifndef SL_HTTP_USERS_H
#define SL_HTTP_USERS_H

#include <pthread.h>

#include "http/message.h"
#include "http/web.h"

#define HTTP_USERS_KNOWN 256u
#define HTTP_USERS_PEERS 256u

/* Guesses that are left: they grow by one per interval, up to the most. */
struct http_ration {
	uint64_t since_ns;
	uint32_t left;
};

/* All zero at the start but the lock. Under the lock, which is held while one password is tried. */
struct http_users {
	pthread_mutex_t lock;
	unsigned char key[32]; /* random, drawn at the first guess */
	bool keyed;
	struct {
		unsigned char mac[32];
		uint64_t used_ns; /* 0: free */
	} known[HTTP_USERS_KNOWN];
	struct {
		unsigned char peer[HTTP_PEER_KEY];
		struct http_ration ration;
		uint64_t used_ns;
	} peers[HTTP_USERS_PEERS];
	struct http_ration all;
	uint64_t tried; /* passwords hashed; for tests */
};

enum http_guess { HTTP_GUESS_RIGHT, HTTP_GUESS_WRONG, HTTP_GUESS_TOO_MANY };

/* Whether authorization is "Basic ..." */
bool http_users_basic(const char *authorization);
/* *user is set if it is right. Takes as long for a user that does not exist. */
enum http_guess http_users_try(struct http_users *u, const struct http_web *w,
			       const unsigned char peer[HTTP_PEER_KEY], const char *authorization,
			       const struct http_web_user **user);

#endif
