// SPDX-License-Identifier: Apache-2.0
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/common.h"
#include "base/confine.h"
#include "http/client.h"
#include "dta/wire/auth.h"

const char *cli_kind_name(const struct base_command *kind)
{
	return strchr(kind->name, ' ') + 1;
}

int cli_run_kind(const struct base_command *self, const struct base_command *const *kinds, size_t n,
		 const char *names, int argc, char **argv)
{
	if (argc < 2)
		return base_usage(self, "expected %s; see 'sidelight %s --help'", names,
				  self->name);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		printf("Usage: sidelight %s %s\n\n%s\n\nWhat:\n", self->name, self->synopsis,
		       self->summary);
		for (size_t i = 0; i < n; i++)
			printf("  %-10s %s\n", cli_kind_name(kinds[i]), kinds[i]->summary);
		printf("\n'sidelight %s WHAT --help' lists the options.\n"
		       "The manual: man sidelight-%s\n",
		       self->name, self->name);
		return fflush(stdout) ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
	}
	for (size_t i = 0; i < n; i++)
		if (!strcmp(argv[1], cli_kind_name(kinds[i])))
			return kinds[i]->run(kinds[i], argc - 1, argv + 1);
	return -1;
}

#define ANSWER_MAX ((size_t)64 << 20)

void cli_print_safe(const char *s, int width)
{
	int n = 0;

	for (; *s; s++, n++)
		putchar((unsigned char)*s < 32 || *s == 127 ? '?' : *s);
	for (; n < width; n++)
		putchar(' ');
}

int cli_choice(const char *word, const char *const *names)
{
	int i = 0;

	while (names[i] && strcmp(word, names[i]))
		i++;
	return names[i] ? i : -1;
}

int cli_legacy(const char *form)
{
	static const char *const forms[] = {"a", "b", NULL};
	int i = form ? cli_choice(form, forms) : -1;

	return form && i < 0 ? -1 : i + 1;
}

const char *cli_json_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

json_int_t cli_json_integer(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

uint64_t cli_count_of(const void *from, const struct cli_count *c)
{
	uint64_t v;

	memcpy(&v, (const char *)from + c->at, sizeof(v));
	return v;
}

void cli_json_counts(json_t *to, const void *from, const struct cli_count *counts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_object_set_new(to, counts[i].name,
				    json_integer((json_int_t)cli_count_of(from, &counts[i])));
}

double cli_json_number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

bool cli_json_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

bool cli_json_is(const json_t *o, const char *key, const char *text)
{
	return !strcmp(cli_json_text(o, key), text);
}

bool cli_json_print(FILE *out, json_t *j, size_t flags)
{
	bool good = !json_dumpf(j, out, flags);

	fputc('\n', out);
	json_decref(j);
	return good;
}

struct http_answer {
	char *text;
	size_t bytes;
};

static size_t take_body(char *from, size_t size, size_t n, void *arg)
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

/*
 * Returns true for a URL with a scheme. HOST:PORT without a scheme means HTTP on the local network,
 * without a proxy.
 */
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
		curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
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

int cli_confine(const char *component, const struct base_confine_opts *opts)
{
	char why[160];

	if (base_confine(opts, why, sizeof(why)))
		return CLI_FAIL(component, "%s; to skip this, use --unconfined", why);
	return BASE_EXIT_OK;
}

int cli_rdma_secret(const struct base_command *self, const char *path, const void **secret,
		    size_t *bytes)
{
	static uint8_t text[DTA_SECRET_MAX];
	ssize_t n;

	if (!path)
		return BASE_EXIT_OK;
	n = dta_secret_read(path, text);
	if (n < 0)
		return base_failure(self, "--rdma-secret: %s: %s", path,
				    n == -EINVAL ? "is not 16 to 4096 bytes long"
						 : strerror((int)-n));
	*secret = text;
	*bytes = (size_t)n;
	return BASE_EXIT_OK;
}
