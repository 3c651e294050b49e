// SPDX-License-Identifier: Apache-2.0
/*
 * access.c - access control: the only place that admits or refuses a request before its handler
 * runs.
 *
 * A web page in the operator's browser is an untrusted client that can reach loopback. It can send
 * requests, but it can't omit Origin from a POST. It can't set Content-Type or Authorization
 * without a preflight, which is never granted. It can't read an answer either, unless its own name
 * resolves to loopback (DNS rebinding), which can be detected by Host. However, a request causes
 * work even if its answer can't be read. Costly routes therefore refuse requests from pages of
 * other sites, which are detected by Sec-Fetch-Site or Origin.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "base/secret.h"
#include "http/internal.h"

#define RETRY_AFTER "5" /* seconds; users.c allows another guess after this time */
#define TOKEN_MIN   16u
#define FORM	    "application/x-www-form-urlencoded"

const char *const http_refusal_names[HTTP_REFUSALS] = {
	[HTTP_REFUSED_FRAMING] = "framing",
	[HTTP_REFUSED_HOST] = "host",
	[HTTP_REFUSED_ORIGIN] = "origin",
	[HTTP_REFUSED_TOKEN] = "token",
	[HTTP_REFUSED_ROLE] = "role",
	[HTTP_REFUSED_TYPE] = "content_type",
	[HTTP_REFUSED_CONNECTION] = "full",
	[HTTP_REFUSED_EVICTED] = "evicted",
	[HTTP_REFUSED_FRONT] = "front_ended",
	[HTTP_REFUSED_HANDSHAKE] = "handshake",
	[HTTP_REFUSED_CERTIFICATE] = "certificate",
	[HTTP_REFUSED_PASSWORD] = "password",
	[HTTP_REFUSED_GUESSES] = "guesses",
	[HTTP_REFUSED_FORWARDED] = "forwarded",
	[HTTP_REFUSED_SETTINGS] = "settings",
	[HTTP_REFUSED_QUEUE] = "queue_full",
	[HTTP_REFUSED_TIME] = "query_timeout",
	[HTTP_REFUSED_SAMPLES] = "query_samples",
	[HTTP_REFUSED_LEFT] = "client_left",
	[HTTP_REFUSED_BODIES] = "bodies",
	[HTTP_REFUSED_ANSWERS] = "answers",
};

uint64_t http_refused(const struct http *h, enum http_refusal cause)
{
	return relaxed_load(h->refused[cause]);
}

