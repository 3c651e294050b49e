// SPDX-License-Identifier: Apache-2.0
/* route.c - finds the handler of a request; accessors for requests */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/internal.h"

static int add_route(struct http *h, const char *method, const char *path, enum http_role needs,
		     bool costly, http_handler fn, void *arg)
{
	const char *rest = strstr(path, "{*}"), *variable = rest ? rest : strstr(path, "{}");
	struct http_route *r = &h->routes[h->route_count];

	if (h->started)
		return -EBUSY;
	if (*path != '/' || !fn || (rest && (rest[3] || strstr(path, "{}"))) ||
	    (variable && strstr(variable + 2, "{}")))
		return -EINVAL;
	if (h->route_count == HTTP_ROUTES)
		return -ENOSPC;
	r->method = method;
	r->needs = needs;
	r->costly = costly;
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

int http_route(struct http *h, const char *method, const char *path, enum http_role needs,
	       http_handler fn, void *arg)
{
	return add_route(h, method, path, needs, false, fn, arg);
}

int http_route_costly(struct http *h, const char *method, const char *path, enum http_role needs,
		      http_handler fn, void *arg)
{
	return add_route(h, method, path, needs, true, fn, arg);
}

int http_route_query(struct http *h, const char *path, enum http_role needs, http_handler fn,
		     void *arg)
{
	int err = http_route_costly(h, "GET", path, needs, fn, arg)
			  ?: http_route_costly(h, "POST", path, needs, fn, arg);

	if (!err)
		h->routes[h->route_count - 1].form = true;
	return err;
}

/*
 * Whether the route matches path. Sets *variable to the matched part, or "". {} matches one
 * non-empty segment.
 */
static bool route_matches(const struct http_route *r, const char *path, const char **variable,
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

const struct http_route *http_route_find(struct http_request *req)
{
	struct http *h = req->http;
	const struct http_route *found = NULL;
	const char *method = req->in.method, *variable, *value = NULL;
	size_t bytes, value_bytes = 0;
	char allow[128] = "";
	bool exact = false;

	if (!strcmp(method, "HEAD"))
		method = "GET"; /* libmicrohttpd omits the body */
	for (size_t i = 0; i < h->route_count; i++) {
		const struct http_route *r = &h->routes[i];

		if (!route_matches(r, req->in.path, &variable, &bytes))
			continue;
		if (!strcmp(r->method, method) && (!found || (!r->after && !exact))) {
			found = r;
			exact = !r->after; /* "/a/b" takes precedence over "/a/{}" */
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
			http_reply_error(req, 503, "out of memory");
			return NULL;
		}
	} else if (*allow) {
		http_add_header(req, "Allow", allow);
		http_reply_error(req, 405, "%s does not allow %s, only %s", req->in.path,
				 req->in.method, allow);
	} else {
		http_reply_error(req, 404, "no such path: %s", req->in.path);
	}
	return found;
}

void http_routes_free(struct http *h)
{
	for (size_t i = 0; i < h->route_count; i++) {
		free(h->routes[i].before);
		free(h->routes[i].after);
	}
}

const struct http_caller *http_caller(const struct http_request *req)
{
	return req->caller;
}

uid_t http_uid(const struct http_request *req)
{
	return http_caller(req)->uid;
}

uint32_t http_answers(const struct http_request *req)
{
	return req->in.answers;
}

const char *http_method(const struct http_request *req)
{
	return req->in.method;
}

const char *http_path(const struct http_request *req)
{
	return req->in.path;
}

const char *http_variable(const struct http_request *req)
{
	return req->variable ? req->variable : "";
}

const char *http_header(const struct http_request *req, const char *name)
{
	const struct http_message_request *in = &req->in;

	for (size_t i = 0; i < in->field_count; i++)
		if (in->fields[i].kind == HTTP_FIELD_HEADER &&
		    !strcasecmp(in->fields[i].name, name))
			return in->fields[i].value;
	return NULL;
}

const char *http_query(const struct http_request *req, const char *key)
{
	const struct http_message_request *in = &req->in;

	for (size_t i = 0; i < in->field_count; i++)
		if (in->fields[i].kind != HTTP_FIELD_HEADER && !strcasecmp(in->fields[i].name, key))
			return in->fields[i].kind == HTTP_FIELD_QUERY ? in->fields[i].value : NULL;
	return NULL;
}

void http_query_each(const struct http_request *req,
		     bool (*fn)(void *arg, const char *key, const char *value), void *arg)
{
	const struct http_message_request *in = &req->in;

	for (size_t i = 0; i < in->field_count; i++)
		if (in->fields[i].kind != HTTP_FIELD_HEADER &&
		    !fn(arg, in->fields[i].name, in->fields[i].value))
			return;
}

const void *http_body(const struct http_request *req, size_t *bytes)
{
	*bytes = req->in.body_bytes;
	return req->in.body;
}
