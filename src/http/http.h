/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - a small HTTP/1.1 server on libmicrohttpd, for the agent's REST interface and the
 * collector's exposition, API and page. Limits on connections, request bodies (64 KiB by default)
 * and time are fixed on startup. Compressible answers are gzipped if the client accepts it.
 *
 * Clients talk to a separate process, the front (message.h); handlers run in this process.
 */
#ifndef SL_HTTP_HTTP_H
#define SL_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct http;
struct http_request;

/* The role that a route requires, or that a request has. */
enum http_role {
	HTTP_PUBLIC, /* any client, without authentication */
	HTTP_READER, /* may read everything the server knows */
	HTTP_ACTOR,  /* may perform operations: rotate, filter, publish */
	HTTP_ADMIN,  /* may change the server's configuration */
};

/* The process at the other end of a unix socket, as attested by the kernel. */
struct http_caller {
	uid_t uid; /* (uid_t)-1 means connected by TCP */
	pid_t pid; /* 0 means connected by TCP, or not visible in this PID namespace */
	enum http_role role;
	void *of;	     /* for handlers: set by identify(), freed by forget() */
	uint64_t connection; /* number of the connection; never reused */
};

/*
 * A handler calls exactly one http_reply function and returns. Handlers run on several server
 * threads. They must not wait, because other connections share the thread; only handlers of costly
 * routes may wait. Strings obtained from the request are valid until the handler returns. A GET
 * handler also answers HEAD.
 */
typedef void (*http_handler)(struct http_request *req, void *arg);

struct http_opts {
	/*
	 * "127.0.0.1:9464", "[::1]:0" or "unix:/PATH"; ":9464" means loopback, and port 0 any free
	 * port
	 */
	const char *listen;
	/* 0 means 256; when all are in use, peer.c decides which connection is closed */
	unsigned int max_connections;
	/*
	 * 0 means 64 KiB; larger bodies are answered with 413. A body is answered with 503 if it
	 * exceeds the peer's share of the memory for bodies (peer.c).
	 */
	size_t max_body;
	/*
	 * Timeout of an idle connection; 0 means 30. A request must be complete within twice this
	 * time, and an answer must be received within ten times this time, however active the
	 * connection is.
	 */
	unsigned int timeout_s;
	unsigned int threads; /* number of threads; 0 means 2 */
	/*
	 * Limits of costly requests (http_route_costly()): the number that run at the same time, 0
	 * means 2; the time of each, including its wait in the queue, 0 means 10 s; the number of
	 * samples that each may touch, 0 means 50 million.
	 */
	unsigned int query_concurrency;
	uint64_t query_timeout_ns, query_samples;
	bool no_gzip;
	bool protobuf; /* bodies of type application/x-protobuf are accepted as well */

	/*
	 * Files with bearer tokens (RFC 6750). Without tokens, users and certificates, clients on
	 * loopback may read. Each role includes the lower roles. Changes of state over TCP always
	 * require authentication.
	 */
	const char *reader_token_file, *actor_token_file, *admin_token_file;
	/*
	 * web.yml, and the roles of its users and certificates (web.h). Both are reloaded when a
	 * file changes. http_new() refuses addresses that other hosts can reach without
	 * authentication unless open is set, and without TLS unless open or insecure is set.
	 */
	const char *web_config, *roles_file;
	bool insecure;
	const char *admin_token; /* the token itself, instead of a file */
	bool open;		 /* allow reading without a token, even from other hosts */
	/*
	 * Names accepted in Host, in addition to localhost and addresses. If the list is empty, any
	 * name is accepted on addresses other than loopback.
	 */
	const char *const *allow_hosts;
	size_t allow_host_count;
	/*
	 * Called when a client connects to a unix socket. Sets role and .of of the caller, whose
	 * uid and pid are already set. If it is NULL, root and the server's own user are
	 * HTTP_ADMIN, other users HTTP_READER.
	 */
	void (*identify)(void *arg, int socket, struct http_caller *caller);
	/* called when a client disconnects, even if it was not identified; or NULL */
	void (*forget)(void *arg, struct http_caller *caller);
	void *identify_arg;
	/*
	 * starts fronts; the caller frees it after http_free(). If it is NULL, http_new() forks the
	 * spawners, which then have a copy of this process's memory
	 */
	struct http_front *front;
	uint64_t *refused; /* refusal counters, [HTTP_REFUSALS]; NULL means the server's own */
};

