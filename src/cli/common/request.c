// SPDX-License-Identifier: Apache-2.0
/* request.c - one HTTP request of a command. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/common.h"
#include "http/client.h"

#define ANSWER_MAX ((size_t)64 << 20)

struct http_answer {
	char *text;
	size_t bytes;
};

static size_t take(char *from, size_t size, size_t n, void *arg)
{
	struct http_answer *a = arg;
	char *more = a->bytes + size * n <= ANSWER_MAX ? realloc(a->text, a->bytes + size * n + 1)
						       : NULL;

	if (!more)
		return 0;
	a->text = more;
	memcpy(a->text + a->bytes, from, size * n);
	a->bytes += size * n;
	a->text[a->bytes] = 0;
	return size * n;
}

/* To hosts named with a scheme; HOST:PORT is HTTP on this network, past all proxies. */
static bool has_scheme(const char *at)
{
	return !strncmp(at, "https://", 8) || !strncmp(at, "http://", 7);
}

static struct curl_slist *headers_of(const struct cli_request *r)
{
	struct curl_slist *list = NULL;
	char *line = NULL;

	if (r->body)
		list = curl_slist_append(list, "Content-Type: application/json");
	if (r->token && asprintf(&line, "Authorization: Bearer %s", r->token) >= 0) {
		list = curl_slist_append(list, line);
		free(line);
	}
	return list;
}

long cli_http(const struct cli_request *r, char **answer, size_t *bytes, char *why,
	      size_t why_bytes)
{
	const char *socket = !strncmp(r->at, "unix:", 5) ? r->at + 5 : NULL;
	const char *method = r->method ? r->method : r->body ? "POST" : "GET";
	struct http_answer a = {.text = calloc(1, 1)};
	char url[1024], error[CURL_ERROR_SIZE] = "";
	struct curl_slist *headers = headers_of(r);
	struct http_client *client = http_client_open(r->config, error, sizeof(error));
	struct http_outgoing request = {0};
	CURL *curl = curl_easy_init();
	CURLcode err = CURLE_OUT_OF_MEMORY;
	long status = 0;

	snprintf(url, sizeof(url), "%s%s%s", has_scheme(r->at) ? "" : "http://",
		 socket ? "localhost" : r->at, r->path);
	if (curl && a.text && client &&
	    !http_client_apply(client, curl, url, headers, &request, error, sizeof(error))) {
		curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1l);
		if (!r->config)
			curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
		curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, r->timeout_ms);
		curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
		curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
		curl_easy_setopt(curl, CURLOPT_WRITEDATA, &a);
		if (socket)
			curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket);
		if (r->body || strcmp(method, "GET"))
			curl_easy_setopt(curl, CURLOPT_POSTFIELDS, r->body ?: "");
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
		err = curl_easy_perform(curl);
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	}
	curl_easy_cleanup(curl);
	http_client_done(&request);
	http_client_close(client);
	curl_slist_free_all(headers);
	snprintf(why, why_bytes, "%s", *error ? error : curl_easy_strerror(err));
	*answer = a.text;
	*bytes = a.bytes;
	return err ? 0 : status;
}
