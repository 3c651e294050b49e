/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - region format 1 as a reader sees it: bytes that somebody else may be writing, in a
 * layout that somebody hostile may have made up. Everything here works on private copies and
 * never follows an offset before it was checked. It knows no transport and no metrics system.
 *
 * How a reader goes about it:
 *   region_info_parse()  once, on a copy of the header
 *   region_hot_parse()          each round, on a copy of the hot line
 *   region_schema_append()      when the hot line says that there is more schema
 *   region_values_update()      each round, on copies of the lines in use
 */
#ifndef SL_REGION_DECODE_H
#define SL_REGION_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sidelight/region.h>

/* Why a region, or a part of it, was not believed. Names by region_fault_name(), for counters. */
enum region_fault {
	REGION_FAULT_NONE = 0,
	REGION_FAULT_MAGIC,
	REGION_FAULT_VERSION,
	REGION_FAULT_CHECK,	/* checksum of header or record */
	REGION_FAULT_SIZE,	/* sizes that contradict each other or the mapping */
	REGION_FAULT_SECTION,	/* missing, overlapping, misaligned, out of bounds */
	REGION_FAULT_LABEL,	/* ill-formed labels */
	REGION_FAULT_HOT,	/* hot line verified, but says what can't be */
	REGION_FAULT_RECORD,	/* schema record ill-formed */
	REGION_FAULT_CELLS,	/* cells out of bounds or overlapping */
	REGION_FAULT_UNSETTLED, /* a check word that never came right */
	REGION_FAULT_MEMORY,	/* this side had none left: nobody's lie, try again later */
	REGION_FAULT_COUNT
};
const char *region_fault_name(enum region_fault fault); /* "magic", "version", ... static storage */
const char *
region_state_name(uint32_t state); /* of enum sl_region_state: "live", ... or "unknown" */
const char *region_kind_name(enum sl_metric_kind kind); /* "counter", whether of u64 or f64, ... */

struct region_text_label {
	const char *key;   /* NUL-terminated, valid by the rules of sidelight.h */
	const char *value; /* NUL-terminated, valid UTF-8 */
};

/* What the header says, checked and copied. */
struct region_info {
	uint64_t size;
	uint32_t kind;
	uint32_t pid;
	uint64_t instance;
	uint64_t start_ns;
	uint64_t start_ticks;
	uint8_t boot_id[16];
	uint64_t hot;		/* offset of the hot line */
	uint64_t stripes;	/* offset */
	uint32_t stripe_stride; /* bytes */
	uint32_t max_stripes;
	uint32_t max_lines; /* in a stripe: stride / 64 */
	uint64_t schema;    /* offset */
	uint64_t schema_bytes;
	uint64_t entries; /* directory: offset */
	uint32_t max_entries;
	uint64_t spans; /* offset of the section; 0: none. See spans.h */
	uint64_t span_bytes;
	uint32_t span_lines;	 /* of a ring; there is one for each of max_stripes */
	uint64_t flows, journal; /* connections (flows.h): offsets */
	uint32_t max_flows, journal_lines;
	uint32_t label_count;
	struct region_text_label labels[SL_LABELS_MAX]; /* point into label_text */
	char label_text[SL_HEADER_LABELS_MAX + 1];
};

/*
 * Parses a private copy of a header. actual_size is what the memory really has (fstat, or the
 * directory entry); pass it so that a header that claims more is refused. Pure.
 */
enum region_fault region_info_parse(const struct sl_region_header *copy, uint64_t actual_size,
				    struct region_info *info);
/* The same for regions of every kind, also of connections: see flows.h. */
enum region_fault region_header_parse(const struct sl_region_header *copy, uint64_t actual_size,
				      struct region_info *info);

/* A section as a header describes it, in elements of stride bytes. */
struct region_section {
	uint64_t offset;
	uint32_t stride, count;
};
/*
 * Finds the section of a type in a copy of a header that region_header_parse() believed. False if
 * there is none, or more than one, or if it is not one of 1 to most elements whose stride is a
 * multiple of unit. Pure.
 */
bool region_section_find(const struct sl_region_header *copy, uint32_t type, uint32_t unit,
			 uint32_t most, struct region_section *section);
/* The same for SL_SECTION_LOSSES (layer.h) with room for n counters in each element. */
bool region_losses_find(const struct sl_region_header *copy, uint32_t n,
			struct region_section *section);
/* Adds n counters of a private copy of one element to sum[]. UNSETTLED: copy it again; sum is as it
 * was. */
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
/* UNSETTLED: read it again. HOT: it lies; the region is to be dropped. Pure. */
enum region_fault region_hot_parse(const uint64_t line[8], const struct region_info *info,
				   struct region_hot *hot);

/*
 * Generation, schema and lines and stripes in use only ever grow: HOT if one of them went back
 * from one verified hot line to a later one of the same region. Pure.
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

/* ---- schema ---- */

struct region_metric {
	uint32_t id;
	enum sl_metric_kind kind;
	uint32_t cell, cells;
	const char *name, *unit, *help; /* NUL-terminated, "" if none; name valid by the rules */
	uint32_t label_count;
	const struct region_text_label *labels; /* sorted by key */
	uint32_t bound_count;
	const double *bounds; /* classic histogram */
	uint32_t state_count;
	const char *const *states; /* state set */
	int scale;		   /* exponential histogram */
	int32_t first_bucket;
	uint32_t bucket_count; /* of either: without sum and refused */
	double zero_threshold;
};

