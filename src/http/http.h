/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - a small HTTP/1.1 server over libmicrohttpd, for the agent's REST and the collector's
 * exposition, API and page. Limits on connections, request bodies (64 KiB by default) and time are
 * fixed at start. Compressible answers are gzipped if the client accepts that.
 *
 * Clients face another process, the front (message.h); handlers run in this one.
 */
#ifndef SL_HTTP_HTTP_H
#define SL_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct http;
struct http_request;

/* What a route requires, and what a request has. */
enum http_role {
	HTTP_PUBLIC, /* any client */
	HTTP_READER, /* sees what the server knows */
	HTTP_ACTOR,  /* does what operation takes: rotates, filters, publishes */
	HTTP_ADMIN,  /* changes what the server is */
};

/* The process at the other end of a unix socket, as the kernel attests it. */
struct http_caller {
	uid_t uid; /* (uid_t)-1: TCP */
	pid_t pid; /* 0: TCP, or not visible from here */
	enum http_role role;
	void *of; /* for handlers: identify() sets it, forget() frees it */
};

/*
 * A handler calls exactly one http_reply function and returns. It runs on a server thread, several
 * at a time, and must not wait, as other connections share the thread. What it got of the request
 * stays until it returns. A handler of GET also
 * answers HEAD.
 */
typedef void (*http_handler)(struct http_request *req, void *arg);

struct http_opts {
	const char *listen; /* "127.0.0.1:9464", "[::1]:0"; ":9464" is loopback; port 0 takes a free
			       one; or "unix:/PATH" */
	unsigned int max_connections; /* 0: 256; peer.c says who has to leave when all are taken */
	size_t max_body;	      /* 0: 64 KiB; larger ones are answered 413 */
	unsigned int timeout_s; /* of an idle connection, 0: 30; a request must be complete within
				   twice, an answer taken within ten times as long, however busy the
				   connection */
	unsigned int threads;	/* 0: 2 */
	bool no_gzip;
	bool protobuf; /* bodies may be application/x-protobuf, too */

	/*
	 * Bearer tokens (RFC 6750). Without one, and without users and certificates, loopback
	 * reads. Each role has what is below it, too. State does not change by TCP without
	 * authentication.
	 */
	const char *reader_token_file, *actor_token_file, *admin_token_file;
	/*
	 * web.yml and the roles of its users and certificates (web.h); read again when a file
	 * changes. http_new() refuses addresses of the network without authentication, unless open
	 * is set, and without TLS, unless open or insecure is.
	 */
	const char *web_config, *roles_file;
	bool insecure;
	const char *admin_token; /* the token itself, in place of a file */
	bool open;		 /* readers need no token, although others than this host connect */
	/* Names that Host may have besides localhost and addresses; any name beyond loopback if
	   there is none. */
	const char *const *allow_hosts;
	size_t allow_host_count;
	/*
	 * Sets role and .of of a unix socket's caller, whose uid and pid are set, as it connects.
	 * NULL: root and the server's user are HTTP_ADMIN, others HTTP_READER.
	 */
	void (*identify)(void *arg, int socket, struct http_caller *caller);
	void (*forget)(void *arg, struct http_caller *caller); /* as it disconnects; or NULL */
	void *identify_arg;
	struct http_front *front; /* the caller's, free after http_free(); NULL: forked by
				     http_new(), with a copy of what this process has by then */
	uint64_t *refused;	  /* [HTTP_REFUSALS], counts refusals here; NULL: in the server */
};

/*
 * Forks the process that starts fronts, for one server at a time. Before threads, secrets and other
 * descriptors: fronts have copies of all memory, but no descriptor except standard error. NULL with
 * errno. http_front_end() ends it; NULL is fine.
 */
struct http_front *http_front_fork(bool unconfined);
void http_front_end(struct http_front *front);

/*
 * Who can reach a listening address: 1 this host only, 0 others, or -EINVAL with one line in error.
 */
int http_is_local(const char *listen, char *error, size_t error_bytes);

/*
 * NULL with errno and one line in error (port in use, bad address, no token where one is needed).
 * Add routes before starting.
 */
struct http *http_new(const struct http_opts *opts, char *error, size_t error_bytes);
/*
 * path: exact ("/health"), with one variable segment ("/rdma/qp/{}", "/rdma/qp/{}/connect"), or
 * with the rest as the variable ("/apis/{*}"). Other methods of a path are answered 405 with Allow,
 * unknown paths 404. A request without the role is answered 401 or 403 (access.c). 0, -EINVAL,
 * -ENOSPC, -ENOMEM, or -EBUSY after the start.
 */