/*
 * Forks the spawners of fronts (base/child.h), for one server at a time. Call it before there are
 * threads, secrets or other descriptors: fronts get a copy of all memory, but no descriptor except
 * standard error. Returns NULL with errno. Stop the spawners with http_front_end(), which ignores
 * NULL.
 */
struct http_front *http_front_fork(bool unconfined);
void http_front_end(struct http_front *front);

/*
 * Returns 1 if only this host can reach a listening address, 0 if other hosts can, or -EINVAL with
 * one line in error.
 */
int http_is_local(const char *listen, char *error, size_t error_bytes);

/*
 * Creates a server. Returns NULL with errno and one line in error (for example if the port is in
 * use, the address is invalid, or a required token is missing). Add routes before starting it.
 */
struct http *http_new(const struct http_opts *opts, char *error, size_t error_bytes);
/*
 * Adds a route. path: exact ("/health"), with one variable segment ("/rdma/qp/{}",
 * "/rdma/qp/{}/connect"), or with the remainder as the variable ("/apis/{*}"). Other methods of a
 * known path are answered with 405 and Allow, unknown paths with 404, and requests without the
 * required role with 401 or 403 (access.c). Returns 0, -EINVAL, -ENOSPC, -ENOMEM, or -EBUSY after
 * the server was started.
 */
int http_route(struct http *h, const char *method, const char *path, enum http_role needs,
	       http_handler fn, void *arg);
/*
 * Like http_route(), for requests that take long. Their handlers run on separate threads, so that
 * other requests never wait for them. A few requests wait in a queue (queue.c); when it is full,
 * further requests are answered with 503. Requests from pages of other sites are refused. The
 * handler must observe http_budget(). The caller's .of is NULL.
 */
int http_route_costly(struct http *h, const char *method, const char *path, enum http_role needs,
		      http_handler fn, void *arg);
/*
 * Adds costly routes for GET and POST with the same handler. The body of a POST is an HTML form,
 * whose fields are parameters like those of the query string. The handler must not change any
 * state.
 */
int http_route_query(struct http *h, const char *path, enum http_role needs, http_handler fn,
		     void *arg);
int http_start(struct http *h, char *error, size_t error_bytes);
void http_free(struct http *h); /* stops; no handler runs after it returns */
/* Returns "127.0.0.1:9464", with the actual port, or "unix:/PATH". */
const char *http_address(const struct http *h);

/*
 * Returns true if the server identifies every client that reads: by web.yml, by a token, or, on a
 * unix socket, by its user.
 */
bool http_authenticates(struct http *h);

/* Returns the role of the request. */
enum http_role http_role(const struct http_request *req);
const struct http_caller *http_caller(const struct http_request *req);
uid_t http_uid(const struct http_request *req); /* same as http_caller()->uid */
const char *http_method(const struct http_request *req);
const char *http_path(const struct http_request *req);
const char *http_variable(const struct http_request *req); /* the part matched by {}, or "" */
/* value of a header, or NULL */
const char *http_header(const struct http_request *req, const char *name);
/* Returns the value of a query parameter (the first one if it is repeated), or NULL. */
const char *http_query(const struct http_request *req, const char *key);
/* Part of a header; not NUL-terminated. http_word_is() compares it, ignoring case. */
struct http_word {
	const char *s; /* NULL if there is none */
	size_t bytes;
};
bool http_word_is(struct http_word w, const char *text);
/* An item of a header such as Accept: "NAME;KEY=VALUE;q=0.5". */
struct http_accepted {
	struct http_word name, parameters;
	double q; /* weight; 1 if there is none */
};
/* Reads the next item of *list, which may be NULL. Returns false at the end. */
bool http_accept_next(const char **list, struct http_accepted *out);
struct http_word http_accept_value(const struct http_accepted *a, const char *key);
/* Calls fn for each query parameter in order, until fn returns false. */
void http_query_each(const struct http_request *req,
		     bool (*fn)(void *arg, const char *key, const char *value), void *arg);
const void *http_body(const struct http_request *req, size_t *bytes);

/*
 * Adds a header to the answer, such as Content-Security-Policy or Cache-Control. Call it before the
 * reply. Copies both strings. Returns 0, -ENOMEM, -ENOSPC (more than 16), or -EINVAL for a
 * malformed name or value.
 */
int http_add_header(struct http_request *req, const char *name, const char *value);

/* Replies with a copy of body. */
void http_reply(struct http_request *req, int status, const char *content_type, const void *body,
		size_t bytes);
