// SPDX-License-Identifier: Apache-2.0
/*
 * http.c - the server of http.h over libmicrohttpd: an epoll thread pool that parses and sends,
 * and here the routes, the limits, the encodings and what an answer must carry.
 *
 * Who may close what: libmicrohttpd's threads own their sockets. The reaper thread only shuts one
 * down, under the lock that connection_event() takes before the socket is closed, so that it never
 * meets a descriptor that already belongs to somebody else.
 */
#include "http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/base.h"

#define MAX_ROUTES	  64
#define MAX_HEADERS	  16
#define CONNECTION_MEMORY (64u * 1024) /* libmicrohttpd sends chunks of half of it */
#define STREAM_BUFFER	  (32u * 1024)
#define GZIP_WORTHWHILE	  1024u /* below, the answer fits into one packet either way */
#define GZIP_LEVEL	  1	/* exposition repeats itself: 2 % worse than level 6, 3 x faster */
#define REAPER_TICK_MS	  250

struct route {
	const char *method;
	char *before; /* up to the variable, or all */
	char *after;  /* behind it; NULL: no variable */
	bool rest;    /* the variable is all that follows */
	sl_http_handler fn;
	void *arg;
};

/* One TCP connection; in sl_http.connections while it lives. */
struct connection {
	struct connection *next, **link;
	int fd;
	uint64_t deadline_ns; /* under sl_http.lock */
	bool shut;
};

/* An embedded file, compressed once. */
struct packed {
	struct packed *next;
	const void *body;
	size_t bytes;
	unsigned char *gz; /* NULL: does not get smaller */
	size_t gz_bytes;
};

struct sl_http {
	struct MHD_Daemon *daemon;
	int listen_fd;
	char address[INET6_ADDRSTRLEN + 16];
	struct sl_http_opts opts;
	struct route routes[MAX_ROUTES];
	size_t route_count;

	pthread_mutex_t lock; /* connections, packed, stopping */
	pthread_cond_t wake;
	pthread_t reaper;
	bool reaper_runs, stopping;
	struct connection *connections;
	struct packed *packed;

	_Atomic uint64_t requests, bytes, errors_4xx, errors_5xx, refused_connections;
	_Atomic uint32_t open;
};

struct header {
	char *name, *value;
};

struct sl_http_request {
	struct sl_http *http;
	struct MHD_Connection *connection;
	const char *method, *path;
	char *variable;
	bool seen;	/* the first call of answer() was made */
	bool bad_uri;	/* holds a NUL */
	bool too_large; /* body over the limit */
	unsigned char *body;
	size_t body_bytes, body_room, discarded;
	struct header headers[MAX_HEADERS];
	size_t header_count;
	struct MHD_Response *response;
	unsigned int status;
};

static struct MHD_Response *empty_response(void)
{
	static char nothing[1];

	return MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
}

/* ---- compression ------------------------------------------------------------------------------ */

static bool compressible(const char *type)
{
	static const char *const part[] = {
		"text/",       "json",	     "javascript", "xml",
		"openmetrics", "vnd.google", "manifest",   "font/ttf",
	};

	for (size_t i = 0; type && i < sizeof(part) / sizeof(*part); i++)
		if (strstr(type, part[i]))
			return true;
	return false;
}

/* RFC 9110, 12.5.3: the codings by name and by "*", each with a weight; 0 means "not this". */
static bool accepts_gzip(const char *accept)
{
	double named = -1, any = -1;

	while (accept && *accept) {
		size_t item = strcspn(accept, ",");
		const char *end = accept + item;
		const char *p = accept + strspn(accept, " \t");
		size_t name = strcspn(p, ",; \t");
		double q = 1;

		for (const char *s = p + name;
		     s < end && (s = memchr(s, ';', (size_t)(end - s)));) {
			s++;
			s += strspn(s, " \t");
			if ((*s == 'q' || *s == 'Q') && s[1] == '=')
				q = strtod(s + 2, NULL);
		}
		if ((name == 4 && !strncasecmp(p, "gzip", 4)) ||
		    (name == 6 && !strncasecmp(p, "x-gzip", 6)))
			named = q;
		else if (name == 1 && *p == '*')
			any = q;
		accept = *end ? end + 1 : end;
	}
	return named >= 0 ? named > 0 : any > 0;
}

