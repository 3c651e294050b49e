/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/region.h - region format 1, the memory that publishers write and collectors READ.
 *
 * sidelight-region(5) is normative; this header is its C form. All numbers are little-endian, all
 * references are offsets from the start of the region, and all parts that change while they may be
 * read consist of self-verifying lines.
 *
 * A region, in order of offset:
 *
 *   0      header            4096 bytes, immutable once an agent has the region
 *   4096   hot line          one line: sizes of the parts in use, and their generation
 *   4096+  stripes           SL_SECTION_STRIPES, stride bytes each, one per writer thread
 *   ...    schema            SL_SECTION_SCHEMA, append-only records
 *   ...    spans             SL_SECTION_SPANS, optional: one ring per stripe
 *   ...    created           SL_SECTION_CREATED, optional: creation time of each record
 *   ...    exemplars         SL_SECTION_EXEMPLARS, optional
 *
 * A region of kind SL_REGION_DIRECTORY has SL_SECTION_ENTRIES and SL_SECTION_TENANTS
 * instead of stripes and schema. Readers skip sections of unknown types.
 *
 * This header depends on no process, socket or transport. C11 and C++17.
 */
#ifndef SIDELIGHT_REGION_H
#define SIDELIGHT_REGION_H

#include <stddef.h>
#include <stdint.h>

#include <sidelight/format.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "sidelight: region format 1 is little-endian and is not byte-swapped on big-endian hosts"
#endif

