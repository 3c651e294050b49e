/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - describes findings in words, for logs, alerts, the API and the page. Pure. */
#ifndef SL_ACT_EXPLAIN_H
#define SL_ACT_EXPLAIN_H

#include "act/verdict.h"

/*
 * Formats a readable name of a pod: its own name or, if it has none or only that of its host, the
 * name of its container, or else the name of its service with the process number. Truncated to fit;
 * returns text.
 */
const char *act_pod_label(const struct act_pod_name *n, char *text, size_t room);
/*
 * Writes one sentence: the pod, the time when the anomaly began, the metrics with their old and new
 * values, the callers that show it, and the score of the next suspect. Truncated to fit.
 */
void act_explain(char *text, size_t room, const struct act_pod_name *n, int64_t begin_ns,
		 const struct act_finding *f);

#endif
