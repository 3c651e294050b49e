// SPDX-License-Identifier: Apache-2.0
/* gzip_none.c - replaces gzip.c in builds without zlib: answers are not compressed. */
#include <errno.h>

#include "http/front.h"

unsigned char *http_gzip_whole(const void *body, size_t bytes, size_t *out_bytes)
{
	(void)body, (void)bytes, (void)out_bytes;
	return NULL;
}

struct http_gzip *http_gzip_begin(void)
{
	return NULL;
}

ssize_t http_gzip_read(struct http_gzip *g, char *buf, size_t max,
		       ssize_t (*next)(void *arg, const unsigned char **piece), void *arg)
{
	(void)g, (void)buf, (void)max, (void)next, (void)arg;
	return -EOPNOTSUPP;
}

void http_gzip_end(struct http_gzip *g)
{
	(void)g;
}
