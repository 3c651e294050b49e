/* SPDX-License-Identifier: Apache-2.0 */
/*
 * users.h - checks the passwords of the users in web.yml. Each check costs the time of a bcrypt
 * computation, so an attacker could use up a CPU with guesses. Guesses are therefore limited, per
 * peer and in total, and correct passwords are remembered.
 */
#ifndef SL_HTTP_USERS_H
#define SL_HTTP_USERS_H

#include <pthread.h>

#include "http/message.h"
#include "http/web.h"

#define HTTP_USERS_KNOWN 256u
#define HTTP_USERS_PEERS 256u

/* Number of guesses left. It grows by one per interval, up to a maximum. */
struct http_ration {
	uint64_t since_ns;
	uint32_t left;
};

/* Initially zero, except for the lock. The lock is held while a password is checked. */
struct http_users {
	pthread_mutex_t lock;
	unsigned char key[32]; /* random; chosen at the first guess */
	bool keyed;
	struct {
		unsigned char mac[32];
		uint64_t used_ns; /* 0 means free */
	} known[HTTP_USERS_KNOWN];
	struct {
		unsigned char peer[HTTP_PEER_KEY];
		struct http_ration ration;
		uint64_t used_ns;
	} peers[HTTP_USERS_PEERS];
	struct http_ration all;
	uint64_t tried; /* number of passwords hashed; for tests */
};

enum http_guess { HTTP_GUESS_RIGHT, HTTP_GUESS_WRONG, HTTP_GUESS_TOO_MANY };

/* Whether authorization starts with "Basic ". */
bool http_users_basic(const char *authorization);
/*
 * Checks a password. Sets *user if it is correct. Takes the same time if the user does not exist.
 */
enum http_guess http_users_try(struct http_users *u, const struct http_web *w,
			       const unsigned char peer[HTTP_PEER_KEY], const char *authorization,
			       const struct http_web_user **user);

#endif
