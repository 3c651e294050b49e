// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli/common.h"

void cli_print_safe(const char *s, int width)
{
	int n = 0;

	for (; *s; s++, n++)
		putchar((unsigned char)*s < 32 || *s == 127 ? '?' : *s);
	for (; n < width; n++)
		putchar(' ');
}

const char *cli_json_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

json_int_t cli_json_integer(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

uint64_t cli_count_of(const void *from, const struct cli_count *c)
{
	uint64_t v;

	memcpy(&v, (const char *)from + c->at, sizeof(v));
	return v;
}

void cli_json_counts(json_t *to, const void *from, const struct cli_count *counts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_object_set_new(to, counts[i].name,
				    json_integer((json_int_t)cli_count_of(from, &counts[i])));
}

void cli_json_print(FILE *out, json_t *j, size_t flags)
{
	json_dumpf(j, out, flags);
	fputc('\n', out);
	json_decref(j);
}