/* Whether the answer to req is to be compressed; says in any case that it depends. */
static bool wants_gzip(struct sl_http_request *req, const char *type)
{
	if (req->http->opts.no_gzip || !compressible(type))
		return false;
	sl_http_add_header(req, "Vary", "Accept-Encoding");
	return accepts_gzip(sl_http_header(req, "Accept-Encoding"));
}

/* Returns a malloc'd gzip member, or NULL when there is no memory or no gain. */
static unsigned char *gzip(const void *body, size_t bytes, int level, size_t *out_bytes)
{
	z_stream z = {0};
	unsigned char *out;
	int e;

	if (bytes > UINT32_MAX / 2 ||
	    deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return NULL;
	out = malloc(bytes);
	if (out) {
		z.next_in = (unsigned char *)(uintptr_t)body;
		z.avail_in = (uInt)bytes;
		z.next_out = out;
		z.avail_out = (uInt)bytes; /* if it does not fit, it is not worth it */
		e = deflate(&z, Z_FINISH);
		if (e != Z_STREAM_END) {
			free(out);
			out = NULL;
		}
		*out_bytes = z.total_out;
	}
	deflateEnd(&z);
	return out;
}

/* Compresses an embedded file at its first use. The result lives as long as the server. */
static const struct packed *packed_get(struct sl_http *h, const void *body, size_t bytes)
{
	struct packed *p;

	pthread_mutex_lock(&h->lock);
	for (p = h->packed; p; p = p->next)
		if (p->body == body && p->bytes == bytes)
			break;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (p) {
			p->body = body;
			p->bytes = bytes;
			p->gz = gzip(body, bytes, 9, &p->gz_bytes);
			p->next = h->packed;
			h->packed = p;
		}
	}
	pthread_mutex_unlock(&h->lock);
	return p && p->gz ? p : NULL;
}

/* ---- routes ----------------------------------------------------------------------------------- */

int sl_http_route(struct sl_http *h, const char *method, const char *path, sl_http_handler fn,
		  void *arg)
{
	const char *rest = strstr(path, "{*}"), *variable = rest ? rest : strstr(path, "{}");
	struct route *r = &h->routes[h->route_count];

	if (h->daemon)
		return -EBUSY;
	if (*path != '/' || !fn || (rest && (rest[3] || strstr(path, "{}"))) ||
	    (variable && strstr(variable + 2, "{}")))
		return -EINVAL;
	if (h->route_count == MAX_ROUTES)
		return -ENOSPC;
	r->method = method;
	r->fn = fn;
	r->arg = arg;
	r->before = variable ? strndup(path, (size_t)(variable - path)) : strdup(path);
	r->after = variable ? strdup(variable + (rest ? 3 : 2)) : NULL;
	r->rest = rest;
	if (!r->before || (variable && !r->after)) {
		free(r->before);
		free(r->after);
		return -ENOMEM;
	}
	h->route_count++;
	return 0;
}

/* Whether path is this route's; where its variable is, if it has one. One segment, not empty. */
static bool route_matches(const struct route *r, const char *path, const char **variable,
			  size_t *bytes)
{
	size_t before = strlen(r->before), length = strlen(path), after;

	*variable = "";
	*bytes = 0;
	if (!r->after)
		return !strcmp(r->before, path);
	after = strlen(r->after);
	if (length <= before + after || memcmp(path, r->before, before) ||
	    memcmp(path + length - after, r->after, after))
		return false;
	*variable = path + before;
	*bytes = length - before - after;
	return r->rest || !memchr(*variable, '/', *bytes);
}

