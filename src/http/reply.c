// SPDX-License-Identifier: Apache-2.0
/*
 * reply.c - creates answers: complete, embedded in the program, JSON or streamed. Decides which
 * answers the front compresses: those for which it is worthwhile, if the client accepts it.
 */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/internal.h"

#define GZIP_WORTHWHILE 1024u /* smaller answers fit into one packet anyway */

/* ---- compression ---- */

static bool is_compressible(const char *type)
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

/* RFC 9110, 12.5.3: codings by name and "*", with weights; a weight of 0 refuses a coding. */
static bool accepts_gzip(const char *accept)
{
	double named = -1, any = -1;
	struct http_accepted a;

	while (http_accept_next(&accept, &a))
		if (http_word_is(a.name, "gzip") || http_word_is(a.name, "x-gzip"))
			named = a.q;
		else if (http_word_is(a.name, "*"))
			any = a.q;
	return named >= 0 ? named > 0 : any > 0;
}

/* Whether to compress the answer to req. Adds Vary if this depends on the request. */
static bool wants_gzip(struct http_request *req, const char *type)
{
	if (req->http->opts.no_gzip || !is_compressible(type))
		return false;
	http_add_header(req, "Vary", "Accept-Encoding");
	return accepts_gzip(http_header(req, "Accept-Encoding"));
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

/* Starts the answer. Returns false if the request already has an answer or if out of memory. */
static bool begin_answer(struct http_request *req, int status, const char *content_type, bool gzip)
{
	char *type = content_type && !req->answered ? strdup(content_type) : NULL;

	if (req->answered || (content_type && !type))
		return false;
	req->answered = true;
	req->status = (unsigned int)status;
	req->content_type = type;
	req->gzip = gzip;
	return true;
}

static void reply_static(struct http_request *req, int status, const char *content_type,
			 const void *body, size_t bytes, bool gzip)
{
	if (!begin_answer(req, status, content_type, gzip))
		return;
	req->whole = body;
	req->bytes = bytes;
}

/* Takes ownership of body, which may be NULL. */
static void reply_owned(struct http_request *req, int status, const char *content_type, char *body,
			size_t bytes)
{
	if (!body || req->answered ||
	    !begin_answer(req, status, content_type,
			  bytes >= GZIP_WORTHWHILE && wants_gzip(req, content_type))) {
		free(body); /* out of memory: the connection is closed */
		return;
	}
	req->whole = req->owned = body;
	req->bytes = bytes;
}

void http_reply(struct http_request *req, int status, const char *content_type, const void *body,
		size_t bytes)
{
	char *copy = malloc(bytes + 1);

	if (copy)
		memcpy(copy, body, bytes);
	reply_owned(req, status, content_type, copy, bytes);
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
	bool gzip = bytes >= GZIP_WORTHWHILE && wants_gzip(req, content_type);
	char tag[256];

	if (etag) {
		snprintf(tag, sizeof(tag), "\"%s%s\"", etag, gzip ? "-gz" : "");
		http_add_header(req, "ETag", tag);
		if (!has_header(req, "Cache-Control"))
			http_add_header(req, "Cache-Control", "no-cache");
		if (etag_matches(http_header(req, "If-None-Match"), etag)) {
			reply_static(req, 304, NULL, "", 0, false);
			return;
		}
	}
	reply_static(req, status, content_type, body, bytes, gzip);
}

void http_reply_json(struct http_request *req, int status, struct json_t *json)
{
	static const char failed[] = "{\"error\":\"the answer could not be written as JSON\"}";
	char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	json_decref(json);

	if (text)
		reply_owned(req, status, "application/json", text, strlen(text));
	else
		reply_static(req, 500, "application/json", failed, strlen(failed), false);
}

void http_reply_refused(struct http_request *req, int status, const char *type, const char *why)
{
	http_reply_json(
		req, status,
		json_pack("{s:s, s:s, s:s}", "status", "error", "errorType", type, "error", why));
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
	if (!value) { /* some text is not UTF-8; a path may contain any bytes */
		for (char *c = text; *c; c++)
			if ((unsigned char)*c >= 0x80)
				*c = '?';
		value = json_string(text);
	}
	http_reply_json(req, status, json_pack("{s:o}", "error", value));
}

/* ---- streams ---- */

void http_reply_stream(struct http_request *req, int status, const char *content_type,
		       ssize_t (*read)(void *arg, char *buf, size_t max), void (*done)(void *arg),
		       void *arg)
{
	if (req->answered ||
	    !begin_answer(req, status, content_type, wants_gzip(req, content_type))) {
		if (done)
			done(arg);
		return;
	}
	req->read = read;
	req->done = done;
	req->arg = arg;
}

void http_reply_stream_costly(struct http_request *req, int status, const char *content_type,
			      ssize_t (*read)(void *arg, char *buf, size_t max),
			      void (*done)(void *arg), void *arg)
{
	req->costly_read = true;
	http_reply_stream(req, status, content_type, read, done, arg);
}

ssize_t http_reply_next(struct http_request *req, char *buf, size_t max)
{
	size_t n = req->bytes - req->given;

	if (req->read)
		return req->read(req->arg, buf, max);
	n = n < max ? n : max;
	memcpy(buf, req->whole + req->given, n);
	req->given += n;
	return (ssize_t)n;
}
