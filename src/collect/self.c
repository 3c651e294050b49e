// SPDX-License-Identifier: Apache-2.0
/*
 * self.c - what the collector says of itself, as families of the same walk. sidelight-collect(1)
 * lists them with what to do about each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/self.h"

/* ---- making a series ---------------------------------------------------------------------------------- */

bool self_labels(struct self *s, struct sl_series *out, const struct sl_text_label *labels,
		 uint32_t n)
{
	free(s->labels);
	s->labels = sl_label_set_new(labels, n);
	if (!s->labels)
		return false;
	out->label_text = s->labels->text;
	out->label_bytes = s->labels->text_bytes;
	out->label_keys = s->labels->keys;
	out->label_values = s->labels->values;
	out->label_count = n;
	return true;
}

bool self_label(struct self *s, struct sl_series *out, const char *key, const char *value)
{
	struct sl_text_label label = {key, value};

	return self_labels(s, out, &label, 1);
}

bool self_u64(struct sl_series *out, uint64_t v)
{
	out->value_type = SL_VALUE_U64;
	out->value.u64 = v;
	return true;
}

bool self_f64(struct sl_series *out, double v)
{
	out->value_type = SL_VALUE_F64;
	out->value.f64 = v;
	return true;
}

bool self_single(struct self *s, struct sl_series *out, uint64_t v)
{
	return s->at == 0 && self_labels(s, out, NULL, 0) && self_u64(out, v);
}

/* ---- workers -------------------------------------------------------------------------------------------- */

static struct worker *worker_at(struct self *s, struct sl_series *out, const char *key,
				const char *value)
{
	struct sl_text_label labels[2] = {{"worker", NULL}, {key, value}};
	struct worker *w;
	char number[16];

	if (s->at >= s->c->workers)
		return NULL;
	w = &s->c->worker[s->at];
	snprintf(number, sizeof(number), "%u", w->number);
	labels[0].value = number;
	return self_labels(s, out, labels, key ? 2 : 1) ? w : NULL;
}

#define WORKER_COUNTER(name, expression)                          \
	static bool name(struct self *s, struct sl_series *out)   \
	{                                                         \
		struct worker *w = worker_at(s, out, NULL, NULL); \
		return w && (expression);                         \
	}

WORKER_COUNTER(rounds, self_u64(out, GET(w->rounds)))
WORKER_COUNTER(missed, self_u64(out, GET(w->missed)))
WORKER_COUNTER(reads, self_u64(out, GET(w->reads)))
WORKER_COUNTER(read_bytes, self_u64(out, GET(w->bytes)))
WORKER_COUNTER(lines, self_u64(out, GET(w->lines)))
WORKER_COUNTER(unsettled, self_u64(out, GET(w->unsettled)))
WORKER_COUNTER(samples, self_u64(out, GET(w->samples)))
WORKER_COUNTER(busy, self_f64(out, (double)GET(w->busy_ns) * 1e-9))

static bool latency(struct self *s, struct sl_series *out)
{
	struct worker *w = worker_at(s, out, NULL, NULL);

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

/* ---- sums over workers, by cause -------------------------------------------------------------------------- */

struct cause {
	const char *name;
	uint64_t (*value)(struct self *s);
};

static uint64_t fabric_sum(struct self *s, size_t offset)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->c->hosts; i++)
		for (unsigned int k = 0; k < s->c->host[i].links; k++) {
			struct link *l = s->c->host[i].link[k];

			pthread_mutex_lock(&l->stats_lock);
			sum += *(uint64_t *)((char *)&l->stats + offset);
			pthread_mutex_unlock(&l->stats_lock);
		}
	return sum;
}

static uint64_t e_timeout(struct self *s)
{
	return fabric_sum(s, offsetof(struct sl_fabric_stats, errors_timeout));
}

static uint64_t e_access(struct self *s)
{
	return fabric_sum(s, offsetof(struct sl_fabric_stats, errors_access));
}

static uint64_t e_other(struct self *s)
{
	return fabric_sum(s, offsetof(struct sl_fabric_stats, errors_other));
}

