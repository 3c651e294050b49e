/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - the analysis, and a thread that keeps anomalies and incidents and acts on
 * them. Alert receivers have separate threads, so that they delay neither a round nor this thread.
 *
 * Order of calls:
 * - collect_live_new()
 * - collect_collector_new(), collect_live_attach(), collect_live_start(), collect_collector_start()
 * - collect_live_stop(), collect_collector_free(), collect_live_free()
 */
#ifndef SL_COLLECT_JUDGE_LIVE_H
#define SL_COLLECT_JUDGE_LIVE_H

#include "collect/judge/analysis.h"
#include "collect/read/collect.h"

struct act_anomaly;
struct collect_receivers;
struct export_kafka;

struct collect_live_opts {
	struct collect_analysis_opts analysis;
	/* connection options as in http/client.h, or NULL */
	const char *alert_config, *webhook_config;
	const char *alert, *webhook; /* URLs, or NULL */
	struct export_kafka *kafka;  /* owned by the caller; or NULL */
	/*
	 * how long a verdict written to a pod's host is valid; 0 means that no verdicts are written
	 */
	uint64_t verdict_ttl_ns;
	const char *link; /* URL of the page, for alerts; or NULL */
};

struct collect_live;

/* Returns NULL with a one-line message in error. */
struct collect_live *collect_live_new(const struct collect_live_opts *opts, char *error,
				      size_t error_bytes);
/* Returns 0 or -errno. */
int collect_live_attach(struct collect_live *l, struct collect_collector *c);
/*
 * Call before collect_live_start(). The thread calls fn for each anomaly that began or ended. fn
 * returns false if it had to drop the change; dropped changes are counted.
 */
void collect_live_listen(struct collect_live *l, bool (*fn)(void *arg, const struct act_anomaly *a),
			 void *arg);
/* Adds the receivers of alerts. */
void collect_live_receivers(struct collect_live *l, struct collect_receivers *to);
/*
 * Starts the thread. The thread writes verdicts by RDMA, on devices shared with other threads, so
 * credentials must be changed before (agent.h). Returns 0 or -errno.
 */
int collect_live_start(struct collect_live *l);
/* Stops the thread; queued items have one second to be sent. */
void collect_live_stop(struct collect_live *l);
/* Returns 0, or -errno of the last write, which is logged. l may be NULL. */
int collect_live_free(struct collect_live *l);

struct act_incidents;
struct act_scale;
struct act_verdicts;

struct collect_analysis_view {
	struct collect_analysis *analysis;
	struct act_verdicts *verdicts;
	const char *detector, *shadow; /* shadow may be NULL */
	double false_alarms;	       /* tolerated false alarms per pod per hour */
	uint64_t warming;	       /* number of pods in their warm-up */
	struct act_scale *scale;
	struct act_incidents *incidents;
};
/* Returns false if no analysis is attached. */
bool collect_collector_analysis(struct collect_collector *c, struct collect_analysis_view *out);

#endif
