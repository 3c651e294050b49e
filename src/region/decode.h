/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - parses region format 1 for readers: the bytes may change while they are read, and the
 * layout may be hostile. All functions work on private copies and check an offset before they use
 * it. Does not depend on the transport or on a metrics system.
 *
 * A reader calls:
 * - region_info_parse() once, on a copy of the header
 * - region_hot_parse() each round, on a copy of the hot line
 * - region_schema_append() when the hot line announces more schema
 * - region_values_update() each round, on copies of the lines in use
 */
#ifndef SL_REGION_DECODE_H
#define SL_REGION_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <sidelight/region.h>

#include "base/table.h"

/* Reason for refusing a region or a part of it. */
enum region_fault {
	REGION_FAULT_NONE = 0,
	REGION_FAULT_MAGIC,
	REGION_FAULT_VERSION,
	REGION_FAULT_CHECK,	/* wrong checksum of the header or a record */
	REGION_FAULT_SIZE,	/* size is contradictory, or exceeds the mapping */
	REGION_FAULT_SECTION,	/* section missing, overlapping, misaligned or out of bounds */
	REGION_FAULT_LABEL,	/* malformed labels */
	REGION_FAULT_HOT,	/* the hot line verifies, but has impossible values */
	REGION_FAULT_RECORD,	/* malformed schema record */
	REGION_FAULT_CELLS,	/* cells out of bounds or overlapping */
	REGION_FAULT_UNSETTLED, /* a check word never verified */
	REGION_FAULT_MEMORY,	/* no memory in this process: try again later */
	REGION_FAULT_COUNT
};
const char *region_fault_name(enum region_fault fault); /* returns static storage */
const char *
region_state_name(uint32_t state); /* name of an enum sl_region_state: "live", ... or "unknown" */
const char *region_kind_name(enum sl_metric_kind kind); /* "counter" for both u64 and f64, ... */

struct region_text_label {
	const char *key;   /* NUL-terminated, valid according to sidelight.h */
	const char *value; /* NUL-terminated, valid UTF-8 */
};

/*
 * The maxima leave room for names that a host attests, and for the prefix exported_ of the names
 * that they replace.
 */
#define REGION_LABELS_MAX     (SL_LABELS_MAX + 3)
#define REGION_LABEL_TEXT_MAX (SL_HEADER_LABELS_MAX + 1024)

/* A checked copy of the header. */
struct region_info {
	uint64_t size;
	uint32_t kind;
	uint32_t pid;
	bool origin; /* SL_REGION_ORIGIN; see collect_region.origin */
	uint64_t instance;
	uint64_t start_ns;
	uint64_t start_ticks;
	uint8_t boot_id[16];
	uint64_t hot;		/* offset of the hot line */
	uint64_t stripes;	/* offset of the stripes */
	uint32_t stripe_stride; /* bytes from one stripe to the next */
	uint32_t max_stripes;
	uint32_t max_lines; /* lines per stripe: stride / 64 */
	uint64_t schema;    /* offset of the schema */
	uint64_t schema_bytes;
	uint64_t entries; /* directory only: offset of the entries */
	uint32_t max_entries;
	uint64_t tenants; /* directory only: offset, SL_TENANT_SIZE per entry; 0 means no section */
	uint32_t max_tenants;
	uint64_t names; /* directory only: offset, SL_NAMES_SIZE per entry; 0 means no section */
	uint32_t max_names;
	uint64_t spans; /* offset of the spans; 0 means no section. See spans.h */
	uint64_t span_bytes;
	uint32_t span_lines; /* lines per ring; there are max_stripes rings */
	/* metrics only: offset, SL_LINE_CELLS cells per line; 0 means no section */
	uint64_t created;
	uint64_t created_lines;	 /* number of mixed lines in it */
	uint64_t exemplars;	 /* offset of the exemplars; 0 means no section. See exemplars.h */
	uint32_t max_exemplars;	 /* maximum number of elements, including the head */
	uint64_t flows, journal; /* regions of flows only: offsets of the slots and the journal */
	uint32_t max_flows, journal_lines;
	uint32_t label_count;
	struct region_text_label labels[REGION_LABELS_MAX]; /* pointing into label_text */
	char label_text[REGION_LABEL_TEXT_MAX + 1];
};

