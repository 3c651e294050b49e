/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - region format 1 as a reader sees it: bytes that may change while they are read, in a
 * layout that may be hostile. Everything works on private copies, and no offset is followed before
 * it is checked. Knows no transport and no metrics system.
 *
 * A reader calls:
 *   region_info_parse()      once, on a copy of the header
 *   region_hot_parse()       each round, on a copy of the hot line
 *   region_schema_append()   when the hot line announces more schema
 *   region_values_update()   each round, on copies of the lines in use
 */
#ifndef SL_REGION_DECODE_H
#define SL_REGION_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <sidelight/region.h>

/* Why a region or a part of it was refused. */
enum region_fault {
	REGION_FAULT_NONE = 0,
	REGION_FAULT_MAGIC,
	REGION_FAULT_VERSION,
	REGION_FAULT_CHECK,	/* checksum of header or record */
	REGION_FAULT_SIZE,	/* contradictory, or beyond the mapping */
	REGION_FAULT_SECTION,	/* missing, overlapping, misaligned, out of bounds */
	REGION_FAULT_LABEL,	/* malformed labels */
	REGION_FAULT_HOT,	/* a hot line that verifies, with impossible values */
	REGION_FAULT_RECORD,	/* malformed schema record */
	REGION_FAULT_CELLS,	/* cells out of bounds or overlapping */
	REGION_FAULT_UNSETTLED, /* a check word that never held */
	REGION_FAULT_MEMORY,	/* out of memory on this side: try again later */
	REGION_FAULT_COUNT
};
const char *region_fault_name(enum region_fault fault); /* static storage */
const char *
region_state_name(uint32_t state); /* of enum sl_region_state: "live", ... or "unknown" */
const char *region_kind_name(enum sl_metric_kind kind); /* "counter", whether of u64 or f64, ... */

struct region_text_label {
	const char *key;   /* NUL-terminated, valid by sidelight.h */
	const char *value; /* NUL-terminated, valid UTF-8 */
};

/* The header, checked and copied. */
struct region_info {
	uint64_t size;
	uint32_t kind;
	uint32_t pid;
	uint64_t instance;
	uint64_t start_ns;
	uint64_t start_ticks;
	uint8_t boot_id[16];
	uint64_t hot;		/* offset */
	uint64_t stripes;	/* offset */
	uint32_t stripe_stride; /* bytes */
	uint32_t max_stripes;
	uint32_t max_lines; /* per stripe: stride / 64 */
	uint64_t schema;    /* offset */
	uint64_t schema_bytes;
	uint64_t entries; /* directory: offset */
	uint32_t max_entries;
	uint64_t tenants; /* directory: offset, SL_TENANT_SIZE per entry; 0: none */
	uint32_t max_tenants;
	uint64_t names; /* directory: offset, SL_NAMES_SIZE per entry; 0: none */
	uint32_t max_names;
	uint64_t spans; /* offset; 0: none. See spans.h */
	uint64_t span_bytes;
	uint32_t span_lines;	 /* per ring; there are max_stripes rings */
	uint64_t created;	 /* metrics: offset, SL_LINE_CELLS cells a line; 0: none */
	uint64_t created_lines;	 /* mixed */
	uint64_t exemplars;	 /* offset; 0: none. See exemplars.h */
	uint32_t max_exemplars;	 /* elements, the head included */
	uint64_t flows, journal; /* connections (flows.h): offsets */
	uint32_t max_flows, journal_lines;
	uint32_t label_count;
	struct region_text_label labels[SL_LABELS_MAX]; /* point into label_text */
	char label_text[SL_HEADER_LABELS_MAX + 1];
};

/* The value of a label; "" if there is none. */
const char *region_label(const struct region_info *info, const char *key);

/*
 * Parses a private copy of a header. actual_size is the real size of the memory (fstat, or the
 * directory entry): a header that claims more is refused. Pure.
 */
enum region_fault region_info_parse(const struct sl_region_header *copy, uint64_t actual_size,
				    struct region_info *info);
/* The same for regions of any kind. */
enum region_fault region_header_parse(const struct sl_region_header *copy, uint64_t actual_size,
				      struct region_info *info);

/* A section in elements of stride bytes. */
struct region_section {
	uint64_t offset;
	uint32_t stride, count;
};
/*
 * Finds the section of a type in a header that region_header_parse() accepted. False unless there
 * is exactly one, of 1 to most elements whose stride is a multiple of unit. Pure.
 */
bool region_section_find(const struct sl_region_header *copy, uint32_t type, uint32_t unit,
			 uint32_t most, struct region_section *section);