static uint64_t e_wrong_id(struct self *s)
{
	return fabric_sum(s, offsetof(struct sl_fabric_stats, wrong_id));
}

static uint64_t e_instance(struct self *s)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < s->c->workers; i++)
		sum += GET(s->c->worker[i].wrong_instance);
	return sum;
}

static uint64_t e_map(struct self *s)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < s->c->workers; i++)
		sum += GET(s->c->worker[i].map_errors);
	return sum;
}

static bool by_cause(struct self *s, struct sl_series *out, const char *key,
		     const struct cause *cause, size_t n)
{
	return s->at < n && self_label(s, out, key, cause[s->at].name) &&
	       self_u64(out, cause[s->at].value(s));
}

static bool read_errors(struct self *s, struct sl_series *out)
{
	static const struct cause causes[] = {
		{"timeout", e_timeout},	  {"access", e_access},		  {"other", e_other},
		{"wrong_id", e_wrong_id}, {"wrong_instance", e_instance}, {"map", e_map},
	};

	return by_cause(s, out, "cause", causes, sizeof(causes) / sizeof(causes[0]));
}

static bool faults(struct self *s, struct sl_series *out)
{
	enum sl_fault fault = (enum sl_fault)s->at + 1;
	uint64_t sum = 0;

	if (fault >= SL_FAULT_COUNT)
		return false;
	for (unsigned int i = 0; i < s->c->workers; i++)
		sum += GET(s->c->worker[i].faults[fault]);
	return self_label(s, out, "cause", sl_fault_name(fault)) && self_u64(out, sum);
}

static uint64_t c_kind(struct self *s)
{
	return GET(s->c->conflicts_kind);
}

static uint64_t c_name(struct self *s)
{
	return GET(s->c->conflicts_name);
}

static uint64_t c_duplicate(struct self *s)
{
	return GET(s->c->conflicts_duplicate);
}

static uint64_t c_sum(struct self *s)
{
	return GET(s->c->conflicts_sum);
}

static bool conflicts(struct self *s, struct sl_series *out)
{
	static const struct cause causes[] = {
		{"kind", c_kind}, {"name", c_name}, {"duplicate", c_duplicate}, {"buckets", c_sum}};

	return by_cause(s, out, "cause", causes, sizeof(causes) / sizeof(causes[0]));
}

static uint64_t r_regions(struct self *s)
{
	return GET(s->c->refused_regions);
}

static uint64_t r_series(struct self *s)
{
	return GET(s->c->refused_series);
}

static uint64_t r_history(struct self *s)
{
	return GET(s->c->refused_history);
}

static uint64_t r_sums(struct self *s)
{
	return GET(s->c->retired_lost);
}

static uint64_t r_duplicate(struct self *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->c->hosts; i++)
		for (unsigned int k = 0; k < s->c->host[i].links; k++)
			sum += GET(s->c->host[i].link[k]->duplicates);
	return sum;
}

static uint64_t r_tap_rows(struct self *s)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < s->c->workers; i++)
		sum += GET(s->c->worker[i].rows_lost);
	return sum;
}

static bool refused(struct self *s, struct sl_series *out)
{
	static const struct cause causes[] = {
		{"max_regions", r_regions},
		{"max_series", r_series},
		{"history", r_history},
		{"retired_sums", r_sums},
		{"duplicate_instance", r_duplicate},
		{"tap_rows", r_tap_rows},
	};

	return by_cause(s, out, "cause", causes, sizeof(causes) / sizeof(causes[0]));
}

/* ---- the whole --------------------------------------------------------------------------------------------- */

static uint64_t s_live(struct self *s)
{
	return s->totals.live;
}

static uint64_t s_dead(struct self *s)
{
	return s->totals.dead;
}

static uint64_t s_closed(struct self *s)
{
	return s->totals.closed;
}

static uint64_t s_dropped(struct self *s)
{
	return s->totals.dropped;
}

static bool regions(struct self *s, struct sl_series *out)
{
	static const struct cause states[] = {
		{"live", s_live}, {"dead", s_dead}, {"closed", s_closed}, {"dropped", s_dropped}};

	return by_cause(s, out, "state", states, sizeof(states) / sizeof(states[0]));
}

