/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_AGENT_VERDICT_H
#define SL_AGENT_VERDICT_H

#include <stddef.h>

#include <sidelight/attach.h>

struct agent;
struct agent_region;

/* v must be a valid verdict */
void agent_verdict_take(struct agent *a, const struct sl_msg_verdict *v);
/*
 * Combines the verdicts of all readers: the region is anomalous while one of them says so. Expired
 * verdicts do not count. Returns false if there is no verdict.
 */
bool agent_verdict_combined(const struct agent *a, const struct agent_region *r,
			    struct sl_msg_verdict *out);

/* ---- the verdict board: one line per directory slot, writable by RDMA ---- */

size_t agent_verdict_board_bytes(const struct agent *a);
int agent_verdict_board_init(struct agent *a);
void agent_verdict_board_fini(struct agent *a);
/* called when a collector has written this line */
void agent_verdict_board_notice(void *arg, uint32_t entry);

#endif