/* Finds SL_SECTION_LOSSES (layer.h) with room for n counters per element. */
bool region_losses_find(const struct sl_region_header *copy, uint32_t n,
			struct region_section *section);
/* Adds the n counters of one element's copy to sum[]. UNSETTLED: copy again; sum is unchanged. */
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
/* UNSETTLED: read it again. HOT: impossible values; drop the region. Pure. */
enum region_fault region_hot_parse(const uint64_t line[8], const struct region_info *info,
				   struct region_hot *hot);

/* HOT if generation, schema, lines or stripes in use decreased between two hot lines. Pure. */
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

/* Who publishes the region of an entry. */
#define REGION_NAME_BYTES 128u

/* Of SL_SECTION_NAMES; empty: unknown. */
struct region_names {
	uint64_t id; /* of the entry */
	char kube_namespace[REGION_NAME_BYTES], pod[REGION_NAME_BYTES],
		container[REGION_NAME_BYTES];
};
/* UNSETTLED also if the lines are about different entries. Pure. */
enum region_fault region_names_parse(const uint64_t lines[SL_NAMES_SIZE / 8],
				     struct region_names *names);
void region_names_write(uint64_t lines[SL_NAMES_SIZE / 8], const struct region_names *names);
/* [a-zA-Z0-9_.-], terminated. */
bool region_is_name(const char name[REGION_NAME_BYTES]);

struct region_tenant {
	uint64_t id, key, instance; /* of the entry; of the tenant; in the region's header */
	uint32_t uid, pid;
	bool trusted, contained;
	uint8_t container[16], pod[16]; /* zeroes: none */
	struct region_names names;	/* not of its record */
};
/* UNSETTLED also if the lines are about different entries. Pure. */
enum region_fault region_tenant_parse(const uint64_t lines[16], struct region_tenant *tenant);
void region_tenant_write(uint64_t lines[16], const struct region_tenant *tenant);

/* ---- schema ---- */

/* Cells whose values are not the u64 sums over the stripes. */
struct region_special {
	uint32_t cell, cells;
	bool f64;    /* folded doubles */
	bool shared; /* stripe 0 only */
};

struct region_metric {
	uint32_t id;
	enum sl_metric_kind kind; /* without SL_KIND_REPLACEABLE */
	uint16_t flags;		  /* enum sl_combine, SL_FLAG_ */
	bool replaceable;
	bool removed; /* it is not there; if replaceable, only kind, id and cells are known */
	uint64_t created_ns; /* CLOCK_REALTIME of the publisher; 0: unknown */
	uint32_t cell, cells;
	const char *name, *unit, *help; /* NUL-terminated, "" if none; the name is valid */
	uint32_t label_count;
	const struct region_text_label *labels; /* sorted by key */
	uint32_t bound_count;
	const double *bounds; /* classic histograms; ranks of the quantiles of a summary */
	uint32_t state_count;
	const char *const *states; /* state set */
	int scale;		   /* exponential histograms */
	int32_t first_bucket;
	uint32_t bucket_count; /* of any kind of histogram, without sum and refused */
	double zero_threshold;
};

static inline bool region_is_exponential(const struct region_metric *m)
{
	return m->kind == SL_KIND_HISTOGRAM_EXP || m->kind == SL_KIND_GAUGE_HISTOGRAM_EXP;
}

/* Of any kind. */
static inline bool region_is_histogram(const struct region_metric *m)
{
	return m->kind == SL_KIND_HISTOGRAM || m->kind == SL_KIND_GAUGE_HISTOGRAM ||
	       region_is_exponential(m);
}