/*
 * Replies with a static body (an embedded file). etag: the opaque part without quotes, or NULL; a
 * matching If-None-Match is answered with 304. Cache-Control is no-cache unless set.
 */
void http_reply_static(struct http_request *req, int status, const char *content_type,
		       const void *body, size_t bytes, const char *etag);
/* Replies with {"error": text}. */
void http_reply_error(struct http_request *req, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Replies with an error in the format of Prometheus' API. Other clients only read "error". */
void http_reply_refused(struct http_request *req, int status, const char *type, const char *why);
/*
 * Replies with 503 because answers in progress leave no room for this one, and counts it as
 * HTTP_REFUSED_ANSWERS.
 */
void http_reply_full(struct http_request *req, const char *why);
/* Replies with a jansson value and takes ownership of it. */
struct json_t;
void http_reply_json(struct http_request *req, int status, struct json_t *json);
/*
 * Replies with a stream. read fills in up to max bytes and returns their number, 0 at the end, or <
 * 0 to abort the connection; it runs on a server thread and must not wait. done, which may be NULL,
 * is called exactly once, even if the client has left. Memory per request: 100 KiB, plus 300 KiB if
 * compressed.
 */
void http_reply_stream(struct http_request *req, int status, const char *content_type,
		       ssize_t (*read)(void *arg, char *buf, size_t max), void (*done)(void *arg),
		       void *arg);

/*
 * Like http_reply_stream(), but for a costly request: read() may take long and must observe the
 * budget.
 */
void http_reply_stream_costly(struct http_request *req, int status, const char *content_type,
			      ssize_t (*read)(void *arg, char *buf, size_t max),
			      void (*done)(void *arg), void *arg);

/*
 * Returns the budget of a costly request, which is valid until done() of its stream is called; NULL
 * for other requests.
 */
struct base_budget;
struct base_budget *http_budget(struct http_request *req);
/*
 * If the budget is used up, replies and returns true. The status is 503 for time and 422 for
 * samples. The body has "error" and, as in Prometheus' API, "status" and "errorType".
 */
bool http_over_budget(struct http_request *req);

/* Returns the number of open connections. */
uint32_t http_connections(const struct http *h);
/*
 * Returns the number of answers in progress for the same user or address, including this request's.
 */
uint32_t http_answers(const struct http_request *req);

/* Causes of refusals; each has a counter. */
enum http_refusal {
	HTTP_REFUSED_FRAMING,	 /* 400: the body length or the host is ambiguous */
	HTTP_REFUSED_HOST,	 /* 403: Host does not name this server */
	HTTP_REFUSED_ORIGIN,	 /* 403: request from a page of another origin */
	HTTP_REFUSED_TOKEN,	 /* 401: no valid token */
	HTTP_REFUSED_ROLE,	 /* 403: authenticated, but not allowed */
	HTTP_REFUSED_TYPE,	 /* 415: the body is not JSON */
	HTTP_REFUSED_CONNECTION, /* closed immediately: too many connections */
	HTTP_REFUSED_EVICTED,	 /* closed to make room for another peer's connection */
	HTTP_REFUSED_FRONT,	 /* closed because the front exited */
	HTTP_REFUSED_HANDSHAKE,	 /* closed: not TLS, or the handshake took too long */
	/* closed: the client's certificate is missing, wrong or expired */
	HTTP_REFUSED_CERTIFICATE,
	HTTP_REFUSED_PASSWORD,	/* 401: no such user, or a wrong password */
	HTTP_REFUSED_GUESSES,	/* 429: too many wrong passwords */
	HTTP_REFUSED_FORWARDED, /* 403: headers of a front proxy without its certificate */
	/* not a request: web.yml or one of its files changed and is invalid */
	HTTP_REFUSED_SETTINGS,
	HTTP_REFUSED_QUEUE,   /* 503: too many costly requests were waiting */
	HTTP_REFUSED_TIME,    /* 503: a costly request took too long, including its wait */
	HTTP_REFUSED_SAMPLES, /* 422: a costly request touched too many samples */
	HTTP_REFUSED_LEFT,    /* the client of a costly request left before the answer */
	HTTP_REFUSED_BODIES,  /* 503: the peer's share of the memory for bodies is used up */
	HTTP_REFUSED_ANSWERS, /* 503: too many large answers are in progress */
	HTTP_REFUSALS,
};
extern const char *const http_refusal_names[HTTP_REFUSALS];
uint64_t http_refused(const struct http *h, enum http_refusal cause);

#endif
