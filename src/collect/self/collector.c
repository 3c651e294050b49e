// SPDX-License-Identifier: Apache-2.0
/*
 * self_collector.c - what the collector says of its workers, its hosts and the regions that it reads.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "collect/self/self.h"

/* ---- sums --------------------------------------------------------------------------------------------- */

/*
 * Where a counter lies. Of workers and links it is the sum over all of them. Counters of the fabric are
 * their link's, and changed under its lock.
 */
enum owner { COLLECTOR, TOTALS, WORKERS, LINKS, FABRIC };

struct counter {
	const char *label;
	enum owner owner;
	size_t offset;
};

/* The offset of a counter, which has to be one: a uint64_t. */
#define OFFSET(type, field) \
	(offsetof(type, field) + 0 * sizeof(char[_Generic(((type *)0)->field, uint64_t : 1)]))
#define OF_COLLECTOR(label, field)                                   \
	{                                                            \
		label, COLLECTOR, OFFSET(struct sl_collector, field) \
	}
#define OF_TOTALS(label, field)                                          \
	{                                                                \
		label, TOTALS, OFFSET(struct sl_collector_totals, field) \
	}
#define OF_WORKERS(label, field)                             \
	{                                                    \
		label, WORKERS, OFFSET(struct worker, field) \
	}
#define OF_LINKS(label, field)                           \
	{                                                \
		label, LINKS, OFFSET(struct link, field) \
	}
#define OF_FABRIC(label, field)                                      \
	{                                                            \
		label, FABRIC, OFFSET(struct sl_fabric_stats, field) \
	}

static uint64_t at(const void *base, size_t offset)
{
	return __atomic_load_n((const uint64_t *)((const char *)base + offset), __ATOMIC_RELAXED);
}

static uint64_t of_host(const struct host *h, const struct counter *n)
{
	uint64_t sum = 0;

	for (unsigned int k = 0; k < h->links; k++) {
		struct link *l = h->link[k];

		if (n->owner == LINKS) {
			sum += at(l, n->offset);
			continue;
		}
		pthread_mutex_lock(&l->stats_lock);
		sum += at(&l->stats, n->offset);
		pthread_mutex_unlock(&l->stats_lock);
	}
	return sum;
}

static uint64_t of_all(const struct self *s, const struct counter *n)
{
	uint64_t sum = 0;

	switch (n->owner) {
	case COLLECTOR:
		return at(s->c, n->offset);
	case TOTALS:
		return at(&s->totals, n->offset);
	case WORKERS:
		for (unsigned int i = 0; i < s->c->workers; i++)
			sum += at(&s->c->worker[i], n->offset);
		return sum;
	case LINKS:
	case FABRIC:
		break;
	}
	for (size_t i = 0; i < s->c->hosts; i++)
		sum += of_host(&s->c->host[i], n);
	return sum;
}

static bool by_label(struct self *s, struct sl_series *out, const char *key,
		     const struct counter *counters, size_t n)
{
	return s->at < n && self_label(s, out, key, counters[s->at].label) &&
	       self_u64(out, of_all(s, &counters[s->at]));
}

/* A family with a series for each of the counters. */
#define BY_LABEL(name, key, ...)                                                              \
	bool name(struct self *s, struct sl_series *out)                                      \
	{                                                                                     \
		static const struct counter counters[] = {__VA_ARGS__};                       \
		return by_label(s, out, key, counters, sizeof(counters) / sizeof(*counters)); \
	}

BY_LABEL(self_read_errors, "cause", OF_FABRIC("timeout", errors_timeout),
	 OF_FABRIC("access", errors_access), OF_FABRIC("other", errors_other),
	 OF_FABRIC("wrong_id", wrong_id), OF_WORKERS("wrong_instance", wrong_instance),
	 OF_WORKERS("map", map_errors))
