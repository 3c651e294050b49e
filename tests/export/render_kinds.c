// SPDX-License-Identifier: Apache-2.0
/*
 * render_kinds FORMAT [MAX [created]] - the golden source on stdout, read by MAX bytes at a time.
 * FORMAT is text, openmetrics or protobuf.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

int main(int argc, char **argv)
{
	struct sl_source source = fixture_source(&fixture_kinds);
	size_t max = argc > 2 ? strtoul(argv[2], NULL, 10) : 32768;
	char *buf = malloc(max);
	struct sl_render *r;
	ssize_t n;

	if (argc < 2 || !buf)
		return 2;
	r = sl_render_new(&source, !strcmp(argv[1], "protobuf")	     ? SL_FORMAT_PROTOBUF
				   : !strcmp(argv[1], "openmetrics") ? SL_FORMAT_OPENMETRICS
								     : SL_FORMAT_TEXT);
	sl_render_created(r, argc > 3);
	while ((n = sl_render_read(r, buf, max)) > 0)
		fwrite(buf, 1, (size_t)n, stdout);
	sl_render_free(r);
	free(buf);
	return n < 0;
}
