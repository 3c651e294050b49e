/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.h - how a part of a collector (attach.h) adds to the collector's own series. A part has
 * groups of families. A family's series are made from counters, see SINGLE() and below, or by a
 * function that fills in *out for series s->at (0, 1, ...) and returns false after the last one.
 */
#ifndef SL_COLLECT_READ_SELF_H
#define SL_COLLECT_READ_SELF_H

#include "collect/read/attach.h"
#include "collect/read/collector_internal.h"

/* number of READ latency buckets exposed: one per octave, from 1 us to 8 s */
#define BUCKETS_SHOWN 24u

/* A walk over the collector's own series. Statistics are as of the start of the walk. */
struct collect_self {
	struct collect_collector *c;
	const struct collect_index *x;
	/* Set for the part that owns the current family. */
	void *arg; /* the argument that the part passed to collect_collector_attach() */
	void *own; /* the part's memory, of collect_part.walk_bytes bytes */
	size_t at;
	uint64_t now_ns;
	struct collect_label_set *labels; /* labels of the last series */
	struct collect_collector_totals totals;
	uint64_t left_out_series; /* set by source.c */
	/* Used by self.c. */
	size_t next; /* next family */
	const struct collect_self_family *family;
	void *part_own[COLLECT_PARTS_MAX];
	/* Used by self_collector.c and self_tenant.c. */
	size_t tenant; /* position after the first region of the current tenant */
	uint64_t bucket[BUCKETS_SHOWN + 1];
	double bound[BUCKETS_SHOWN];
};

struct collect_self_family {
	const char *name;
	enum export_family_type type;
	const char *unit, *help;
	bool (*series)(struct collect_self *s, struct export_series *out);
	const struct collect_self_counter *counter; /* in ns if the unit is "seconds" */
	size_t counters;
	/*
	 * key of the label that tells the counters apart, or an argument of `series`; NULL: no
	 * label
	 */
	const char *key;
	/*
	 * Returns the object with index s->at / counters, and sets the labels of the series; if
	 * there are several counters, with collect_self_by(). Returns NULL if there is no such
	 * object. If this member is NULL, the counters belong to their owners. Functions that take
	 * s->at itself as the index are for families with a single counter.
	 */
	const void *(*find)(struct collect_self *s, struct export_series *out);
};

struct collect_self_group {
	const struct collect_self_family *family;
	size_t families;
	bool (*exposed)(const struct collect_self *s); /* NULL means always exposed */
};

/* Defines the group of NAME_families[]. */
#define COLLECT_SELF_GROUP(name, exposed_fn)                    \
	const struct collect_self_group collect_self_##name = { \
		name##_families, sizeof(name##_families) / sizeof(*name##_families), exposed_fn}

/* The member of a part that has only NAME_families[]. */
#define COLLECT_SELF_FAMILIES(name)                                                          \
	.groups = (const struct collect_self_group *const[])                                 \
	{                                                                                    \
		&(const struct collect_self_group){                                          \
			name##_families, sizeof(name##_families) / sizeof(*name##_families), \
			NULL},                                                               \
			NULL                                                                 \
	}

/* Abbreviations for the tables of families. */
#define COUNTER	  EXPORT_FAMILY_COUNTER
#define GAUGE	  EXPORT_FAMILY_GAUGE
#define HISTOGRAM EXPORT_FAMILY_HISTOGRAM
#define INFO	  EXPORT_FAMILY_INFO
#define STATESET  EXPORT_FAMILY_STATESET

/* ---- counters by offset ---- */

/*
 * The owner of a counter. OWN: collect_self.own. ATTACHED: collect_self.arg. FOUND: the object that
 * the family finds. Counters of workers, links and collect_host.beside are summed over all of them;
 * a fabric's counters belong to a link and are protected by its lock.
 */
enum collect_self_owner { COLLECTOR, WALK, OWN, ATTACHED, FOUND, WORKERS, BESIDE, LINKS, FABRIC };

struct collect_self_counter {
	const char *label;
	enum collect_self_owner owner;
	size_t offset;
};

/* The offset of a counter; compiles only for a uint64_t. */
#define OFFSET(type, field) \
	(offsetof(type, field) + 0 * sizeof(char[_Generic(((type *)0)->field, uint64_t : 1)]))
/* clang-format off */
#define OF(label, owner, type, field) {label, owner, OFFSET(struct type, field)}
/* clang-format on */
#define OF_COLLECTOR(label, field) OF(label, COLLECTOR, collect_collector, field)
#define OF_WALK(label, field)	   OF(label, WALK, collect_self, field)
#define OF_WORKERS(label, field)   OF(label, WORKERS, collect_worker, field)
#define OF_LINKS(label, field)	   OF(label, LINKS, collect_link, field)
#define OF_FABRIC(label, field)	   OF(label, FABRIC, fabric_stats, field)

/*
 * Initialisers for the counters of a family. SINGLE: one series, the sum of all counters. BY_LABEL:
 * one series per label, the sum of adjacent counters with this label. EACH: one series per counter
 * and object that `finds` returns.
 */
#define SINGLE(...) BY_LABEL(NULL, __VA_ARGS__)
#define BY_LABEL(by, ...)                                                           \
	.key = (by), .counter = (const struct collect_self_counter[]){__VA_ARGS__}, \
	.counters = sizeof((const struct collect_self_counter[]){__VA_ARGS__}) /    \
		    sizeof(struct collect_self_counter)
#define EACH(finds, ...) SINGLE(__VA_ARGS__), .find = (finds)

/*
 * Defines a function that makes one series for each var; find returns the next var and sets the
 * labels; returns NULL when there are no more.
 */
#define SERIES(name, type, var, find, value)                                \
	static bool name(struct collect_self *s, struct export_series *out) \
	{                                                                   \
		const type *var = (find);                                   \
		return var && (value);                                      \
	}

/* Returns the label of the current counter, which tells the counters of an object apart. */
struct region_text_label collect_self_by(const struct collect_self *s);
/* Makes the series of the family's counters. Used if a family has no `series` of its own. */
bool collect_self_counters(struct collect_self *s, struct export_series *out);
/* found: the object for FOUND; for LINKS and FABRIC a host, or NULL for all hosts. */
uint64_t collect_self_sum(const struct collect_self *s, const void *found,
			  const struct collect_self_counter *n);

bool collect_self_labels(struct collect_self *s, struct export_series *out,
			 const struct region_text_label *labels, uint32_t n);
/* The same with labels given one by one: {KEY, VALUE}, ... */
#define SELF_LABELS(s, out, ...)                                                      \
	collect_self_labels(s, out, (const struct region_text_label[]){__VA_ARGS__},  \
			    sizeof((const struct region_text_label[]){__VA_ARGS__}) / \
				    sizeof(struct region_text_label))
bool collect_self_label(struct collect_self *s, struct export_series *out, const char *key,
			const char *value);
bool collect_self_u64(struct export_series *out, uint64_t v);
bool collect_self_f64(struct export_series *out, double v);
bool collect_self_single(struct collect_self *s, struct export_series *out, uint64_t v);

/* Returns the region number s->at and sets its labels and instance_id, or returns NULL. */
const void *collect_self_region(struct collect_self *s, struct export_series *out);

#endif
