/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.h - how the files of this folder make series. Each has a part: a table of families, each
 * with a function that fills *out for series s->at (0, 1, ...) and returns false after the last
 * one.
 */
#ifndef SL_COLLECT_SELF_SELF_H
#define SL_COLLECT_SELF_SELF_H

#include "collect/collector_internal.h"
#include "collect/self/families.h"
#include "collect/trace/trace.h"

#define BUCKETS_SHOWN 24u /* of READ latency: one per octave, 1 us to 8 s */

/* A walk. */
struct collect_self {
	struct collect_collector *c;
	const struct collect_index *x;
	struct collect_collector_totals totals;
	struct collect_tracer_stats trace; /* if there is a tracer */
	uint64_t now_ns;
	size_t family, at;
	struct collect_label_set *labels; /* of the last series */
	uint64_t bucket[BUCKETS_SHOWN + 1];
	double bound[BUCKETS_SHOWN];
	char exemplar[33];	       /* trace ID in hex */
	struct act_workload *workload; /* live.c's */
	size_t workloads;
	struct json_t *dta;	      /* dta.c's */
	struct collect_self_net *net; /* net.c's */
};

struct collect_self_family {
	const char *name;
	enum export_family_type type;
	const char *unit, *help;
	bool (*series)(struct collect_self *s, struct export_series *out);
};

struct collect_self_part {
	const struct collect_self_family *family;
	size_t families;
	bool (*exposed)(const struct collect_self *s); /* NULL: always */
};

extern const struct collect_self_part collect_self_analysis, collect_self_collector,
	collect_self_dta, collect_self_net, collect_self_push, collect_self_sampling,
	collect_self_tcp, collect_self_trace;

/* The part of NAME_families[]. */
#define COLLECT_SELF_PART(name, exposed_fn)                    \
	const struct collect_self_part collect_self_##name = { \
		name##_families, sizeof(name##_families) / sizeof(*name##_families), exposed_fn}

/* Short forms for the tables. */
#define COUNTER	  EXPORT_FAMILY_COUNTER
#define GAUGE	  EXPORT_FAMILY_GAUGE
#define HISTOGRAM EXPORT_FAMILY_HISTOGRAM
#define INFO	  EXPORT_FAMILY_INFO
#define STATESET  EXPORT_FAMILY_STATESET

/* A family without labels, of one series. */
#define SINGLE(name, number)                                                \
	static bool name(struct collect_self *s, struct export_series *out) \
	{                                                                   \
		return collect_self_single(s, out, number);                 \
	}

bool collect_self_labels(struct collect_self *s, struct export_series *out,
			 const struct region_text_label *labels, uint32_t n);
bool collect_self_label(struct collect_self *s, struct export_series *out, const char *key,
			const char *value);
bool collect_self_u64(struct export_series *out, uint64_t v);
bool collect_self_f64(struct export_series *out, double v);
bool collect_self_single(struct collect_self *s, struct export_series *out, uint64_t v);

/* collector.c: the region of s->at, with its labels and instance_id, or NULL. */
const struct collect_region *collect_self_region(struct collect_self *s, struct export_series *out);

/* False: out of memory. */
bool collect_self_net_begin(struct collect_self *s);
void collect_self_net_end(struct collect_self *s);
void collect_self_live_end(struct collect_self *s);
void collect_self_dta_end(struct collect_self *s);

#endif
