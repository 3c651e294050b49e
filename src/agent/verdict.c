// SPDX-License-Identifier: Apache-2.0
/*
 * verdict.c - relays verdicts of collectors to the processes that publish the regions. Verdicts
 * arrive over the unix socket (conn.c) or by RDMA in the verdict board, which has one line per slot
 * of the directory and is the agent's only memory that others may write. Its contents are
 * validated, its pages contain nothing else, and a publisher is notified at most once per GAP_NS.
 *
 * Nothing blocks: a publisher whose socket is full gets the next renewal.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/conn.h"
#include "agent/region.h"
#include "agent/verdict.h"

#define GAP_NS 10000000u /* minimum time between two messages to a publisher */

void agent_verdict_take(struct agent *a, const struct sl_msg_verdict *v)
{
	struct agent_region *r = agent_region_by_instance(a, v->instance);
	struct sl_msg_verdict told = *v;
	uint64_t now = agent_now(a);

	if (!r || r->state != SL_STATE_LIVE) {
		a->n.verdicts_unknown++;
		return;
	}
	if (r->verdict_ns && now - r->verdict_ns < GAP_NS) {
		a->n.verdicts_lost++;
		return;
	}
	r->verdict = *v;
	r->verdict_ns = now;
	/* If REST writes the region, or its publisher is gone, only STATUS shows the verdict. */
	told.instance = r->info->instance; /* the publisher only knows this instance */
	if (!r->conn || agent_conn_notify(r->conn, SL_MSG_VERDICT, &told, sizeof(told)))
		a->n.verdicts_lost++;
	else
		a->n.verdicts++;
}

const struct sl_msg_verdict *agent_verdict_of(const struct agent *a, const struct agent_region *r)
{
	return r->verdict_ns && agent_now(a) - r->verdict_ns < r->verdict.ttl_ns ? &r->verdict
										 : NULL;
}

/* ---- the verdict board ---- */

size_t agent_verdict_board_bytes(const struct agent *a)
{
	return ((size_t)a->slot_count * sizeof(struct sl_board_line) + 4095) & ~(size_t)4095;
}

int agent_verdict_board_init(struct agent *a)
{
	void *board = mmap(NULL, agent_verdict_board_bytes(a), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (board == MAP_FAILED)
		return -errno;
	a->verdict_board = board;
	return 0;
}

void agent_verdict_board_fini(struct agent *a)
{
	if (a->verdict_board)
		munmap(a->verdict_board, agent_verdict_board_bytes(a));
	a->verdict_board = NULL;
}

void agent_verdict_board_notice(void *arg, uint32_t entry)
{
	struct agent *a = arg;
	uint64_t line[8];
	struct sl_msg_verdict v;

	if (entry >= a->slot_count) {
		a->n.verdicts_refused++;
		return;
	}
	/* Use a copy, as a collector may be writing the line. */
	region_copy_words(line, a->verdict_board + 8 * (size_t)entry, 8);
	memcpy(&v, line, sizeof(v));
	if (sl_line_check(line) != line[7] || !sl_verdict_sound(&v)) {
		a->n.verdicts_refused++;
		base_log_limited(BASE_WARN, AGENT_LOG,
				 "verdict refused: line %u of the verdict board is invalid", entry);
		return;
	}
	/* A line may only concern the region of its own entry. */
	if (a->slots[entry] && agent_region_by_instance(a, v.instance) == a->slots[entry])
		agent_verdict_take(a, &v);
	else
		a->n.verdicts_unknown++;
}
