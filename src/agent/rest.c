// SPDX-License-Identifier: Apache-2.0
/*
 * rest.c - MicroView's routes, in JSON, for clients that cannot link the library.
 *
 * A control interface: bound to loopback unless there is a token, and closed to web pages. A page
 * in a local browser can send requests to loopback, but cannot omit Origin or choose the
 * Content-Type.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/rdma.h"
#include "agent/rest.h"
#include "agent/tcp.h"
#include "http/http.h"

#define TOKEN_MIN 16u
#define TOKEN_MAX 512u

struct rest_route;
struct rest_bound { /* the argument of a handler */
	struct agent *a;
	const struct rest_route *route;
};

#define ROUTES 12u

struct agent_rest {
	struct http *http;
	struct rest_bound bound[ROUTES];
	char token[TOKEN_MAX + 1]; /* "": no token is required */
	bool loopback;
};

/* ---- read-only routes ---- */

static json_t *get_health(struct agent *a)
{
	const uint32_t own = a->own_count; /* the agent's own regions are not counted */

	return json_pack("{s:s,s:s,s:s,s:i,s:i,s:b}", "status", "ok", "version", SL_VERSION_STRING,
			 "host", a->host, "regions", (int)(a->region_count - own), "live",
			 (int)(a->state_count[SL_STATE_LIVE] - own), "rdma", a->rdma != NULL);
}

static json_t *get_qps(struct agent *a)
{
	return agent_rdma_queues_json(a, -1);
}

/* -1: the reply is filled in. */
static int64_t qp_number(const struct agent_rest_request *q, struct agent_rest_reply *reply)
{
	uint64_t n;

	if (!base_parse_u64(q->variable, 0, 0xffffff, &n))
		return (int64_t)n;
	agent_rest_fail(reply, 400, "\"%.32s\" is not a queue pair number (0 to 16777215)",
			q->variable);
	return -1;
}

static void get_qp(struct agent *a, const struct agent_rest_request *q,
		   struct agent_rest_reply *reply)
{
	int64_t n = qp_number(q, reply);

	if (n < 0)
		return;
	pthread_mutex_lock(&a->lock);
	reply->json = agent_rdma_queues_json(a, n);
	pthread_mutex_unlock(&a->lock);
	if (!reply->json)
		agent_rest_fail(reply, 404, "no queue pair has number %d: see GET /rdma/qps",
				(int)n);
}

/*
 * MicroView's collector creates a queue pair, posts its number and GID here, and gets the agent's.
 * Here librdmacm resolves the address and connects, so there is nothing to post; the answer says
 * where to connect.
 */
static void post_connect(struct agent *a, const struct agent_rest_request *q,
			 struct agent_rest_reply *reply)
{
	if (*q->variable && qp_number(q, reply) < 0)
		return;
	reply->status = 409;
	pthread_mutex_lock(&a->lock);
	reply->json =
		json_pack("{s:s,s:o}", "error",
			  a->rdma ? "queue pairs are not connected by REST: connect by RDMA-CM "
				    "(rdma_resolve_addr, rdma_connect), as sidelight collect does"
				  : "this agent has no RDMA device: start it with --rdma DEVICE",
			  "connect", agent_rdma_connect_json(a));
	pthread_mutex_unlock(&a->lock);
}

static json_t *get_mrs(struct agent *a)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < a->slot_count; i++) {
		const struct agent_region *r = a->slots[i];
		struct fabric_host_key key;

		if (!r || r->state == SL_STATE_RETIRED)
			continue;
		key = agent_rdma_key(a, r);
		json_array_append_new(
			all, json_pack("{s:I,s:s,s:I,s:I,s:I,s:s}", "region", (json_int_t)r->id,
				       "service", agent_region_label(r, "service"), "address",
				       (json_int_t)key.addr, "length", (json_int_t)r->info->size,
				       "rkey", (json_int_t)key.rkey, "access",
				       a->rdma ? "REMOTE_READ" : "none"));
	}
	return json_pack("{s:b,s:o,s:o}", "rdma", a->rdma != NULL, "directory",
			 agent_rdma_directory_json(a), "mrs", all);
}