static const struct route *route_find(struct sl_http_request *req)
{
	struct sl_http *h = req->http;
	const struct route *found = NULL;
	const char *method = req->method, *variable, *value = NULL;
	size_t bytes, value_bytes = 0;
	char allow[128] = "";
	bool exact = false;

	if (!strcmp(method, "HEAD"))
		method = "GET"; /* libmicrohttpd leaves the body out */
	for (size_t i = 0; i < h->route_count; i++) {
		const struct route *r = &h->routes[i];

		if (!route_matches(r, req->path, &variable, &bytes))
			continue;
		if (!strcmp(r->method, method) && (!found || (!r->after && !exact))) {
			found = r;
			exact = !r->after; /* "/a/b" goes before "/a/{}" */
			value = variable;
			value_bytes = bytes;
		}
		if (!strstr(allow, r->method)) {
			size_t used = strlen(allow);

			snprintf(allow + used, sizeof(allow) - used, "%s%s%s", used ? ", " : "",
				 r->method, !strcmp(r->method, "GET") ? ", HEAD" : "");
		}
	}
	if (found) {
		req->variable = strndup(value, value_bytes);
		if (!req->variable) {
			sl_http_reply_error(req, 503, "out of memory");
			return NULL;
		}
	} else if (*allow) {
		sl_http_add_header(req, "Allow", allow);
		sl_http_reply_error(req, 405, "%s does not take %s, but %s", req->path, req->method,
				    allow);
	} else {
		sl_http_reply_error(req, 404, "no such path: %s", req->path);
	}
	return found;
}

/* ---- the request ------------------------------------------------------------------------------ */

const char *sl_http_method(const struct sl_http_request *req)
{
	return req->method;
}

const char *sl_http_path(const struct sl_http_request *req)
{
	return req->path;
}

const char *sl_http_variable(const struct sl_http_request *req)
{
	return req->variable ? req->variable : "";
}

const char *sl_http_header(const struct sl_http_request *req, const char *name)
{
	return MHD_lookup_connection_value(req->connection, MHD_HEADER_KIND, name);
}

const char *sl_http_query(const struct sl_http_request *req, const char *key)
{
	return MHD_lookup_connection_value(req->connection, MHD_GET_ARGUMENT_KIND, key);
}

struct each {
	bool (*fn)(void *arg, const char *key, const char *value);
	void *arg;
};

static enum MHD_Result each_parameter(void *arg, enum MHD_ValueKind kind, const char *key,
				      const char *value)
{
	const struct each *e = arg;

	(void)kind;
	return e->fn(e->arg, key, value ? value : "") ? MHD_YES : MHD_NO;
}

void sl_http_query_each(const struct sl_http_request *req,
			bool (*fn)(void *arg, const char *key, const char *value), void *arg)
{
	MHD_get_connection_values(req->connection, MHD_GET_ARGUMENT_KIND, each_parameter,
				  &(struct each){fn, arg});
}

const void *sl_http_body(const struct sl_http_request *req, size_t *bytes)
{
	*bytes = req->body_bytes;
	return req->body ? (const void *)req->body : "";
}

static bool body_append(struct sl_http_request *req, const char *data, size_t bytes)
{
	size_t max = req->http->opts.max_body, room = req->body_room;
	unsigned char *grown;

	if (req->too_large || bytes > max - req->body_bytes) {
		/* Read to the end, so that the client sees the 413; but not for ever. */
		req->too_large = true;
		req->discarded += bytes;
		return req->discarded <= 16 * max;
	}
	if (room - req->body_bytes < bytes) {
		room = room ? room : 1024;
		while (room < req->body_bytes + bytes)
			room *= 2;
		grown = realloc(req->body, room);
		if (!grown)
			return false;
		req->body = grown;
		req->body_room = room;
	}
	memcpy(req->body + req->body_bytes, data, bytes);
	req->body_bytes += bytes;
	return true;
}

/* ---- the answer ------------------------------------------------------------------------------- */

int sl_http_add_header(struct sl_http_request *req, const char *name, const char *value)
{
	struct header *h = &req->headers[req->header_count];

	if (!*name || strpbrk(name, " \t\r\n:") || strpbrk(value, "\r\n"))
		return -EINVAL;
	if (req->header_count == MAX_HEADERS)
		return -ENOSPC;
	h->name = strdup(name);
	h->value = strdup(value);
	if (!h->name || !h->value) {
		free(h->name);
		free(h->value);
		return -ENOMEM;
	}
	req->header_count++;
	return 0;
}