BY_LABEL(self_conflicts, "cause", OF_COLLECTOR("kind", conflicts_kind),
	 OF_COLLECTOR("name", conflicts_name), OF_COLLECTOR("duplicate", conflicts_duplicate),
	 OF_COLLECTOR("buckets", conflicts_sum))
BY_LABEL(self_refused, "cause", OF_COLLECTOR("max_regions", refused_regions),
	 OF_COLLECTOR("max_series", refused_series), OF_COLLECTOR("history", refused_history),
	 OF_COLLECTOR("retired_sums", retired_lost), OF_LINKS("duplicate_instance", duplicates),
	 OF_WORKERS("tap_rows", rows_lost))
BY_LABEL(self_regions, "state", OF_TOTALS("live", live), OF_TOTALS("dead", dead),
	 OF_TOTALS("closed", closed), OF_TOTALS("dropped", dropped))
BY_LABEL(self_memory, "part", OF_TOTALS("state", memory_bytes), OF_TOTALS("history", history_bytes))
BY_LABEL(self_history_dropped, "cause", OF_WORKERS("full", ring.dropped_chunks),
	 OF_WORKERS("old", ring.expired_chunks))

bool self_faults(struct self *s, struct sl_series *out)
{
	enum sl_fault fault = (enum sl_fault)s->at + 1;
	struct counter sum = OF_WORKERS(NULL, faults[0]);

	if (fault >= SL_FAULT_COUNT)
		return false;
	sum.offset += fault * sizeof(uint64_t);
	return self_label(s, out, "cause", sl_fault_name(fault)) && self_u64(out, of_all(s, &sum));
}

bool self_series(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->totals.series);
}

bool self_expired(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->totals.expired);
}

bool self_history_points(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->totals.history_points);
}

bool self_stale_hosts(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->totals.hosts_stale);
}

bool self_build_info(struct self *s, struct sl_series *out)
{
	return s->at == 0 && self_label(s, out, "version", SL_VERSION_STRING) && self_u64(out, 1);
}

/* ---- workers ------------------------------------------------------------------------------------------ */

static const struct worker *worker_at(struct self *s, struct sl_series *out)
{
	const struct worker *w;
	char number[16];

	if (s->at >= s->c->workers)
		return NULL;
	w = &s->c->worker[s->at];
	snprintf(number, sizeof(number), "%u", w->number);
	return self_label(s, out, "worker", number) ? w : NULL;
}

#define OF_WORKER(name, expression)                         \
	bool name(struct self *s, struct sl_series *out)    \
	{                                                   \
		const struct worker *w = worker_at(s, out); \
		return w && (expression);                   \
	}

OF_WORKER(self_rounds, self_u64(out, GET(w->rounds)))
OF_WORKER(self_missed, self_u64(out, GET(w->missed)))
OF_WORKER(self_reads, self_u64(out, GET(w->reads)))
OF_WORKER(self_read_bytes, self_u64(out, GET(w->bytes)))
OF_WORKER(self_lines, self_u64(out, GET(w->lines)))
OF_WORKER(self_unsettled, self_u64(out, GET(w->unsettled)))
OF_WORKER(self_samples, self_u64(out, GET(w->samples)))
OF_WORKER(self_busy, self_f64(out, (double)GET(w->busy_ns) * 1e-9))

bool self_latency(struct self *s, struct sl_series *out)
{
	const struct worker *w = worker_at(s, out);

	if (!w)
		return false;
	memset(s->bucket, 0, sizeof(s->bucket));
	for (unsigned int i = 0; i < SL_LATENCY_BUCKETS; i++) {
		/* Buckets 4k-3 .. 4k end at bound k. */
		unsigned int k = (i + 3) / 4;

		s->bucket[k < BUCKETS_SHOWN ? k : BUCKETS_SHOWN] += GET(w->latency[i]);
	}
	for (unsigned int k = 0; k < BUCKETS_SHOWN; k++)
		s->bound[k] = latency_bound(4 * k);
	out->value_type = SL_VALUE_U64;
	out->sum = (double)GET(w->latency_sum_ns) * 1e-9;
	out->exponential = false;
	out->buckets = s->bucket;
	out->bucket_count = BUCKETS_SHOWN + 1;
	out->bounds = s->bound;
	out->bound_count = BUCKETS_SHOWN;
	return true;
}