static const struct rest_route {
	const char *method, *path;
	json_t *(*get)(struct agent *a); /* with the lock held; or: */
	void (*fn)(struct agent *a, const struct agent_rest_request *q,
		   struct agent_rest_reply *reply);
} routes[ROUTES] = {
	{"GET", "/health", .get = get_health},
	{"GET", "/metrics", .fn = agent_rest_get_metrics},
	{"POST", "/metrics", .fn = agent_rest_post_metrics},
	{"GET", "/rdma/qps", .get = get_qps},
	{"POST", "/rdma/qps/connect", .fn = post_connect},
	{"GET", "/rdma/qp/{}", .fn = get_qp},
	{"POST", "/rdma/qp/{}/connect", .fn = post_connect},
	{"GET", "/rdma/mrs", .get = get_mrs},
	{"POST", "/rdma/mrs/create", .fn = agent_rest_post_mrs},
	{"GET", "/tcp", .get = agent_tcp_json},
	{"POST", "/tcp/filter", .fn = agent_rest_set_tcp_filter},
	{"PUT", "/tcp/filter", .fn = agent_rest_set_tcp_filter},
};

/* ---- access control ---- */

/* Takes the same time whatever part of the token is right. */
static bool token_right(const char *token, const char *authorization)
{
	unsigned char wrong = 0;
	size_t n = strlen(token);

	if (!authorization || strncasecmp(authorization, "Bearer ", 7))
		return false;
	authorization += 7;
	if (strlen(authorization) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		wrong |= (unsigned char)(token[i] ^ authorization[i]);
	return !wrong;
}

/*
 * A foreign name in Host means DNS rebinding: a web page's own name resolves to loopback, and the
 * browser takes its requests for same-origin.
 */
static bool host_is_local(const char *host)
{
	char name[256];
	unsigned char addr[16];
	size_t n = *host == '[' ? strcspn(++host, "]") : strcspn(host, ":");

	if (n >= sizeof(name))
		return false;
	memcpy(name, host, n);
	name[n] = 0;
	return !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, addr) == 1 ||
	       inet_pton(AF_INET6, name, addr) == 1;
}

static bool json_content(const char *type)
{
	size_t n = type ? strcspn(type, "; \t") : 0;

	return n == strlen("application/json") && !strncasecmp(type, "application/json", n);
}

static bool allowed(const struct agent *a, const struct agent_rest_request *q,
		    struct agent_rest_reply *reply)
{
	const struct agent_rest *rest = a->rest;
	bool post = strcmp(q->method, "GET");

	if (rest && rest->loopback && !*rest->token && q->host && !host_is_local(q->host))
		return agent_rest_fail(reply, 403, "Host is neither localhost nor an address");
	if (post && q->origin)
		return agent_rest_fail(reply, 403,
				       "requests from web pages are not accepted (Origin: %.128s)",
				       q->origin);
	if (rest && *rest->token && strcmp(q->path, "/health") &&
	    !token_right(rest->token, q->authorization))
		return agent_rest_fail(reply, 401,
				       "Authorization: Bearer TOKEN is missing or wrong");
	if (post && q->bytes && !json_content(q->content_type))
		return agent_rest_fail(reply, 415,
				       "the body must be sent as Content-Type: application/json");
	return true;
}

static void answer(struct agent *a, const struct rest_route *route,
		   const struct agent_rest_request *q, struct agent_rest_reply *reply)
{
	bool ok;

	*reply = (struct agent_rest_reply){.status = 200};
	ok = allowed(a, q, reply);
	if (ok && route->fn)
		route->fn(a, q, reply);
	pthread_mutex_lock(&a->lock);
	if (ok && route->get)
		reply->json = route->get(a);
	if (!reply->json && !reply->layout)
		agent_rest_fail(reply, 500, "out of memory");
	a->n.rest_requests++;
	if (reply->status >= 400)
		a->n.rest_errors++;
	pthread_mutex_unlock(&a->lock);
	if (strcmp(q->method, "GET"))
		agent_wake(a); /* it may have started a timer, even if it was refused */
}

/* {} matches one or more characters other than '/'. */
static bool matches(const char *route, const char *path, char *variable, size_t bytes)
{
	const char *hole = strstr(route, "{}");
	size_t n;

	*variable = 0;
	if (!hole)
		return !strcmp(route, path);
	if (strncmp(route, path, (size_t)(hole - route)))
		return false;
	path += hole - route;
	n = strcspn(path, "/");
	if (!n || n >= bytes || strcmp(path + n, hole + 2))
		return false;
	memcpy(variable, path, n);
	variable[n] = 0;
	return true;
}

void agent_rest_handle(struct agent *a, const struct agent_rest_request *q,
		       struct agent_rest_reply *reply)
{
	struct agent_rest_request with = *q;
	char variable[64];
	bool path = false;

	for (size_t i = 0; i < ROUTES; i++) {
		if (!matches(routes[i].path, q->path, variable, sizeof(variable)))
			continue;
		path = true;
		if (strcmp(routes[i].method, q->method))
			continue;
		with.variable = variable;
		answer(a, &routes[i], &with, reply);
		return;
	}
	*reply = (struct agent_rest_reply){0};
	agent_rest_fail(reply, path ? 405 : 404, "%.64s",
			path ? "method not allowed" : "no such path");
}

