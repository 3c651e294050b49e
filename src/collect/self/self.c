// SPDX-License-Identifier: Apache-2.0
/*
 * self.c - what the collector says of itself, as families of the same walk. sidelight-collect(1)
 * lists them with what to do about each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/self/self.h"

/* ---- making a series ---- */

bool collect_self_labels(struct collect_self *s, struct export_series *out,
			 const struct region_text_label *labels, uint32_t n)
{
	free(s->labels);
	s->labels = collect_label_set_new(labels, n);
	if (!s->labels)
		return false;
	out->label_text = s->labels->text;
	out->label_bytes = s->labels->text_bytes;
	out->label_keys = s->labels->keys;
	out->label_values = s->labels->values;
	out->label_count = n;
	return true;
}

bool collect_self_label(struct collect_self *s, struct export_series *out, const char *key,
			const char *value)
{
	struct region_text_label label = {key, value};

	return collect_self_labels(s, out, &label, 1);
}

bool collect_self_u64(struct export_series *out, uint64_t v)
{
	out->value_type = EXPORT_VALUE_U64;
	out->value.u64 = v;
	return true;
}

bool collect_self_f64(struct export_series *out, double v)
{
	out->value_type = EXPORT_VALUE_F64;
	out->value.f64 = v;
	return true;
}

bool collect_self_single(struct collect_self *s, struct export_series *out, uint64_t v)
{
	return s->at == 0 && collect_self_labels(s, out, NULL, 0) && collect_self_u64(out, v);
}

/* ---- the table, sorted by name ---- */

