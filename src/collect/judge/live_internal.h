/* SPDX-License-Identifier: Apache-2.0 */
/* live_internal.h - state shared by live.c and families.c */
#ifndef SL_COLLECT_JUDGE_LIVE_INTERNAL_H
#define SL_COLLECT_JUDGE_LIVE_INTERNAL_H

#include "base/thread.h"
#include "act/alert.h"
#include "act/incident.h"
#include "act/scale.h"
#include "collect/judge/live.h"
#include "collect/read/attach.h"
#include "collect/judge/notify.h"

struct collect_live {
	struct collect_live_opts o;
	struct collect_collector *collector;
	struct collect_analysis *analysis;
	struct act_incidents *incidents;
	struct act_alerts *alerts;
	struct export_push *alert, *webhook; /* NULL if none */
	struct act_scale *scale;
	struct collect_notify *notify; /* NULL if verdicts are not written to hosts */
	bool (*listener)(void *arg, const struct act_anomaly *a); /* NULL if none */
	void *listener_arg;

	struct base_thread thread;

	/* Used only by the thread. */
	struct act_anomaly *change;
	size_t changes, change_room;
	struct {
		uint64_t anomaly;  /* its ID */
		uint64_t instance; /* of the anomaly: the connections of a host itself */
		uint64_t looked_ns;
		uint16_t port;
		uint32_t pid; /* 0 means not found */
		char server[ACT_POD_LABEL_BYTES];
	} served; /* the last port for which name_server() looked */
	/* Read by any thread. */
	uint64_t lost_changes, lost_alerts;
};

extern const struct collect_part collect_live_part; /* families.c */

#endif
