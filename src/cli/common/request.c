// SPDX-License-Identifier: Apache-2.0
/* request.c - sends the HTTP requests of commands. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_read.h"
#include "cli/common/common.h"
#include "http/client.h"

#define ANSWER_MAX  ((size_t)64 << 20)
#define ADDRESS_MAX 255u

char *cli_address(const char *url)
{
	size_t n;

	url += strncmp(url, "http://", 7) ? 0 : 7;
	n = strlen(url);
	while (n && url[n - 1] == '/' && strncmp(url, "unix:", 5))
		n--;
	for (size_t i = 0; i < n; i++)
		if (iscntrl((unsigned char)url[i]))
			return NULL;
	return n && n <= ADDRESS_MAX ? strndup(url, n) : NULL;
}

/*
 * Returns true for a URL with a scheme. HOST:PORT without a scheme means HTTP on the local network,
 * without a proxy.
 */
static bool has_scheme(const char *at)
{
	return !strncmp(at, "https://", 8) || !strncmp(at, "http://", 7);
}

json_t *cli_http(const struct cli_request *r, long *status, char *why, size_t why_bytes)
{
	const char *socket = !strncmp(r->at, "unix:", 5) ? r->at + 5 : NULL;
	char url[1024], *token = NULL;
	const char *headers[3] = {0};
	size_t n = 0;
	struct http_fetched got = {0};
	struct http_fetch f = {.client = http_client_open(r->config, got.why, sizeof(got.why)),
			       .url = url,
			       .method = r->method,
			       .headers = headers,
			       .body = r->body,
			       .body_bytes = r->body ? strlen(r->body) : 0,
			       .timeout_ns = (uint64_t)r->timeout_ms * 1000000,
			       .most = ANSWER_MAX,
			       .direct = !r->config,
			       .unix_socket = socket};
	bool good = f.client != NULL;
	json_t *j = NULL;

	snprintf(url, sizeof(url), "%s%s%s", has_scheme(r->at) ? "" : "http://",
		 socket ? "localhost" : r->at, r->path);
	if (r->body)
		headers[n++] = "Content-Type: application/json";
	if (r->token && asprintf(&token, "Authorization: Bearer %s", r->token) >= 0)
		headers[n++] = token;
	good = good && http_fetch(&f, &got) == HTTP_FETCH_OK;
	http_client_close(f.client);
	free(token);
	snprintf(why, why_bytes, "%s", good ? "" : got.why);
	if (good)
		j = base_json_read(got.body, got.bytes, NULL);
	free(got.body);
	*status = good ? got.status : 0;
	return j;
}
