/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.h - how a family of the collector's own series is made, shared by the files that have some.
 * A series function fills *out for s->at (0, 1, ...) and returns false after the last one.
 */
#ifndef SL_COLLECT_SELF_SELF_H
#define SL_COLLECT_SELF_SELF_H

#include "collect/link/link.h"
#include "collect/trace/trace.h"

#define BUCKETS_SHOWN 24u /* of READ latency: one an octave, 1 us to 8 s */

struct self {
	struct sl_collector *c;
	const struct index *x;
	struct sl_collector_totals totals;
	struct sl_tracer_stats trace; /* if there is a tracer */
	uint64_t now_ns;
	size_t family, at;
	struct sl_label_set *labels; /* of the last series */
	uint64_t bucket[BUCKETS_SHOWN + 1];
	double bound[BUCKETS_SHOWN];
	char exemplar[33]; /* its trace, in hex */
	struct sl_workload *workload; /* self_live.c's */
	size_t workloads;
	struct json_t *dta; /* self_dta.c's */
	struct self_net *net; /* self_net.c's */
};

bool self_labels(struct self *s, struct sl_series *out, const struct sl_text_label *labels,
		 uint32_t n);
bool self_label(struct self *s, struct sl_series *out, const char *key, const char *value);
bool self_u64(struct sl_series *out, uint64_t v);
bool self_f64(struct sl_series *out, double v);
/* A family without labels has one series. */
bool self_single(struct self *s, struct sl_series *out, uint64_t v);

/* ---- self_collector.c: workers, hosts, regions -------------------------------------------------- */

/* The region of s->at, with its labels and instance_id, or NULL. */
const struct region *self_region(struct self *s, struct sl_series *out);
bool self_build_info(struct self *s, struct sl_series *out);
bool self_busy(struct self *s, struct sl_series *out);
bool self_conflicts(struct self *s, struct sl_series *out);
bool self_expired(struct self *s, struct sl_series *out);
bool self_faults(struct self *s, struct sl_series *out);
bool self_history_dropped(struct self *s, struct sl_series *out);
bool self_history_points(struct self *s, struct sl_series *out);
bool self_host_connects(struct self *s, struct sl_series *out);
bool self_host_disconnects(struct self *s, struct sl_series *out);
bool self_host_last_read(struct self *s, struct sl_series *out);
bool self_host_rounds(struct self *s, struct sl_series *out);
bool self_host_skipped(struct self *s, struct sl_series *out);
bool self_host_up(struct self *s, struct sl_series *out);
bool self_latency(struct self *s, struct sl_series *out);
bool self_lines(struct self *s, struct sl_series *out);
bool self_memory(struct self *s, struct sl_series *out);
bool self_missed(struct self *s, struct sl_series *out);
bool self_read_bytes(struct self *s, struct sl_series *out);
bool self_read_errors(struct self *s, struct sl_series *out);
bool self_reads(struct self *s, struct sl_series *out);
bool self_refused(struct self *s, struct sl_series *out);
bool self_region_refused(struct self *s, struct sl_series *out);
bool self_region_sharing(struct self *s, struct sl_series *out);
bool self_region_state(struct self *s, struct sl_series *out);
bool self_region_unsettled(struct self *s, struct sl_series *out);
bool self_region_up(struct self *s, struct sl_series *out);
bool self_regions(struct self *s, struct sl_series *out);
bool self_rounds(struct self *s, struct sl_series *out);
bool self_samples(struct self *s, struct sl_series *out);
bool self_series(struct self *s, struct sl_series *out);
bool self_stale_hosts(struct self *s, struct sl_series *out);
bool self_unsettled(struct self *s, struct sl_series *out);

/* ---- self_live.c ------------------------------------------------------------------------------- */

/* False for a family of what was not asked for. */
bool self_live_there(const struct sl_collector *c, const char *family);

