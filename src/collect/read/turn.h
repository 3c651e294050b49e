/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.h - which regions a round reads. If all of them take more of the period than there is, a
 * tenant that costs more than its fair part is slow: its passes go on beside the rounds, as many
 * lines per round as its part, and each of its regions is read every k-th round. Other tenants are
 * read at the full rate.
 */
#ifndef SL_COLLECT_READ_TURN_H
#define SL_COLLECT_READ_TURN_H

#include <stdbool.h>
#include <stdint.h>

struct collect_link;
struct collect_region;
struct collect_turn;

/* What a tenant asks for: lines per round; and what it gets: lines per round, 0 as many. */
struct collect_claim {
	uint64_t lines, part;
	bool exempt;
};

/*
 * Divides a budget of lines per round: max-min fair shares, but none gets less than the others
 * cost on average. Pure.
 */
void collect_turns_divide(struct collect_claim *claim, uint32_t count, uint64_t budget);

/* At the start of a round. */
void collect_turns_begin(struct collect_link *l, uint64_t now_ns);
void collect_turns_free(struct collect_link *l);
bool collect_turn_slow(const struct collect_region *r);
/* A slow region starts a pass in this round. */
bool collect_turn_due(const struct collect_region *r);
/* Takes the cost of a READ from the tenant's part of this round; false: nothing is left of it. */
bool collect_turn_pay(const struct collect_region *r, uint32_t bytes);

/*
 * When a region may read its next piece of exemplars: the regions of a tenant take turns, one piece
 * per piece_ns for all of them.
 */
uint64_t collect_turn_exemplars(struct collect_turn *t, uint64_t now_ns, uint64_t piece_ns);

#endif
