// SPDX-License-Identifier: Apache-2.0
#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"

#define ANSWER_MAX ((size_t)64 << 20)

int cli_failed(const char *command, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "sidelight %s: ", command);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return BASE_EXIT_FAILURE;
}

void cli_print_safe(const char *s, int width)
{
	int n = 0;

	for (; *s; s++, n++)
		putchar((unsigned char)*s < 32 || *s == 127 ? '?' : *s);
	for (; n < width; n++)
		putchar(' ');
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

void cli_json_print(FILE *out, json_t *j, size_t flags)
{
	json_dumpf(j, out, flags);
	fputc('\n', out);
	json_decref(j);
}

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

long cli_http(const char *at, const char *path, const char *body, long timeout_ms, char **answer,
	      size_t *bytes, char *why, size_t why_bytes)
{
	struct http_answer a = {.text = calloc(1, 1)};
	char url[1024], error[CURL_ERROR_SIZE] = "";
	CURL *curl = curl_easy_init();
	CURLcode err = CURLE_OUT_OF_MEMORY;
	long status = 0;

	snprintf(url, sizeof(url), "http://%s%s", at, path);
	if (curl && a.text) {
		curl_easy_setopt(curl, CURLOPT_URL, url);
		curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1l);
		curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
		curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
		curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
		curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
		curl_easy_setopt(curl, CURLOPT_WRITEDATA, &a);
		if (body)
			curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
		err = curl_easy_perform(curl);
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	}
	curl_easy_cleanup(curl);
	snprintf(why, why_bytes, "%s", *error ? error : curl_easy_strerror(err));
	*answer = a.text;
	*bytes = a.bytes;
	return err ? 0 : status;
}