static bool has_header(const struct sl_http_request *req, const char *name)
{
	for (size_t i = 0; i < req->header_count; i++)
		if (!strcasecmp(req->headers[i].name, name))
			return true;
	return false;
}

/* Takes response over; a second answer to the same request is thrown away. */
static void answer_with(struct sl_http_request *req, int status, const char *content_type,
			struct MHD_Response *response)
{
	if (!response)
		return; /* out of memory: the connection is closed by answer() */
	if (req->response) {
		MHD_destroy_response(response);
		return;
	}
	if (content_type)
		MHD_add_response_header(response, "Content-Type", content_type);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	for (size_t i = 0; i < req->header_count; i++)
		MHD_add_response_header(response, req->headers[i].name, req->headers[i].value);
	req->response = response;
	req->status = (unsigned int)status;
}

static void count_bytes(struct sl_http_request *req, size_t bytes)
{
	if (!req->response && strcmp(req->method, "HEAD"))
		atomic_fetch_add_explicit(&req->http->bytes, bytes, memory_order_relaxed);
}

void sl_http_reply(struct sl_http_request *req, int status, const char *content_type,
		   const void *body, size_t bytes)
{
	struct MHD_Response *response;
	unsigned char *gz = NULL;
	size_t gz_bytes = 0;

	if (bytes >= GZIP_WORTHWHILE && wants_gzip(req, content_type))
		gz = gzip(body, bytes, GZIP_LEVEL, &gz_bytes);
	if (gz) {
		response = MHD_create_response_from_buffer(gz_bytes, gz, MHD_RESPMEM_MUST_FREE);
		if (!response)
			free(gz);
		else
			MHD_add_response_header(response, "Content-Encoding", "gzip");
	} else {
		gz_bytes = bytes;
		response = MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)body,
							   MHD_RESPMEM_MUST_COPY);
	}
	count_bytes(req, gz_bytes);
	answer_with(req, status, content_type, response);
}

/* RFC 9110, 13.1.2: weak comparison against a list of entity tags, or "*". */
static bool etag_matches(const char *list, const char *etag)
{
	size_t length = strlen(etag);

	while (list && *list) {
		list += strspn(list, " \t,");
		if (*list == '*')
			return true;
		if (!strncmp(list, "W/", 2))
			list += 2;
		if (*list != '"')
			return false;
		list++;
		if (!strncmp(list, etag, length) &&
		    (list[length] == '"' || !strncmp(list + length, "-gz\"", 4)))
			return true;
		list += strcspn(list, "\"");
		list += *list == '"';
	}
	return false;
}

void sl_http_reply_static(struct sl_http_request *req, int status, const char *content_type,
			  const void *body, size_t bytes, const char *etag)
{
	const struct packed *packed = NULL;
	struct MHD_Response *response;
	char tag[256];

	if (bytes >= GZIP_WORTHWHILE && wants_gzip(req, content_type))
		packed = packed_get(req->http, body, bytes);
	if (etag) {
		snprintf(tag, sizeof(tag), "\"%s%s\"", etag, packed ? "-gz" : "");
		sl_http_add_header(req, "ETag", tag);
		if (!has_header(req, "Cache-Control"))
			sl_http_add_header(req, "Cache-Control", "no-cache");
		if (etag_matches(sl_http_header(req, "If-None-Match"), etag)) {
			answer_with(req, 304, NULL, empty_response());
			return;
		}
	}
	if (packed) {
		body = packed->gz;
		bytes = packed->gz_bytes;
	}
	response = MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)body,
						   MHD_RESPMEM_PERSISTENT);
	if (response && packed)
		MHD_add_response_header(response, "Content-Encoding", "gzip");
	count_bytes(req, bytes);
	answer_with(req, status, content_type, response);
}

