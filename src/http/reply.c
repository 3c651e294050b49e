// SPDX-License-Identifier: Apache-2.0
/*
 * reply.c - answers: whole, embedded in the program, JSON or streamed; compressed if the client
 * accepts that and it pays.
 */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "http/internal.h"

#define STREAM_BUFFER	(32u * 1024)
#define GZIP_WORTHWHILE 1024u /* smaller answers fit into one packet anyway */
#define GZIP_LEVEL	1     /* for exposition 2 % larger than level 6 and 3 x faster */

/* ---- compression ---- */

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

/* RFC 9110, 12.5.3: codings by name and "*" with weights; 0 refuses. */
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

/* True if the answer to req shall be compressed; adds Vary if that depends on the request. */
static bool wants_gzip(struct http_request *req, const char *type)
{
	if (req->http->opts.no_gzip || !compressible(type))
		return false;
	http_add_header(req, "Vary", "Accept-Encoding");
	return accepts_gzip(http_header(req, "Accept-Encoding"));
}

/* Returns a malloc'd gzip member, or NULL without memory or gain. */
static unsigned char *gzip(const void *body, size_t bytes, int level, size_t *out_bytes)
{
	z_stream z = {0};
	unsigned char *out;

	if (bytes > UINT32_MAX / 2 ||
	    deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return NULL;
	out = malloc(bytes);
	if (out) {
		z.next_in = (unsigned char *)(uintptr_t)body;
		z.avail_in = (uInt)bytes;
		z.next_out = out;
		z.avail_out = (uInt)bytes; /* if it does not fit, it does not pay */
		if (deflate(&z, Z_FINISH) != Z_STREAM_END) {
			free(out);
			out = NULL;
		}
		*out_bytes = z.total_out;
	}
	deflateEnd(&z);
	return out;
}

/* Compresses an embedded file at its first use; kept as long as the server. */
static const struct http_packed *packed_get(struct http *h, const void *body, size_t bytes)
{
	struct http_packed *p;

	pthread_mutex_lock(&h->lock);
	for (p = h->packed; p && (p->body != body || p->bytes != bytes); p = p->next)
		;
	if (!p && (p = calloc(1, sizeof(*p)))) {
		*p = (struct http_packed){.next = h->packed, .body = body, .bytes = bytes};
		p->gz = gzip(body, bytes, 9, &p->gz_bytes);
		h->packed = p;
	}
	pthread_mutex_unlock(&h->lock);
	return p && p->gz ? p : NULL;
}

void http_packed_free(struct http *h)
{
	struct http_packed *p;

	while ((p = h->packed)) {
		h->packed = p->next;
		free(p->gz);
		free(p);
	}
}

/* ---- the answer ---- */

int http_add_header(struct http_request *req, const char *name, const char *value)
{
	struct http_header *h = &req->headers[req->header_count];

	if (!*name || strpbrk(name, " \t\r\n:") || strpbrk(value, "\r\n"))
		return -EINVAL;
	if (req->header_count == HTTP_HEADERS)
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

static bool has_header(const struct http_request *req, const char *name)
{
	for (size_t i = 0; i < req->header_count; i++)
		if (!strcasecmp(req->headers[i].name, name))
			return true;
	return false;
}

/* Takes ownership of response; drops a second answer to one request. */
static void answer_with(struct http_request *req, int status, const char *content_type,
			struct MHD_Response *response, bool gzipped)
{
	if (!response)
		return; /* out of memory: answer() closes the connection */
	if (req->response) {
		MHD_destroy_response(response);
		return;
	}
	if (content_type)
		MHD_add_response_header(response, "Content-Type", content_type);
	if (gzipped)
		MHD_add_response_header(response, "Content-Encoding", "gzip");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	for (size_t i = 0; i < req->header_count; i++)
		MHD_add_response_header(response, req->headers[i].name, req->headers[i].value);
	req->response = response;
	req->status = (unsigned int)status;
}

void http_reply(struct http_request *req, int status, const char *content_type, const void *body,
		size_t bytes)
{
	struct MHD_Response *response;
	unsigned char *gz = NULL;
	size_t gz_bytes = 0;

	if (bytes >= GZIP_WORTHWHILE && wants_gzip(req, content_type))
		gz = gzip(body, bytes, GZIP_LEVEL, &gz_bytes);
	if (gz)
		response = MHD_create_response_from_buffer(gz_bytes, gz, MHD_RESPMEM_MUST_FREE);
	else
		response = MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)body,
							   MHD_RESPMEM_MUST_COPY);
	if (!response)
		free(gz);
	answer_with(req, status, content_type, response, gz);
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

void http_reply_static(struct http_request *req, int status, const char *content_type,
		       const void *body, size_t bytes, const char *etag)
{
	const struct http_packed *packed = NULL;
	struct MHD_Response *response;
	char tag[256];

	if (bytes >= GZIP_WORTHWHILE && wants_gzip(req, content_type))
		packed = packed_get(req->http, body, bytes);
	if (etag) {
		snprintf(tag, sizeof(tag), "\"%s%s\"", etag, packed ? "-gz" : "");
		http_add_header(req, "ETag", tag);
		if (!has_header(req, "Cache-Control"))
			http_add_header(req, "Cache-Control", "no-cache");
		if (etag_matches(http_header(req, "If-None-Match"), etag)) {
			answer_with(req, 304, NULL,
				    MHD_create_response_from_buffer(0, tag, MHD_RESPMEM_MUST_COPY),
				    false);
			return;
		}
	}
	if (packed) {
		body = packed->gz;
		bytes = packed->gz_bytes;
	}
	response = MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)body,
						   MHD_RESPMEM_PERSISTENT);
	answer_with(req, status, content_type, response, packed);
}

void http_reply_json(struct http_request *req, int status, struct json_t *json)
{
	static const char failed[] = "{\"error\":\"the answer could not be written as JSON\"}";
	char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	json_decref(json);

	http_reply(req, text ? status : 500, "application/json", text ? text : failed,
		   strlen(text ? text : failed));
	free(text);
}

void http_reply_error(struct http_request *req, int status, const char *fmt, ...)
{
	char text[512];
	json_t *value;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	value = json_string(text);
	if (!value) { /* not UTF-8: a path may be anything */
		for (char *c = text; *c; c++)
			if ((unsigned char)*c >= 0x80)
				*c = '?';
		value = json_string(text);
	}
	http_reply_json(req, status, json_pack("{s:o}", "error", value));
}

/* ---- streaming ---- */

struct stream {
	ssize_t (*read)(void *arg, char *buf, size_t max);
	void (*done)(void *arg);
	void *arg;
	bool gzip, ended, finished;
	z_stream z;
	unsigned char *in; /* gzip: the output of read */
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

void http_reply_stream(struct http_request *req, int status, const char *content_type,
		       ssize_t (*read)(void *arg, char *buf, size_t max), void (*done)(void *arg),
		       void *arg)
{
	struct stream *s = calloc(1, sizeof(*s));
	struct MHD_Response *response;

	if (!s) {
		if (done)
			done(arg);
		return;
	}
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
	if (response)
		answer_with(req, status, content_type, response, s->gzip);
	else
		stream_free(s);
}
