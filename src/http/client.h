/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - how this program connects to others by HTTP: what Prometheus' http_client_config says,
 * in a file for each receiver, applied to handles of libcurl. Secrets stand in files of their own,
 * which are read for each request, so that they may change; no log line holds one.
 */
#ifndef SL_HTTP_CLIENT_H
#define SL_HTTP_CLIENT_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

struct http_client;

/*
 * Reads and checks the file. NULL with errno and one line in error; path NULL: a client without
 * settings. Any thread may use it.
 */
struct http_client *http_client_open(const char *path, char *error, size_t bytes);
/* As if a file named these two for bearer tokens and for authorities. NULL: out of memory. */
struct http_client *http_client_of(const char *credentials_file, const char *ca_file);
void http_client_close(struct http_client *c);
/* What a request keeps until it is over. */
struct http_outgoing {
	struct curl_slist *headers, *connect_to;
};

/*
 * Sets the URL, the headers, which are the caller's and the file's, and all else that the file says
 * on a handle for one request. 0, or -errno with one line in error: a secret cannot be read.
 * http_client_done() in either case, after the request.
 */
int http_client_apply(const struct http_client *c, CURL *curl, const char *url,
		      const struct curl_slist *headers, struct http_outgoing *r, char *error,
		      size_t bytes);
void http_client_done(struct http_outgoing *r);
/* Why TLS failed, of the request's CURLOPT_ERRORBUFFER, untrusted; NULL: TLS did not. */
const char *http_client_tls_error(CURLcode code, const char *detail);
/*
 * 0, or -EINVAL with one line in error, which does not hold the URL if that holds a password: not
 * http or https, or a secret in it.
 */
int http_client_url(const char *url, char *error, size_t bytes);

#endif
