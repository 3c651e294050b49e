// SPDX-License-Identifier: Apache-2.0
/*
 * ask - query a store of reports, without a collector.
 *
 * 	ask FILE KEY...     the value, count or path of each key, a word of 4 to 64 bytes
 * 	ask FILE            an append store: its items, and new ones as they come, until interrupted
 *
 * FILE is a file of a collector's directory (sidelight collect --dta). The exit code is 0 if every
 * key was found.
 *
 * 	cc -O2 -o ask ask.c $(pkg-config --cflags --libs sidelight-dta)
 */
#include <errno.h>
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

static void print_path(const struct sl_postcard_answer *path)
{
	for (uint32_t h = 0; h < path->hops; h++)
		path->present >> h & 1 ? printf(" %" PRIu32, path->value[h]) : printf(" ?");
}

/* Prints what is known of a key. True: it was found. */
static bool ask(const struct sl_store *s, const char *key)
{
	struct sl_keywrite_answer value = SL_OPTS(sl_keywrite_answer);
	struct sl_increment_answer count = SL_OPTS(sl_increment_answer);
	struct sl_postcard_answer path = SL_OPTS(sl_postcard_answer);
	struct sl_sketch_answer sketch = SL_OPTS(sl_sketch_answer);
	enum sl_query_result result = SL_QUERY_UNKNOWN;
	uint64_t reports;
	int err = -1;

	printf("%s: ", key);
	switch (sl_store_config_get(s)->kind) {
	case SL_STORE_KEYWRITE:
		err = sl_query_keywrite(s, key, strlen(key), NULL, &value);
		result = value.result;
		print_bytes(value.value, value.bytes);
		break;
	case SL_STORE_INCREMENT:
		err = sl_query_increment(s, key, strlen(key), NULL, &count);
		result = count.result;
		printf("%" PRIu64 ", at most %.0f too high with probability %.3f", count.value,
		       count.error, count.probability);
		break;
	case SL_STORE_POSTCARD:
		err = sl_query_postcard(s, key, strlen(key), NULL, &path);
		result = path.result;
		print_path(&path);
		break;
	case SL_STORE_SKETCH:
		err = sl_query_sketch(s, key, strlen(key), NULL, NULL, 0, &sketch);
		result = sketch.result;
		if (sketch.estimated)
			printf("%.0f +- %.0f", sketch.value, sketch.error);
		break;
	}
	printf(" (%s)\n", err ? strerror(-err) : results[result]);
	if (!err && result == SL_QUERY_EMPTY && !sl_query_reports_until(s, 0, .99, &reports))
		printf("  among the last %" PRIu64 " of its epoch it would be found with .99\n",
		       reports);
	return !err && result == SL_QUERY_FOUND;
}

/* The new items of one list and lane. 0, or the error of the query. */
static int print_items(const struct sl_store *s, struct sl_query_append_reader *r, uint8_t *items,
		       uint32_t max, uint64_t timeout_ns)
{
	const uint32_t bytes = sl_store_config_get(s)->value_bytes;
	const uint64_t before = r->overrun;
	uint32_t n;
	int err = sl_query_append(s, r, items, max, timeout_ns, &n);

	if (err == -EOVERFLOW) {
		fprintf(stderr, "list %u: %" PRIu64 " blocks were missed\n", r->list,
			r->overrun - before);
		err = 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		printf("%u ", r->list);
		print_bytes(items + (size_t)i * bytes, bytes);
		putchar('\n');
	}
	fflush(stdout);
	return err;
}

/* All lists and lanes of an append store; returns on an error only. */
static void follow(const struct sl_store *s)
{
	const struct sl_store_config *c = sl_store_config_get(s);
	const uint32_t readers = c->lists * c->lanes, max = 4 * SL_STORE_BATCH_MAX;
	struct sl_query_append_reader *r = calloc(readers, sizeof(*r));
	uint8_t *items = malloc((size_t)max * c->value_bytes);
	int err = r && items ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < readers; i++)
		err = sl_query_append_begin(s, &r[i], i / c->lanes, i % c->lanes,
					    SL_QUERY_APPEND_OLDEST);
	while (!err && !ferror(stdout))
		for (uint32_t i = 0; !err && i < readers; i++)
			err = print_items(s, &r[i], items, max, 20000000 / readers);
	free(items);
	free(r);
}

int main(int argc, char **argv)
{
	struct sl_store *s;
	char why[512];
	bool failed = false;

	if (argc < 2 || !strcmp(argv[1], "--help")) {
		puts("usage: ask FILE [KEY...]");
		return argc < 2 ? 2 : 0;
	}
	s = sl_store_open(argv[1], why, sizeof(why));
	if (!s) {
		fprintf(stderr, "ask: %s\n", why);
		return 1;
	}
	if (sl_store_config_get(s)->kind == SL_STORE_APPEND) {
		follow(s);
		failed = true;
	}
	for (int i = 2; i < argc; i++)
		failed |= !ask(s, argv[i]);
	sl_store_close(s);
	return failed;
}