static bool series(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->totals.series);
}

static bool expired(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->totals.expired);
}

static bool memory(struct self *s, struct sl_series *out)
{
	if (s->at > 1)
		return false;
	return self_label(s, out, "part", s->at ? "history" : "state") &&
	       self_u64(out, s->at ? s->totals.history_bytes : s->totals.memory_bytes);
}

static bool history_points(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->totals.history_points);
}

static uint64_t h_full(struct self *s)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < s->c->workers; i++)
		sum += GET(s->c->worker[i].ring.dropped_chunks);
	return sum;
}

static uint64_t h_old(struct self *s)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < s->c->workers; i++)
		sum += GET(s->c->worker[i].ring.expired_chunks);
	return sum;
}

static bool history_dropped(struct self *s, struct sl_series *out)
{
	static const struct cause causes[] = {{"full", h_full}, {"old", h_old}};

	return by_cause(s, out, "cause", causes, sizeof(causes) / sizeof(causes[0]));
}

static bool stale_hosts(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->totals.hosts_stale);
}

static bool build_info(struct self *s, struct sl_series *out)
{
	return s->at == 0 && self_label(s, out, "version", SL_VERSION_STRING) && self_u64(out, 1);
}

/* ---- hosts --------------------------------------------------------------------------------------------------- */

static struct host *host_at(struct self *s, struct sl_series *out)
{
	struct sl_text_label labels[3];
	struct host *h;

	if (s->at >= s->c->hosts)
		return NULL;
	h = &s->c->host[s->at];
	labels[0] = (struct sl_text_label){"host", host_name(h)};
	labels[1] = (struct sl_text_label){"target", h->target};
	labels[2] = (struct sl_text_label){"fabric", h->fabric};
	return self_labels(s, out, labels, 3) ? h : NULL;
}

static uint64_t host_sum(const struct host *h, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned int k = 0; k < h->links; k++)
		sum += __atomic_load_n((uint64_t *)((char *)h->link[k] + offset), __ATOMIC_RELAXED);
	return sum;
}

static uint64_t host_fabric_sum(const struct host *h, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned int k = 0; k < h->links; k++) {
		pthread_mutex_lock(&h->link[k]->stats_lock);
		sum += *(uint64_t *)((char *)&h->link[k]->stats + offset);
		pthread_mutex_unlock(&h->link[k]->stats_lock);
	}
	return sum;
}

#define HOST_SERIES(name, expression)                           \
	static bool name(struct self *s, struct sl_series *out) \
	{                                                       \
		struct host *h = host_at(s, out);               \
		return h && (expression);                       \
	}

HOST_SERIES(host_up, self_u64(out, host_condition(h, s->now_ns) == SL_HOST_UP))
HOST_SERIES(host_last_read, self_f64(out, (double)GET(h->last_read_ns) * 1e-9))
HOST_SERIES(host_rounds, self_u64(out, host_sum(h, offsetof(struct link, rounds))))
HOST_SERIES(host_skipped, self_u64(out, host_sum(h, offsetof(struct link, skipped))))
HOST_SERIES(host_connects,
	    self_u64(out, host_fabric_sum(h, offsetof(struct sl_fabric_stats, connects))))
HOST_SERIES(host_disconnects,
	    self_u64(out, host_fabric_sum(h, offsetof(struct sl_fabric_stats, disconnects))))

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