/* Parsed schema: grows by appending, never changes what it has; free with region_schema_free(). */
struct region_schema {
	struct region_metric **metrics; /* by position; each its own allocation, stable */
	size_t count;
	uint64_t parsed;   /* bytes of the section that were consumed */
	uint64_t cells;	   /* one more than the highest cell in use */
	size_t bytes;	   /* memory held */
	bool strings_only; /* set after init: whatever else there is counts as skipped */
	size_t skipped;	   /* records of a kind not known here */
	char **strings;	   /* names and keys of spans, in the order of their ids */
	uint32_t *string_ids;
	size_t string_count, string_capacity;

	/* private to schema.c and values.c */
	uint64_t key[2]; /* random: of the hash table */
	size_t capacity;
	struct region_schema_slot *slots; /* finds name and labels again */
	size_t slot_count;
	uint64_t *taken; /* bit c is set if cell c belongs to a record */
	size_t taken_words;
	struct region_special *specials; /* cells that are no sums of u64 */
	size_t special_count, special_capacity;
};
void region_schema_init(struct region_schema *schema);
void region_schema_free(struct region_schema *schema);

/*
 * Appends the records in bytes[0, length), a private copy of the section from schema->parsed to
 * the hot line's schema_used. On a fault nothing of the faulty record is taken, what came before
 * stays, and parsed tells where it stopped. CHECK: no whole record with a right checksum is
 * there, which a torn or early copy looks like too: copy again before giving up. LABEL, RECORD,
 * CELLS: the checksum is right and the record lies; copying again changes nothing. MEMORY: none
 * here, for this record.
 */
enum region_fault region_schema_append(struct region_schema *schema, const struct region_info *info,
				       const void *bytes, size_t length);

/* The string with this id, which spans refer to; NULL if there is none. Pure. */
const char *region_schema_string(const struct region_schema *schema, uint32_t id);

/* ---- values ---- */

/*
 * The last good lines of every stripe in use, and the sums over the stripes. Single writer; see
 * collect for how others get to see it.
 */
struct region_values {
	uint32_t lines, stripes; /* capacity in use */
	uint64_t *line;		 /* [stripe][line][8], last good copies */
	uint64_t unsettled;	 /* lines that did not verify, since the start: each try */
	uint64_t *sum;		 /* [line][8], words summed over the stripes mod 2^64; NULL when
				  * there is one stripe only */
	void *memory;		 /* holds both */
};
void region_values_init(struct region_values *v);
void region_values_free(struct region_values *v);
/*
 * Grows to at least lines x stripes, keeping what is there; new lines are 0. Never shrinks. 0, or
 * -ENOMEM with v as it was.
 */
int region_values_resize(struct region_values *v, uint32_t lines, uint32_t stripes);

/*
 * Takes copies of count lines of a stripe from first on. Lines that verify replace the last good
 * ones; for one that does not, the last good line stays. retry[] (may be NULL) is overwritten, in
 * (count + 63) / 64 words: bit i is set if line first + i did not verify. Lines outside of v are
 * left out. Returns the number of lines that did not verify.
 */
uint32_t region_values_update(struct region_values *v, uint32_t stripe, uint32_t first,
			      const uint64_t (*lines)[8], uint32_t count, uint64_t *retry);

/* Reads one cell summed as its kind demands. cell must be below lines * 7. */
uint64_t region_values_u64(const struct region_values *v, uint32_t cell); /* sum mod 2^64 */
double region_values_f64(const struct region_values *v, uint32_t cell);	  /* sum of doubles */
uint64_t region_values_shared(const struct region_values *v,
			      uint32_t cell); /* stripe 0's word, as is */

/*
 * The value of every cell of every metric of a schema, as one flat array indexed by cell: u64
 * sums, f64 sums as IEEE 754 bits (unfolded), gauges as words of stripe 0, those of type f64
 * likewise as IEEE 754 bits. out has schema->cells entries. Cells that v does not hold are 0.
 */
void region_values_flatten(const struct region_values *v, const struct region_schema *schema,
			   uint64_t *out);

/* ---- writers' side helpers, shared by the agent and by tests ---- */

/*
 * Recomputes the check word of every line in use of a region that no longer has a writer, so that
 * a writer killed between its two stores leaves a line that verifies. map is the agent's own
 * writable mapping of info->size bytes. Returns the number of lines repaired.
 */
uint64_t region_repair(void *map, const struct region_info *info);

/*
 * Writes the header of a new, zeroed region of this process, with a random instance and no labels.
 * 0 or -errno. After a change to it, region_header_seal() sets its checksum again.
 */
int region_header_write(struct sl_region_header *h, uint64_t size, uint32_t kind,
			const struct sl_region_section *sections, uint32_t count);
void region_header_seal(struct sl_region_header *h);

/*
 * Copies with 8-byte relaxed loads: no torn cells where the reader shares memory. (Tried under a
 * writer at full speed: one 64-byte load a line leaves the share of unsettled lines as it is.)
 */
void region_copy_words(uint64_t *to, const volatile uint64_t *from, size_t words);
/*
 * Copies words of shared memory and evaluates parse, a fault, on the copy; again while that is
 * UNSETTLED: a writer finishes a slot within a microsecond.
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
 * Copies plain lines out of shared memory, each again until it verifies, some thousand times at
 * most. False: one did not. Line by line, since all of a slot that is written to all the time never
 * verify at once.
 */
bool region_copy_lines(uint64_t *to, const volatile uint64_t *from, size_t lines);

#endif
