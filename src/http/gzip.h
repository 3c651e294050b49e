/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip.h - compresses answers. In a build without zlib (gzip_none.c), nothing is compressed; every
 * client accepts that.
 */
#ifndef SL_HTTP_GZIP_H
#define SL_HTTP_GZIP_H

#include <stddef.h>
#include <sys/types.h>

struct http_gzip;

/* Returns a malloc'd gzip member. NULL: no memory, or the result would not be smaller. */
unsigned char *http_gzip_whole(const void *body, size_t bytes, size_t *out_bytes);

/*
 * Begins a gzip member that is made in pieces. Returns NULL if this fails: then send the body as it
 * is.
 */
struct http_gzip *http_gzip_begin(void);
/*
 * Writes up to max compressed bytes to buf. next sets *piece to the next piece of the body, which
 * stays valid until the next call, and returns its length (0: end, < 0: error). Returns the number
 * of bytes; 0: end; or < 0.
 */
ssize_t http_gzip_read(struct http_gzip *g, char *buf, size_t max,
		       ssize_t (*next)(void *arg, const unsigned char **piece), void *arg);
void http_gzip_end(struct http_gzip *g);

#endif
