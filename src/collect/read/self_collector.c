// SPDX-License-Identifier: Apache-2.0
/* self_collector.c - the collector's own series about workers, hosts and regions */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "collect/read/calc.h"
#include "collect/read/host.h"
#include "collect/read/index.h"
#include "collect/read/link.h"
#include "collect/read/self.h"
#include "collect/read/worker.h"

static bool list_faults(struct collect_self *s, struct export_series *out)
{
	enum region_fault fault = (enum region_fault)s->at + 1;
	struct collect_self_counter sum = OF_WORKERS(NULL, faults[0]);

	if (fault >= REGION_FAULT_COUNT)
		return false;
	sum.offset += fault * sizeof(uint64_t);
	return collect_self_label(s, out, "cause", region_fault_name(fault)) &&
	       collect_self_u64(out, collect_self_sum(s, NULL, &sum));
}

static bool build_info(struct collect_self *s, struct export_series *out)
{
	return s->at == 0 && collect_self_label(s, out, "version", SL_VERSION_STRING) &&
	       collect_self_u64(out, 1);
}

/* ---- workers ---- */

static const void *worker_at(struct collect_self *s, struct export_series *out)
{
	const struct collect_worker *w;
	char number[16];

	if (s->at >= s->c->workers)
		return NULL;
	w = &s->c->worker[s->at];
	snprintf(number, sizeof(number), "%u", w->number);
	return collect_self_label(s, out, "worker", number) ? w : NULL;
}

#define OF_WORKER(field) EACH(worker_at, OF(NULL, FOUND, collect_worker, field))

SERIES(realtime, struct collect_worker, w, worker_at(s, out),
       collect_self_u64(out, relaxed_load(w->realtime.allowed) || relaxed_load(w->realtime.on)))

static bool fill_latency(struct collect_self *s, struct export_series *out)
{
	const struct collect_worker *w = worker_at(s, out);

	if (!w)
		return false;
	memset(s->bucket, 0, sizeof(s->bucket));
	for (unsigned int i = 0; i < COLLECT_LATENCY_BUCKETS; i++) {
		/* Buckets 4k-3 .. 4k end at bound k. */
		unsigned int k = (i + 3) / 4;

		s->bucket[k < BUCKETS_SHOWN ? k : BUCKETS_SHOWN] += relaxed_load(w->latency[i]);
	}
	for (unsigned int k = 0; k < BUCKETS_SHOWN; k++)
		s->bound[k] = collect_bucket_bound(4 * k);
	out->value_type = EXPORT_VALUE_U64;
	out->sum = (double)relaxed_load(w->latency_sum_ns) * 1e-9;
	out->exponential = false;
	out->buckets = s->bucket;
	out->bucket_count = BUCKETS_SHOWN + 1;
	out->bounds = s->bound;
	out->bound_count = BUCKETS_SHOWN;
	return true;
}

/* ---- hosts ---- */

static const void *host_at(struct collect_self *s, struct export_series *out)
{
	const struct collect_host *h;

	while (s->at < s->c->hosts && !relaxed_load(s->c->host[s->at].wanted))
		s->at++; /* other collectors read this host */
	if (s->at >= s->c->hosts)
		return NULL;
	h = &s->c->host[s->at];
	return SELF_LABELS(s, out, {"host", collect_host_name(h)},
			   {"target", collect_host_target(h)}, {"fabric", relaxed_load(h->fabric)})
		       ? h
		       : NULL;
}

SERIES(host_up, struct collect_host, h, host_at(s, out),
       collect_self_u64(out, collect_host_condition(h, s->now_ns) == COLLECT_HOST_UP))

/* ---- regions ---- */

/* Adds instance_id to the region's labels, to distinguish two regions of one process. */
const void *collect_self_region(struct collect_self *s, struct export_series *out)
{
	struct region_text_label labels[COLLECT_REGION_LABELS + 1];
	const struct collect_region *r;
	char instance[20];
	uint32_t n = 0;

	if (!s->x || s->at >= s->x->regions)
		return NULL;
	r = s->x->region[s->at];
	for (; n < r->labels->count; n++)
		labels[n] = (struct region_text_label){r->labels->keys[n], r->labels->values[n]};
	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)r->instance);
	labels[n++] = (struct region_text_label){"instance_id", instance};
	return collect_self_labels(s, out, labels, n) ? r : NULL;
}

#define OF_REGION(field) EACH(collect_self_region, OF(NULL, FOUND, collect_region, field))

static const char *const region_states[] = {"live", "dead", "closed", "stale", "dropped"};

