/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - settings for outgoing HTTP requests: Prometheus' http_client_config, from one file per
 * receiver, applied to libcurl handles. Secrets are in separate files that are read for each
 * request, so that they may change; secrets are never logged.
 */
#ifndef SL_HTTP_CLIENT_H
#define SL_HTTP_CLIENT_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

struct http_client;

/*
 * Reads and checks the file; path NULL: a client without settings. Returns NULL with errno and one
 * line in error. Any thread may use the client.
 */
struct http_client *http_client_open(const char *path, char *error, size_t bytes);
/*
 * Makes a client as if from a file that names these two files for a bearer token and for
 * certificate authorities. NULL: out of memory.
 */
struct http_client *http_client_of(const char *credentials_file, const char *ca_file);
void http_client_close(struct http_client *c);
/* Whether the file has a tls_config, even an empty one. */
bool http_client_tls(const struct http_client *c);
/* Memory that a request needs until it is complete. */
struct http_outgoing {
	struct curl_slist *headers, *connect_to;
};

/*
 * Prepares a handle for one request: sets the URL, the headers of the caller and of the file, and
 * all other settings of the file. Returns 0, or -errno with one line in error: a secret cannot be
 * read. Call http_client_done() after the request in either case.
 */
int http_client_apply(const struct http_client *c, CURL *curl, const char *url,
		      const struct curl_slist *headers, struct http_outgoing *r, char *error,
		      size_t bytes);
void http_client_done(struct http_outgoing *r);
/*
 * Returns why TLS failed, from the request's untrusted CURLOPT_ERRORBUFFER; NULL: TLS did not fail.
 */
const char *http_client_tls_error(CURLcode code, const char *detail);
/*
 * Checks that a URL is http or https and contains no secret. Returns 0, or -EINVAL with one line in
 * error, which does not quote a URL that contains a password.
 */
int http_client_url(const char *url, char *error, size_t bytes);

#endif