/* ---- over HTTP ---- */

static void on_request(struct http_request *req, void *arg)
{
	const struct rest_bound *b = arg;
	struct agent_rest_request q = {
		.method = http_method(req),
		.path = http_path(req),
		.variable = http_variable(req),
		.content_type = http_header(req, "Content-Type"),
		.origin = http_header(req, "Origin"),
		.host = http_header(req, "Host"),
		.authorization = http_header(req, "Authorization"),
	};
	struct agent_rest_reply reply;

	q.body = http_body(req, &q.bytes);
	answer(b->a, b->route, &q, &reply);
	if (reply.status == 401)
		http_add_header(req, "WWW-Authenticate", "Bearer");
	if (reply.layout)
		http_reply_stream(req, reply.status, "application/json", agent_layout_read,
				  agent_layout_done, reply.layout);
	else
		http_reply_json(req, reply.status, reply.json);
}

static int read_token(const char *path, char *token, char *error, size_t bytes)
{
	char text[TOKEN_MAX + 2];
	struct stat st;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (n < 0 || fstat(fd, &st)) {
		int err = errno;

		snprintf(error, bytes, "cannot read the token file %s: %s", path, strerror(err));
		if (fd >= 0)
			close(fd);
		return -err;
	}
	close(fd);
	while (n && strchr(" \t\r\n", text[n - 1]))
		n--;
	if (n < (ssize_t)TOKEN_MIN || n > (ssize_t)TOKEN_MAX || memchr(text, 0, (size_t)n))
		return base_fail(error, bytes, -EINVAL, "the token in %s must have %u to %u bytes",
				 path, TOKEN_MIN, TOKEN_MAX);
	memcpy(token, text, (size_t)n);
	token[n] = 0;
	if (st.st_mode & 077)
		base_logf(BASE_WARN, AGENT_LOG,
			  "the token file is readable by others path=%s: chmod 600 it", path);
	return 0;
}

int agent_rest_check(const char *listen, bool has_token, char *error, size_t bytes)
{
	char host[256];
	uint16_t port;
	struct in6_addr v6;
	struct in_addr v4;
	bool loopback;

	if (base_parse_address(listen, host, sizeof(host), &port))
		return base_fail(error, bytes, -EINVAL, "--rest '%s' is not ADDRESS:PORT", listen);
	loopback = !*host || !strcasecmp(host, "localhost") ||
		   (inet_pton(AF_INET, host, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127) ||
		   (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
	if (loopback || has_token)
		return loopback;
	return base_fail(
		error, bytes, -EACCES,
		"--rest %s is reachable from other hosts: give --rest-token-file, or bind to loopback",
		listen);
}

int agent_rest_init(struct agent *a, char *error, size_t bytes)
{
	struct http_opts o = {.listen = a->o.rest, .max_connections = 64};
	struct agent_rest *rest;
	int err;

	if (!a->o.rest || !*a->o.rest)
		return 0;
	err = agent_rest_check(a->o.rest, a->o.rest_token_file != NULL, error, bytes);
	if (err < 0)
		return err;
	rest = calloc(1, sizeof(*rest));
	if (!rest)
		return base_fail(error, bytes, -ENOMEM, "out of memory");
	rest->loopback = err;
	if (a->o.rest_token_file) {
		err = read_token(a->o.rest_token_file, rest->token, error, bytes);
		if (err)
			goto err;
	}
	rest->http = http_new(&o, error, bytes);
	if (!rest->http) {
		err = -errno;
		if (a->o.rest_optional) {
			base_logf(BASE_WARN, AGENT_LOG,
				  "no REST: %s; choose another address by --rest ADDRESS:PORT",
				  error);
			err = 0;
		}
		goto err;
	}
	for (size_t i = 0; i < ROUTES; i++) {
		rest->bound[i] = (struct rest_bound){a, &routes[i]};
		err = http_route(rest->http, routes[i].method, routes[i].path, HTTP_READER,
				 on_request, &rest->bound[i]);
		if (err) {
			snprintf(error, bytes, "route %s: %s", routes[i].path, strerror(-err));
			goto err;
		}
	}
	a->rest = rest;
	err = http_start(rest->http, error, bytes);
	if (!err)
		return 0;
	a->rest = NULL;
err:
	http_free(rest->http);
	free(rest);
	return err;
}

void agent_rest_fini(struct agent *a)
{
	if (!a->rest)
		return;
	http_free(a->rest->http);
	free(a->rest);
	a->rest = NULL;
}

const char *agent_rest(const struct agent *a)
{
	return a->rest ? http_address(a->rest->http) : NULL;
}