/* Both return the value of a label; "" if there is none. */
const char *region_label_in(const struct region_text_label *labels, uint32_t count,
			    const char *key);
const char *region_label(const struct region_info *info, const char *key);
/* Adds a label after *used bytes of label_text. Leaves it out if there is no room. */
void region_add_label(struct region_info *info, size_t *used, const char *key, const char *value);

/*
 * Parses a private copy of a header. actual_size is the real size of the memory (from fstat or the
 * directory entry): a header that claims more is refused. Pure.
 */
enum region_fault region_info_parse(const struct sl_region_header *copy, uint64_t actual_size,
				    struct region_info *info);
/* The same for regions of all kinds. */
enum region_fault region_header_parse(const struct sl_region_header *copy, uint64_t actual_size,
				      struct region_info *info);

/* A section as an array of elements of `stride` bytes. */
struct region_section {
	uint64_t offset;
	uint32_t stride, count;
};
/*
 * Finds the section of a type in a header that region_header_parse() accepted. Returns false unless
 * there is exactly one, with 1 to `most` elements and a stride that is a multiple of unit. Pure.
 */
bool region_section_find(const struct sl_region_header *copy, uint32_t type, uint32_t unit,
			 uint32_t most, struct region_section *section);
/* Finds SL_SECTION_LOSSES (layer.h) with space for n counters per element. */
bool region_losses_find(const struct sl_region_header *copy, uint32_t n,
			struct region_section *section);
/*
 * Adds the n counters in a copy of an element to sum[]. UNSETTLED means copy again; sum is then
 * unchanged.
 */
enum region_fault region_losses_add(const uint64_t *element, uint32_t n, uint64_t *sum);

struct region_hot {
	uint64_t generation;
	uint64_t schema_used;
	uint32_t lines_used;
	uint32_t stripes_used;
	uint32_t state;
	uint64_t threads_sharing;
	uint64_t changed_ns;
	uint64_t refused;
};
/* UNSETTLED means read the line again; HOT means impossible values, so drop the region. Pure. */
enum region_fault region_hot_parse(const uint64_t line[8], const struct region_info *info,
				   struct region_hot *hot);

/*
 * Returns HOT if generation, schema, lines or stripes in use decreased between two hot lines. Pure.
 */
enum region_fault region_hot_follows(const struct region_hot *before, const struct region_hot *now);

struct region_directory_hot {
	uint64_t generation;
	uint32_t entries_used;
	uint32_t live;
	uint64_t refused;
	uint32_t state;
	uint64_t changed_ns;
	uint64_t lease_ns;
};
enum region_fault region_directory_hot_parse(const uint64_t line[8], const struct region_info *info,
					     struct region_directory_hot *hot);

struct region_entry {
	uint64_t id, addr, length;
	uint32_t rkey, state, kind;
	uint64_t generation, changed_ns, instance;
};
enum region_fault region_entry_parse(const uint64_t line[8], struct region_entry *entry);

/* Identity of the publisher of an entry's region. */
#define REGION_NAME_BYTES 128u

/* Names from SL_SECTION_NAMES; empty if unknown. */
struct region_names {
	uint64_t id; /* id of the directory entry */
	char kube_namespace[REGION_NAME_BYTES], pod[REGION_NAME_BYTES],
		container[REGION_NAME_BYTES];
};
/* Also returns UNSETTLED if the lines belong to different entries. Pure. */
enum region_fault region_names_parse(const uint64_t lines[SL_NAMES_SIZE / 8],
				     struct region_names *names);
void region_names_write(uint64_t lines[SL_NAMES_SIZE / 8], const struct region_names *names);
/* True for a terminated string of [a-zA-Z0-9_.-]. */
bool region_is_name(const char name[REGION_NAME_BYTES]);

struct region_tenant {
	/* id of the entry; key of the tenant; instance in the region's header */
	uint64_t id, key, instance;
	uint32_t uid, pid;
	bool trusted, contained, origin; /* SL_TENANT_ flags */
	uint8_t container[16], pod[16];	 /* zeros if not known */
	struct region_names names;	 /* names from SL_SECTION_NAMES */
};
/* Also returns UNSETTLED if the lines belong to different entries. Pure. */
enum region_fault region_tenant_parse(const uint64_t lines[16], struct region_tenant *tenant);
void region_tenant_write(uint64_t lines[16], const struct region_tenant *tenant);