void sl_http_reply_json(struct sl_http_request *req, int status, struct json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	json_decref(json);
	if (!text) {
		static const char failed[] =
			"{\"error\":\"the answer could not be written as JSON\"}";

		sl_http_reply(req, 500, "application/json", failed, sizeof(failed) - 1);
		return;
	}
	sl_http_reply(req, status, "application/json", text, strlen(text));
	free(text);
}

void sl_http_reply_error(struct sl_http_request *req, int status, const char *fmt, ...)
{
	char text[512];
	json_t *value;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	value = json_string(text);
	if (!value) { /* not UTF-8: a path can be anything */
		for (char *c = text; *c; c++)
			if ((unsigned char)*c >= 0x80)
				*c = '?';
		value = json_string(text);
	}
	sl_http_reply_json(req, status, json_pack("{s:o}", "error", value));
}

/* ---- streaming -------------------------------------------------------------------------------- */

struct stream {
	struct sl_http *http;
	ssize_t (*read)(void *arg, char *buf, size_t max);
	void (*done)(void *arg);
	void *arg;
	bool gzip, ended, finished;
	z_stream z;
	unsigned char *in; /* gzip: what read gave */
};

static ssize_t stream_read_gzip(struct stream *s, char *buf, size_t max)
{
	s->z.next_out = (unsigned char *)buf;
	s->z.avail_out = (uInt)max;
	while (s->z.avail_out == max) {
		int e;

		if (s->finished)
			return 0;
		if (!s->z.avail_in && !s->ended) {
			ssize_t n = s->read(s->arg, (char *)s->in, STREAM_BUFFER);

			if (n < 0)
				return n;
			s->ended = n == 0;
			s->z.next_in = s->in;
			s->z.avail_in = (uInt)n;
		}
		e = deflate(&s->z, s->ended ? Z_FINISH : Z_NO_FLUSH);
		if (e == Z_STREAM_END)
			s->finished = true;
		else if (e != Z_OK && e != Z_BUF_ERROR)
			return -EIO;
	}
	return (ssize_t)(max - s->z.avail_out);
}

static ssize_t stream_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct stream *s = arg;
	ssize_t n;

	(void)pos;
	if (max > STREAM_BUFFER)
		max = STREAM_BUFFER;
	n = s->gzip ? stream_read_gzip(s, buf, max) : s->read(s->arg, buf, max);
	if (n == 0)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n < 0)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	atomic_fetch_add_explicit(&s->http->bytes, (uint64_t)n, memory_order_relaxed);
	return n;
}

static void stream_free(void *arg)
{
	struct stream *s = arg;

	if (s->gzip)
		deflateEnd(&s->z);
	free(s->in);
	if (s->done)
		s->done(s->arg);
	free(s);
}

void sl_http_reply_stream(struct sl_http_request *req, int status, const char *content_type,
			  ssize_t (*read)(void *arg, char *buf, size_t max),
			  void (*done)(void *arg), void *arg)
{
	struct stream *s = calloc(1, sizeof(*s));
	struct MHD_Response *response;

	if (!s) {
		if (done)
			done(arg);
		return;
	}
	s->http = req->http;
	s->read = read;
	s->done = done;
	s->arg = arg;
	if (wants_gzip(req, content_type)) {
		s->in = malloc(STREAM_BUFFER);
		s->gzip = s->in && deflateInit2(&s->z, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8,
						Z_DEFAULT_STRATEGY) == Z_OK;
	}
	response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BUFFER, stream_read,
						     s, stream_free);
	if (!response)
		stream_free(s);
	else if (s->gzip)
		MHD_add_response_header(response, "Content-Encoding", "gzip");
	answer_with(req, status, content_type, response);
}

/* ---- what libmicrohttpd calls ------------------------------------------------------------------- */