static const struct family {
	const char *name;
	enum export_family_type type;
	const char *unit, *help;
	bool (*series)(struct collect_self *s, struct export_series *out);
} table[] = {
	{"sidelight_analysis_busy_seconds", EXPORT_FAMILY_COUNTER, "seconds",
	 "Time that workers spent on analysis, as part of what they are busy.",
	 collect_self_analysis_busy},
	{"sidelight_analysis_lost", EXPORT_FAMILY_COUNTER, "",
	 "What analysis had to leave out, by cause.", collect_self_analysis_lost},
	{"sidelight_analysis_pods", EXPORT_FAMILY_GAUGE, "", "Pods that are analysed, by state.",
	 collect_self_analysis_pods},
	{"sidelight_analysis_rows", EXPORT_FAMILY_COUNTER, "", "Rows of pods that were scored.",
	 collect_self_analysis_rows},
	{"sidelight_analysis_told", EXPORT_FAMILY_COUNTER, "",
	 "Verdicts that were sent back to the hosts of their pods.", collect_self_analysis_told},
	{"sidelight_anomalies", EXPORT_FAMILY_COUNTER, "", "Anomalies of a pod.",
	 collect_self_anomalies},
	{"sidelight_anomalous", EXPORT_FAMILY_GAUGE, "", "1 while a pod is within an anomaly.",
	 collect_self_anomalous},
	{"sidelight_anomaly_budget_used_ratio", EXPORT_FAMILY_GAUGE, "ratio",
	 "Anomalies of the last hour over what --false-alarms allows.", collect_self_budget_used},
	{"sidelight_anomaly_drift", EXPORT_FAMILY_GAUGE, "",
	 "1 while a pod's scores are not what was learned: its model no longer fits.",
	 collect_self_drift},
	{"sidelight_anomaly_score", EXPORT_FAMILY_GAUGE, "",
	 "How unusual a pod is; 1 is the threshold, for all pods.", collect_self_score},
	{"sidelight_anomaly_shadow_alarms", EXPORT_FAMILY_COUNTER, "",
	 "Rows that the detector of --shadow would have called anomalous.",
	 collect_self_shadow_alarms},
	{"sidelight_build", EXPORT_FAMILY_INFO, "", "Version of this collector.",
	 collect_self_build_info},
	{"sidelight_collector_busy_seconds", EXPORT_FAMILY_COUNTER, "seconds",
	 "Time that a worker spent on reading and decoding, waiting left out.", collect_self_busy},
	{"sidelight_collector_conflicts", EXPORT_FAMILY_GAUGE, "",
	 "Series left out of the exposition because they contradict older ones, by cause.",
	 collect_self_conflicts},
	{"sidelight_collector_expired_regions", EXPORT_FAMILY_COUNTER, "",
	 "Regions whose last words have expired.", collect_self_expired},
	{"sidelight_collector_history_dropped_chunks", EXPORT_FAMILY_COUNTER, "",
	 "Chunks of history dropped: the memory was full, or they were older than asked for.",
	 collect_self_history_dropped},
	{"sidelight_collector_history_points", EXPORT_FAMILY_GAUGE, "", "Points in packed history.",
	 collect_self_history_points},
	{"sidelight_collector_lines", EXPORT_FAMILY_COUNTER, "", "Lines read.", collect_self_lines},
	{"sidelight_collector_memory_bytes", EXPORT_FAMILY_GAUGE, "bytes",
	 "Memory held for regions and for history.", collect_self_memory},
	{"sidelight_collector_missed_deadlines", EXPORT_FAMILY_COUNTER, "",
	 "Deadlines that a worker missed because it was not done yet, or not running.",
	 collect_self_missed},
	{"sidelight_collector_read_bytes", EXPORT_FAMILY_COUNTER, "bytes", "Bytes read.",
	 collect_self_read_bytes},
	{"sidelight_collector_read_errors", EXPORT_FAMILY_COUNTER, "", "Failed READs, by cause.",
	 collect_self_read_errors},
	{"sidelight_collector_read_latency_seconds", EXPORT_FAMILY_HISTOGRAM, "seconds",
	 "Time from posting a READ to taking its completion.", collect_self_latency},
	{"sidelight_collector_reads", EXPORT_FAMILY_COUNTER, "", "READs completed.",
	 collect_self_reads},
	{"sidelight_collector_refused", EXPORT_FAMILY_COUNTER, "",
	 "What there was no room for, by the bound that was reached.", collect_self_refused},
	{"sidelight_collector_region_faults", EXPORT_FAMILY_COUNTER, "",
	 "Times that a region or directory was not believed, by cause.", collect_self_faults},
	{"sidelight_collector_regions", EXPORT_FAMILY_GAUGE, "", "Regions known, by state.",
	 collect_self_regions},
	{"sidelight_collector_rounds", EXPORT_FAMILY_COUNTER, "", "Rounds started.",
	 collect_self_rounds},
	{"sidelight_collector_samples", EXPORT_FAMILY_COUNTER, "", "Values decoded.",
	 collect_self_samples},
	{"sidelight_collector_series", EXPORT_FAMILY_GAUGE, "", "Series in the exposition.",
	 collect_self_series},
	{"sidelight_collector_stale_hosts", EXPORT_FAMILY_GAUGE, "",
	 "Hosts that were not read for longer than --stale.", collect_self_stale_hosts},
	{"sidelight_collector_tcp_lost", EXPORT_FAMILY_COUNTER, "",
	 "What could not be had of connections, or not be told apart, by cause.",
	 collect_self_tcp_lost},
	{"sidelight_collector_tcp_missed_deadlines", EXPORT_FAMILY_COUNTER, "",
	 "Passes over a table of connections that were left out, or began too late.",
	 collect_self_tcp_missed},
	{"sidelight_collector_tcp_passes", EXPORT_FAMILY_COUNTER, "",
	 "Times that a table of connections was read.", collect_self_tcp_passes},
	{"sidelight_collector_tcp_slots_refused", EXPORT_FAMILY_GAUGE, "",
	 "Slots in use that are not read, as --tcp-flows are read already.",
	 collect_self_tcp_refused},
	{"sidelight_collector_unsettled_lines", EXPORT_FAMILY_COUNTER, "",
	 "Lines whose check did not hold after several READs in one round; the last good values "
	 "stay.",
	 collect_self_unsettled},
	{"sidelight_dta_epoch", EXPORT_FAMILY_GAUGE, "",
	 "The epoch of a store that is written now.", collect_self_dta_epoch},
	{"sidelight_dta_found_predicted_ratio", EXPORT_FAMILY_GAUGE, "ratio",
	 "Share of the keys of a store's newest epoch that was to be found, by the age of those sampled.",
	 collect_self_dta_found_predicted},
	{"sidelight_dta_found_ratio", EXPORT_FAMILY_GAUGE, "ratio",
	 "Share of up to 1,024 keys of a store's newest epoch, out of its key log, that a query finds.",
	 collect_self_dta_found},
	{"sidelight_dta_late_rotations", EXPORT_FAMILY_COUNTER, "",
	 "Epochs of a store that began late, as a translator still wrote into the bank that they needed.",
	 collect_self_dta_late},
	{"sidelight_dta_load_ratio", EXPORT_FAMILY_GAUGE, "ratio",
	 "Keys written in this epoch for each slot of a store, estimated; 0 for kinds without.",
	 collect_self_dta_load},
	{"sidelight_dta_reloads", EXPORT_FAMILY_COUNTER, "",
	 "Times that the file of stores was read again, by what became of it.",
	 collect_self_dta_reloads},
	{"sidelight_dta_reports", EXPORT_FAMILY_GAUGE, "",
	 "Reports that translators have told of, by what became of them: their sum is what was sent.",
	 collect_self_dta_reports},
	{"sidelight_dta_rotations", EXPORT_FAMILY_COUNTER, "", "Epochs of a store that were begun.",
	 collect_self_dta_rotations},
	{"sidelight_dta_store_bytes", EXPORT_FAMILY_GAUGE, "bytes", "Memory of a store.",
	 collect_self_dta_bytes},
	{"sidelight_dta_store_huge_bytes", EXPORT_FAMILY_GAUGE, "bytes",
	 "Memory of a store that is in pages of 2 MiB.", collect_self_dta_huge_bytes},
	{"sidelight_dta_translators", EXPORT_FAMILY_GAUGE, "", "Translators that are connected.",
	 collect_self_dta_translators},
	{"sidelight_dta_units", EXPORT_FAMILY_GAUGE, "",
	 "Slots and paths that translators have told of, by what became of them: overwritten by another key, updated by their own; partly estimated.",
	 collect_self_dta_units},
	{"sidelight_host_connects", EXPORT_FAMILY_COUNTER, "", "Connections made to a host.",
	 collect_self_host_connects},
	{"sidelight_host_disconnects", EXPORT_FAMILY_COUNTER, "", "Connections lost to a host.",
	 collect_self_host_disconnects},
	{"sidelight_host_kernel_lost", EXPORT_FAMILY_COUNTER, "",
	 "What the programs in a host's kernel could not measure, attribute or find room for since they were "
	 "loaded, by table and cause.",
	 collect_self_kernel_lost},
	{"sidelight_host_last_read_timestamp_seconds", EXPORT_FAMILY_GAUGE, "seconds",
	 "When the directory of a host was last read.", collect_self_host_last_read},
	{"sidelight_host_rounds", EXPORT_FAMILY_COUNTER, "", "Rounds completed on a host.",
	 collect_self_host_rounds},
	{"sidelight_host_skipped_rounds", EXPORT_FAMILY_COUNTER, "",
	 "Rounds that a host missed because its READs were still on the way.",
	 collect_self_host_skipped},
	{"sidelight_host_up", EXPORT_FAMILY_GAUGE, "", "1 if a host is read, 0 if it is not.",
	 collect_self_host_up},
	{"sidelight_net_clock_bound_seconds", EXPORT_FAMILY_GAUGE, "seconds",
	 "How far the estimate of two hosts' clocks may be off: the error of each latency in one direction.",
	 collect_self_net_clock_bound},
	{"sidelight_net_latency_nanoseconds", EXPORT_FAMILY_HISTOGRAM, "nanoseconds",
	 "From the driver of one host to the driver of the other, by port of the service, within the clocks' "
	 "bound. Negative ones count in the lowest bucket.",
	 collect_self_net_latency},
	{"sidelight_net_negative", EXPORT_FAMILY_COUNTER, "",
	 "Latencies in one direction that came out negative: clocks are further off than was said.",
	 collect_self_net_negative},
	{"sidelight_net_pairs_refused", EXPORT_FAMILY_COUNTER, "",
	 "Segments between two hosts that there was no room for as a pair.",
	 collect_self_net_refused},
	{"sidelight_net_records_missed", EXPORT_FAMILY_COUNTER, "",
	 "Segments of a host's ring that were overwritten before they were read.",
	 collect_self_net_missed},
	{"sidelight_net_round_trip_nanoseconds", EXPORT_FAMILY_HISTOGRAM, "nanoseconds",
	 "A segment's latency and that of the next one back, together: no clock's offset is in it.",
	 collect_self_net_round_trip},
	{"sidelight_net_segments", EXPORT_FAMILY_COUNTER, "",
	 "Segments between two hosts: sent, and those whose latency was measured.",
	 collect_self_net_segments},
	{"sidelight_net_unmatched", EXPORT_FAMILY_COUNTER, "",
	 "Segments between two hosts that have no latency, by cause.", collect_self_net_unmatched},
	{"sidelight_push_dropped", EXPORT_FAMILY_COUNTER, "",
	 "Samples or alerts that a receiver did not get, by cause.", collect_self_push_dropped},
	{"sidelight_push_errors", EXPORT_FAMILY_COUNTER, "",
	 "Tries that failed and are made again, by cause.", collect_self_push_errors},
	{"sidelight_push_sent", EXPORT_FAMILY_COUNTER, "",
	 "Samples or alerts that a receiver has taken.", collect_self_push_sent},
	{"sidelight_push_waiting_bytes", EXPORT_FAMILY_GAUGE, "bytes",
	 "What waits to be sent to a receiver.", collect_self_push_waiting},
	{"sidelight_region_metrics_refused", EXPORT_FAMILY_GAUGE, "",
	 "Metrics that the publisher's library refused: full, bad name, conflicting kind.",
	 collect_self_region_refused},
	{"sidelight_region_state", EXPORT_FAMILY_STATESET, "", "State of a region.",
	 collect_self_region_state},
	{"sidelight_region_threads_sharing", EXPORT_FAMILY_GAUGE, "",
	 "Threads of a publisher that found no stripe of their own.", collect_self_region_sharing},
	{"sidelight_region_unsettled_lines", EXPORT_FAMILY_COUNTER, "",
	 "Lines of a region that did not settle.", collect_self_region_unsettled},
	{"sidelight_region_up", EXPORT_FAMILY_GAUGE, "",
	 "1 if a region's publisher lives and is read, 0 if it is dead, closed, stale or dropped.",
	 collect_self_region_up},
	{"sidelight_sampling_left_out", EXPORT_FAMILY_COUNTER, "",
	 "Samples that were to be sent and could not be, by cause.",
	 collect_self_sampling_left_out},
	{"sidelight_sampling_lost_seconds", EXPORT_FAMILY_COUNTER, "seconds",
	 "Time around anomalies whose samples were not sent, by cause.",
	 collect_self_sampling_lost},
	{"sidelight_sampling_samples", EXPORT_FAMILY_COUNTER, "",
	 "Samples chosen to be sent by remote write.", collect_self_sampling_samples},
	{"sidelight_scaling_anomalous_ratio", EXPORT_FAMILY_GAUGE, "ratio",
	 "Share of a workload's pods that are within an anomaly.", collect_self_scaling_anomalous},
	{"sidelight_scaling_pressure", EXPORT_FAMILY_GAUGE, "",
	 "Mean score of a workload's pods, smoothed; 1 is the threshold.",
	 collect_self_scaling_pressure},
	{"sidelight_trace_export_known", EXPORT_FAMILY_COUNTER, "",
	 "Traces not sent by OTLP, as the receiver has them from before.",
	 collect_self_trace_export_known},
	{"sidelight_trace_export_retries", EXPORT_FAMILY_COUNTER, "",
	 "Requests of OTLP that failed and were made again.", collect_self_trace_export_retries},
	{"sidelight_trace_exported_spans", EXPORT_FAMILY_COUNTER, "",
	 "Spans that were to be sent by OTLP, by what became of them.", collect_self_trace_export},
	{"sidelight_trace_kept", EXPORT_FAMILY_COUNTER, "", "Traces kept, by reason.",
	 collect_self_trace_kept},
	{"sidelight_trace_lost", EXPORT_FAMILY_COUNTER, "",
	 "What could not be had of traces, by cause: lines of 64 bytes; of memory, traces.",
	 collect_self_trace_lost},
	{"sidelight_trace_over_budget", EXPORT_FAMILY_COUNTER, "",
	 "Traces that were worth keeping, had the budget allowed it, by reason.",
	 collect_self_trace_over_budget},
	{"sidelight_trace_published_bytes", EXPORT_FAMILY_COUNTER, "bytes",
	 "Bytes of spans that publishers wrote: what exporting all of them would move.",
	 collect_self_trace_published},
	{"sidelight_trace_published_spans", EXPORT_FAMILY_COUNTER, "",
	 "Spans that publishers wrote.", collect_self_trace_spans},
	{"sidelight_trace_read_bytes", EXPORT_FAMILY_COUNTER, "bytes",
	 "Bytes read for traces, by part.", collect_self_trace_read},
	{"sidelight_trace_read_spans", EXPORT_FAMILY_COUNTER, "", "Spans of kept traces.",
	 collect_self_trace_spans_read},
	{"sidelight_trace_roots", EXPORT_FAMILY_COUNTER, "", "Traces looked at, by their roots.",
	 collect_self_trace_roots},
};