/* The value of a cell that is an f64. */
static inline double region_f64(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* A parsed schema. It only grows. */
struct region_schema {
	struct region_metric **metrics; /* by position; each a stable allocation */
	size_t count;
	uint64_t parsed;   /* bytes of the section consumed */
	uint64_t cells;	   /* highest cell in use, plus one */
	size_t bytes;	   /* memory held */
	bool strings_only; /* set after init: records of metrics count as skipped */
	/*
	 * Set after init, if there is a section created: copies of its lines, which verify and are
	 * older than those of the records. NULL: all metrics are there. Used while appending.
	 */
	const uint64_t (*created)[8];
	uint64_t created_lines;
	size_t skipped;			      /* records of unknown kinds */
	struct region_schema_string *strings; /* names and keys of spans, by id; schema.c */
	size_t string_count, string_capacity;
	struct region_special *specials;
	size_t special_count, special_capacity;

	/* private to schema.c and values.c */
	size_t capacity;
	struct region_schema_slot *slots; /* by name and labels */
	size_t slot_count;
	uint64_t *taken; /* bit c: cell c belongs to a record */
	size_t taken_words;
};
void region_schema_init(struct region_schema *schema);
void region_schema_free(struct region_schema *schema);

/*
 * Appends the records in bytes[0, length), a private copy of the section from schema->parsed to the
 * hot line's schema_used. On a fault, earlier records stay, nothing of the faulty one is taken, and
 * parsed tells where it begins. CHECK: no whole record with a right checksum, as in a torn or early
 * copy: copy again before giving up. LABEL, RECORD, CELLS: the checksum is right and the record is
 * wrong: copying again changes nothing. MEMORY: out of memory.
 */
enum region_fault region_schema_append(struct region_schema *schema, const struct region_info *info,
				       const void *bytes, size_t length);

/* Lines of the section created that hold a cell for each record of this much schema. Pure. */
uint64_t region_created_lines(const struct region_info *info, uint64_t schema_used);

/* The string with this id, for spans; NULL: none. Pure. */
const char *region_schema_string(const struct region_schema *schema, uint32_t id);

/* ---- values ---- */

/* The last good lines of every stripe in use, and the sums over the stripes. One writer. */
struct region_values {
	uint32_t lines, stripes; /* capacity in use */
	uint64_t *line;		 /* [stripe][line][8], last good copies */
	uint64_t unsettled;	 /* failed verifications since the start */
	uint64_t *sum; /* [line][8], sums over the stripes mod 2^64; NULL with one stripe */
	void *memory;  /* holds both */
};
void region_values_init(struct region_values *v);
void region_values_free(struct region_values *v);
/* Grows to at least lines x stripes; new lines are 0. 0, or -ENOMEM with v unchanged. */
int region_values_resize(struct region_values *v, uint32_t lines, uint32_t stripes);

/*
 * Takes copies of count lines of a stripe from first on. A line that verifies replaces the last
 * good one; any other leaves it. retry[] (may be NULL) is overwritten with (count + 63) / 64 words:
 * bit i is set if line first + i did not verify. Lines outside of v are ignored. Returns the number
 * of lines that did not verify.
 */
uint32_t region_values_update(struct region_values *v, uint32_t stripe, uint32_t first,
			      const uint64_t (*lines)[8], uint32_t count, uint64_t *retry);

/* One cell, which must be below lines * 7. */
uint64_t region_values_u64(const struct region_values *v, uint32_t cell);    /* sum mod 2^64 */
double region_values_f64(const struct region_values *v, uint32_t cell);	     /* sum of doubles */
uint64_t region_values_shared(const struct region_values *v, uint32_t cell); /* stripe 0's word */

/*
 * All cells as an array indexed by cell: u64 sums; f64 sums as IEEE 754 bits (unfolded); gauges as
 * words of stripe 0, those of type f64 as IEEE 754 bits. Cells that v does not hold are 0.
 */
void region_values_flatten(const struct region_values *v, const struct region_special *special,
			   size_t specials, uint64_t cells, uint64_t *out);

/* ---- for writers ---- */

/*
 * Recomputes the check words of all lines in use of a region whose writer is dead: a writer killed
 * between its two stores leaves a line that does not verify. map is a writable mapping of
 * info->size bytes. Returns the number of lines repaired.
 */
uint64_t region_repair(void *map, const struct region_info *info);
/* The same of lines in [from, to). It also reads the hot line, which is to be repaired first. */
uint64_t region_repair_within(void *map, const struct region_info *info, uint64_t from,
			      uint64_t to);

/*
 * Writes the header of a new, zeroed region of this process, with a random instance and no labels.
 * 0 or -errno. After a change to it, region_header_seal() sets its checksum again.
 */
int region_header_write(struct sl_region_header *h, uint64_t size, uint32_t kind,
			const struct sl_region_section *sections, uint32_t count);
void region_header_seal(struct sl_region_header *h);

/*
 * Copies with 8-byte relaxed loads: cells do not tear. (Measured under a writer at full speed: one
 * 64-byte load per line does not lower the share of unsettled lines.)
 */
void region_copy_words(uint64_t *to, const volatile uint64_t *from, size_t words);
/*
 * Copies words of shared memory and evaluates parse, a fault, on the copy; repeats while it is
 * UNSETTLED. A writer finishes a slot within a microsecond.
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
 * Copies lines out of shared memory, each repeatedly until it verifies, about a thousand times at
 * most. False: one did not. Line by line, since the lines of a busy slot never verify all at once.
 */
bool region_copy_lines(uint64_t *to, const volatile uint64_t *from, size_t lines);

#endif
