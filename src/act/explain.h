/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - findings in words, for logs, alerts, the API and the page. Pure. */
#ifndef SL_ACT_EXPLAIN_H
#define SL_ACT_EXPLAIN_H

#include "act/verdict.h"

/*
 * What people call a pod: its name, or without one, or with that of its host, its container or else
 * its service, with the process that tells it from its like. Truncated to fit; returns text.
 */
const char *act_pod_label(const struct act_pod_name *n, char *text, size_t room);
/*
 * One sentence: the pod, since when, which metrics went from where to where, which callers show it,
 * what the next suspect scored. Truncated to fit.
 */
void act_explain(char *text, size_t room, const struct act_pod_name *n, int64_t begin_ns,
		 const struct act_finding *f);

#endif