size_t collect_self_families(void)
{
	return sizeof(table) / sizeof(table[0]);
}

void collect_self_family(size_t i, struct export_family *out)
{
	*out = (struct export_family){
		.name = table[i].name,
		.help = table[i].help,
		.unit = table[i].unit,
		.type = table[i].type,
		.series = 1,
	};
}

bool collect_self_exposed(const struct collect_self *s, size_t family)
{
	const char *name = table[family].name;

	if (!strncmp(name, "sidelight_trace_", 16))
		return s->c->tracer != NULL;
	if (!strncmp(name, "sidelight_dta_", 14))
		return s->c->dta != NULL;
	if (!strncmp(name, "sidelight_net_", 14))
		return collect_self_net_there(s);
	return collect_self_live_there(s->c, name);
}

/* Also what they would expose under: nobody shall pass for one of them. */
bool collect_self_has(const char *name)
{
	if (strncmp(name, "sidelight_", 10))
		return false;
	for (size_t i = 0; i < collect_self_families(); i++) {
		size_t n = strlen(table[i].name);

		if (!strncmp(name, table[i].name, n) && (!name[n] || name[n] == '_'))
			return true;
	}
	return false;
}

struct collect_self *collect_self_begin(struct collect_collector *c, struct collect_index *x)
{
	struct collect_self *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->c = c;
	s->x = x;
	s->now_ns = base_now_ns();
	collect_collector_totals(c, &s->totals);
	if (c->tracer)
		collect_tracer_stats(c->tracer, &s->trace);
	if (!collect_self_net_begin(s)) {
		collect_self_end(s);
		return NULL;
	}
	return s;
}

void collect_self_enter(struct collect_self *s, size_t family)
{
	s->family = family;
	s->at = 0;
}

int collect_self_next(struct collect_self *s, struct export_series *out)
{
	out->created_ns = 0;
	if (!table[s->family].series(s, out))
		return 0;
	s->at++;
	return 1;
}

void collect_self_end(struct collect_self *s)
{
	if (!s)
		return;
	collect_self_live_end(s);
	collect_self_dta_end(s);
	collect_self_net_end(s);
	free(s->labels);
	free(s);
}
