// SPDX-License-Identifier: Apache-2.0
/*
 * ask - what a store of reports says of a key, without a collector.
 *
 * 	ask FILE KEY...     the value, count or path of each key: a word of 4 to 64 bytes
 * 	ask FILE            of an append store: its items, and then those that come, until it is
 * interrupted
 *
 * FILE is one of a collector's directory (sidelight collect --dta). Exits with 1 unless all was
 * found.
 *
 * 	cc -O2 -o ask ask.c $(pkg-config --cflags --libs sidelight)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/query.h>

static const char *const results[] = {"found", "empty", "conflict", "unknown"};

static void print_bytes(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%02x", bytes[i]);
}

/* Returns what the query did. */
static int ask(const struct sl_store *s, const char *key)
{
	struct sl_keywrite_answer value = {.sz = sizeof(value)};
	struct sl_increment_answer count = {.sz = sizeof(count)};
	struct sl_postcard_answer path = {.sz = sizeof(path)};
	struct sl_sketch_answer sketch = {.sz = sizeof(sketch)};
	int result = -1;

	printf("%s: ", key);
	switch (sl_store_geometry(s)->kind) {
	case SL_STORE_KEYWRITE:
		result = sl_query_keywrite(s, key, strlen(key), NULL, &value);
		print_bytes(value.value, value.bytes);
		break;
	case SL_STORE_INCREMENT:
		result = sl_query_increment(s, key, strlen(key), NULL, &count);
		printf("%" PRIu64 ", at most %.0f too high with probability %.3f", count.value,
		       count.error, count.probability);
		break;
	case SL_STORE_POSTCARD:
		result = sl_query_postcard(s, key, strlen(key), NULL, &path);
		for (uint32_t h = 0; h < path.hops; h++)
			path.present >> h & 1 ? printf(" %" PRIu32, path.value[h]) : printf(" ?");
		break;
	case SL_STORE_SKETCH:
		result = sl_query_sketch(s, key, strlen(key), NULL, NULL, 0, &sketch);
		if (sketch.estimated)
			printf("%.0f +- %.0f", sketch.value, sketch.error);
		break;
	}
	printf(" (%s)\n", result < 0 ? strerror(-result) : results[result]);
	if (result == SL_QUERY_EMPTY && sl_query_reach(s, 0, .99))
		printf("  among the last %" PRIu64 " of its epoch it would be found with .99\n",
		       sl_query_reach(s, 0, .99));
	return result;
}

/* All lists of all lanes, for ever: returns only if something is wrong. */
static int follow(const struct sl_store *s)
{
	const struct sl_store_config *c = sl_store_geometry(s);
	const uint32_t readers = c->lists * c->lanes, max = 4 * SL_STORE_BATCH_MAX;
	struct sl_append_reader *r = calloc(readers, sizeof(*r));
	uint8_t *items = malloc((size_t)max * c->value_bytes);
	int n = r && items ? 0 : -1;

	for (uint32_t i = 0; !n && i < readers; i++)
		n = sl_append_begin(s, &r[i], i / c->lanes, i % c->lanes, SL_APPEND_OLDEST);
	while (n >= 0 && !ferror(stdout))
		for (uint32_t i = 0; n >= 0 && i < readers; i++) {
			uint64_t before = r[i].overrun;

			n = sl_query_append(s, &r[i], items, max, 20000000 / readers);
			if (r[i].overrun > before) {
				fprintf(stderr, "list %u: %" PRIu64 " blocks were missed\n",
					r[i].list, r[i].overrun - before);
				n = 0;
			}
			for (int k = 0; k < n; k++) {
				printf("%u ", r[i].list);
				print_bytes(items + (size_t)k * c->value_bytes, c->value_bytes);
				putchar('\n');
			}
			fflush(stdout);
		}
	free(items);
	free(r);
	return 1;
}

int main(int argc, char **argv)
{
	struct sl_store *s;
	char why[512];
	int left = 0;

	if (argc < 2 || !strcmp(argv[1], "--help")) {
		puts("usage: ask FILE [KEY...]");
		return argc < 2 ? 2 : 0;
	}
	s = sl_store_open(argv[1], why, sizeof(why));
	if (!s) {
		fprintf(stderr, "ask: %s\n", why);
		return 1;
	}
	if (sl_store_geometry(s)->kind == SL_STORE_APPEND)
		left = follow(s);
	for (int i = 2; i < argc; i++)
		left |= ask(s, argv[i]) != SL_QUERY_FOUND;
	sl_store_close(s);
	return left;
}
