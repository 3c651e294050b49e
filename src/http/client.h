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
#include <stdint.h>

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

/* ---- one request ---- */

#define HTTP_FETCH_NUMBERS 3

/* Redirects are not followed: they could take secrets elsewhere. */
struct http_fetch {
	struct http_client *client; /* or NULL */
	const char *url;
	const char *method;	    /* NULL: GET, or POST with a body */
	const char *const *headers; /* "Name: value", ended by NULL; or NULL */
	const void *body;	    /* or NULL */
	size_t body_bytes;
	uint64_t timeout_ns;
	size_t most; /* bytes of the answer, after decompression */
	bool cut;    /* truncate a longer answer instead of failing */
	bool keep;   /* keep the connection for the client's next request; one thread only */
	bool gzip;   /* accept a compressed answer */
	bool direct; /* use no proxy */
	const char *unix_socket; /* connect to this socket, not to the URL's host; or NULL */
	const char *numbers[HTTP_FETCH_NUMBERS]; /* headers of the answer that hold numbers */
	bool (*stop)(void *arg);		 /* returns true to abort the request; or NULL */
	void *stop_arg;
};

enum http_fetch_error {
	HTTP_FETCH_OK,
	HTTP_FETCH_CONNECT, /* no connection, a broken one, or it was stopped */
	HTTP_FETCH_TIMEOUT,
	HTTP_FETCH_TOO_LONG,
	HTTP_FETCH_MEMORY,
	HTTP_FETCH_SECRET, /* a secret could not be read from its file */
};

/* An answer; untrusted. Zero before the first request; its memory serves the next one as well. */
struct http_fetched {
	char *body; /* followed by a NUL; NULL: no body */
	size_t bytes, room;
	long status;
	char type[64]; /* Content-Type */
	uint64_t retry_after_s;
	int64_t numbers[HTTP_FETCH_NUMBERS]; /* -1: no such header, or no number */
	char why[256];			     /* one line, if there is an error */
};

enum http_fetch_error http_fetch(const struct http_fetch *f, struct http_fetched *to);

#endif