static void set_deadline(struct sl_http_request *req, unsigned int timeouts)
{
	struct sl_http *h = req->http;
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(req->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct connection *c = info ? info->socket_context : NULL;

	if (!c)
		return;
	pthread_mutex_lock(&h->lock);
	c->deadline_ns = sl_now_ns() + (uint64_t)timeouts * h->opts.timeout_s * 1000000000u;
	pthread_mutex_unlock(&h->lock);
}

/* The first thing of a request: its line, as it came. What it returns is answer()'s *context. */
static void *request_line(void *arg, const char *uri, struct MHD_Connection *connection)
{
	struct sl_http_request *req = calloc(1, sizeof(*req));

	if (!req)
		return NULL;
	req->http = arg;
	req->connection = connection;
	req->bad_uri = strstr(uri, "%00") != NULL; /* would end the decoded path early */
	return req;
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_bytes, void **context)
{
	struct sl_http_request *req = *context;
	struct sl_http *h = arg;
	const struct route *route;
	enum MHD_Result result;

	(void)version;
	if (!req)
		return MHD_NO;
	if (!req->seen) {
		const char *length;

		req->seen = true;
		req->method = method;
		req->path = url;
		length = sl_http_header(req, "Content-Length");
		if (!length || strtoull(length, NULL, 10) <= h->opts.max_body)
			return MHD_YES; /* called again, with the body or without */
		req->too_large = true;	/* answered now, and the connection closed */
	} else if (*upload_bytes) {
		if (!body_append(req, upload, *upload_bytes))
			return MHD_NO;
		*upload_bytes = 0;
		return MHD_YES;
	}
	set_deadline(req, 10);
	atomic_fetch_add_explicit(&h->requests, 1, memory_order_relaxed);
	if (req->too_large) {
		sl_http_reply_error(req, 413, "the body is larger than %zu bytes",
				    h->opts.max_body);
	} else if (req->bad_uri) {
		sl_http_reply_error(req, 400, "the path holds a NUL");
	} else {
		route = route_find(req);
		if (route)
			route->fn(req, route->arg);
		if (route && !req->response)
			sl_http_reply_error(req, 500, "%s has no answer", req->path);
	}
	if (!req->response)
		return MHD_NO;
	if (req->status >= 500)
		atomic_fetch_add_explicit(&h->errors_5xx, 1, memory_order_relaxed);
	else if (req->status >= 400)
		atomic_fetch_add_explicit(&h->errors_4xx, 1, memory_order_relaxed);
	result = MHD_queue_response(connection, req->status, req->response);
	return result;
}

static void request_done(void *arg, struct MHD_Connection *connection, void **context,
			 enum MHD_RequestTerminationCode why)
{
	struct sl_http_request *req = *context;

	(void)arg, (void)connection, (void)why;
	if (!req)
		return;
	set_deadline(req, 2);
	*context = NULL;
	if (req->response)
		MHD_destroy_response(req->response); /* ours; libmicrohttpd holds its own */
	for (size_t i = 0; i < req->header_count; i++) {
		free(req->headers[i].name);
		free(req->headers[i].value);
	}
	free(req->variable);
	free(req->body);
	free(req);
}

static enum MHD_Result admit(void *arg, const struct sockaddr *addr, socklen_t bytes)
{
	struct sl_http *h = arg;

	(void)addr, (void)bytes;
	if (atomic_load_explicit(&h->open, memory_order_relaxed) < h->opts.max_connections)
		return MHD_YES;
	atomic_fetch_add_explicit(&h->refused_connections, 1, memory_order_relaxed);
	return MHD_NO;
}

/* libmicrohttpd says CLOSED before it closes the socket. */
static void connection_event(void *arg, struct MHD_Connection *connection, void **context,
			     enum MHD_ConnectionNotificationCode what)
{
	struct sl_http *h = arg;
	struct connection *c = *context;
	const union MHD_ConnectionInfo *info;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		atomic_fetch_add_explicit(&h->open, 1, memory_order_relaxed);
		info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		c = calloc(1, sizeof(*c));
		if (!c || !info) {
			free(c);
			return;
		}
		c->fd = info->connect_fd;
		c->deadline_ns = sl_now_ns() + 2ull * h->opts.timeout_s * 1000000000u;
		pthread_mutex_lock(&h->lock);
		if (!h->connections)
			pthread_cond_signal(&h->wake);
		c->next = h->connections;
		c->link = &h->connections;
		if (c->next)
			c->next->link = &c->next;
		h->connections = c;
		pthread_mutex_unlock(&h->lock);
		*context = c;
		return;
	}
	atomic_fetch_sub_explicit(&h->open, 1, memory_order_relaxed);
	if (!c)
		return;
	pthread_mutex_lock(&h->lock);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	pthread_mutex_unlock(&h->lock);
	free(c);
	*context = NULL;
}

