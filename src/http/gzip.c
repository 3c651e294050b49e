// SPDX-License-Identifier: Apache-2.0
#include "http/front.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP_LEVEL 1 /* for expositions, 2 % larger than level 6 and 3 times as fast */

struct http_gzip {
	z_stream z;
	bool ended, finished; /* ended: no more input; finished: no more output */
};

static bool begin_member(z_stream *z)
{
	return deflateInit2(z, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK;
}

unsigned char *http_gzip_whole(const void *body, size_t bytes, size_t *out_bytes)
{
	z_stream z = {0};
	unsigned char *out;

	if (bytes > UINT32_MAX / 2 || !begin_member(&z))
		return NULL;
	out = malloc(bytes);
	if (out) {
		z.next_in = (unsigned char *)(uintptr_t)body;
		z.avail_in = (uInt)bytes;
		z.next_out = out;
		z.avail_out = (uInt)bytes; /* a result that does not fit is not worthwhile */
		if (deflate(&z, Z_FINISH) != Z_STREAM_END) {
			free(out);
			out = NULL;
		}
		*out_bytes = z.total_out;
	}
	deflateEnd(&z);
	return out;
}

struct http_gzip *http_gzip_begin(void)
{
	struct http_gzip *g = calloc(1, sizeof(*g));

	if (g && !begin_member(&g->z)) {
		free(g);
		g = NULL;
	}
	return g;
}

ssize_t http_gzip_read(struct http_gzip *g, char *buf, size_t max,
		       ssize_t (*next)(void *arg, const unsigned char **piece), void *arg)
{
	g->z.next_out = (unsigned char *)buf;
	g->z.avail_out = (uInt)max;
	while (g->z.avail_out == max) {
		int e;

		if (g->finished)
			return 0;
		if (!g->z.avail_in && !g->ended) {
			const unsigned char *piece = NULL;
			ssize_t n = next(arg, &piece);

			if (n < 0)
				return n;
			g->ended = n == 0;
			g->z.next_in = (unsigned char *)(uintptr_t)piece;
			g->z.avail_in = (uInt)n;
		}
		e = deflate(&g->z, g->ended ? Z_FINISH : Z_NO_FLUSH);
		if (e == Z_STREAM_END)
			g->finished = true;
		else if (e != Z_OK && e != Z_BUF_ERROR)
			return -EIO;
	}
	return (ssize_t)(max - g->z.avail_out);
}

void http_gzip_end(struct http_gzip *g)
{
	if (g)
		deflateEnd(&g->z);
	free(g);
}