/* ---- schema ---- */

/* Cells whose values are not u64 sums over the stripes. */
struct region_special {
	uint32_t cell, cells;
	bool f64;    /* the cells hold folded doubles */
	bool shared; /* the cells are used in stripe 0 only */
};

struct region_metric {
	uint32_t id;
	enum sl_metric_kind kind; /* kind without SL_KIND_REPLACEABLE */
	uint16_t flags;		  /* combination (enum sl_combine) and SL_FLAG_ bits */
	bool replaceable;
	/* the metric is not present; if replaceable, only kind, id and cells are valid */
	bool removed;
	uint64_t created_ns; /* creation time by the publisher's CLOCK_REALTIME; 0 if unknown */
	uint32_t cell, cells;
	const char *name, *unit, *help; /* NUL-terminated, "" if absent; the name is valid */
	uint32_t label_count;
	const struct region_text_label *labels; /* sorted by key */
	uint32_t bound_count;
	const double *bounds; /* classic histograms: bounds; summaries: ranks of the quantiles */
	uint32_t state_count;
	const char *const *states; /* names of the states of a state set */
	int scale;		   /* exponential histograms only */
	int32_t first_bucket;
	uint32_t bucket_count; /* histograms of any kind: cells without sum and refused */
	double zero_threshold;
};

static inline bool region_is_exponential(const struct region_metric *m)
{
	return m->kind == SL_KIND_HISTOGRAM_EXP || m->kind == SL_KIND_GAUGE_HISTOGRAM_EXP;
}

/* True for classic and exponential histograms, and gauge histograms. */
static inline bool region_is_histogram(const struct region_metric *m)
{
	return m->kind == SL_KIND_HISTOGRAM || m->kind == SL_KIND_GAUGE_HISTOGRAM ||
	       region_is_exponential(m);
}

static inline bool region_is_counter(const struct region_metric *m)
{
	return m->kind == SL_KIND_COUNTER || m->kind == SL_KIND_COUNTER_F64;
}