/* It reports each client that goes away. */
static void log_line(void *arg, const char *fmt, va_list ap)
{
	char line[256];

	(void)arg;
	if (sl_log_level < SL_DEBUG)
		return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	vsnprintf(line, sizeof(line), fmt, ap);
#pragma GCC diagnostic pop
	line[strcspn(line, "\n")] = '\0';
	sl_logf(SL_DEBUG, "http", "%s", line);
}

/*
 * libmicrohttpd's timeout is one of silence: a client that sends or takes a byte now and then
 * would hold its connection, and a walk of the source, for ever.
 */
static void *reap(void *arg)
{
	struct sl_http *h = arg;

	pthread_mutex_lock(&h->lock);
	while (!h->stopping) {
		uint64_t now = sl_now_ns(), until = now + REAPER_TICK_MS * 1000000u;
		struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
				     .tv_nsec = (long)(until % 1000000000u)};

		for (struct connection *c = h->connections; c; c = c->next)
			if (!c->shut && now > c->deadline_ns)
				c->shut = !shutdown(c->fd, SHUT_RDWR) || errno == ENOTCONN;
		/* Without connections there is nothing to wake for: a daemon at rest shall be at rest. */
		if (h->connections)
			pthread_cond_timedwait(&h->wake, &h->lock, &t);
		else
			pthread_cond_wait(&h->wake, &h->lock);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

/* ---- start and stop --------------------------------------------------------------------------- */

static void fail(char *error, size_t bytes, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void fail(char *error, size_t bytes, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (error && bytes) {
		va_start(ap, fmt);
		vsnprintf(error, bytes, fmt, ap);
		va_end(ap);
	}
	errno = saved;
}

static int listen_on(const char *listen_at, char *error, size_t error_bytes)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
	struct addrinfo *found = NULL, *a;
	char host[256], port[8];
	int fd = -1, e, one = 1, zero = 0;
	uint16_t number;

	if (sl_parse_address(listen_at, host, sizeof(host), &number)) {
		errno = EINVAL;
		fail(error, error_bytes,
		     "cannot listen on '%s': not an address such as 127.0.0.1:9464 or [::1]:9464",
		     listen_at);
		return -1;
	}
	snprintf(port, sizeof(port), "%u", number);
	e = getaddrinfo(*host ? host : "127.0.0.1", port, &hints, &found);
	if (e) {
		errno = e == EAI_MEMORY ? ENOMEM : EADDRNOTAVAIL;
		fail(error, error_bytes, "cannot listen on %s: %s", listen_at, gai_strerror(e));
		return -1;
	}
	for (a = found; a; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (a->ai_family == AF_INET6) /* [::] serves IPv4 as well */
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
		if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, SOMAXCONN))
			break;
		e = errno;
		close(fd);
		errno = e;
		fd = -1;
	}
	if (fd < 0)
		fail(error, error_bytes, "cannot listen on %s: %s", listen_at, strerror(errno));
	e = errno;
	freeaddrinfo(found);
	errno = e;
	return fd;
}

static int print_address(struct sl_http *h)
{
	struct sockaddr_storage ss = {0};
	socklen_t bytes = sizeof(ss);
	char host[INET6_ADDRSTRLEN];
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ss;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&ss;

	if (getsockname(h->listen_fd, (struct sockaddr *)&ss, &bytes))
		return -errno;
	if (ss.ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(h->address, sizeof(h->address), "[%s]:%u", host, ntohs(v6->sin6_port));
	} else {
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(h->address, sizeof(h->address), "%s:%u", host, ntohs(v4->sin_port));
	}
	return 0;
}

struct sl_http *sl_http_new(const struct sl_http_opts *opts, char *error, size_t error_bytes)
{
	struct sl_http *h = calloc(1, sizeof(*h));
	pthread_condattr_t monotonic;
	int e;

