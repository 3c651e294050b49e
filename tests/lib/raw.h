/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw.h - reads a region word by word as sidelight-region(5) describes it, for tests of the written
 * bytes that must not depend on src/region.
 */
#ifndef SL_TEST_RAW_H
#define SL_TEST_RAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <sidelight/region.h>

struct raw {
	uint8_t *map;
	size_t size;
};

static inline bool raw_open(struct raw *r, int fd)
{
	struct stat st;

	memset(r, 0, sizeof(*r));
	if (fstat(fd, &st))
		return false;
	r->size = (size_t)st.st_size;
	r->map = mmap(NULL, r->size, PROT_READ, MAP_SHARED, fd, 0);
	return r->map != MAP_FAILED;
}

static inline void raw_close(struct raw *r)
{
	munmap(r->map, r->size);
}

static inline const struct sl_region_section *raw_section(const struct raw *r, uint32_t type)
{
	const struct sl_region_header *h = (const struct sl_region_header *)r->map;

	for (uint32_t i = 0; i < h->section_count; i++)
		if (h->section[i].type == type)
			return &h->section[i];
	return NULL;
}

static inline uint64_t raw_word(const struct raw *r, uint64_t at)
{
	return __atomic_load_n((const uint64_t *)(r->map + at), __ATOMIC_ACQUIRE);
}

static inline uint64_t raw_hot(const struct raw *r, enum sl_hot_cell cell)
{
	return raw_word(r, SL_HEADER_SIZE + cell * 8u);
}

/* Reads a cell of a section of mixed lines; returns false if its line does not verify. */
static inline bool raw_mixed(const struct raw *r, uint64_t offset, uint32_t cell, uint64_t *value)
{
	uint64_t line[8], at = offset + cell / SL_LINE_CELLS * SL_LINE_SIZE;

	for (int i = 0; i < 1000; i++) {
		for (int w = 0; w < 8; w++)
			line[w] = raw_word(r, at + (uint64_t)w * 8);
		*value = line[cell % SL_LINE_CELLS];
		if (sl_mixed_check(line) == line[7])
			return true;
	}
	return false;
}

/* Returns the time since which a record counts, or 0 if it does not exist. */
static inline uint64_t raw_created(const struct raw *r, uint32_t id)
{
	uint64_t value = 0;

	return raw_mixed(r, raw_section(r, SL_SECTION_CREATED)->offset, id, &value) ? value : ~0ull;
}

static inline uint64_t raw_stripe_cell(const struct raw *r, uint32_t stripe, uint32_t cell)
{
	const struct sl_region_section *s = raw_section(r, SL_SECTION_STRIPES);

	return raw_word(r, s->offset + (uint64_t)stripe * s->stride + sl_cell_offset(cell));
}

static inline uint64_t raw_u64(const struct raw *r, uint32_t cell)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < raw_hot(r, SL_HOT_STRIPES_USED); i++)
		sum += raw_stripe_cell(r, i, cell);
	return sum;
}

static inline double raw_f64(const struct raw *r, uint32_t cell)
{
	double sum = 0;

	for (uint32_t i = 0; i < raw_hot(r, SL_HOT_STRIPES_USED); i++)
		sum += sl_f64_of_cell(raw_stripe_cell(r, i, cell));
	return sum;
}

/* Returns whether all lines of the stripes in use verify. */
static inline bool raw_verifies(const struct raw *r)
{
	const struct sl_region_section *s = raw_section(r, SL_SECTION_STRIPES);
	uint64_t line[8];

	for (uint32_t i = 0; i < raw_hot(r, SL_HOT_STRIPES_USED); i++)
		for (uint64_t l = 0; l < raw_hot(r, SL_HOT_LINES_USED); l++) {
			for (uint32_t w = 0; w < 8; w++)
				line[w] = raw_word(r, s->offset + (uint64_t)i * s->stride +
							      l * SL_LINE_SIZE + w * 8u);
			if (sl_stripe_check(i, line) != line[7])
				return false;
		}
	return true;
}

/* Returns the record after this one; NULL starts. Returns NULL at the end. */
static inline const struct sl_schema_record *raw_next(const struct raw *r,
						      const struct sl_schema_record *at)
{
	const struct sl_region_section *s = raw_section(r, SL_SECTION_SCHEMA);
	const uint8_t *first = r->map + s->offset, *next;

	next = at ? (const uint8_t *)at + at->length : first;
	return (uint64_t)(next - first) < raw_hot(r, SL_HOT_SCHEMA_USED)
		       ? (const struct sl_schema_record *)next
		       : NULL;
}

static inline const char *raw_name(const struct sl_schema_record *s)
{
	return (const char *)(s + 1) + s->bound_count * sizeof(double);
}

static inline const char *raw_labels(const struct sl_schema_record *s)
{
	return raw_name(s) + s->name_bytes + s->unit_bytes + s->help_bytes;
}

/* Finds an existing record by name and, unless value is NULL, the value of its first label. */
static inline const struct sl_schema_record *raw_find(const struct raw *r, const char *name,
						      const char *value)
{
	const struct sl_schema_record *s = NULL;

	while ((s = raw_next(r, s))) {
		const char *label = raw_labels(s);

		if (s->name_bytes == strlen(name) && !memcmp(raw_name(s), name, s->name_bytes) &&
		    raw_created(r, s->id) &&
		    (!value || (s->label_bytes && !strcmp(label + strlen(label) + 1, value))))
			return s;
	}
	return NULL;
}

static inline bool raw_check(const struct sl_schema_record *s)
{
	struct sl_schema_record *copy = malloc(s->length);
	bool ok;

	memcpy(copy, s, s->length);
	copy->check = 0;
	ok = sl_fnv1a(SL_FNV_BASIS, copy, s->length) == s->check;
	free(copy);
	return ok;
}

#endif
