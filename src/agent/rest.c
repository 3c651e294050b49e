// SPDX-License-Identifier: Apache-2.0
/*
 * rest.c - MicroView's routes, in JSON, for clients that cannot link the library. Over a unix
 * socket, the kernel identifies the caller; over TCP, clients need the operator's token.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/peer.h"
#include "agent/rest.h"
#include "base/relaxed.h"
#include "http/http.h"

struct rest_route;
struct rest_bound { /* argument of a handler */
	struct agent *a;
	const struct rest_route *route;
};

#define ROUTES 12u

struct agent_rest {
	struct http *http;
	struct rest_bound bound[ROUTES];
	uint64_t refused[HTTP_REFUSALS]; /* counts of src/http; relaxed atomics */
};

/* ---- read-only routes ---- */

static json_t *get_health(struct agent *a)
{
	const uint32_t own = a->own_count; /* the agent's own regions are not counted */

	return json_pack("{s:s,s:s,s:s,s:i,s:i,s:b}", "status", "ok", "version", SL_VERSION_STRING,
			 "host", a->host, "regions", (int)(a->region_count - own), "live",
			 (int)(a->state_count[SL_STATE_LIVE] - own), "rdma", a->rdma != NULL);
}

/* Returns the number, or -1 with the reply filled in. */
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
	json_t *all, *one;
	size_t i;

	if (n < 0)
		return;
	pthread_mutex_lock(&a->lock);
	all = agent_rdma_queues_json(a);
	pthread_mutex_unlock(&a->lock);
	json_array_foreach(json_object_get(all, "qps"), i, one)
	{
		if (json_integer_value(json_object_get(one, "qp_num")) == n)
			reply->json = json_incref(one);
	}
	json_decref(all);
	if (!reply->json)
		agent_rest_fail(reply, 404, "no queue pair has number %d: see GET /rdma/qps",
				(int)n);
}

/*
 * MicroView's collector creates a queue pair, posts its number and GID here, and gets the agent's.
 * Here, librdmacm resolves the address and connects, so nothing needs to be posted; the answer
 * tells where to connect.
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
			  a->rdma ? "queue pairs cannot be connected over REST: use RDMA-CM "
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
				       "service", region_label(r->info, "service"), "address",
				       (json_int_t)key.addr, "length", (json_int_t)r->info->size,
				       "rkey", (json_int_t)key.rkey, "access",
				       a->rdma ? "REMOTE_READ" : "none"));
	}
	return json_pack("{s:b,s:{s:I,s:I,s:I},s:o}", "rdma", a->rdma != NULL, "directory",
			 "address", (json_int_t)a->dir.key.addr, "length", (json_int_t)a->dir.size,
			 "rkey", (json_int_t)a->dir.key.rkey, "mrs", all);
}

static const struct rest_route {
	const char *method, *path;
	enum http_role needs;
	bool readers; /* the route shows regions of other users */
	/* handler called with the lock held; NULL means fn is called */
	json_t *(*get)(struct agent *a);
	void (*fn)(struct agent *a, const struct agent_rest_request *q,
		   struct agent_rest_reply *reply);
} routes[ROUTES] = {
	{"GET", "/health", HTTP_PUBLIC, false, .get = get_health},
	{"GET", "/metrics", HTTP_READER, true, .fn = agent_rest_get_metrics},
	{"POST", "/metrics", HTTP_READER, false, .fn = agent_rest_post_metrics},
	{"GET", "/rdma/qps", HTTP_READER, true, .get = agent_rdma_queues_json},
	{"POST", "/rdma/qps/connect", HTTP_READER, false, .fn = post_connect},
	{"GET", "/rdma/qp/{}", HTTP_READER, true, .fn = get_qp},
	{"POST", "/rdma/qp/{}/connect", HTTP_READER, false, .fn = post_connect},
	{"GET", "/rdma/mrs", HTTP_READER, true, .get = get_mrs},
	{"POST", "/rdma/mrs/create", HTTP_ADMIN, false, .fn = agent_rest_post_mrs},
	{"GET", "/tcp", HTTP_READER, true, .get = agent_tcp_json},
	{"POST", "/tcp/filter", HTTP_ACTOR, false, .fn = agent_rest_set_tcp_filter},
	{"PUT", "/tcp/filter", HTTP_ACTOR, false, .fn = agent_rest_set_tcp_filter},
};

/* ---- callers ---- */

/* A client with the token acts for the operator. */
static struct agent_rest_caller own_caller(const struct agent *a)
{
	const struct agent_tenant_id id = {.uid = a->uid};

	return (struct agent_rest_caller){
		.id = id, .key = agent_tenant_key(&id), .trusted = true, .reader = true};
}

static void identify_caller(void *arg, int socket, struct http_caller *c)
{
	struct agent_rest_caller *caller = calloc(1, sizeof(*caller));
	struct agent *a = arg;
	struct agent_peer *peer;

	c->role = HTTP_PUBLIC;
	pthread_mutex_lock(&a->lock);
	peer = agent_peer_new(a, socket);
	if (peer && caller && !peer->unattested) {
		const struct agent_tenant *t = peer->tenant;

		*caller = (struct agent_rest_caller){t->id, t->key, t->trusted,
						     agent_tenant_consumes(a, t)};
		c->role = caller->trusted ? HTTP_ADMIN : HTTP_READER;
		c->of = caller;
	} else {
		free(caller);
	}
	agent_peer_put(a, peer);
	pthread_mutex_unlock(&a->lock);
	agent_wake(a); /* so that the loop frees the peer */
}