int http_route(struct http *h, const char *method, const char *path, enum http_role needs,
	       http_handler fn, void *arg);
int http_start(struct http *h, char *error, size_t error_bytes);
void http_free(struct http *h); /* stops; no handler runs after it returns */
/* "127.0.0.1:9464", with the actual port; or "unix:/PATH" */
const char *http_address(const struct http *h);

/* What the request may do. */
enum http_role http_role(const struct http_request *req);
const struct http_caller *http_caller(const struct http_request *req);
uid_t http_uid(const struct http_request *req); /* of http_caller() */
const char *http_method(const struct http_request *req);
const char *http_path(const struct http_request *req);
const char *http_variable(const struct http_request *req); /* what {} matched, or "" */
const char *http_header(const struct http_request *req, const char *name); /* or NULL */
/* The value of a query parameter, the first if repeated; or NULL. */
const char *http_query(const struct http_request *req, const char *key);
/* Calls fn for each query parameter in order, until fn returns false. */
void http_query_each(const struct http_request *req,
		     bool (*fn)(void *arg, const char *key, const char *value), void *arg);
const void *http_body(const struct http_request *req, size_t *bytes);

/*
 * Adds a header (Content-Security-Policy, Cache-Control) to the answer; call before the reply.
 * Copies both strings. 0, -ENOMEM, -ENOSPC (over 16), or -EINVAL for an ill-formed name or value.
 */
int http_add_header(struct http_request *req, const char *name, const char *value);

/* Copies body. */
void http_reply(struct http_request *req, int status, const char *content_type, const void *body,
		size_t bytes);
/*
 * body is static (embedded files). etag is the opaque part without quotes, or NULL; a matching
 * If-None-Match is answered 304. Cache-Control is no-cache unless set.
 */
void http_reply_static(struct http_request *req, int status, const char *content_type,
		       const void *body, size_t bytes, const char *etag);
/* {"error": text} */
void http_reply_error(struct http_request *req, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Takes ownership of the jansson value. */
struct json_t;
void http_reply_json(struct http_request *req, int status, struct json_t *json);
/*
 * Streams: read fills up to max bytes (0: the end, < 0: break the connection); it runs on a server
 * thread and must not wait. done, which may be NULL, is called exactly once, also if the client is
 * gone. Memory per request: 100 KiB, plus 300 KiB if compressed.
 */
void http_reply_stream(struct http_request *req, int status, const char *content_type,
		       ssize_t (*read)(void *arg, char *buf, size_t max), void (*done)(void *arg),
		       void *arg);

/* Open connections. */
uint32_t http_connections(const struct http *h);
/* Answers to the same user or address that are made or sent now, with this request's. */
uint32_t http_answers(const struct http_request *req);

/* Refusals since the start, by cause. */
enum http_refusal {
	HTTP_REFUSED_FRAMING,	  /* 400: the end of the body, or the host, is ambiguous */
	HTTP_REFUSED_HOST,	  /* 403: a foreign name in Host */
	HTTP_REFUSED_ORIGIN,	  /* 403: from a page of another origin */
	HTTP_REFUSED_TOKEN,	  /* 401: no right token */
	HTTP_REFUSED_ROLE,	  /* 403: known, but not allowed to */
	HTTP_REFUSED_TYPE,	  /* 415: a body that is not JSON */
	HTTP_REFUSED_CONNECTION,  /* closed at once: all are taken */
	HTTP_REFUSED_EVICTED,	  /* closed for another peer's connection */
	HTTP_REFUSED_FRONT,	  /* closed: the front ended */
	HTTP_REFUSED_HANDSHAKE,	  /* closed: not TLS, or not in time */
	HTTP_REFUSED_CERTIFICATE, /* closed: the client's is missing, wrong or expired */
	HTTP_REFUSED_PASSWORD,	  /* 401: no such user, or not its password */
	HTTP_REFUSED_GUESSES,	  /* 429: too many of these */
	HTTP_REFUSED_FORWARDED,	  /* 403: headers of a front proxy, without its certificate */
	HTTP_REFUSED_SETTINGS,	  /* no request, but web.yml or its files: changed, and wrong */
	HTTP_REFUSALS,
};
extern const char *const http_refusal_names[HTTP_REFUSALS];
uint64_t http_refused(const struct http *h, enum http_refusal cause);

#endif