static uint64_t state_bits(const struct collect_region *r, uint64_t now_ns)
{
	uint32_t state = relaxed_load(r->state);
	uint64_t bits = state >= SL_STATE_LIVE && state <= SL_STATE_CLOSED ? 1u << (state - 1) : 0;

	if (relaxed_load(r->step) == STEP_DROPPED)
		return 1u << 4;
	return collect_region_visible(r, now_ns) ? bits : bits | 1u << 3;
}

static bool fill_states(struct export_series *out, uint64_t bits)
{
	out->states = region_states;
	out->state_count = sizeof(region_states) / sizeof(region_states[0]);
	return collect_self_u64(out, bits);
}

SERIES(region_up, struct collect_region, r, collect_self_region(s, out),
       collect_self_u64(out, state_bits(r, s->now_ns) == 1))
SERIES(region_state, struct collect_region, r, collect_self_region(s, out),
       fill_states(out, state_bits(r, s->now_ns)))

/* ---- the families ---- */

static const struct collect_self_family collector_families[] = {
	{"sidelight_build", INFO, "", "Version of this collector.", .series = build_info},
	{"sidelight_collector_busy_seconds", COUNTER, "seconds",
	 "Time that a worker spent reading and decoding, without waiting.", OF_WORKER(busy_ns)},
	{"sidelight_collector_conflicts", GAUGE, "",
	 "Series left out of the exposition because they conflict with earlier ones, by cause.",
	 BY_LABEL("cause", OF_COLLECTOR("kind", conflicts_kind),
		  OF_COLLECTOR("name", conflicts_name),
		  OF_COLLECTOR("duplicate", conflicts_duplicate),
		  OF_COLLECTOR("buckets", conflicts_sum))},
	{"sidelight_collector_expired_regions", COUNTER, "", "Regions whose final values expired.",
	 SINGLE(OF_WALK(NULL, totals.expired))},
	{"sidelight_collector_history_dropped_chunks", COUNTER, "",
	 "Chunks of history dropped because the memory was full, or they were too large or old.",
	 BY_LABEL("cause", OF_WORKERS("full", ring.dropped_chunks),
		  OF_WORKERS("large", ring.large_chunks), OF_WORKERS("old", ring.expired_chunks))},
	{"sidelight_collector_history_points", GAUGE, "", "Points in packed history.",
	 SINGLE(OF_WALK(NULL, totals.history_points))},
	{"sidelight_collector_late_passes", COUNTER, "",
	 "Reads of a region discarded because its layout may have changed in the meantime.",
	 SINGLE(OF_WORKERS(NULL, late_passes))},
	{"sidelight_collector_left_out_exemplars", COUNTER, "",
	 "Exemplars left out of OpenMetrics and remote write, by cause.",
	 BY_LABEL("cause", OF_COLLECTOR("long", exemplars_long),
		  OF_COLLECTOR("malformed", exemplars_malformed),
		  OF_COLLECTOR("memory", exemplars_memory))},
	{"sidelight_collector_left_out_families", COUNTER, "",
	 "Families left out of all expositions because another family has the same name.",
	 SINGLE(OF_COLLECTOR(NULL, left_out_families))},
	{"sidelight_collector_left_out_series", GAUGE, "",
	 "Series left out of this exposition because of --max-exposed-series.",
	 SINGLE(OF_WALK(NULL, left_out_series))},
	{"sidelight_collector_lines", COUNTER, "", "Lines read.", OF_WORKER(lines)},
	{"sidelight_collector_memory_bytes", GAUGE, "bytes",
	 "Memory held for regions and for history.",
	 BY_LABEL("part", OF_WALK("state", totals.memory_bytes),
		  OF_WALK("history", totals.history_bytes))},
	{"sidelight_collector_missed_deadlines", COUNTER, "",
	 "Deadlines that a worker missed because it was still busy or not running.",
	 OF_WORKER(missed)},
	{"sidelight_collector_realtime", GAUGE, "",
	 "Whether a worker has real-time priority, for a third of a CPU at most.",
	 .series = realtime},
	{"sidelight_collector_realtime_used_up", COUNTER, "",
	 "Times that a worker used up its share of real-time priority before 100 ms had passed.",
	 OF_WORKER(realtime.used_up)},
	{"sidelight_collector_read_bytes", COUNTER, "bytes", "Bytes read.", OF_WORKER(bytes)},
	{"sidelight_collector_read_errors", COUNTER, "", "Failed READs, by cause.",
	 BY_LABEL("cause", OF_FABRIC("timeout", errors_timeout), OF_FABRIC("access", errors_access),
		  OF_FABRIC("other", errors_other), OF_FABRIC("wrong_id", wrong_id),
		  OF_WORKERS("wrong_instance", wrong_instance), OF_WORKERS("map", map_errors))},
	{"sidelight_collector_read_latency_seconds", HISTOGRAM, "seconds",
	 "Time from posting a READ to polling its completion.", .series = fill_latency},
	{"sidelight_collector_reads", COUNTER, "", "READs completed.", OF_WORKER(reads)},
	{"sidelight_collector_refused", COUNTER, "", "Items refused, by the limit reached.",
	 BY_LABEL("cause", OF_COLLECTOR("max_regions", refused_regions),
		  OF_COLLECTOR("max_series", refused_series),
		  OF_COLLECTOR("history", refused_history),
		  OF_COLLECTOR("bucket_history", refused_buckets),
		  OF_COLLECTOR("retired_sums", retired_lost),
		  OF_LINKS("duplicate_instance", duplicates), OF_WORKERS("tap_rows", rows_lost))},
	{"sidelight_collector_region_faults", COUNTER, "",
	 "Regions and directories rejected as invalid, by cause.", .series = list_faults},
	{"sidelight_collector_regions", GAUGE, "", "Regions known, by state.",
	 BY_LABEL("state", OF_WALK("live", totals.live), OF_WALK("dead", totals.dead),
		  OF_WALK("closed", totals.closed), OF_WALK("dropped", totals.dropped))},
	{"sidelight_collector_rounds", COUNTER, "", "Rounds started.", OF_WORKER(rounds)},
	{"sidelight_collector_samples", COUNTER, "", "Values decoded.", OF_WORKER(samples)},
	{"sidelight_collector_series", GAUGE, "", "Series in the exposition.",
	 SINGLE(OF_WALK(NULL, totals.series))},
	{"sidelight_collector_stale_hosts", GAUGE, "", "Hosts not read for longer than --stale.",
	 SINGLE(OF_WALK(NULL, totals.hosts_stale))},
	{"sidelight_collector_unsettled_lines", COUNTER, "",
	 "Lines whose check word did not match after several READs in one round; their last good "
	 "values are kept.",
	 OF_WORKER(unsettled)},
	{"sidelight_host_connects", COUNTER, "", "Connections made to a host.",
	 EACH(host_at, OF_FABRIC(NULL, connects))},
	{"sidelight_host_disconnects", COUNTER, "", "Connections lost to a host.",
	 EACH(host_at, OF_FABRIC(NULL, disconnects))},
	{"sidelight_host_last_read_timestamp_seconds", GAUGE, "seconds",
	 "When the directory of a host was last read.",
	 EACH(host_at, OF(NULL, FOUND, collect_host, last_read_ns))},
	{"sidelight_host_rounds", COUNTER, "", "Rounds completed on a host.",
	 EACH(host_at, OF_LINKS(NULL, rounds))},
	{"sidelight_host_skipped_rounds", COUNTER, "",
	 "Rounds that a host missed because its READs were still in flight.",
	 EACH(host_at, OF_LINKS(NULL, skipped))},
	{"sidelight_host_up", GAUGE, "", "1 if a host is read, 0 if it is not.", .series = host_up},
};

