// SPDX-License-Identifier: Apache-2.0
/*
 * verdict.c - what a collector says of a region, handed on to the process that publishes it. It comes
 * over the unix socket (conn.c), or by RDMA into the board: a line for each slot of the directory,
 * the one memory of this agent that somebody else may write. So nothing of the board is believed,
 * nothing else lies in its pages, and a publisher can be told no more often than GAP_NS allows.
 *
 * Nothing waits here: a publisher that does not take what it is told hears of it with the next
 * renewal.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/internal.h"

#define GAP_NS 10000000u /* between two messages to one publisher */

void verdict_take(struct sl_agent *a, const struct sl_msg_verdict *v)
{
	struct region *r = region_by_instance(a, v->instance);
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
	/* Of a region that is written by REST, or whose publisher just lost us: for STATUS alone. */
	if (!r->conn || conn_tell(r->conn, SL_MSG_VERDICT, v, sizeof(*v)))
		a->n.verdicts_lost++;
	else
		a->n.verdicts++;
}

const struct sl_msg_verdict *verdict_of(const struct sl_agent *a, const struct region *r)
{
	return r->verdict_ns && agent_now(a) - r->verdict_ns < r->verdict.ttl_ns ? &r->verdict
										 : NULL;
}

/* ---- the board --------------------------------------------------------------------------------- */

size_t board_bytes(const struct sl_agent *a)
{
	return ((size_t)a->slot_count * sizeof(struct sl_board_line) + 4095) & ~(size_t)4095;
}

int board_init(struct sl_agent *a)
{
	void *board = mmap(NULL, board_bytes(a), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (board == MAP_FAILED)
		return -errno;
	a->board = board;
	return 0;
}

void board_fini(struct sl_agent *a)
{
	if (a->board)
		munmap(a->board, board_bytes(a));
	a->board = NULL;
}

void board_notice(void *arg, uint32_t entry)
{
	struct sl_agent *a = arg;
	uint64_t line[8];
	struct sl_msg_verdict v;

	if (entry >= a->slot_count) {
		a->n.verdicts_refused++;
		return;
	}
	/* A copy: whoever writes the board may do so while we look. */
	sl_copy_words(line, a->board + 8 * (size_t)entry, 8);
	memcpy(&v, line, sizeof(v));
	if (sl_line_check(line) != line[7] || !sl_verdict_sound(&v)) {
		a->n.verdicts_refused++;
		sl_log_limited(SL_WARN, LOG, "verdict refused: line %u of the board does not hold",
			       entry);
		return;
	}
	verdict_take(a, &v);
}