bool self_analysis_busy(struct self *s, struct sl_series *out);
bool self_analysis_lost(struct self *s, struct sl_series *out);
bool self_analysis_pods(struct self *s, struct sl_series *out);
bool self_analysis_rows(struct self *s, struct sl_series *out);
bool self_analysis_told(struct self *s, struct sl_series *out);
bool self_anomalies(struct self *s, struct sl_series *out);
bool self_anomalous(struct self *s, struct sl_series *out);
bool self_budget_used(struct self *s, struct sl_series *out);
bool self_drift(struct self *s, struct sl_series *out);
bool self_score(struct self *s, struct sl_series *out);
bool self_shadow_alarms(struct self *s, struct sl_series *out);
bool self_push_dropped(struct self *s, struct sl_series *out);
bool self_push_errors(struct self *s, struct sl_series *out);
bool self_push_sent(struct self *s, struct sl_series *out);
bool self_push_waiting(struct self *s, struct sl_series *out);
bool self_sampling_left_out(struct self *s, struct sl_series *out);
bool self_sampling_lost(struct self *s, struct sl_series *out);
bool self_sampling_samples(struct self *s, struct sl_series *out);
bool self_scaling_anomalous(struct self *s, struct sl_series *out);
bool self_scaling_pressure(struct self *s, struct sl_series *out);
void self_live_end(struct self *s);

/* ---- self_dta.c: only of a collector that owns stores ----------------------------------------- */

bool self_dta_bytes(struct self *s, struct sl_series *out);
bool self_dta_huge_bytes(struct self *s, struct sl_series *out);
bool self_dta_epoch(struct self *s, struct sl_series *out);
bool self_dta_found(struct self *s, struct sl_series *out);
bool self_dta_found_predicted(struct self *s, struct sl_series *out);
bool self_dta_late(struct self *s, struct sl_series *out);
bool self_dta_load(struct self *s, struct sl_series *out);
bool self_dta_reloads(struct self *s, struct sl_series *out);
bool self_dta_reports(struct self *s, struct sl_series *out);
bool self_dta_rotations(struct self *s, struct sl_series *out);
bool self_dta_translators(struct self *s, struct sl_series *out);
bool self_dta_units(struct self *s, struct sl_series *out);
void self_dta_end(struct self *s);

/* ---- self_tcp.c -------------------------------------------------------------------------------- */

bool self_kernel_lost(struct self *s, struct sl_series *out);
bool self_tcp_lost(struct self *s, struct sl_series *out);
bool self_tcp_missed(struct self *s, struct sl_series *out);
bool self_tcp_passes(struct self *s, struct sl_series *out);
bool self_tcp_refused(struct self *s, struct sl_series *out);

/* ---- self_net.c: only if two hosts have told of segments between them ---------------------------- */

bool self_net_there(const struct self *s);
/* False: out of memory. */
bool self_net_begin(struct self *s);
void self_net_end(struct self *s);
bool self_net_clock_bound(struct self *s, struct sl_series *out);
bool self_net_latency(struct self *s, struct sl_series *out);
bool self_net_missed(struct self *s, struct sl_series *out);
bool self_net_negative(struct self *s, struct sl_series *out);
bool self_net_refused(struct self *s, struct sl_series *out);
bool self_net_round_trip(struct self *s, struct sl_series *out);
bool self_net_segments(struct self *s, struct sl_series *out);
bool self_net_unmatched(struct self *s, struct sl_series *out);

/* ---- self_trace.c ------------------------------------------------------------------------------ */

bool self_trace_export(struct self *s, struct sl_series *out);
bool self_trace_export_known(struct self *s, struct sl_series *out);
bool self_trace_export_retries(struct self *s, struct sl_series *out);
bool self_trace_kept(struct self *s, struct sl_series *out);
bool self_trace_lost(struct self *s, struct sl_series *out);
bool self_trace_over_budget(struct self *s, struct sl_series *out);
bool self_trace_published(struct self *s, struct sl_series *out);
bool self_trace_spans(struct self *s, struct sl_series *out);
bool self_trace_read(struct self *s, struct sl_series *out);
bool self_trace_spans_read(struct self *s, struct sl_series *out);
bool self_trace_roots(struct self *s, struct sl_series *out);

#endif