	if (!h) {
		fail(error, error_bytes, "out of memory");
		return NULL;
	}
	h->opts = *opts;
	if (!h->opts.max_connections)
		h->opts.max_connections = 256;
	if (!h->opts.max_body)
		h->opts.max_body = 64 * 1024;
	if (!h->opts.timeout_s)
		h->opts.timeout_s = 30;
	if (!h->opts.threads)
		h->opts.threads = 2;
	h->opts.listen = NULL; /* the caller's */
	h->listen_fd = listen_on(opts->listen ? opts->listen : "", error, error_bytes);
	if (h->listen_fd < 0) {
		e = errno;
		goto no_listen;
	}
	e = -print_address(h);
	if (e) {
		fail(error, error_bytes, "cannot listen on %s: %s", opts->listen, strerror(e));
		goto no_address;
	}
	pthread_mutex_init(&h->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&h->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return h;

no_address:
	close(h->listen_fd);
no_listen:
	free(h);
	errno = e;
	return NULL;
}

int sl_http_start(struct sl_http *h, char *error, size_t error_bytes)
{
	unsigned int threads = h->opts.threads;
	int e;

	if (h->daemon)
		return -EBUSY;
	e = pthread_create(&h->reaper, NULL, reap, h);
	if (e) {
		fail(error, error_bytes, "cannot start the HTTP server: %s", strerror(e));
		return -e;
	}
	pthread_setname_np(h->reaper, "sl-http-reaper");
	h->reaper_runs = true;
	/*
	 * The limit on connections is admit()'s: libmicrohttpd would divide it among its threads and
	 * leave those over it waiting.
	 */
	errno = 0;
	h->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_USE_ITC, 0, admit, h,
		answer, h, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL, MHD_OPTION_LISTEN_SOCKET,
		h->listen_fd, MHD_OPTION_THREAD_POOL_SIZE, threads > 1 ? threads : 0,
		MHD_OPTION_CONNECTION_LIMIT, (h->opts.max_connections + 1) * threads,
		MHD_OPTION_CONNECTION_TIMEOUT, h->opts.timeout_s,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
		MHD_OPTION_NOTIFY_COMPLETED, request_done, NULL, MHD_OPTION_NOTIFY_CONNECTION,
		connection_event, h, MHD_OPTION_URI_LOG_CALLBACK, request_line, h,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	if (!h->daemon) {
		e = errno ? errno : EIO;
		fail(error, error_bytes, "cannot start the HTTP server on %s: %s", h->address,
		     strerror(e));
		return -e;
	}
	return 0;
}

const char *sl_http_address(const struct sl_http *h)
{
	return h->address;
}

void sl_http_stats(const struct sl_http *h, struct sl_http_stats *out)
{
	out->requests = atomic_load_explicit(&h->requests, memory_order_relaxed);
	out->bytes = atomic_load_explicit(&h->bytes, memory_order_relaxed);
	out->errors_4xx = atomic_load_explicit(&h->errors_4xx, memory_order_relaxed);
	out->errors_5xx = atomic_load_explicit(&h->errors_5xx, memory_order_relaxed);
	out->refused_connections = atomic_load_explicit(&h->refused_connections,
							memory_order_relaxed);
	out->connections = atomic_load_explicit(&h->open, memory_order_relaxed);
}

void sl_http_free(struct sl_http *h)
{
	struct packed *p;

	if (!h)
		return;
	if (h->daemon)
		MHD_stop_daemon(h->daemon); /* joins its threads and closes the listening socket */
	else
		close(h->listen_fd);
	if (h->reaper_runs) {
		pthread_mutex_lock(&h->lock);
		h->stopping = true;
		pthread_cond_signal(&h->wake);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->reaper, NULL);
	}
	while ((p = h->packed)) {
		h->packed = p->next;
		free(p->gz);
		free(p);
	}
	for (size_t i = 0; i < h->route_count; i++) {
		free(h->routes[i].before);
		free(h->routes[i].after);
	}
	pthread_cond_destroy(&h->wake);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
