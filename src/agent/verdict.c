// SPDX-License-Identifier: Apache-2.0
/*
 * verdict.c - relays verdicts of collectors to the processes that publish the regions. Verdicts
 * arrive over the unix socket (conn.c) or by RDMA in the verdict board, which has one line per slot
 * of the directory and is the agent's only memory that others may write. Its contents are
 * validated, its pages contain nothing else, and a publisher is notified at most once per GAP_NS
 * and reader.
 *
 * Nothing blocks: a publisher whose socket is full gets the next renewal.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/conn.h"
#include "agent/region.h"

#define GAP_NS 10000000u /* minimum time between two messages to a publisher */

/* Returns the nanoseconds until the verdict expires; 0 if it has expired, or if there is none. */
static uint64_t time_left(const struct agent_verdict *v, uint64_t now)
{
	return v->ns && now - v->ns < v->said.ttl_ns ? v->said.ttl_ns - (now - v->ns) : 0;
}

/* Returns the slot that the reader already uses, or else the one whose verdict expires first. */
static struct agent_verdict *find_place(struct agent_region *r, uint64_t reader, uint64_t now)
{
	struct agent_verdict *v = r->verdict, *first = v;

	for (; v < r->verdict + AGENT_VERDICT_READERS; v++) {
		if (v->ns && v->said.reader == reader)
			return v;
		if (time_left(v, now) < time_left(first, now))
			first = v;
	}
	return first;
}

bool agent_verdict_combined(const struct agent *a, const struct agent_region *r,
			    struct sl_msg_verdict *out)
{
	uint64_t now = agent_now(a);

	*out = (struct sl_msg_verdict){0};
	for (size_t i = 0; i < AGENT_VERDICT_READERS; i++) {
		const struct sl_msg_verdict *v = &r->verdict[i].said;
		uint64_t left = time_left(&r->verdict[i], now);

		if (!left || v->flags < out->flags)
			continue;
		if (v->flags > out->flags)
			*out = (struct sl_msg_verdict){.flags = v->flags};
		out->ttl_ns = BASE_MAX(left, out->ttl_ns);
		out->time_ns = BASE_MAX(v->time_ns, out->time_ns);
		out->score = BASE_MAX(v->score, out->score);
	}
	return out->ttl_ns;
}

void agent_verdict_take(struct agent *a, const struct sl_msg_verdict *v)
{
	struct agent_region *r = agent_region_by_instance(a, v->instance);
	struct sl_msg_verdict told;
	struct agent_verdict *place;
	uint64_t now = agent_now(a);

	if (!r || r->state != SL_STATE_LIVE) {
		a->n.verdicts_unknown++;
		return;
	}
	place = find_place(r, v->reader, now);
	if (place->ns && now - place->ns < GAP_NS) {
		a->n.verdicts_lost++;
		return;
	}
	*place = (struct agent_verdict){.said = *v, .ns = now};
	agent_verdict_combined(a, r, &told);
	/*
	 * If the region is written through REST, or its publisher is gone, only STATUS shows the
	 * verdict.
	 */
	told.instance = r->info->instance; /* the publisher only knows this instance */
	if (!r->conn || agent_conn_notify(r->conn, SL_MSG_VERDICT, &told, sizeof(told)))
		a->n.verdicts_lost++;
	else
		a->n.verdicts++;
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
