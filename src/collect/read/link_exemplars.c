// SPDX-License-Identifier: Apache-2.0
/*
 * link_exemplars.c - READs exemplars outside of passes: the head once per second and, if it counts
 * new exemplars, all elements in use, in pieces. A publisher may count as many as it likes, so the
 * regions of a tenant share one rate, and a slow tenant pays for the READs from its part of the
 * rounds.
 */
#include "base/base.h"
#include "collect/read/exemplars.h"
#include "collect/read/link.h"
#include "collect/read/turn.h"
#include "collect/read/tenant.h"

/* delay from the last piece, or from the head, to the next READ of the head */
#define HEAD_NS	 1000000000u
#define PIECE_NS 20000000u /* time between two pieces of a tenant: at most 800 KB/s */
#define PIECE	 64u	   /* elements per READ */

static bool is_read(const struct collect_region *r)
{
	return !r->gone && (r->step == STEP_BOUND || r->step == STEP_FINAL);
}

static bool take_head(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		      uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct region_exemplars_head head;
	enum region_fault fault;

	(void)l, (void)now_ns;
	if (!is_read(r))
		return true;
	fault = region_exemplars_head_parse(read->to, r->info, &head);
	if (fault == REGION_FAULT_UNSETTLED)
		return false;
	if (fault)
		return true;
	relaxed_store(r->exemplars_dropped, head.dropped);
	if (head.set == r->exemplars_set)
		return true;
	r->exemplars_set = head.set;
	r->exemplars_next = 1;
	r->exemplars_end = BASE_MAX(head.used, 1u);
	r->exemplars_at_ns = now_ns;
	return true;
}

/* An element that is being written is left for the next reading. */
static bool take_elements(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			  uint64_t now_ns)
{
	const uint64_t(*words)[REGION_EXEMPLAR_WORDS] = read->to;
	struct collect_region *r = op->region;

	(void)l, (void)now_ns;
	for (uint32_t i = 0; is_read(r) && i < read->length / SL_EXEMPLAR_SIZE; i++)
		collect_exemplars_take(r, op->index + i, words[i]);
	return true;
}

static void end_read(struct collect_link *l, struct collect_op *op, uint64_t now_ns)
{
	(void)l, (void)now_ns;
	op->region->exemplars_busy = false;
}

static const struct collect_op_kind head_read = {.take = take_head, .over = end_read};
static const struct collect_op_kind elements_read = {.take = take_elements, .over = end_read};

/* Returns false if it is another region's turn, or the tenant has read enough in this round. */
static bool may_read(struct collect_link *l, struct collect_region *r, uint32_t bytes,
		     uint64_t now_ns)
{
	if (!r->exemplars_turn_ns)
		r->exemplars_turn_ns = r->tenant->exempt
					       ? now_ns
					       : collect_turn_exemplars(&r->tenant->turn[l->queue],
									now_ns, PIECE_NS);
	return now_ns >= r->exemplars_turn_ns &&
	       (!collect_turn_slow(r) || collect_turn_pay(r, bytes));
}

void collect_exemplars_read(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	uint32_t n = r->exemplars_end - r->exemplars_next;
	struct collect_op *op;

	if (!r->info->exemplars || r->exemplars_busy || now_ns < r->exemplars_at_ns ||
	    !collect_directory_lease_holds(l, now_ns))
		return;
	n = BASE_MIN(n, PIECE);
	if (n && !may_read(l, r, n * SL_EXEMPLAR_SIZE, now_ns))
		return;
	op = n ? collect_reads_new(l, &elements_read, r, &r->remote,
				   r->info->exemplars +
					   (uint64_t)r->exemplars_next * SL_EXEMPLAR_SIZE,
				   n * SL_EXEMPLAR_SIZE)
	       : collect_reads_new(l, &head_read, r, &r->remote, r->info->exemplars, SL_LINE_SIZE);
	if (!op)
		return;
	op->index = r->exemplars_next;
	r->exemplars_next += n;
	r->exemplars_busy = true;
	r->exemplars_turn_ns = 0;
	r->exemplars_at_ns = now_ns + (r->exemplars_next < r->exemplars_end ? PIECE_NS : HEAD_NS);
}
