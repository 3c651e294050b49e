/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_region.h - writes regions and directories into plain memory, for tests and corpora. It
 * follows sidelight-region(5), and shares no code with libsidelight or the decoder.
 */
#ifndef TESTS_REGION_MAKE_REGION_H
#define TESTS_REGION_MAKE_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sidelight/region.h>

struct make {
	uint8_t *mem; /* 4096-byte aligned */
	size_t size;
	struct sl_region_header *header;
	uint64_t *hot;
	uint8_t *stripes;
	uint32_t stride, max_stripes;
	uint8_t *schema;
	uint64_t schema_bytes;
	uint64_t (*entries)[8];
	uint32_t max_entries;
	uint32_t next_cell, next_id; /* of the next record; next_cell may be set to any */
	uint32_t cells;		     /* one more than the highest cell in use */
	uint64_t (*created)[8];	     /* NULL: no such section */
	uint32_t created_lines;
	uint64_t (*exemplars)[32]; /* by element; NULL: no such section */
	uint32_t max_exemplars;
};

struct make_metric {
	uint16_t kind;			/* with SL_KIND_REPLACEABLE, or not */
	uint16_t flags;			/* of the record */
	uint32_t spare;			/* replaceable: bytes behind the parts, a multiple of 8 */
	const char *name, *unit, *help; /* NULL: none */
	const char *labels[2 * 40];	/* key, value, ..., NULL */
	const double *bounds;
	uint16_t bound_count;
	const char *states[SL_STATES_MAX + 1]; /* ..., NULL */
	uint32_t buckets;		       /* exponential: ordinary buckets */
	int16_t scale;
	int32_t first_bucket;
	double zero_threshold;
};

/* Makes a region of metrics: live, stripes of lines, labels "key\0value\0...". */
void make_metrics(struct make *m, uint32_t lines, uint32_t stripes, size_t schema_bytes,
		  const char *labels, size_t label_bytes);
/* Appends a section "created" with cells for this many records; all exist since start_ns. */
void make_created(struct make *m, uint32_t records);
/* Appends a section of exemplars. */
void make_exemplars(struct make *m, uint32_t elements);
void make_directory(struct make *m, uint32_t entries);
void make_free(struct make *m);

/* Updates the header's check word after a change. */
void make_header_check(struct make *m);
/* Stores a cell of a line, and updates its check word. */
void make_set(uint64_t *line, unsigned int cell, uint64_t value);
void make_check(uint64_t *line);
/* The same in a line of stripe 0, which is mixed. */
void make_set_mixed(uint64_t *line, unsigned int cell, uint64_t value);

/*
 * Writes a record to out (room for 128 KiB) and returns its length; the caller may damage it and
 * then call make_record_check().
 */
size_t make_record(const struct make *m, const struct make_metric *metric, uint8_t *out);
void make_record_check(uint8_t *record);
/* Appends a record to the schema and updates the hot line. */
void make_append(struct make *m, const uint8_t *record);
/* Does both; returns the first cell. */
uint32_t make_metric(struct make *m, const struct make_metric *metric);

uint64_t *make_line(const struct make *m, uint32_t stripe, uint32_t line);
void make_cell_set(struct make *m, uint32_t stripe, uint32_t cell, uint64_t value);
void make_cell_add(struct make *m, uint32_t stripe, uint32_t cell, uint64_t n);
uint64_t make_cell(const struct make *m, uint32_t stripe, uint32_t cell);

/* Sets the time since which a record counts, and then reports that something changed. */
void make_created_set(struct make *m, uint32_t id, uint64_t ns);
/*
 * Replaces a record by that of another metric, as its writer does: cells become 0, the record is
 * written, and finally its creation time is set to ns. at: offset of the record in the schema.
 */
void make_replace(struct make *m, uint64_t at, const struct make_metric *metric, uint64_t ns);
/* Sets an exemplar, labels "key\0value\0...", in element 1 to max_exemplars - 1. */
void make_exemplar(struct make *m, uint32_t element, uint32_t id, uint32_t cell, double value,
		   uint64_t ns, const char *labels, size_t label_bytes);

/* Writes a directory entry as an agent does, and the hot line. */
void make_entry(struct make *m, uint32_t index, uint64_t id, uint64_t addr, uint64_t length,
		uint32_t rkey, uint32_t state, uint32_t kind, uint64_t instance);

/* A small, fast and reproducible generator: xorshift64*. */
struct rng {
	uint64_t s;
};
static inline uint64_t rng_next(struct rng *r)
{
	r->s ^= r->s >> 12;
	r->s ^= r->s << 25;
	r->s ^= r->s >> 27;
	return r->s * 0x2545f4914f6cdd1dull;
}
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return rng_next(r) % n;
}

#endif
