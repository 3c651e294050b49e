// SPDX-License-Identifier: Apache-2.0
/*
 * tls_none.c - replaces tls.c, web.c, users.c and guard.c in builds without GnuTLS. A server then
 * has no web.yml (http.web is NULL), so most of these functions are never called.
 */
#include <errno.h>

#include "base/base.h"
#include "http/files.h"
#include "http/internal.h"
#include "http/tls.h"

int http_guard_init(struct http *h, char *error, size_t error_bytes)
{
	if (!h->opts.web_config && !h->opts.roles_file)
		return 0;
	return base_fail(
		error, error_bytes, -EOPNOTSUPP,
		"this build has no support for TLS and passwords: rebuild with -Dtls=enabled");
}

void http_guard_end(struct http *h)
{
	pthread_mutex_destroy(&h->users.lock);
	pthread_rwlock_destroy(&h->web_lock);
}

int http_guard_tell(struct http *h)
{
	(void)h;
	return 0;
}

void http_guard_poll(struct http *h)
{
	(void)h;
}

ssize_t http_guard_sign(struct http *h, uint32_t stamp, uint32_t algorithm, const void *data,
			size_t bytes, unsigned char out[HTTP_SIGNATURE])
{
	(void)h, (void)stamp, (void)algorithm, (void)data, (void)bytes, (void)out;
	return -EOPNOTSUPP;
}

void http_web_files(struct http_files *f, const char *path, const char *roles)
{
	(void)f, (void)path, (void)roles;
}

bool http_web_authenticates(const struct http_web *w)
{
	(void)w;
	return false;
}

enum http_role http_web_role(const struct http_web *w, const char *kind, const char *name)
{
	(void)w, (void)kind, (void)name;
	return HTTP_PUBLIC;
}

enum http_role http_web_certificate_role(const struct http_web *w, const char *names, size_t bytes)
{
	(void)w, (void)names, (void)bytes;
	return HTTP_PUBLIC;
}

bool http_users_basic(const char *authorization)
{
	(void)authorization;
	return false;
}

enum http_guess http_users_try(struct http_users *u, const struct http_web *w,
			       const unsigned char peer[HTTP_PEER_KEY], const char *authorization,
			       const struct http_web_user **user)
{
	(void)u, (void)w, (void)peer, (void)authorization, (void)user;
	return HTTP_GUESS_WRONG;
}

struct http_tls *http_tls_new(struct http_server *s, const void *payload, size_t bytes)
{
	(void)s, (void)payload, (void)bytes;
	return NULL;
}

struct http_tls *http_tls_hold(struct http_tls *t)
{
	return t;
}

void http_tls_drop(struct http_tls *t)
{
	(void)t;
}

int http_tls_shake(struct http_tls_session *c, int fd, uint64_t until_ns)
{
	(void)c, (void)fd, (void)until_ns;
	return -EOPNOTSUPP;
}

void http_tls_end(struct http_tls_session *c)
{
	(void)c;
}

ssize_t http_tls_recv(struct http_tls_session *c, void *to, size_t bytes)
{
	(void)c, (void)to, (void)bytes;
	errno = EIO;
	return -1;
}

ssize_t http_tls_send(struct http_tls_session *c, const void *from, size_t bytes)
{
	(void)c, (void)from, (void)bytes;
	errno = EIO;
	return -1;
}

bool http_tls_pending(const struct http_tls_session *c)
{
	(void)c;
	return false;
}

void http_tls_bye(struct http_tls_session *c)
{
	(void)c;
}
