// SPDX-License-Identifier: Apache-2.0
/*
 * render_kinds FORMAT [MAX] - prints the golden source, read by MAX bytes at a time. FORMAT is
 * text, openmetrics or protobuf. render_kinds numbers COUNT - prints the bits and the text of COUNT
 * random doubles.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "fixture.h"

static int numbers(unsigned long count)
{
	uint64_t x = 0x9e3779b97f4a7c15u;
	char buf[BASE_NUMBER_MAX + 1];
	double v;

	for (; count; count--) {
		uint64_t bits;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		bits = count % 3 ? x : x & ~0ull << x % 53; /* some with few bits */
		memcpy(&v, &bits, 8);
		*base_print_f64(buf, v) = '\0';
		printf("%016llx %s\n", (unsigned long long)bits, buf);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct export_source source = fixture_source(&fixture_kinds);
	size_t max = argc > 2 ? strtoul(argv[2], NULL, 10) : 32768;
	char *buf = malloc(max);
	struct export_render *r;
	ssize_t n;

	if (argc < 2 || !buf)
		return 2;
	if (!strcmp(argv[1], "numbers")) {
		free(buf);
		return numbers(argc > 2 ? strtoul(argv[2], NULL, 10) : 1000);
	}
	r = export_render_new(&source,
			      !strcmp(argv[1], "protobuf")	? EXPORT_FORMAT_PROTOBUF
			      : !strcmp(argv[1], "openmetrics") ? EXPORT_FORMAT_OPENMETRICS
								: EXPORT_FORMAT_TEXT,
			      true);
	while ((n = export_render_read(r, buf, max)) > 0)
		fwrite(buf, 1, (size_t)n, stdout);
	export_render_free(r);
	free(buf);
	return n < 0;
}