#ifdef __cplusplus
extern "C" {
#define SL_STATIC_ASSERT(cond, msg) static_assert(cond, msg)
#else
#define SL_STATIC_ASSERT(cond, msg) _Static_assert(cond, msg)
#endif

#define SL_REGION_MAGIC	  "SIDELGHT" /* 8 bytes, no terminating NUL */
#define SL_REGION_VERSION 1
/* minor 1 adds kinds 9 and up, flags of records, created, exemplars */
#define SL_REGION_MINOR	     1
#define SL_HEADER_SIZE	     4096u
#define SL_HEADER_LABELS     512u /* offset of the label bytes in the header */
#define SL_HEADER_LABELS_MAX (4088u - SL_HEADER_LABELS)
#define SL_REGION_SIZE_MAX   (1ull << 32) /* readers refuse larger regions */

#define SL_LINE_SIZE	     64u
#define SL_LINE_CELLS	     7u /* the eighth word is the check word */

#define SL_NAME_MAX	     255u  /* maximum bytes of a metric name, a unit, a label key */
#define SL_HELP_MAX	     1023u /* maximum bytes of a help text */
#define SL_LABEL_VALUE_MAX   1023u
#define SL_LABELS_MAX	     32u   /* maximum labels of a metric, and of a region */
#define SL_BUCKETS_MAX	     4096u /* maximum buckets of a histogram */
#define SL_STATES_MAX	     64u   /* maximum states of a state set */

/*
 * The seven constants of the check word, K[0] .. K[6]. They are odd, so any change of one cell
 * changes the check word; [7] is 0, so the check word does not contribute to itself. Kinds of
 * lines:
 *
 *   plain   check = sum of cell[i] * K[i] mod 2^64: hot lines, directory entries, and stripes from
 *           1 on. Adding n to a cell and n * K[i] to the check word, with one instruction
 *           each, keeps the line valid whatever its content.
 *   mixed   check = sum of sl_cell_mix(cell[i], i) mod 2^64: stripe 0, where every update is a
 *           read-modify-write that knows the old and the new value, and adds mix(new) - mix(old).
 *   sealed  check = sl_sealed_check(): rings of spans, whose lines are written as a whole. Takes
 *           four multiplications instead of seven.
 *   folded  check = sl_folded_check() of flow.h: tables written by the kernel.
 *
 * Plain lines suit counters, and mixed lines gauges: in a product, changes propagate to higher bits
 * only, so the top bytes of a cell affect only the top of a plain check word. Counters change in
 * their low bytes, gauges in all.
 *
 * Updates commute, and each is visible by itself. If cells must be seen together (a directory
 * entry), all are stored before the check word, which is a single store.
 */
#define SL_LINE_K0 0x9e3779b97f4a7c15ull
#define SL_LINE_K1 0xbf58476d1ce4e5b9ull
#define SL_LINE_K2 0x94d049bb133111ebull
#define SL_LINE_K3 0xd6e8feb86659fd93ull
#define SL_LINE_K4 0xa0761d6478bd642full
#define SL_LINE_K5 0xe7037ed1a0b428dbull
#define SL_LINE_K6 0x8ebc6af09c88c6e3ull

struct sl_region_section {
	uint32_t type;	 /* enum sl_section_type; 0 ends the table */
	uint32_t stride; /* bytes of one element of the section */
	uint64_t offset; /* offset from the start of the region, a multiple of 64 */
	uint64_t length; /* bytes */
};

#define SL_SECTIONS_MAX 16u

/*
 * Flag in the header: the metrics are from other publishers, and their labels are complete. Readers
 * add no labels, and take SL_HOT_CHANGED_NS as the time of the values, which are stale if it does
 * not change. Ignored unless the tenant has SL_TENANT_ORIGIN.
 */
#define SL_REGION_ORIGIN 1u

struct sl_region_header {
	uint8_t magic[8];     /* SL_REGION_MAGIC */
	uint16_t version;     /* SL_REGION_VERSION: readers refuse any other */
	uint16_t minor;	      /* number of compatible additions, which an older reader may ignore */
	uint32_t header_size; /* SL_HEADER_SIZE */
	uint64_t size;	      /* bytes of the whole region, header included */
	uint32_t kind;	      /* kind of the region, enum sl_region_kind */
	uint32_t pid;	      /* PID of the publisher in its own PID namespace */
	uint64_t instance;    /* random, not 0: distinguishes this region from all others */
	uint64_t start_ns;    /* time of creation, CLOCK_REALTIME */
	/* field 22 of /proc/PID/stat; together with pid and boot_id it identifies the process */
	uint64_t start_ticks;
	uint8_t boot_id[16]; /* contents of /proc/sys/kernel/random/boot_id in binary */
	uint32_t section_count;
	uint32_t label_bytes; /* bytes in use starting at SL_HEADER_LABELS: key NUL value NUL ... */
	struct sl_region_section section[SL_SECTIONS_MAX];
	uint64_t flags; /* SL_REGION_ORIGIN */
	uint8_t reserved[SL_HEADER_LABELS - 472];
	uint8_t labels[SL_HEADER_LABELS_MAX];
	uint64_t check; /* FNV-1a 64 of bytes 0 to 4087 */
};

/*
 * The hot line of a metrics region. The writer appends the schema record and zeroes the cells
 * before it updates this line. A reader may see some cells updated and others not, but none torn.
 */
enum sl_hot_cell {
	SL_HOT_GENERATION = 0,	 /* incremented by each change of the layout; 0 means empty */
	SL_HOT_SCHEMA_USED = 1,	 /* bytes of the schema in use */
	SL_HOT_LINES_USED = 2,	 /* lines in use in each stripe */
	SL_HOT_STRIPES_USED = 3, /* stripes ever used, including the shared stripe 0: at least 1 */
	/*
	 * bits 0-7 enum sl_region_state; bits 8-63 threads that share stripe 0 for lack of another
	 */
	SL_HOT_STATE = 4,
	SL_HOT_CHANGED_NS = 5, /* CLOCK_REALTIME of the last change of this line */
	SL_HOT_REFUSED = 6,    /* number of refused metrics and observations */
};

/* Cells of the hot line of a directory. */
enum sl_directory_hot_cell {
	SL_DIR_GENERATION = 0,	 /* incremented by each change of an entry */
	SL_DIR_ENTRIES_USED = 1, /* entries ever used; read entries [0, used) */
	SL_DIR_LIVE = 2,	 /* number of entries in state live */
	SL_DIR_REFUSED = 3,	 /* number of publishers refused since the agent started */
	SL_DIR_STATE = 4,	 /* enum sl_region_state of the agent */
	SL_DIR_CHANGED_NS = 5,
	/*
	 * a reader rereads the hot line at least this often, and discards its copy of the directory
	 * if it cannot: the memory of an entry is freed twice this time after the entry was retired
	 */
	SL_DIR_LEASE_NS = 6,
};

enum sl_region_state {
	SL_STATE_FREE = 0, /* directory only: unused entry */
	SL_STATE_LIVE = 1,
	SL_STATE_DEAD = 2,    /* the publisher died; its last values remain readable */
	SL_STATE_CLOSED = 3,  /* the publisher closed the region; its last values remain readable */
	SL_STATE_RETIRED = 4, /* directory only: the region must not be read any more */
};

/* Cells of a directory entry, which is one self-verifying line. */
enum sl_entry_cell {
	SL_ENTRY_ID = 0,	 /* id assigned by the agent; never reused by the same agent */
	SL_ENTRY_ADDR = 1,	 /* address of the region for READs (0 without RDMA) */
	SL_ENTRY_LENGTH = 2,	 /* size of the region in bytes */
	SL_ENTRY_KEY = 3,	 /* bits 0-31 rkey, 32-39 state, 40-47 region kind */
	SL_ENTRY_GENERATION = 4, /* incremented by each change of this entry */
	SL_ENTRY_CHANGED_NS = 5, /* CLOCK_REALTIME of the last change of this entry */
	/* instance of the region, as known to all but its publisher: see SL_SECTION_TENANTS */
	SL_ENTRY_INSTANCE = 6,
};

#define SL_ENTRY_RKEY(key)  ((uint32_t)(key))
#define SL_ENTRY_STATE(key) ((uint32_t)((key) >> 32) & 0xff)
#define SL_ENTRY_KIND(key)  ((uint32_t)((key) >> 40) & 0xff)
#define SL_ENTRY_KEY_OF(rkey, state, kind) \
	((uint64_t)(uint32_t)(rkey) | (uint64_t)(state) << 32 | (uint64_t)(kind) << 40)

/*
 * SL_SECTION_TENANTS: two plain lines per directory entry with the publisher's identity, as
 * attested by the kernel. They are stored before the entry becomes live, and do not change while
 * the entry keeps its id.
 *
 * The publisher chooses the instance in the header. If it is trusted, the entry has the same
 * instance. Otherwise the instance of the entry is the first 8 bytes of SHA-256 over the tenant's
 * key and the header's instance, both little-endian, so that no tenant can take an instance that
 * another uses.
 */
#define SL_TENANT_SIZE	    128u
#define SL_TENANT_TRUSTED   1u /* root or the agent's user, outside containers */
#define SL_TENANT_CONTAINED 2u /* in a container, with or without an attested id */
#define SL_TENANT_ORIGIN    4u /* may publish regions with SL_REGION_ORIGIN */

/* Cells of the first line of a tenant. */
enum sl_tenant_cell {
	SL_TENANT_ID = 0,  /* SL_ENTRY_ID of the described entry */
	SL_TENANT_KEY = 1, /* hash of uid and container: equal for all regions of a tenant */
	SL_TENANT_UID = 2, /* bits 0-31 uid, bits 32-63 SL_TENANT_ flags */
	SL_TENANT_PID = 3, /* PID as seen by the agent; 0 means not visible */
	/* first 16 hexadecimal digits of the container's id, big-endian */
	SL_TENANT_CONTAINER0 = 4,
	/* next 16 digits of the container's id, big-endian; 0 means none, or not attested */
	SL_TENANT_CONTAINER1 = 5,
	SL_TENANT_POD0 = 6, /* first half of the Kubernetes pod's UID, big-endian; 0 means none */
};

/* Cells of the second line of a tenant. */
enum sl_tenant_more_cell {
	SL_TENANT_ID2 = 0,  /* SL_ENTRY_ID */
	SL_TENANT_POD1 = 1, /* second half of the pod's UID */
	/* instance in the region's header: proves that a READ reached the right region */
	SL_TENANT_INSTANCE = 2,
};

/*
 * SL_SECTION_NAMES: eight plain lines per directory entry with the names by which the host's files
 * know the container that SL_SECTION_TENANTS attests. They are stored in the same way. Cell 0 of
 * each line is SL_ENTRY_ID; cells 1 to 6 of all lines form one text: namespace, pod, container,
 * each of [a-zA-Z0-9_.-] and terminated by NUL; empty means unknown.
 */
#define SL_NAMES_SIZE 512u
#define SL_NAMES_TEXT 384u

enum sl_metric_kind {
	SL_KIND_COUNTER = 1,	   /* u64, sum of the stripes mod 2^64 */
	SL_KIND_COUNTER_F64 = 2,   /* f64, sum of the stripes; see sl_cell_of_f64() */
	SL_KIND_GAUGE = 3,	   /* i64, stripe 0 only */
	SL_KIND_GAUGE_F64 = 4,	   /* f64, stripe 0 only; see sl_cell_of_f64() */
	SL_KIND_HISTOGRAM_EXP = 5, /* exponential buckets, see below */
	SL_KIND_HISTOGRAM = 6,	   /* classic bounds */
	SL_KIND_INFO = 7,	   /* no cells: the labels are the value */
	SL_KIND_STATESET = 8,	   /* one cell, bit i is state i; stripe 0 only */
	/* The following kinds exist since minor 1. */
	SL_KIND_SUMMARY = 9,		  /* sum, count, and a cell per quantile, see below */
	SL_KIND_UNKNOWN = 10,		  /* f64, stripe 0 only: a number of unknown type */
	SL_KIND_GAUGE_HISTOGRAM = 11,	  /* same cells as SL_KIND_HISTOGRAM, stripe 0 only */
	SL_KIND_GAUGE_HISTOGRAM_EXP = 12, /* same cells as SL_KIND_HISTOGRAM_EXP, stripe 0 only */
	SL_KIND_GAUGE_TIMED = 13, /* f64, and the time it was set, ns since 1970; stripe 0 only */
};

/*
 * Set in the kind of a record, 1 to 13, since minor 1: the record may be replaced once it is
 * removed, it may end with any number of zeros, and its name and label keys are UTF-8. Readers of
 * minor 0 skip it like any unknown kind.
 */
#define SL_KIND_REPLACEABLE 32u

/* Flags of a record. Bits 0-2: how to combine the values of the processes of one service. */
enum sl_combine {
	SL_COMBINE_DEFAULT = 0, /* the reader's choice: sidelight sums */
	SL_COMBINE_SUM = 1,
	SL_COMBINE_MIN = 2,
	SL_COMBINE_MAX = 3,
	SL_COMBINE_MOST_RECENT = 4, /* take the value set last, by SL_KIND_GAUGE_TIMED */
	SL_COMBINE_ALL = 5,	    /* do not combine: one series per process */
};
#define SL_FLAG_COMBINE 0x07u
#define SL_FLAG_LIVE	0x08u /* combine only processes that are alive */
#define SL_FLAG_MIRROR	0x10u /* copied from elsewhere: stripe 0 only, and may decrease */

/*
 * Cells of a summary: 0 the sum (f64) and 1 the count (u64) of the observations, each summed over
 * the stripes; starting at 2 the quantiles (f64, stripe 0 only). The bounds of the record are the
 * ranks of the quantiles, 0 to 1, ascending.
 */
#define SL_SUMMARY_SUM	     0u
#define SL_SUMMARY_COUNT     1u
#define SL_SUMMARY_QUANTILES 2u
#define SL_QUANTILES_MAX     64u

/*
 * SL_SECTION_CREATED: mixed lines. The cell at the index given by a record's id holds the time from
 * which the record counts, ns since 1970; 0 means the record was removed. Records without such a
 * cell are present.
 *
 * A removed record may be replaced after SL_REPLACE_NS; a reader uses no cells that it copied more
 * than SL_LAYOUT_LEASE_NS after the hot line.
 */
#define SL_LAYOUT_LEASE_NS 10000000000ull
#define SL_REPLACE_NS	   11000000000ull
/*
 * A non-zero value below this means that the record is present, and counts since an unknown time.
 */
#define SL_CREATED_KNOWN_NS 1000000000ull

/*
 * SL_SECTION_EXEMPLARS: elements of four lines. Element 0 is the head, one plain line. The lines of
 * the others are sealed, and belong together if their tags have the same number.
 */
#define SL_EXEMPLAR_SIZE   256u
#define SL_EXEMPLARS_MAX   4096u /* maximum number of elements */
#define SL_EXEMPLAR_LABELS 152u	 /* bytes of labels: 8 in line 0, 48 in each other line */

enum sl_exemplar_head_cell {
	SL_EXEMPLAR_HEAD_USED = 0, /* elements ever used, including the head */
	SL_EXEMPLAR_HEAD_SET = 1,  /* exemplars set */
	/* exemplars dropped: no space, or another thread was setting the same one */
	SL_EXEMPLAR_HEAD_DROPPED = 2,
};

/* Cells of line 0. In lines 1 to 3, cell 0 is the tag and cells 1 to 6 are labels. */
enum sl_exemplar_cell {
	SL_EXEMPLAR_TAG = 0, /* tag made by SL_EXEMPLAR_TAG_OF() */
	SL_EXEMPLAR_OF = 1,  /* bits 0-31 id of the record, bits 32-63 the cell within the record */
	/* value of the record's cell in SL_SECTION_CREATED; 0 means none */
	SL_EXEMPLAR_CREATED = 2,
	SL_EXEMPLAR_VALUE = 3, /* plain IEEE 754 */
	SL_EXEMPLAR_TIME = 4,  /* ns since 1970 */
	SL_EXEMPLAR_BYTES = 5, /* bytes of labels: key NUL value NUL ... */
	SL_EXEMPLAR_TEXT = 6,  /* first 8 bytes of the labels */
};
#define SL_EXEMPLAR_TAG_OF(number, line) ((uint64_t)(number) << 16 | (line))

/*
 * A record of this kind is not a metric but a string, stored as the name of the record: UTF-8, 1 to
 * SL_NAME_MAX bytes. Spans refer to it by its id, as their name or as the key of an attribute.
 */
#define SL_KIND_STRING 16u

/*
 * Cells of a histogram, all summed over the stripes:
 *
 *   0  sum of the observations (f64, see sl_cell_of_f64())
 *   1  observations refused (u64): NaN, and for exponential ones those below -zero_threshold
 *   exponential: 2 the zero bucket |x| <= zero_threshold; 3 .. cells-2 the buckets
 *     first_bucket, first_bucket+1, ...; cells-1 observations above the last bucket.
 *     Bucket i holds base^(i-1) < x <= base^i with base = 2^(2^-scale), as in Prometheus native
 *     histograms (OpenTelemetry numbers the same bucket i-1).
 *   classic: 2 .. 2+bounds the buckets; bucket i holds bound[i-1] < x <= bound[i], the last one
 *     has no bound.
 *
 * The count is the sum of the buckets. It is not stored, and so never disagrees with them.
 */
#define SL_HIST_SUM	0u
#define SL_HIST_REFUSED 1u
#define SL_HIST_BUCKETS 2u

/*
 * Rules that a reader enforces; sidelight-region(5) has all of them:
 *  - the cells of two records never overlap, whatever their kinds; they may be in any order;
 *  - name: [a-zA-Z_:][a-zA-Z0-9_:]*; unit: [a-zA-Z0-9_:]*; help, label values and state names:
 *    UTF-8 without NUL; label keys: [a-zA-Z_][a-zA-Z0-9_]*, not "__...", ascending, each once;
 *    no label "le" on a histogram, no label with the metric's name on a state set;
 *  - no two records with the same name and labels.
 */
struct sl_schema_record {
	uint32_t length; /* bytes of the whole record, a multiple of 8 */
	uint16_t kind;	 /* enum sl_metric_kind; readers skip unknown kinds */
	uint16_t flags;	 /* combination (enum sl_combine) and SL_FLAG_ bits */
	/* first cell; cell c is word c%7 of line c/7 of each stripe; ignored if cells is 0 */
	uint32_t cell;
	uint32_t cells;	     /* number of cells */
	uint32_t id;	     /* 0, 1, 2, ... in the order of the records */
	uint32_t generation; /* generation of the layout that added the record */
	/*
	 * Bytes of the strings. Bounds, name, unit, help, labels and states follow in this order,
	 * without NUL, zero-padded to a multiple of 8.
	 */
	uint16_t name_bytes;
	uint16_t unit_bytes;
	uint16_t help_bytes;
	uint16_t label_bytes; /* labels as key NUL value NUL ..., sorted by key */
	uint16_t state_bytes; /* names of the states as name NUL name NUL ... */
	/* number of f64 bounds, ascending, which directly follow this structure */
	uint16_t bound_count;
	int16_t scale; /* -4 .. 8 */
	uint16_t state_count;
	int32_t first_bucket;
	uint32_t reserved;
	double zero_threshold;
	uint64_t check; /* FNV-1a 64 of the record with this field set to 0 */
};

/*
 * Spans. A section of type SL_SECTION_SPANS holds, for each stripe, a head line and a ring:
 *
 *   heads   max_stripes plain lines (enum sl_span_head_cell), padded to a multiple of 4096
 *   rings   stride bytes each; of a ring of S span lines, a power of two:
 *             roots   S / 4 lines   one line per root of a trace
 *             index   S / 8 lines   the lines that belong to each trace
 *             spans   S lines       the spans themselves
 *
 * The stride is 88 * S. Line n of each part is at index n modulo the part's number of lines, until
 * a later line overwrites it. All lines of the rings are sealed, and bits 16-63 of cell 0 are the
 * number of the line, which reveals a READ that returned lines of different age. An unused line is
 * 0, and does not verify.
 *
 * A span takes 2 to SL_SPAN_LINES_MAX consecutive lines; a reader accepts it only if all verify:
 *
 *   line 0   SL_SPAN_TAG(number, lines, 0), trace id (upper, lower), span id, parent's span id or
 *            0, start (ns since 1970), duration (ns)
 *   line i   SL_SPAN_TAG(number + i, lines, i), six words of a stream: a word of SL_SPAN_META_...,
 *            then for each attribute a word of SL_SPAN_ATTR_... and its value
 *
 * The index has one entry (9 to 64 bytes) per run of consecutive spans of one trace. To fetch a
 * trace, a reader reads its entries, and then only the lines of those runs.
 */
#define SL_SPAN_RING_MIN	   512u /* minimum of S */
#define SL_SPAN_RING_MAX	   (1u << 22)
#define SL_SPAN_STRIDE(s)	   (88ull * (s))
#define SL_SPAN_ROOTS(s)	   ((s) / 4)
#define SL_SPAN_INDEX(s)	   ((s) / 8)
#define SL_SPAN_ROOTS_AT(s)	   0ull /* offsets of the parts within a ring */
#define SL_SPAN_INDEX_AT(s)	   (16ull * (s))
#define SL_SPAN_LINES_AT(s)	   (24ull * (s))
#define SL_SPAN_HEADS_BYTES(rings) (((rings)*64ull + 4095) & ~4095ull)

#define SL_SPAN_LINES_MAX	   8u	/* maximum lines of a span */
#define SL_SPAN_WORDS_MAX	   41u	/* maximum words of a span's attributes */
#define SL_SPAN_STRING_MAX	   128u /* bytes of a string value; longer ones are truncated */

/* Each cell only grows. The number of the next line equals the number of lines written. */
enum sl_span_head_cell {
	SL_SPAN_HEAD_LINES = 0,	  /* number of the next span line */
	SL_SPAN_HEAD_ROOTS = 1,	  /* number of the next root line */
	SL_SPAN_HEAD_INDEX = 2,	  /* number of the next index line; the last line may still grow */
	SL_SPAN_HEAD_SPANS = 3,	  /* spans written */
	SL_SPAN_HEAD_DROPPED = 4, /* attributes that did not fit into their span */
	SL_SPAN_HEAD_CUT = 5,	  /* string values that were truncated */
};

#define SL_SPAN_TAG(number, lines, i) ((uint64_t)(number) << 16 | (lines) << 8 | (i))
#define SL_SPAN_TAG_ROOT(number)      ((uint64_t)(number) << 16 | 0xff00u)
#define SL_SPAN_TAG_INDEX(number)     ((uint64_t)(number) << 16 | 0xfe00u)
#define SL_SPAN_TAG_NUMBER(tag)	      ((uint64_t)(tag) >> 16)
#define SL_SPAN_TAG_LINES(tag)	      ((uint32_t)(tag) >> 8 & 0xff)
#define SL_SPAN_TAG_LINE(tag)	      ((uint32_t)(tag)&0xff)

/* A root line: the tag, trace id (upper, lower), start, duration, meta word, span id. */
enum sl_span_root_cell {
	SL_SPAN_ROOT_TAG = 0,
	SL_SPAN_ROOT_TRACE_HI = 1,
	SL_SPAN_ROOT_TRACE_LO = 2,
	SL_SPAN_ROOT_START = 3,
	SL_SPAN_ROOT_DURATION = 4,
	SL_SPAN_ROOT_META = 5,
	SL_SPAN_ROOT_SPAN = 6,
};

/*
 * The meta word: bits 0-31 id of the name's schema record, 32-35 enum sl_span_kind, 36-39 enum
 * sl_span_status, 40-47 trace flags (W3C), 48 set if the parent is in another process, 56-63 number
 * of attributes (0 in a root line).
 */
#define SL_SPAN_META(name, kind, status, flags, remote, attrs)                            \
	((uint64_t)(uint32_t)(name) | (uint64_t)(kind) << 32 | (uint64_t)(status) << 36 | \
	 (uint64_t)(flags) << 40 | (uint64_t)(remote) << 48 | (uint64_t)(attrs) << 56)
#define SL_SPAN_META_NAME(m)   ((uint32_t)(m))
#define SL_SPAN_META_KIND(m)   ((uint32_t)((m) >> 32) & 15)
#define SL_SPAN_META_STATUS(m) ((uint32_t)((m) >> 36) & 15)
#define SL_SPAN_META_FLAGS(m)  ((uint32_t)((m) >> 40) & 255)
#define SL_SPAN_META_REMOTE(m) ((uint32_t)((m) >> 48) & 1)
#define SL_SPAN_META_ATTRS(m)  ((uint32_t)((m) >> 56))

/*
 * An attribute: bits 0-31 id of the key's schema record, 32-39 enum sl_span_type, 40-47 bytes of a
 * string, bit 48 set if the string was truncated. The value follows in one word; a string takes as
 * many as it needs, zero-padded.
 */
#define SL_SPAN_ATTR(key, type, bytes, cut)                                             \
	((uint64_t)(uint32_t)(key) | (uint64_t)(type) << 32 | (uint64_t)(bytes) << 40 | \
	 (uint64_t)(cut) << 48)
#define SL_SPAN_ATTR_KEY(a)   ((uint32_t)(a))
#define SL_SPAN_ATTR_TYPE(a)  ((uint32_t)((a) >> 32) & 255)
#define SL_SPAN_ATTR_BYTES(a) ((uint32_t)((a) >> 40) & 255)
#define SL_SPAN_ATTR_CUT(a)   ((uint32_t)((a) >> 48) & 1)

enum sl_span_type {
	SL_SPAN_TYPE_STRING = 1,
	SL_SPAN_TYPE_I64 = 2,
	SL_SPAN_TYPE_F64 = 3,	  /* plain IEEE 754 */
	SL_SPAN_TYPE_BOOL = 4,	  /* 0 or 1 */
	SL_SPAN_TYPE_MESSAGE = 5, /* the status message, a string; the key is 0 */
};

/* Same kinds as in OpenTelemetry. */
enum sl_span_kind {
	SL_SPAN_INTERNAL = 0,
	SL_SPAN_SERVER = 1,
	SL_SPAN_CLIENT = 2,
	SL_SPAN_PRODUCER = 3,
	SL_SPAN_CONSUMER = 4,
};

enum sl_span_status {
	SL_SPAN_UNSET = 0,
	SL_SPAN_OK = 1,
	SL_SPAN_ERROR = 2,
};

/*
 * An index line: the tag, and up to six entries; 0 means unused. Bits 0-31 number of the first line
 * modulo 2^32, 32-39 number of lines (1-255), 40 set if a span has status error, 41-63
 * sl_span_hash().
 */
#define SL_SPAN_ENTRIES 6u
#define SL_SPAN_ENTRY(first, lines, error, hash)                                           \
	((uint64_t)(uint32_t)(first) | (uint64_t)(lines) << 32 | (uint64_t)(error) << 40 | \
	 (uint64_t)(hash) << 41)
#define SL_SPAN_ENTRY_FIRST(e) ((uint32_t)(e))
#define SL_SPAN_ENTRY_LINES(e) ((uint32_t)((e) >> 32) & 255)
#define SL_SPAN_ENTRY_ERROR(e) ((uint32_t)((e) >> 40) & 1)
#define SL_SPAN_ENTRY_HASH(e)  ((uint32_t)((e) >> 41))

/* Returns 23 bits of a trace id, of which either half may be the random one. */
static inline uint32_t sl_span_hash(uint64_t trace_hi, uint64_t trace_lo)
{
	return (uint32_t)((trace_hi ^ trace_lo) * SL_LINE_K0 >> 41);
}

SL_STATIC_ASSERT(offsetof(struct sl_region_section, type) == 0, "section type");
SL_STATIC_ASSERT(offsetof(struct sl_region_section, stride) == 4, "section stride");
SL_STATIC_ASSERT(offsetof(struct sl_region_section, offset) == 8, "section offset");
SL_STATIC_ASSERT(offsetof(struct sl_region_section, length) == 16, "section length");
SL_STATIC_ASSERT(sizeof(struct sl_region_section) == 24, "section");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, magic) == 0, "magic");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, version) == 8, "version");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, minor) == 10, "minor");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, header_size) == 12, "header_size");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, size) == 16, "size");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, kind) == 24, "kind");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, pid) == 28, "pid");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, instance) == 32, "instance");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, start_ns) == 40, "start_ns");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, start_ticks) == 48, "start_ticks");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, boot_id) == 56, "boot_id");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, section_count) == 72, "section_count");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, label_bytes) == 76, "label_bytes");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, section) == 80, "section table");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, flags) == 464, "flags");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, reserved) == 472, "reserved");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, labels) == SL_HEADER_LABELS, "labels");
SL_STATIC_ASSERT(offsetof(struct sl_region_header, check) == 4088, "header check");
SL_STATIC_ASSERT(sizeof(struct sl_region_header) == SL_HEADER_SIZE, "header");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, length) == 0, "length");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, kind) == 4, "kind");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, flags) == 6, "flags");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, cell) == 8, "cell");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, cells) == 12, "cells");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, id) == 16, "id");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, generation) == 20, "generation");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, name_bytes) == 24, "name_bytes");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, unit_bytes) == 26, "unit_bytes");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, help_bytes) == 28, "help_bytes");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, label_bytes) == 30, "label_bytes");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, state_bytes) == 32, "state_bytes");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, bound_count) == 34, "bound_count");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, scale) == 36, "scale");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, state_count) == 38, "state_count");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, first_bucket) == 40, "first_bucket");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, reserved) == 44, "record reserved");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, zero_threshold) == 48, "zero_threshold");
SL_STATIC_ASSERT(offsetof(struct sl_schema_record, check) == 56, "record check");
SL_STATIC_ASSERT(sizeof(struct sl_schema_record) == 64, "record");

