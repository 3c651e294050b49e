/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web.h - access control of a server: web.yml in the format of Prometheus' exporter-toolkit (TLS,
 * client certificates, users, headers), and Sidelight's own roles file for users and certificates.
 * A struct http_web is immutable; a reload creates a new one. Used by the back.
 */
#ifndef SL_HTTP_WEB_H
#define SL_HTTP_WEB_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/yaml.h"
#include "http/http.h"
#include "http/message.h"

#define HTTP_WEB_FILE_MAX (256u * 1024) /* maximum size of a certificate file */
#define HTTP_WEB_PRIORITY 512u
#define HTTP_WEB_SANS	  64u
#define HTTP_WEB_USERS	  1024u
#define HTTP_WEB_HEADERS  5u
#define HTTP_WEB_COST_MAX 14u /* maximum bcrypt cost; a check then takes a second */

/* client_auth_type, in the order of Go's crypto/tls. */
enum http_client_auth {
	HTTP_CLIENT_NONE,
	HTTP_CLIENT_REQUEST,
	HTTP_CLIENT_REQUIRE_ANY,
	HTTP_CLIENT_VERIFY_IF_GIVEN,
	HTTP_CLIENT_REQUIRE,
};

struct gnutls_privkey_st; /* gnutls_privkey_t points to it */

struct http_web_bytes {
	char *data; /* NUL-terminated */
	size_t bytes;
};

struct http_web_user {
	const char *name, *hash;
	enum http_role role;
};

struct http_web {
	struct base_yaml *yaml, *roles_yaml; /* memory that the strings below point into */
	bool tls;
	struct http_web_bytes cert, ca; /* PEM */
	struct gnutls_privkey_st *key;
	enum http_client_auth client_auth;
	const char *sans[HTTP_WEB_SANS];
	size_t san_count;
	char priority[HTTP_WEB_PRIORITY]; /* priority string for gnutls_priority_init(3) */
	struct http_web_user *users;
	size_t user_count;
	const char *dummy; /* the most expensive hash, used for users that do not exist */
	struct {
		const char *name, *value;
	} headers[HTTP_WEB_HEADERS];
	size_t header_count;
	/*
	 * Front proxies of Kubernetes API servers, from the roles file; .data is NULL if there are
	 * none.
	 */
	struct http_web_bytes proxy_ca;
	const char *proxy_names[HTTP_WEB_SANS]; /* allowed common names */
	size_t proxy_name_count;
	bool readers_named; /* the roles file assigns the reader role */
	uint64_t stamp;	    /* http_web_stamp() of the files when they were read */
};

/*
 * Reads both files; roles may be NULL. File names in them are relative to the files' directory.
 * Returns NULL with errno and one line in error.
 */
struct http_web *http_web_read(const char *path, const char *roles, char *error, size_t bytes);
void http_web_free(struct http_web *w);
/* Returns a value that changes whenever one of the files is replaced or modified. */
uint64_t http_web_stamp(const char *path, const char *roles);
/* Returns the role of a name under a key in the roles file, "remote_users" or "remote_groups". */
enum http_role http_web_role(const struct http_web *w, const char *kind, const char *name);
/* Returns the role of a client whose verified certificate has these NUL-terminated names. */
enum http_role http_web_certificate_role(const struct http_web *w, const char *names, size_t bytes);
/* Whether passwords or certificates are required from all clients. */
bool http_web_authenticates(const struct http_web *w);

/*
 * users.c: checks the passwords of the users in web.yml. Each check costs the time of a bcrypt
 * computation, so an attacker could use up a CPU with guesses. Guesses are therefore limited, per
 * peer and in total, and correct passwords are remembered.
 */

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
	/* time that guesses of all peers together may still take, as of time_since_ns */
	int64_t time_ns;
	uint64_t time_since_ns;
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
