/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.h - how a family of the collector's own series is made, shared by the files that have some.
 * A series function fills *out for s->at (0, 1, ...) and returns false after the last one.
 */
#ifndef SL_COLLECT_SELF_SELF_H
#define SL_COLLECT_SELF_SELF_H

#include "collect/collector_internal.h"
#include "collect/self/families.h"
#include "collect/trace/trace.h"

#define BUCKETS_SHOWN 24u /* of READ latency: one an octave, 1 us to 8 s */

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
	char exemplar[33];	       /* its trace, in hex */
	struct act_workload *workload; /* self_live.c's */
	size_t workloads;
	struct json_t *dta;	      /* self_dta.c's */
	struct collect_self_net *net; /* self_net.c's */
};

bool collect_self_labels(struct collect_self *s, struct export_series *out,
			 const struct region_text_label *labels, uint32_t n);
bool collect_self_label(struct collect_self *s, struct export_series *out, const char *key,
			const char *value);
bool collect_self_u64(struct export_series *out, uint64_t v);
bool collect_self_f64(struct export_series *out, double v);
/* A family without labels has one series. */
bool collect_self_single(struct collect_self *s, struct export_series *out, uint64_t v);

/* ---- self_collector.c: workers, hosts, regions ---- */

/* The region of s->at, with its labels and instance_id, or NULL. */
const struct collect_region *collect_self_region(struct collect_self *s, struct export_series *out);
bool collect_self_build_info(struct collect_self *s, struct export_series *out);
bool collect_self_busy(struct collect_self *s, struct export_series *out);
bool collect_self_conflicts(struct collect_self *s, struct export_series *out);
bool collect_self_expired(struct collect_self *s, struct export_series *out);
bool collect_self_faults(struct collect_self *s, struct export_series *out);
bool collect_self_history_dropped(struct collect_self *s, struct export_series *out);
bool collect_self_history_points(struct collect_self *s, struct export_series *out);
bool collect_self_host_connects(struct collect_self *s, struct export_series *out);
bool collect_self_host_disconnects(struct collect_self *s, struct export_series *out);
bool collect_self_host_last_read(struct collect_self *s, struct export_series *out);
bool collect_self_host_rounds(struct collect_self *s, struct export_series *out);
bool collect_self_host_skipped(struct collect_self *s, struct export_series *out);
bool collect_self_host_up(struct collect_self *s, struct export_series *out);
bool collect_self_latency(struct collect_self *s, struct export_series *out);
bool collect_self_lines(struct collect_self *s, struct export_series *out);
bool collect_self_memory(struct collect_self *s, struct export_series *out);
bool collect_self_missed(struct collect_self *s, struct export_series *out);
bool collect_self_read_bytes(struct collect_self *s, struct export_series *out);
bool collect_self_read_errors(struct collect_self *s, struct export_series *out);
bool collect_self_reads(struct collect_self *s, struct export_series *out);
bool collect_self_refused(struct collect_self *s, struct export_series *out);
bool collect_self_region_refused(struct collect_self *s, struct export_series *out);
bool collect_self_region_sharing(struct collect_self *s, struct export_series *out);
bool collect_self_region_state(struct collect_self *s, struct export_series *out);
bool collect_self_region_unsettled(struct collect_self *s, struct export_series *out);
bool collect_self_region_up(struct collect_self *s, struct export_series *out);
bool collect_self_regions(struct collect_self *s, struct export_series *out);
bool collect_self_rounds(struct collect_self *s, struct export_series *out);
bool collect_self_samples(struct collect_self *s, struct export_series *out);
bool collect_self_series(struct collect_self *s, struct export_series *out);
bool collect_self_stale_hosts(struct collect_self *s, struct export_series *out);
bool collect_self_unsettled(struct collect_self *s, struct export_series *out);

/* ---- self_live.c ---- */

/* False for a family of what was not asked for. */
bool collect_self_live_there(const struct collect_collector *c, const char *family);