static const uint64_t sl_line_k[8] = {
	SL_LINE_K0, SL_LINE_K1, SL_LINE_K2, SL_LINE_K3, SL_LINE_K4, SL_LINE_K5, SL_LINE_K6, 0,
};

/*
 * Returns the offset of a cell from the start of its stripe; the function below returns the offset
 * of its line's check word.
 */
static inline uint64_t sl_cell_offset(uint32_t cell)
{
	return (uint64_t)(cell / SL_LINE_CELLS) * SL_LINE_SIZE + cell % SL_LINE_CELLS * 8;
}

static inline uint64_t sl_check_offset(uint64_t cell_offset)
{
	return cell_offset | 56;
}

/* Computes the check word of a plain line. line is 8-byte aligned private memory. */
static inline uint64_t sl_line_check(const uint64_t line[8])
{
	return line[0] * SL_LINE_K0 + line[1] * SL_LINE_K1 + line[2] * SL_LINE_K2 +
	       line[3] * SL_LINE_K3 + line[4] * SL_LINE_K4 + line[5] * SL_LINE_K5 +
	       line[6] * SL_LINE_K6;
}

/*
 * Returns the contribution of cell i to the check word of a mixed line: the upper half of the
 * 128-bit product with K[i], xor the lower half. 0 for 0. A change of any byte of the cell changes
 * the whole word.
 */
