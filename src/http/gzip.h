/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip.h - compresses answers. In a build without zlib (gzip_none.c), nothing is compressed, which
 * every client accepts.
 */
#ifndef SL_HTTP_GZIP_H
#define SL_HTTP_GZIP_H

#include <stddef.h>
#include <sys/types.h>

struct http_gzip;

/* Returns a malloc'd gzip member, or NULL if out of memory or the result would not be smaller. */
unsigned char *http_gzip_whole(const void *body, size_t bytes, size_t *out_bytes);

/*
 * Starts a gzip member that is created in pieces. Returns NULL on failure, in which case the body
 * must be sent uncompressed.
 */
struct http_gzip *http_gzip_begin(void);
/*
 * Writes up to max compressed bytes to buf. next sets *piece to the next piece of the body, which
 * stays valid until the next call, and returns its length, 0 at the end, or < 0 on error. Returns
 * the number of bytes, 0 at the end, or < 0 on error.
 */
ssize_t http_gzip_read(struct http_gzip *g, char *buf, size_t max,
		       ssize_t (*next)(void *arg, const unsigned char **piece), void *arg);
void http_gzip_end(struct http_gzip *g);

#endif