/* Converts the value of an f64 cell. */
static inline double region_f64(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static inline uint64_t region_f64_bits(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

/* A parsed schema. It only grows. */
struct region_schema {
	/* by position; each is a separate allocation, so pointers stay valid */
	struct region_metric **metrics;
	size_t count;
	uint64_t parsed;   /* bytes of the section parsed so far */
	uint64_t cells;	   /* highest cell in use plus one */
	size_t bytes;	   /* memory in use */
	bool strings_only; /* may be set after init to skip records of metrics */
	/*
	 * Set after init if the region has a section created: verified copies of its lines, older
	 * than the copies of the records. NULL means all metrics are present. Used by
	 * region_schema_append().
	 */
	const uint64_t (*created)[8];
	uint64_t created_lines;
	size_t skipped;			      /* number of records of unknown kinds */
	struct region_schema_string *strings; /* names and keys of spans by id; see schema.c */
	size_t string_count, string_capacity;
	struct region_special *specials;
	size_t special_count, special_capacity;

	/* private to schema.c and values.c */
	size_t capacity;
	struct base_table series; /* metrics that are present, by name and labels */
	uint64_t *taken;	  /* bit c is set if cell c belongs to a record */
	size_t taken_words;
};
void region_schema_init(struct region_schema *schema);
void region_schema_free(struct region_schema *schema);

/*
 * Appends the records in bytes[0, length), a private copy of the section from schema->parsed to the
 * hot line's schema_used. On a fault, earlier records remain, the faulty one is discarded, and
 * parsed is its offset.
 * CHECK: no complete record with a correct checksum, as in a torn or early copy: copy again before
 * giving up. LABEL, RECORD, CELLS: the checksum is correct but the record is not: copying again
 * does not help. MEMORY: out of memory.
 */
enum region_fault region_schema_append(struct region_schema *schema, const struct region_info *info,
				       const void *bytes, size_t length);

/* Returns the lines of the section created that cover all records of this much schema. Pure. */
uint64_t region_created_lines(const struct region_info *info, uint64_t schema_used);

/* Returns the string with this id, for spans; NULL if there is none. Pure. */
const char *region_schema_string(const struct region_schema *schema, uint32_t id);

/* ---- values ---- */

/* The last good lines of every stripe in use, and their sums over the stripes. One writer. */
struct region_values {
	uint32_t lines, stripes; /* capacity */
	uint64_t *line;		 /* [stripe][line][8], the last good copies */
	uint64_t unsettled;	 /* failed verifications so far */
	/* [line][8], sums over the stripes mod 2^64; NULL if there is only one stripe */
	uint64_t *sum;
	void *memory; /* allocation for line and sum */
};
void region_values_init(struct region_values *v);
void region_values_free(struct region_values *v);
/* Grows to at least lines x stripes; new lines are 0. Returns 0, or -ENOMEM with v unchanged. */
int region_values_resize(struct region_values *v, uint32_t lines, uint32_t stripes);

/*
 * Processes copies of `count` lines of a stripe, beginning with line `first`. A line that verifies
 * replaces the last good one; others are ignored. retry[] (may be NULL) receives (count + 63) / 64
 * words: bit i is set if line first + i did not verify. Lines outside v are ignored. Returns the
 * number of lines that did not verify.
 */
uint32_t region_values_update(struct region_values *v, uint32_t stripe, uint32_t first,
			      const uint64_t (*lines)[8], uint32_t count, uint64_t *retry);

/* Values of one cell, which must be below lines * 7. */
uint64_t region_values_u64(const struct region_values *v, uint32_t cell);    /* sum mod 2^64 */
double region_values_f64(const struct region_values *v, uint32_t cell);	     /* sum of doubles */
uint64_t region_values_shared(const struct region_values *v, uint32_t cell); /* word in stripe 0 */

/*
 * Writes all cells to an array indexed by cell: u64 sums; f64 sums as IEEE 754 bits (unfolded);
 * gauges as words of stripe 0, with f64 gauges as IEEE 754 bits. Cells that v does not cover are 0.
 */
void region_values_flatten(const struct region_values *v, const struct region_special *special,
			   size_t specials, uint64_t cells, uint64_t *out);

/* ---- for writers ---- */

/*
 * Recomputes the check words of all lines in use of a dead writer's region: a writer killed between
 * its two stores leaves a line that does not verify. map is a writable mapping of info->size bytes.
 * Returns the number of repaired lines.
 */
uint64_t region_repair(void *map, const struct region_info *info);
/* The same for lines in [from, to). Repair the hot line first, as its contents are used. */
uint64_t region_repair_within(void *map, const struct region_info *info, uint64_t from,
			      uint64_t to);

/*
 * Writes the header of a new, zeroed region of this process, with a random instance and no labels.
 * Returns 0 or -errno. After changing the header, call region_header_seal() to update its checksum.
 */
int region_header_write(struct sl_region_header *h, uint64_t size, uint32_t kind,
			const struct sl_region_section *sections, uint32_t count);
void region_header_seal(struct sl_region_header *h);

/*
 * Copies with 8-byte relaxed loads, so that no cell tears. (Loading whole 64-byte lines does not
 * reduce the share of unsettled lines: measured with a writer at full speed.)
 */
void region_copy_words(uint64_t *to, const volatile uint64_t *from, size_t words);
/*
 * Stores a line that no one else writes: cells first, the check word last. A concurrent reader
 * finds that the check word is wrong, and reads again (pairs with the parsers of lines).
 */
void region_store_line(uint64_t *to, const uint64_t cells[7]);
/*
 * Copies words of shared memory and evaluates `parse`, which returns a fault, on the copy. Repeats
 * while the fault is UNSETTLED: a writer finishes a slot within a microsecond.
 */
#define REGION_READ_SETTLED(fault, copy, from, words, parse)                                  \
	do {                                                                                  \
		(fault) = REGION_FAULT_UNSETTLED;                                             \
		for (int try_ = 0; try_ < 100 && (fault) == REGION_FAULT_UNSETTLED; try_++) { \
			region_copy_words(copy, (const volatile uint64_t *)(from), words);    \
			(fault) = (parse);                                                    \
		}                                                                             \
	} while (0)

/*
 * Copies lines from shared memory, and retries each up to about a thousand times until it verifies.
 * Returns false if one never does. Works line by line, because the lines of a busy slot never all
 * verify at once.
 */
bool region_copy_lines(uint64_t *to, const volatile uint64_t *from, size_t lines);

#endif
