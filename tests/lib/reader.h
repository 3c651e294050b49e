/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - a region as a collector on this machine sees it: mapped, copied, decoded by
 * src/region. All tests of the library check its results with this reader, not with the library.
 */
#ifndef SL_TEST_READER_H
#define SL_TEST_READER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "region/decode.h"

struct reader {
	uint8_t *map;
	size_t size;
	struct region_info info;
	struct region_hot hot;
	struct region_schema schema;
	struct region_values values;
	uint32_t unsettled; /* lines that did not verify in the last round, after 100 tries */
};

static inline enum region_fault reader_open(struct reader *r, int fd)
{
	static struct sl_region_header copy;
	struct stat st;

	memset(r, 0, sizeof(*r));
	if (fstat(fd, &st))
		return REGION_FAULT_SIZE;
	r->size = (size_t)st.st_size;
	r->map = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r->map == MAP_FAILED)
		return REGION_FAULT_MEMORY;
	memcpy(&copy, r->map, sizeof(copy));
	region_schema_init(&r->schema);
	region_values_init(&r->values);
	return region_info_parse(&copy, r->size, &r->info);
}

static inline void reader_close(struct reader *r)
{
	region_schema_free(&r->schema);
	region_values_free(&r->values);
	if (r->map)
		munmap(r->map, r->size);
}

/* Reads one round. Returns UNSETTLED if the hot line never verified; then nothing changes. */
static inline enum region_fault reader_round(struct reader *r)
{
	enum region_fault fault = REGION_FAULT_UNSETTLED;
	uint64_t line[8];

	for (int i = 0; i < 100 && fault == REGION_FAULT_UNSETTLED; i++) {
		region_copy_words(line, (uint64_t *)(r->map + r->info.hot), 8);
		fault = region_hot_parse(line, &r->info, &r->hot);
	}
	if (fault)
		return fault;
	/* Pairs with the writer's release fence before it stores the hot line. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (r->hot.schema_used > r->schema.parsed) {
		size_t bytes = r->hot.schema_used - r->schema.parsed;
		void *copy = malloc(bytes);

		memcpy(copy, r->map + r->info.schema + r->schema.parsed, bytes);
		fault = region_schema_append(&r->schema, &r->info, copy, bytes);
		free(copy);
		if (fault)
			return fault;
	}
	if (region_values_resize(&r->values, r->hot.lines_used, r->hot.stripes_used))
		return REGION_FAULT_MEMORY;
	r->unsettled = 0;
	for (uint32_t s = 0; s < r->hot.stripes_used; s++) {
		for (uint32_t l = 0; l < r->hot.lines_used; l++) {
			uint64_t *at = (uint64_t *)(r->map + r->info.stripes +
						    (size_t)s * r->info.stripe_stride + l * 64);
			uint32_t bad = 1;

			for (int i = 0; i < 100 && bad; i++) {
				region_copy_words(line, at, 8);
				bad = region_values_update(&r->values, s, l, &line, 1, NULL);
			}
			r->unsettled += bad;
		}
	}
	return REGION_FAULT_NONE;
}

/* Finds a metric by name, and by the value of its first label if value is not NULL. */
static inline const struct region_metric *reader_find(const struct reader *r, const char *name,
						      const char *value)
{
	for (size_t i = 0; i < r->schema.count; i++) {
		const struct region_metric *m = r->schema.metrics[i];

		if (!strcmp(m->name, name) &&
		    (!value || (m->label_count && !strcmp(m->labels[0].value, value))))
			return m;
	}
	return NULL;
}

static inline uint64_t reader_u64(const struct reader *r, const char *name)
{
	const struct region_metric *m = reader_find(r, name, NULL);

	return m ? region_values_u64(&r->values, m->cell) : ~0ull;
}

static inline double reader_f64(const struct reader *r, const char *name)
{
	const struct region_metric *m = reader_find(r, name, NULL);

	return m ? region_values_f64(&r->values, m->cell) : -1;
}

/* Opens, reads once and returns one u64, for tests that need no more. */
static inline uint64_t read_u64(int fd, const char *name)
{
	struct reader r;
	uint64_t v = ~0ull;

	if (!reader_open(&r, fd) && !reader_round(&r) && !r.unsettled)
		v = reader_u64(&r, name);
	reader_close(&r);
	return v;
}

static inline double test_scale(void)
{
	const char *s = getenv("SL_TEST_SCALE");
	double v = s ? atof(s) : 1;

	return v > 0 ? v : 1;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

#endif