#define REGION_SERIES(name, expression)                         \
	static bool name(struct self *s, struct sl_series *out) \
	{                                                       \
		const struct region *r = self_region(s, out);   \
		return r && (expression);                       \
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

REGION_SERIES(region_up, self_u64(out, state_bits(r, s->now_ns) == 1))
REGION_SERIES(region_state, stateset(out, state_bits(r, s->now_ns)))
REGION_SERIES(region_unsettled, self_u64(out, GET(r->unsettled)))
REGION_SERIES(region_refused, self_u64(out, GET(r->refused)))
REGION_SERIES(region_sharing, self_u64(out, GET(r->sharing)))

/* ---- the table, sorted by name ---------------------------------------------------------------------------------- */

static const struct family {
	const char *name;
	enum sl_family_type type;
	const char *unit, *help;
	bool (*series)(struct self *s, struct sl_series *out);
} table[] = {
	{"sidelight_analysis_busy_seconds", SL_FAMILY_COUNTER, "seconds",
	 "Time that workers spent on analysis, as part of what they are busy.", self_analysis_busy},
	{"sidelight_analysis_lost", SL_FAMILY_COUNTER, "",
	 "What analysis had to leave out, by cause.", self_analysis_lost},
	{"sidelight_analysis_pods", SL_FAMILY_GAUGE, "", "Pods that are analysed, by state.",
	 self_analysis_pods},
	{"sidelight_analysis_rows", SL_FAMILY_COUNTER, "", "Rows of pods that were scored.",
	 self_analysis_rows},
	{"sidelight_analysis_told", SL_FAMILY_COUNTER, "",
	 "Verdicts that were sent back to the hosts of their pods.", self_analysis_told},
	{"sidelight_anomalies", SL_FAMILY_COUNTER, "", "Anomalies of a pod.", self_anomalies},
	{"sidelight_anomalous", SL_FAMILY_GAUGE, "", "1 while a pod is within an anomaly.",
	 self_anomalous},
	{"sidelight_anomaly_budget_used_ratio", SL_FAMILY_GAUGE, "ratio",
	 "Anomalies of the last hour over what --false-alarms allows.", self_budget_used},
	{"sidelight_anomaly_drift", SL_FAMILY_GAUGE, "",
	 "1 while a pod's scores are not what was learned: its model no longer fits.", self_drift},
	{"sidelight_anomaly_score", SL_FAMILY_GAUGE, "",
	 "How unusual a pod is; 1 is the threshold, for all pods.", self_score},
	{"sidelight_anomaly_shadow_alarms", SL_FAMILY_COUNTER, "",
	 "Rows that the detector of --shadow would have called anomalous.", self_shadow_alarms},
	{"sidelight_build", SL_FAMILY_INFO, "", "Version of this collector.", build_info},
	{"sidelight_collector_busy_seconds", SL_FAMILY_COUNTER, "seconds",
	 "Time that a worker spent on reading and decoding, waiting left out.", busy},
	{"sidelight_collector_conflicts", SL_FAMILY_GAUGE, "",
	 "Series left out of the exposition because they contradict older ones, by cause.",
	 conflicts},
	{"sidelight_collector_expired_regions", SL_FAMILY_COUNTER, "",
	 "Regions whose last words have expired.", expired},
	{"sidelight_collector_history_dropped_chunks", SL_FAMILY_COUNTER, "",
	 "Chunks of history dropped: the memory was full, or they were older than asked for.",
	 history_dropped},
	{"sidelight_collector_history_points", SL_FAMILY_GAUGE, "", "Points in packed history.",
	 history_points},
	{"sidelight_collector_lines", SL_FAMILY_COUNTER, "", "Lines read.", lines},
	{"sidelight_collector_memory_bytes", SL_FAMILY_GAUGE, "bytes",
	 "Memory held for regions and for history.", memory},
	{"sidelight_collector_missed_deadlines", SL_FAMILY_COUNTER, "",
	 "Deadlines that a worker missed because it was not done yet, or not running.", missed},
	{"sidelight_collector_read_bytes", SL_FAMILY_COUNTER, "bytes", "Bytes read.", read_bytes},
	{"sidelight_collector_read_errors", SL_FAMILY_COUNTER, "", "Failed READs, by cause.",
	 read_errors},
	{"sidelight_collector_read_latency_seconds", SL_FAMILY_HISTOGRAM, "seconds",
	 "Time from posting a READ to taking its completion.", latency},
	{"sidelight_collector_reads", SL_FAMILY_COUNTER, "", "READs completed.", reads},
	{"sidelight_collector_refused", SL_FAMILY_COUNTER, "",
	 "What there was no room for, by the bound that was reached.", refused},
	{"sidelight_collector_region_faults", SL_FAMILY_COUNTER, "",
	 "Times that a region or directory was not believed, by cause.", faults},
	{"sidelight_collector_regions", SL_FAMILY_GAUGE, "", "Regions known, by state.", regions},
	{"sidelight_collector_rounds", SL_FAMILY_COUNTER, "", "Rounds started.", rounds},
	{"sidelight_collector_samples", SL_FAMILY_COUNTER, "", "Values decoded.", samples},
	{"sidelight_collector_series", SL_FAMILY_GAUGE, "", "Series in the exposition.", series},
	{"sidelight_collector_stale_hosts", SL_FAMILY_GAUGE, "",
	 "Hosts that were not read for longer than --stale.", stale_hosts},
	{"sidelight_collector_tcp_lost", SL_FAMILY_COUNTER, "",
	 "What could not be had of connections, or not be told apart, by cause.", self_tcp_lost},
	{"sidelight_collector_tcp_missed_deadlines", SL_FAMILY_COUNTER, "",
	 "Passes over a table of connections that were left out, or began too late.",
	 self_tcp_missed},
	{"sidelight_collector_tcp_passes", SL_FAMILY_COUNTER, "",
	 "Times that a table of connections was read.", self_tcp_passes},
	{"sidelight_collector_tcp_slots_refused", SL_FAMILY_GAUGE, "",
	 "Slots in use that are not read, as --tcp-flows are read already.", self_tcp_refused},
	{"sidelight_collector_unsettled_lines", SL_FAMILY_COUNTER, "",
	 "Lines whose check did not hold after several READs in one round; the last good values "
	 "stay.",
	 unsettled},
	{"sidelight_dta_epoch", SL_FAMILY_GAUGE, "", "The epoch of a store that is written now.",
	 self_dta_epoch},
	{"sidelight_dta_found_predicted_ratio", SL_FAMILY_GAUGE, "ratio",
	 "Share of the keys of a store's newest epoch that was to be found, by the age of those sampled.",
	 self_dta_found_predicted},
	{"sidelight_dta_found_ratio", SL_FAMILY_GAUGE, "ratio",
	 "Share of up to 1,024 keys of a store's newest epoch, out of its key log, that a query finds.",
	 self_dta_found},
	{"sidelight_dta_late_rotations", SL_FAMILY_COUNTER, "",
	 "Epochs of a store that began late, as a translator still wrote into the bank that they needed.",
	 self_dta_late},
	{"sidelight_dta_load_ratio", SL_FAMILY_GAUGE, "ratio",
	 "Keys written in this epoch for each slot of a store, estimated; 0 for kinds without.",
	 self_dta_load},
	{"sidelight_dta_reloads", SL_FAMILY_COUNTER, "",
	 "Times that the file of stores was read again, by what became of it.", self_dta_reloads},
	{"sidelight_dta_reports", SL_FAMILY_GAUGE, "",
	 "Reports that translators have told of, by what became of them: their sum is what was sent.",
	 self_dta_reports},
	{"sidelight_dta_rotations", SL_FAMILY_COUNTER, "", "Epochs of a store that were begun.",
	 self_dta_rotations},
	{"sidelight_dta_store_bytes", SL_FAMILY_GAUGE, "bytes", "Memory of a store.",
	 self_dta_bytes},
	{"sidelight_dta_translators", SL_FAMILY_GAUGE, "", "Translators that are connected.",
	 self_dta_translators},
	{"sidelight_dta_units", SL_FAMILY_GAUGE, "",
	 "Slots and paths that translators have told of, by what became of them: overwritten by another key, updated by their own; partly estimated.",
	 self_dta_units},
	{"sidelight_host_connects", SL_FAMILY_COUNTER, "", "Connections made to a host.",
	 host_connects},
	{"sidelight_host_disconnects", SL_FAMILY_COUNTER, "", "Connections lost to a host.",
	 host_disconnects},
	{"sidelight_host_kernel_lost", SL_FAMILY_COUNTER, "",
	 "What the programs in a host's kernel could not measure, attribute or find room for since they were "
	 "loaded, by table and cause.",
	 self_kernel_lost},
	{"sidelight_host_last_read_timestamp_seconds", SL_FAMILY_GAUGE, "seconds",
	 "When the directory of a host was last read.", host_last_read},
	{"sidelight_host_rounds", SL_FAMILY_COUNTER, "", "Rounds completed on a host.",
	 host_rounds},
	{"sidelight_host_skipped_rounds", SL_FAMILY_COUNTER, "",
	 "Rounds that a host missed because its READs were still on the way.", host_skipped},
	{"sidelight_host_up", SL_FAMILY_GAUGE, "", "1 if a host is read, 0 if it is not.", host_up},
	{"sidelight_net_clock_bound_seconds", SL_FAMILY_GAUGE, "seconds",
	 "How far the estimate of two hosts' clocks may be off: the error of each latency in one direction.",
	 self_net_clock_bound},
	{"sidelight_net_latency_nanoseconds", SL_FAMILY_HISTOGRAM, "nanoseconds",
	 "From the driver of one host to the driver of the other, by port of the service, within the clocks' "
	 "bound. Negative ones count in the lowest bucket.",
	 self_net_latency},
	{"sidelight_net_negative", SL_FAMILY_COUNTER, "",
	 "Latencies in one direction that came out negative: clocks are further off than was said.",
	 self_net_negative},
	{"sidelight_net_pairs_refused", SL_FAMILY_COUNTER, "",
	 "Segments between two hosts that there was no room for as a pair.", self_net_refused},
	{"sidelight_net_records_missed", SL_FAMILY_COUNTER, "",
	 "Segments of a host's ring that were overwritten before they were read.", self_net_missed},
	{"sidelight_net_round_trip_nanoseconds", SL_FAMILY_HISTOGRAM, "nanoseconds",
	 "A segment's latency and that of the next one back, together: no clock's offset is in it.",
	 self_net_round_trip},
	{"sidelight_net_segments", SL_FAMILY_COUNTER, "",
	 "Segments between two hosts: sent, and those whose latency was measured.",
	 self_net_segments},
	{"sidelight_net_unmatched", SL_FAMILY_COUNTER, "",
	 "Segments between two hosts that have no latency, by cause.", self_net_unmatched},
	{"sidelight_push_dropped", SL_FAMILY_COUNTER, "",
	 "Samples or alerts that a receiver did not get, by cause.", self_push_dropped},
	{"sidelight_push_errors", SL_FAMILY_COUNTER, "",
	 "Tries that failed and are made again, by cause.", self_push_errors},
	{"sidelight_push_sent", SL_FAMILY_COUNTER, "",
	 "Samples or alerts that a receiver has taken.", self_push_sent},
	{"sidelight_push_waiting_bytes", SL_FAMILY_GAUGE, "bytes",
	 "What waits to be sent to a receiver.", self_push_waiting},
	{"sidelight_region_metrics_refused", SL_FAMILY_GAUGE, "",
	 "Metrics that the publisher's library refused: full, bad name, conflicting kind.",
	 region_refused},
	{"sidelight_region_state", SL_FAMILY_STATESET, "", "State of a region.", region_state},
	{"sidelight_region_threads_sharing", SL_FAMILY_GAUGE, "",
	 "Threads of a publisher that found no stripe of their own.", region_sharing},
	{"sidelight_region_unsettled_lines", SL_FAMILY_COUNTER, "",
	 "Lines of a region that did not settle.", region_unsettled},
	{"sidelight_region_up", SL_FAMILY_GAUGE, "",
	 "1 if a region's publisher lives and is read, 0 if it is dead, closed, stale or dropped.",
	 region_up},
	{"sidelight_sampling_left_out", SL_FAMILY_COUNTER, "",
	 "Samples that were to be sent and could not be, by cause.", self_sampling_left_out},
	{"sidelight_sampling_lost_seconds", SL_FAMILY_COUNTER, "seconds",
	 "Time around anomalies whose samples were not sent, by cause.", self_sampling_lost},
	{"sidelight_sampling_samples", SL_FAMILY_COUNTER, "",
	 "Samples chosen to be sent by remote write.", self_sampling_samples},
	{"sidelight_scaling_anomalous_ratio", SL_FAMILY_GAUGE, "ratio",
	 "Share of a workload's pods that are within an anomaly.", self_scaling_anomalous},
	{"sidelight_scaling_pressure", SL_FAMILY_GAUGE, "",
	 "Mean score of a workload's pods, smoothed; 1 is the threshold.", self_scaling_pressure},
	{"sidelight_trace_export_known", SL_FAMILY_COUNTER, "",
	 "Traces not sent by OTLP, as the receiver has them from before.", self_trace_export_known},
	{"sidelight_trace_export_retries", SL_FAMILY_COUNTER, "",
	 "Requests of OTLP that failed and were made again.", self_trace_export_retries},
	{"sidelight_trace_exported_spans", SL_FAMILY_COUNTER, "",
	 "Spans that were to be sent by OTLP, by what became of them.", self_trace_export},
	{"sidelight_trace_kept", SL_FAMILY_COUNTER, "", "Traces kept, by reason.", self_trace_kept},
	{"sidelight_trace_lost", SL_FAMILY_COUNTER, "",
	 "What could not be had of traces, by cause: lines of 64 bytes; of memory, traces.",
	 self_trace_lost},
	{"sidelight_trace_over_budget", SL_FAMILY_COUNTER, "",
	 "Traces that were worth keeping, had the budget allowed it, by reason.",
	 self_trace_over_budget},
	{"sidelight_trace_published_bytes", SL_FAMILY_COUNTER, "bytes",
	 "Bytes of spans that publishers wrote: what exporting all of them would move.",
	 self_trace_published},
	{"sidelight_trace_published_spans", SL_FAMILY_COUNTER, "", "Spans that publishers wrote.",
	 self_trace_spans},
	{"sidelight_trace_read_bytes", SL_FAMILY_COUNTER, "bytes",
	 "Bytes read for traces, by part.", self_trace_read},
	{"sidelight_trace_read_spans", SL_FAMILY_COUNTER, "", "Spans of kept traces.",
	 self_trace_spans_read},
	{"sidelight_trace_roots", SL_FAMILY_COUNTER, "", "Traces looked at, by their roots.",
	 self_trace_roots},
};

size_t self_families(void)
{
	return sizeof(table) / sizeof(table[0]);
}

void self_family(size_t i, struct sl_family *out)
{
	*out = (struct sl_family){
		.name = table[i].name,
		.help = table[i].help,
		.unit = table[i].unit,
		.type = table[i].type,
		.series = 1,
	};
}

bool self_there(const struct self *s, size_t family)
{
	const char *name = table[family].name;

	if (!strncmp(name, "sidelight_trace_", 16))
		return s->c->tracer != NULL;
	if (!strncmp(name, "sidelight_dta_", 14))
		return s->c->dta != NULL;
	if (!strncmp(name, "sidelight_net_", 14))
		return self_net_there(s);
	return self_live_there(s->c, name);
}

/* Also what they would expose under: nobody shall pass for one of them. */
bool self_has(const char *name)
{
	if (strncmp(name, "sidelight_", 10))
		return false;
	for (size_t i = 0; i < self_families(); i++) {
		size_t n = strlen(table[i].name);

		if (!strncmp(name, table[i].name, n) && (!name[n] || name[n] == '_'))
			return true;
	}
	return false;
}

struct self *self_begin(struct sl_collector *c, struct index *x)
{
	struct self *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->c = c;
	s->x = x;
	s->now_ns = sl_now_ns();
	sl_collector_totals(c, &s->totals);
	if (c->tracer)
		sl_tracer_stats(c->tracer, &s->trace);
	if (!self_net_begin(s)) {
		self_end(s);
		return NULL;
	}
	return s;
}

void self_enter(struct self *s, size_t family)
{
	s->family = family;
	s->at = 0;
}

int self_next(struct self *s, struct sl_series *out)
{
	out->created_ns = 0;
	if (!table[s->family].series(s, out))
		return 0;
	s->at++;
	return 1;
}

void self_end(struct self *s)
{
	if (!s)
		return;
	self_live_end(s);
	self_dta_end(s);
	self_net_end(s);
	free(s->labels);
	free(s);
}