static void forget_caller(void *arg, struct http_caller *c)
{
	(void)arg;
	free(c->of);
	c->of = NULL;
}

/* ---- requests ---- */

static void answer_request(struct agent *a, const struct rest_route *route,
			   const struct agent_rest_request *q, struct agent_rest_reply *reply)
{
	bool ok;

	*reply = (struct agent_rest_reply){.status = 200};
	ok = !route->readers || q->caller->reader ||
	     agent_rest_fail(
		     reply, 403,
		     "access denied: this route shows the regions of all users; see --consumer-uid");
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
		agent_wake(a); /* the request may have started a timer, even if it was refused */
}

void agent_rest_handle(struct agent *a, const struct agent_rest_request *q,
		       struct agent_rest_reply *reply)
{
	const struct agent_rest_caller own = own_caller(a);
	struct agent_rest_request with = *q;

	with.caller = q->caller ? q->caller : &own;
	for (size_t i = 0; i < ROUTES; i++)
		if (!strcmp(routes[i].path, q->path) && !strcmp(routes[i].method, q->method)) {
			answer_request(a, &routes[i], &with, reply);
			return;
		}
	*reply = (struct agent_rest_reply){0};
	agent_rest_fail(reply, 404, "no such route");
}

/* ---- over HTTP ---- */

static void on_request(struct http_request *req, void *arg)
{
	const struct rest_bound *b = arg;
	const struct agent_rest_caller own = own_caller(b->a), *caller = http_caller(req)->of;
	struct agent_rest_request q = {
		.method = http_method(req),
		.path = http_path(req),
		.variable = http_variable(req),
		/* a request by TCP, with the token, acts for the agent's user */
		.caller = caller ? caller : &own,
	};
	struct agent_rest_reply reply;

	/* Local users publish their own regions; requests over TCP act as the agent's user. */
	if (http_uid(req) == (uid_t)-1 && strcmp(q.method, "GET") && strcmp(q.method, "HEAD") &&
	    http_role(req) < HTTP_ACTOR) {
		http_reply_error(req, 403, "this requires the role act or admin");
		return;
	}
	q.body = http_body(req, &q.bytes);
	answer_request(b->a, b->route, &q, &reply);
	if (reply.layout)
		http_reply_stream(req, reply.status, "application/json", agent_layout_read,
				  agent_layout_done, reply.layout);
	else
		http_reply_json(req, reply.status, reply.json);
}

int agent_rest_check(const char *listen, bool proves, char *error, size_t bytes)
{
	int local = http_is_local(listen, error, bytes);

	if (local < 0)
		return base_fail(error, bytes, -EINVAL,
				 "--rest must be unix:/PATH or ADDRESS:PORT, not '%s'", listen);
	if (proves || !strncmp(listen, "unix:", 5))
		return local;
	return base_fail(
		error, bytes, -EACCES,
		"--rest %s: over TCP, the kernel does not identify users: set --rest-token-file "
		"or --web-config, or listen on unix:/PATH",
		listen);
}

int agent_rest_init(struct agent *a, char *error, size_t bytes)
{
	const bool tcp = a->o.rest && strncmp(a->o.rest, "unix:", 5);
	struct http_opts o = {.listen = a->o.rest,
			      .web_config = tcp ? a->o.web_config : NULL,
			      .roles_file = tcp ? a->o.roles_file : NULL,
			      .insecure = a->o.insecure,
			      .max_connections = 64,
			      .reader_token_file = a->o.rest_token_file,
			      .admin_token_file = a->o.rest_token_file,
			      .identify = identify_caller,
			      .forget = forget_caller,
			      .front = a->o.rest_front,
			      .identify_arg = a};
	struct agent_rest *rest;
	int err;

	if (!a->o.rest || !*a->o.rest)
		return 0;
	err = agent_rest_check(a->o.rest, a->o.rest_token_file || a->o.web_config, error, bytes);
	if (err < 0)
		return err;
	rest = calloc(1, sizeof(*rest));
	if (!rest)
		return base_fail(error, bytes, -ENOMEM, "out of memory");
	o.refused = rest->refused;
	rest->http = http_new(&o, error, bytes);
	if (!rest->http) {
		err = -errno;
		if (a->o.rest_optional) {
			base_logf(BASE_WARN, AGENT_LOG,
				  "cannot start the REST server: %s; choose another address with "
				  "--rest",
				  error);
			err = 0;
		}
		goto err;
	}
	/* agent_rest_check() knows only that there is a web.yml. */
	if (!http_authenticates(rest->http)) {
		err = base_fail(error, bytes, -EACCES,
				"--rest %s: over TCP, the kernel does not identify users: %s must "
				"have basic_auth_users or require client certificates",
				a->o.rest, a->o.web_config);
		goto err;
	}
	for (size_t i = 0; i < ROUTES; i++) {
		rest->bound[i] = (struct rest_bound){a, &routes[i]};
		err = http_route(rest->http, routes[i].method, routes[i].path, routes[i].needs,
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

void agent_rest_count(struct agent *a)
{
	for (int i = 0; a->rest && i < HTTP_REFUSALS; i++)
		a->n.rest_refused[i] = relaxed_load(a->rest->refused[i]);
}

const char *agent_rest(const struct agent *a)
{
	return a->rest ? http_address(a->rest->http) : NULL;
}
