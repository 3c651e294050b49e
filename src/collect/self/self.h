/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.h - how the files of this folder make series. Each has a part: a table of families, each
 * with a function that fills *out for series s->at (0, 1, ...) and returns false after the last
 * one.
 */
#ifndef SL_COLLECT_SELF_SELF_H
#define SL_COLLECT_SELF_SELF_H

#include "collect/judge/live_internal.h"
#include "collect/read/collector_internal.h"
#include "collect/trace/trace.h"

#define BUCKETS_SHOWN 24u /* of READ latency: one per octave, 1 us to 8 s */

/* A walk. Statistics are those at its start. */
struct collect_self {
	struct collect_collector *c;
	const struct collect_index *x;
	struct collect_collector_totals totals;
	struct collect_tracer_stats trace;	/* if there is a tracer */
	struct collect_analysis_stats analysis; /* live.c's, of the parts in use */
	struct act_verdicts_stats verdicts;
	struct collect_notify_stats notify;
	struct collect_sender_stats sender;
	struct export_remote_write_stats writer;
	struct {
		const char *to;
		struct export_push_stats stats;
	} push[3];
	size_t pushes;
	uint64_t lost_changes, lost_alerts, left_out_series;
	uint64_t now_ns;
	size_t next; /* family */
	const struct collect_self_family *family;
	size_t at;
	size_t tenant;			  /* tenant.c's: the region after the last one's first */
	struct collect_label_set *labels; /* of the last series */
	uint64_t bucket[BUCKETS_SHOWN + 1];
	double bound[BUCKETS_SHOWN];
	char trace_id[33]; /* in hex */
	struct region_text_label trace_label;
	struct export_exemplar exemplar; /* of the last series */
	struct act_workload *workload;	 /* live.c's */
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
	collect_self_discover, collect_self_dta, collect_self_http, collect_self_kafka,
	collect_self_net, collect_self_push, collect_self_regions, collect_self_sampling,
	collect_self_tcp, collect_self_tenant, collect_self_trace;

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

/* ---- counters by their offset ---- */

/*
 * The owner of a counter. Those of workers and links are summed over all of them; those of the
 * fabric belong to a link, under its lock.
 */
enum collect_self_owner { COLLECTOR, WALK, WORKERS, LINKS, FABRIC, PUSH };

struct collect_self_counter {
	const char *label;
	enum collect_self_owner owner;
	size_t offset;
};

/* The offset of a counter; compiles for a uint64_t only. */
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
#define OF_PUSH(label, field)	   OF(label, PUSH, export_push_stats, field)

/* A family with a series for each of the counters. */
#define BY_LABEL(name, key, ...)                                                     \
	static bool name(struct collect_self *s, struct export_series *out)          \
	{                                                                            \
		static const struct collect_self_counter counters[] = {__VA_ARGS__}; \
		return collect_self_counters(s, out, key, counters,                  \
					     sizeof(counters) / sizeof(*counters));  \
	}

/* A family with a series for each var, which find sets the labels of; NULL: no more. */
#define SERIES(name, var, find, value)                                      \
	static bool name(struct collect_self *s, struct export_series *out) \
	{                                                                   \
		const __auto_type var = (find);                             \
		return var && (value);                                      \
	}

/* A family without labels, of one series. */
#define SINGLE(name, number)                                                \
	static bool name(struct collect_self *s, struct export_series *out) \
	{                                                                   \
		return collect_self_single(s, out, number);                 \
	}

bool collect_self_counters(struct collect_self *s, struct export_series *out, const char *key,
			   const struct collect_self_counter *counters, size_t n);
/* Of one host: LINKS or FABRIC. */
uint64_t collect_self_of_host(const struct collect_host *h, const struct collect_self_counter *n);
uint64_t collect_self_sum(const struct collect_self *s, const struct collect_self_counter *n);

bool collect_self_labels(struct collect_self *s, struct export_series *out,
			 const struct region_text_label *labels, uint32_t n);
bool collect_self_label(struct collect_self *s, struct export_series *out, const char *key,
			const char *value);
bool collect_self_u64(struct export_series *out, uint64_t v);
bool collect_self_f64(struct export_series *out, double v);
bool collect_self_single(struct collect_self *s, struct export_series *out, uint64_t v);

/* collector.c: the region of s->at, with its labels and instance_id, or NULL. */
const struct collect_region *collect_self_region(struct collect_self *s, struct export_series *out);

void collect_self_live_begin(struct collect_self *s);
/* False: out of memory. */
bool collect_self_net_begin(struct collect_self *s);
void collect_self_net_end(struct collect_self *s);

#endif