#define refuse(req, cause, status, ...)                              \
	(relaxed_add((req)->http->refused[HTTP_REFUSED_##cause], 1), \
	 http_reply_error(req, status, __VA_ARGS__), false)

/* ---- tokens ---- */

static int read_token(const char *path, char *token, char *error, size_t error_bytes)
{
	ssize_t n = base_secret_read(path, token, HTTP_TOKEN_MAX);

	if (n < 0 && n != -EINVAL)
		return base_fail(error, error_bytes, (int)n, "cannot read the token file %s: %s",
				 path, strerror((int)-n));
	if (n < (ssize_t)TOKEN_MIN || memchr(token, 0, (size_t)n))
		return base_fail(error, error_bytes, -EINVAL,
				 "the token in %s must have %u to %u bytes", path, TOKEN_MIN,
				 HTTP_TOKEN_MAX);
	token[n] = 0;
	base_secret_warn("http", path);
	return 0;
}

/* Whether an address that other hosts can reach may be served. */
static int check_exposure(const struct http *h, char *error, size_t error_bytes)
{
	const struct http_opts *o = &h->opts;

	if (h->local || o->open)
		return 0;
	if (!*h->reader_token && !(h->web && http_web_authenticates(h->web)))
		return base_fail(
			error, error_bytes, -EACCES,
			"%s is reachable from other hosts, but readers need not authenticate: "
			"configure a token, or a web.yml with basic_auth_users or client "
			"certificates",
			h->address);
	if (!(h->web && h->web->tls) && !o->insecure)
		return base_fail(error, error_bytes, -EACCES,
				 "%s is reachable from other hosts, and passwords and tokens would "
				 "cross the network in the clear: give --web-config with a "
				 "tls_server_config, or --insecure-listen",
				 h->address);
	if (!(h->web && h->web->tls))
		base_logf(BASE_WARN, "http",
			  "passwords and tokens cross the network in the clear listen=%s: give "
			  "--web-config with a tls_server_config instead of --insecure-listen",
			  h->address);
	return 0;
}

int http_access_init(struct http *h, char *error, size_t error_bytes)
{
	const struct http_opts *o = &h->opts;
	int err = 0;

	if (o->reader_token_file)
		err = read_token(o->reader_token_file, h->reader_token, error, error_bytes);
	if (!err && o->actor_token_file)
		err = read_token(o->actor_token_file, h->actor_token, error, error_bytes);
	if (!err && o->admin_token_file)
		err = read_token(o->admin_token_file, h->admin_token, error, error_bytes);
	else if (!err && o->admin_token)
		snprintf(h->admin_token, sizeof(h->admin_token), "%s", o->admin_token);
	return err ?: check_exposure(h, error, error_bytes);
}

/* Compares in constant time, so that the time does not reveal how much of the token is correct. */
static bool token_right(const char *token, const char *authorization)
{
	unsigned char wrong = 0;
	size_t n = strlen(token);

	if (!n || !authorization || strncasecmp(authorization, "Bearer ", 7))
		return false;
	authorization += 7;
	if (strlen(authorization) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		wrong |= (unsigned char)(token[i] ^ authorization[i]);
	return !wrong;
}

/* ---- Host and Origin ---- */

/* Extracts the host from "HOST[:PORT]" or "[V6][:PORT]"; "" if it is too long. */
static void host_of(const char *authority, char out[256])
{
	size_t n = *authority == '[' ? strcspn(++authority, "]") : strcspn(authority, ":");

	snprintf(out, 256, "%.*s", n < 256 ? (int)n : 0, authority);
}

/* Whether the operator configured this name for the server or for a proxy in front of it. */
static bool is_own_name(const struct http *h, const char *name)
{
	for (size_t i = 0; i < h->opts.allow_host_count; i++)
		if (!strcasecmp(name, h->opts.allow_hosts[i]))
			return true;
	return false;
}

/* True if Host can't be the result of DNS rebinding: no attacker controls the name. */
static bool host_allowed(const struct http *h, const char *host)
{
	unsigned char addr[16];
	char name[256];

	if (!host || h->is_unix || (!h->local && !h->opts.allow_host_count))
		return true;
	host_of(host, name);
	return is_own_name(h, name) || !strcasecmp(name, "localhost") ||
	       inet_pton(AF_INET, name, addr) == 1 || inet_pton(AF_INET6, name, addr) == 1;
}

static bool same_origin(const struct http *h, const char *origin, const char *host)
{
	const char *authority = strstr(origin, "://");
	char name[256];

	if (!authority || strncasecmp(origin, "http", 4))
		return false;
	host_of(authority + 3, name);
	return (host && !strcasecmp(authority + 3, host)) || is_own_name(h, name);
}

/* ---- the check ---- */

static bool is_content(const char *type, const char *wanted)
{
	size_t n = type ? strcspn(type, "; \t") : 0;

	return n == strlen(wanted) && !strncasecmp(type, wanted, n);
}

/*
 * Returns true if a page of another origin cannot send this content type. Forms are allowed
 * although it can: their routes are costly, and costly routes refuse such pages.
 */
static bool good_content(const struct http_request *req, const struct http_route *route)
{
	const char *type = http_header(req, "Content-Type");

	if (route->form)
		return is_content(type, FORM);
	return is_content(type, "application/json") ||
	       (req->http->opts.protobuf && is_content(type, "application/x-protobuf"));
}

/* A client's credentials. A page in a browser can't forge a correct token or password. */
struct proof {
	bool token;   /* a correct token */
	bool ambient; /* a password or certificate, which a browser sends automatically */
	enum http_guess guess;
	enum http_role role;
};

static enum http_role token_role(const struct http *h, const char *authorization)
{
	return token_right(h->admin_token, authorization)    ? HTTP_ADMIN
	       : token_right(h->actor_token, authorization)  ? HTTP_ACTOR
	       : token_right(h->reader_token, authorization) ? HTTP_READER
							     : HTTP_PUBLIC;
}

/* ---- headers set by the front proxy of Kubernetes API servers ---- */

#define FORWARDED_PREFIX "X-Remote-"
#define FORWARDED_USER	 FORWARDED_PREFIX "User"
#define FORWARDED_GROUP	 FORWARDED_PREFIX "Group"

/* Returns the role of the user named by the proxy. Without a user there is no role. */
static enum http_role forwarded_role(const struct http_request *req)
{
	const struct http_web *w = req->http->web;
	const char *user = http_header(req, FORWARDED_USER);
	enum http_role best = HTTP_PUBLIC, role;

	if (!user || !*user)
		return HTTP_PUBLIC;
	best = http_web_role(w, "remote_users", user);
	for (size_t i = 0; i < req->in.field_count; i++) {
		const struct http_message_field *f = &req->in.fields[i];

		if (f->kind != HTTP_FIELD_HEADER || strcasecmp(f->name, FORWARDED_GROUP))
			continue;
		role = http_web_role(w, "remote_groups", f->value);
		best = BASE_MAX(best, role);
	}
	return best;
}

/*
 * Whether proxy headers came from another client. If no proxy is configured, they are ignored and
 * harmless.
 */
static bool is_forged(struct http_request *req)
{
	struct http *h = req->http;
	bool expected, found = false;

	if (!h->opts.web_config || req->slot->from.certified == HTTP_CERTIFIED_PROXY)
		return false;
	pthread_rwlock_rdlock(&h->web_lock);
	expected = h->web->proxy_ca.data;
	pthread_rwlock_unlock(&h->web_lock);
	for (size_t i = 0; expected && !found && i < req->in.field_count; i++)
		found = req->in.fields[i].kind == HTTP_FIELD_HEADER &&
			!strncasecmp(req->in.fields[i].name, FORWARDED_PREFIX,
				     strlen(FORWARDED_PREFIX));
	if (found)
		base_log_limited(BASE_WARN, "http",
				 "refusing a request with the headers of a front proxy, but "
				 "without its certificate listen=%s",
				 h->address);
	return found;
}

/*
 * Determines the role according to web.yml. If web.yml has users, a certificate alone grants no
 * access; like exporter-toolkit, both are required.
 */
static void web_role(struct http_request *req, const char *authorization, struct proof *p)
{
	struct http *h = req->http;
	const struct http_message_open *from = &req->slot->from;
	const struct http_web_user *user = NULL;
	enum http_role role = HTTP_PUBLIC;

	pthread_rwlock_rdlock(&h->web_lock);
	if (from->certified == HTTP_CERTIFIED_CLIENT)
		role = http_web_certificate_role(h->web, req->slot->names ?: "", from->names);
	p->ambient = from->certified;
	if (http_users_basic(authorization)) {
		p->guess = http_users_try(&h->users, h->web, from->peer, authorization, &user);
		p->ambient |= user != NULL;
	}
	if (user)
		role = BASE_MAX(role, user->role);
	else if (h->web->user_count)
		role = HTTP_PUBLIC;
	if (from->certified == HTTP_CERTIFIED_PROXY && h->web->proxy_ca.data)
		role = forwarded_role(req);
	pthread_rwlock_unlock(&h->web_lock);
	p->role = BASE_MAX(p->role, role);
}

/* Returns true if local processes may read without authentication. */
static bool reads_freely(struct http *h)
{
	bool asks;

	if (h->opts.open || !h->local || *h->reader_token)
		return h->opts.open;
	pthread_rwlock_rdlock(&h->web_lock);
	asks = h->web && http_web_authenticates(h->web);
	pthread_rwlock_unlock(&h->web_lock);
	return !asks;
}

bool http_authenticates(struct http *h)
{
	return h->is_unix || !reads_freely(h);
}

/* Determines what the request may do, based on all its credentials. */
static struct proof prove_request(struct http_request *req)
{
	struct http *h = req->http;
	const char *authorization = http_header(req, "Authorization");
	struct proof p = {.guess = HTTP_GUESS_RIGHT};
	enum http_role token = token_role(h, authorization);

	p.token = token != HTTP_PUBLIC;
	p.role = h->is_unix ? http_caller(req)->role : reads_freely(h) ? HTTP_READER : HTTP_PUBLIC;
	p.role = BASE_MAX(p.role, token);
	if (h->opts.web_config && !p.token)
		web_role(req, authorization, &p);
	return p;
}

void http_access_headers(struct http_request *req)
{
	struct http *h = req->http;

	if (!h->opts.web_config)
		return;
	pthread_rwlock_rdlock(&h->web_lock);
	for (size_t i = 0; i < h->web->header_count; i++)
		http_add_header(req, h->web->headers[i].name, h->web->headers[i].value);
	pthread_rwlock_unlock(&h->web_lock);
}

/* Refuses a request whose role is insufficient, and states which role is needed. */
static bool refuse_role(struct http_request *req, const struct proof *p, enum http_role needs)
{
	const struct http *h = req->http;

	if (p->guess == HTTP_GUESS_TOO_MANY) {
		http_add_header(req, "Retry-After", RETRY_AFTER);
		base_log_limited(
			BASE_WARN, "http",
			"too many wrong passwords: refusing passwords for a while listen=%s",
			h->address);
		return refuse(req, GUESSES, 429, "too many wrong passwords: try again later");
	}
	if (!p->token && !p->ambient && !h->is_unix) {
		if (h->opts.web_config)
			http_add_header(req, "WWW-Authenticate",
					"Basic realm=\"sidelight\", charset=\"UTF-8\"");
		http_add_header(req, "WWW-Authenticate", "Bearer");
		if (p->guess == HTTP_GUESS_WRONG) {
			base_log_limited(BASE_WARN, "http", "wrong user or password listen=%s",
					 h->address);
			return refuse(req, PASSWORD, 401, "wrong user or password");
		}
		return refuse(req, TOKEN, 401, "%s",
			      h->opts.web_config
				      ? "the Authorization header is missing or wrong"
				      : "the header Authorization: Bearer TOKEN is missing or "
					"wrong");
	}
	return refuse(req, ROLE, 403, "%s",
		      needs == HTTP_ADMIN   ? "this requires the role of an administrator"
		      : needs == HTTP_ACTOR ? "this requires the role act"
					    : "this requires the role read");
}

bool http_access_allowed(struct http_request *req, const struct http_route *route)
{
	const enum http_role needs = route->needs;
	const bool costly = route->costly;
	struct http *h = req->http;
	const char *host = http_header(req, "Host"), *origin = http_header(req, "Origin");
	const char *site = http_header(req, "Sec-Fetch-Site");
	bool reads = !strcmp(req->in.method, "GET") || !strcmp(req->in.method, "HEAD");
	struct proof p = prove_request(req);

	if (is_forged(req))
		return refuse(req, FORWARDED, 403,
			      "only a front proxy may name the user (" FORWARDED_PREFIX "...)");
	req->role = p.role;
	req->known = p.token || p.ambient;
	if (!p.token && !host_allowed(h, host))
		return refuse(req, HOST, 403,
			      "the Host header is not localhost, an address or an allowed name");
	if ((!reads || costly) && origin && !same_origin(h, origin, host))
		return refuse(req, ORIGIN, 403,
			      "requests from other web pages are not accepted (Origin: %.128s)",
			      origin);
	if (site && ((!reads && p.ambient && strcmp(site, "same-origin") && strcmp(site, "none")) ||
		     (costly && !strcmp(site, "cross-site"))))
		return refuse(req, ORIGIN, 403,
			      "requests from other web pages are not accepted (Sec-Fetch-Site: "
			      "%.32s)",
			      site);
	if (p.role < needs)
		return refuse_role(req, &p, needs);
	if (!reads && req->in.body_bytes && !good_content(req, route))
		return refuse(req, TYPE, 415, "the body must be sent as Content-Type: %s",
			      route->form ? FORM : "application/json");
	return true;
}

enum http_role http_role(const struct http_request *req)
{
	return req->role;
}