static COLLECT_SELF_GROUP(collector, NULL);

/* Exposed only on demand, because these series exist for every region. */
static const struct collect_self_family regions_families[] = {
	{"sidelight_region_exemplars_dropped", GAUGE, "",
	 "Exemplars that the publisher's library dropped because they were malformed or no "
	 "element was free.",
	 OF_REGION(exemplars_dropped)},
	{"sidelight_region_metrics_refused", GAUGE, "",
	 "Metrics that the publisher's library refused, for example because the region was full, "
	 "the name invalid or the kind conflicting.",
	 OF_REGION(refused)},
	{"sidelight_region_state", STATESET, "", "State of a region.", .series = region_state},
	{"sidelight_region_threads_sharing", GAUGE, "",
	 "Threads of a publisher without a stripe of their own.", OF_REGION(sharing)},
	{"sidelight_region_unsettled_lines", COUNTER, "",
	 "Lines of a region that could not be "
	 "read consistently.",
	 OF_REGION(unsettled)},
	{"sidelight_region_up", GAUGE, "",
	 "1 if a region's publisher is alive and its region is read, 0 if it is dead, closed, "
	 "stale or dropped.",
	 .series = region_up},
};

static bool region_series(const struct collect_self *s)
{
	return s->c->opts.region_series;
}

static COLLECT_SELF_GROUP(regions, region_series);

const struct collect_part collect_self_own_part = {
	.groups = (const struct collect_self_group *const[]){&collect_self_collector,
							     &collect_self_regions,
							     &collect_self_tenant, NULL},
};