static inline uint64_t sl_cell_mix(uint64_t cell, uint32_t i)
{
	uint64_t k = sl_line_k[i];
#ifdef __SIZEOF_INT128__
	__extension__ unsigned __int128 product = (unsigned __int128)cell * k;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
	uint64_t a = cell >> 32, b = (uint32_t)cell, c = k >> 32, d = (uint32_t)k;
	uint64_t low = b * d, one = a * d + (low >> 32), two = b * c + (uint32_t)one;

	return cell * k ^ (a * c + (one >> 32) + (two >> 32));
#endif
}

/* Computes the check word of a mixed line. */
static inline uint64_t sl_mixed_check(const uint64_t line[8])
{
	uint64_t check = 0;

	for (uint32_t i = 0; i < SL_LINE_CELLS; i++)
		check += sl_cell_mix(line[i], i);
	return check;
}

/*
 * Computes the check word of a sealed line: pairs of cells are xored with constants and multiplied
 * to 128 bits, and the halves are xored (the mixing step of wyhash by Wang Yi, public domain). Such
 * lines are written as a whole, so no contribution needs to be updated separately.
 */
static inline uint64_t sl_seal_pair(uint64_t a, uint64_t b, uint64_t k, uint64_t l)
{
	a ^= k;
	b ^= l;
#ifdef __SIZEOF_INT128__
	__extension__ unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
	uint64_t c = a >> 32, d = (uint32_t)a, e = b >> 32, f = (uint32_t)b;
	uint64_t low = d * f, one = c * f + (low >> 32), two = d * e + (uint32_t)one;

	return a * b ^ (c * e + (one >> 32) + (two >> 32));
#endif
}