bool collect_self_analysis_busy(struct collect_self *s, struct export_series *out);
bool collect_self_analysis_lost(struct collect_self *s, struct export_series *out);
bool collect_self_analysis_pods(struct collect_self *s, struct export_series *out);
bool collect_self_analysis_rows(struct collect_self *s, struct export_series *out);
bool collect_self_analysis_told(struct collect_self *s, struct export_series *out);
bool collect_self_anomalies(struct collect_self *s, struct export_series *out);
bool collect_self_anomalous(struct collect_self *s, struct export_series *out);
bool collect_self_budget_used(struct collect_self *s, struct export_series *out);
bool collect_self_drift(struct collect_self *s, struct export_series *out);
bool collect_self_score(struct collect_self *s, struct export_series *out);
bool collect_self_shadow_alarms(struct collect_self *s, struct export_series *out);
bool collect_self_push_dropped(struct collect_self *s, struct export_series *out);
bool collect_self_push_errors(struct collect_self *s, struct export_series *out);
bool collect_self_push_sent(struct collect_self *s, struct export_series *out);
bool collect_self_push_waiting(struct collect_self *s, struct export_series *out);
bool collect_self_sampling_left_out(struct collect_self *s, struct export_series *out);
bool collect_self_sampling_lost(struct collect_self *s, struct export_series *out);
bool collect_self_sampling_samples(struct collect_self *s, struct export_series *out);
bool collect_self_scaling_anomalous(struct collect_self *s, struct export_series *out);
bool collect_self_scaling_pressure(struct collect_self *s, struct export_series *out);
void collect_self_live_end(struct collect_self *s);

/* ---- self_dta.c: only of a collector that owns stores ---- */

bool collect_self_dta_bytes(struct collect_self *s, struct export_series *out);
bool collect_self_dta_huge_bytes(struct collect_self *s, struct export_series *out);
bool collect_self_dta_epoch(struct collect_self *s, struct export_series *out);
bool collect_self_dta_found(struct collect_self *s, struct export_series *out);
bool collect_self_dta_found_predicted(struct collect_self *s, struct export_series *out);
bool collect_self_dta_late(struct collect_self *s, struct export_series *out);
bool collect_self_dta_load(struct collect_self *s, struct export_series *out);
bool collect_self_dta_reloads(struct collect_self *s, struct export_series *out);
bool collect_self_dta_reports(struct collect_self *s, struct export_series *out);
bool collect_self_dta_rotations(struct collect_self *s, struct export_series *out);
bool collect_self_dta_translators(struct collect_self *s, struct export_series *out);
bool collect_self_dta_units(struct collect_self *s, struct export_series *out);
void collect_self_dta_end(struct collect_self *s);

/* ---- self_tcp.c ---- */

bool collect_self_kernel_lost(struct collect_self *s, struct export_series *out);
bool collect_self_tcp_lost(struct collect_self *s, struct export_series *out);
bool collect_self_tcp_missed(struct collect_self *s, struct export_series *out);
bool collect_self_tcp_passes(struct collect_self *s, struct export_series *out);
bool collect_self_tcp_refused(struct collect_self *s, struct export_series *out);

/* ---- self_net.c: only if two hosts have told of segments between them ---- */

bool collect_self_net_there(const struct collect_self *s);
/* False: out of memory. */
bool collect_self_net_begin(struct collect_self *s);
void collect_self_net_end(struct collect_self *s);
bool collect_self_net_clock_bound(struct collect_self *s, struct export_series *out);
bool collect_self_net_latency(struct collect_self *s, struct export_series *out);
bool collect_self_net_missed(struct collect_self *s, struct export_series *out);
bool collect_self_net_negative(struct collect_self *s, struct export_series *out);
bool collect_self_net_refused(struct collect_self *s, struct export_series *out);
bool collect_self_net_round_trip(struct collect_self *s, struct export_series *out);
bool collect_self_net_segments(struct collect_self *s, struct export_series *out);
bool collect_self_net_unmatched(struct collect_self *s, struct export_series *out);

/* ---- self_trace.c ---- */

bool collect_self_trace_export(struct collect_self *s, struct export_series *out);
bool collect_self_trace_export_known(struct collect_self *s, struct export_series *out);
bool collect_self_trace_export_retries(struct collect_self *s, struct export_series *out);
bool collect_self_trace_kept(struct collect_self *s, struct export_series *out);
bool collect_self_trace_lost(struct collect_self *s, struct export_series *out);
bool collect_self_trace_over_budget(struct collect_self *s, struct export_series *out);
bool collect_self_trace_published(struct collect_self *s, struct export_series *out);
bool collect_self_trace_spans(struct collect_self *s, struct export_series *out);
bool collect_self_trace_read(struct collect_self *s, struct export_series *out);
bool collect_self_trace_spans_read(struct collect_self *s, struct export_series *out);
bool collect_self_trace_roots(struct collect_self *s, struct export_series *out);

#endif