/* ---- hosts -------------------------------------------------------------------------------------------- */

static const struct host *host_at(struct self *s, struct sl_series *out)
{
	struct sl_text_label labels[3];
	const struct host *h;

	if (s->at >= s->c->hosts)
		return NULL;
	h = &s->c->host[s->at];
	labels[0] = (struct sl_text_label){"host", host_name(h)};
	labels[1] = (struct sl_text_label){"target", h->target};
	labels[2] = (struct sl_text_label){"fabric", h->fabric};
	return self_labels(s, out, labels, 3) ? h : NULL;
}

#define OF_HOST(name, expression)                        \
	bool name(struct self *s, struct sl_series *out) \
	{                                                \
		const struct host *h = host_at(s, out);  \
		return h && (expression);                \
	}
#define OF_HOSTS_LINKS(name, ...) \
	OF_HOST(name, self_u64(out, of_host(h, &(const struct counter)__VA_ARGS__)))

OF_HOST(self_host_up, self_u64(out, host_condition(h, s->now_ns) == SL_HOST_UP))
OF_HOST(self_host_last_read, self_f64(out, (double)GET(h->last_read_ns) * 1e-9))
OF_HOSTS_LINKS(self_host_rounds, OF_LINKS(NULL, rounds))
OF_HOSTS_LINKS(self_host_skipped, OF_LINKS(NULL, skipped))
OF_HOSTS_LINKS(self_host_connects, OF_FABRIC(NULL, connects))
OF_HOSTS_LINKS(self_host_disconnects, OF_FABRIC(NULL, disconnects))

/* ---- regions -------------------------------------------------------------------------------------------------- */

/* Two regions of one process are told apart by their instance only. */
const struct region *self_region(struct self *s, struct sl_series *out)
{
	struct sl_text_label labels[SL_LABELS_MAX + 3];
	const struct region *r;
	char instance[20];
	uint32_t n = 0;

	if (!s->x || s->at >= s->x->regions)
		return NULL;
	r = s->x->region[s->at];
	for (; n < r->labels->count; n++)
		labels[n] = (struct sl_text_label){r->labels->keys[n], r->labels->values[n]};
	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)r->instance);
	labels[n++] = (struct sl_text_label){"instance_id", instance};
	return self_labels(s, out, labels, n) ? r : NULL;
}

#define OF_REGION(name, expression)                           \
	bool name(struct self *s, struct sl_series *out)      \
	{                                                     \
		const struct region *r = self_region(s, out); \
		return r && (expression);                     \
	}

static const char *const region_states[] = {"live", "dead", "closed", "stale", "dropped"};

static uint64_t state_bits(const struct region *r, uint64_t now_ns)
{
	uint32_t state = GET(r->state);
	uint64_t bits = state >= SL_STATE_LIVE && state <= SL_STATE_CLOSED ? 1u << (state - 1) : 0;

	if (GET(r->step) == STEP_DROPPED)
		return 1u << 4;
	return region_visible(r, now_ns) ? bits : bits | 1u << 3;
}

static bool stateset(struct sl_series *out, uint64_t bits)
{
	out->states = region_states;
	out->state_count = sizeof(region_states) / sizeof(region_states[0]);
	return self_u64(out, bits);
}

OF_REGION(self_region_up, self_u64(out, state_bits(r, s->now_ns) == 1))
OF_REGION(self_region_state, stateset(out, state_bits(r, s->now_ns)))
OF_REGION(self_region_unsettled, self_u64(out, GET(r->unsettled)))
OF_REGION(self_region_refused, self_u64(out, GET(r->refused)))
OF_REGION(self_region_sharing, self_u64(out, GET(r->sharing)))