static inline uint64_t sl_sealed_check(const uint64_t line[8])
{
	return sl_seal_pair(line[0], line[1], SL_LINE_K0, SL_LINE_K1) +
	       sl_seal_pair(line[2], line[3], SL_LINE_K2, SL_LINE_K3) +
	       sl_seal_pair(line[4], line[5], SL_LINE_K4, SL_LINE_K5) +
	       sl_seal_pair(line[6], 0, SL_LINE_K6, SL_LINE_K0);
}

/* Computes the check word of a line in a stripe. */
static inline uint64_t sl_stripe_check(uint32_t stripe, const uint64_t line[8])
{
	return stripe ? sl_line_check(line) : sl_mixed_check(line);
}

/*
 * A cell of type f64 holds the IEEE 754 bits b of the value as b ^ (b >> 32), which is its own
 * inverse and maps 0 to 0. Without this, only the upper 16 bits of a plain line's check word would
 * protect the difference of two doubles like 17.0 and 300.0, whose lower 48 bits are equal.
 * Integers differ in their lower bits.
 */
static inline uint64_t sl_cell_of_f64(double value)
{
	uint64_t bits;

	__builtin_memcpy(&bits, &value, 8);
	return bits ^ bits >> 32;
}

static inline double sl_f64_of_cell(uint64_t cell)
{
	double value;

	cell ^= cell >> 32;
	__builtin_memcpy(&value, &cell, 8);
	return value;
}

/*
 * FNV-1a, 64 bits (draft-eastlake-fnv-17): the checksum of headers and schema records. Start with
 * SL_FNV_BASIS and feed the parts in order.
 */
#define SL_FNV_BASIS 0xcbf29ce484222325ull

static inline uint64_t sl_fnv1a(uint64_t hash, const void *data, size_t bytes)
{
	const uint8_t *p = (const uint8_t *)data;

	while (bytes--)
		hash = (hash ^ *p++) * 0x100000001b3ull;
	return hash;
}

#ifdef __cplusplus
}
#endif
#endif
