/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - settings for outgoing HTTP requests: Prometheus' http_client_config, from one file per
 * receiver, applied to libcurl handles. Secrets are in separate files that are read again for each
 * request, so they may change. Secrets are never logged.
 */
#ifndef SL_HTTP_CLIENT_H
#define SL_HTTP_CLIENT_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_client;

/*
 * Reads and checks the file. If path is NULL, the client has no settings. Returns NULL with errno
 * and one line in error. Any thread may use the client.
 */
struct http_client *http_client_open(const char *path, char *error, size_t bytes);
/*
 * Creates a client as if its settings file specified these two files for a bearer token and
 * certificate authorities. Returns NULL if out of memory.
 */
struct http_client *http_client_of(const char *credentials_file, const char *ca_file);
void http_client_close(struct http_client *c);
/* Memory that a request needs until it is complete. */
struct http_outgoing {
	struct curl_slist *headers, *connect_to;
};

/*
 * Prepares a handle for one request: sets the URL, the headers of the caller (as in struct
 * http_fetch) and of the settings file, and all other settings of the file. Returns 0, or -errno
 * with one line in error if a secret can't be read. Call http_client_done() after the request in
 * either case.
 */
int http_client_apply(const struct http_client *c, CURL *curl, const char *url,
		      const char *const *headers, struct http_outgoing *r, char *error,
		      size_t bytes);
void http_client_done(struct http_outgoing *r);
/*
 * Checks that a URL is http or https and contains no secret. Returns 0, or -EINVAL with one line in
 * error, which does not quote a URL that contains a password.
 */
int http_client_url(const char *url, char *error, size_t bytes);

/* ---- one request ---- */

#define HTTP_FETCH_NUMBERS 3

/* Redirects are not followed, because they could send secrets elsewhere. */
struct http_fetch {
	struct http_client *client; /* or NULL */
	const char *url;
	const char *method;	    /* NULL means GET, or POST with a body */
	const char *const *headers; /* "Name: value", terminated by NULL; or NULL */
	const void *body;	    /* or NULL */
	size_t body_bytes;
	uint64_t timeout_ns;
	size_t most; /* maximum size of the answer, after decompression */
	bool cut;    /* truncate a longer answer instead of failing */
	bool keep;   /* keep the connection for the client's next request; only for one thread */
	bool gzip;   /* accept a compressed answer */
	bool direct; /* do not use a proxy */
	const char *unix_socket; /* connect to this socket instead of the URL's host; or NULL */
	const char *numbers[HTTP_FETCH_NUMBERS]; /* headers of the answer that contain numbers */
	bool (*stop)(void *arg);		 /* returns true to abort the request; or NULL */
	void *stop_arg;
};

enum http_fetch_error {
	HTTP_FETCH_OK,
	HTTP_FETCH_CONNECT, /* no connection, a broken connection, or a stopped request */
	HTTP_FETCH_TIMEOUT,
	HTTP_FETCH_TOO_LONG,
	HTTP_FETCH_MEMORY,
	HTTP_FETCH_SECRET, /* a secret could not be read from its file */
};

/*
 * A response. Its contents are untrusted. Zero it before the first request; later requests reuse
 * its memory.
 */
struct http_fetched {
	char *body; /* followed by a NUL; NULL means no body */
	size_t bytes, room;
	long status;
	char type[64]; /* Content-Type */
	uint64_t retry_after_s;
	int64_t numbers[HTTP_FETCH_NUMBERS]; /* -1 means no such header, or not a number */
	char why[256];			     /* one line, if there is an error */
};

enum http_fetch_error http_fetch(const struct http_fetch *f, struct http_fetched *to);
/* Replaces control characters in untrusted text with blanks, to protect terminals. */
void http_client_clean(char *text);

#endif
