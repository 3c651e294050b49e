/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.h - selects the regions that a round reads. If reading all regions takes longer than the
 * period, each tenant that costs more than its fair part is marked as slow. The passes of a slow
 * tenant run outside the rounds, limited to its part in lines per round, and its regions are read
 * in laps of at least k rounds. Other tenants are read at the full rate.
 */
#ifndef SL_COLLECT_READ_TURN_H
#define SL_COLLECT_READ_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collect_link;
struct collect_region;
struct collect_turn;

/*
 * A tenant's demand (lines) and allotment (part) in lines per round; a part of 0 means unlimited.
 */
struct collect_claim {
	uint64_t lines, part;
	bool exempt;
};

/*
 * Water-filling: returns the level up to which every claim is satisfied; larger claims get just
 * this level. UINT64_MAX: all are satisfied. Sorts the claims. Pure function.
 */
uint64_t collect_fair_level(uint64_t *claim, size_t n, uint64_t left);
/*
 * Divides a budget of lines per round into max-min fair shares, but no share is below the average
 * demand of the other tenants. Pure function.
 */
void collect_turns_divide(struct collect_claim *claim, uint32_t count, uint64_t budget);

/* Called at the start of a round. */
void collect_turns_begin(struct collect_link *l, uint64_t now_ns);
void collect_turns_free(struct collect_link *l);
bool collect_turn_slow(const struct collect_region *r);
/*
 * Called once per round for each region of a slow tenant. Returns true if the region starts a pass
 * now. No region is read twice before all of the tenant's regions have been read once. Otherwise,
 * if a round ran out of READs, the last regions of the list would never be read.
 */
bool collect_turn_due(const struct collect_region *r);
/* Returns when the lap before the current one began. Thread-safe. */
uint64_t collect_turn_last_lap(const struct collect_region *r);
/* Called when a region starts a pass. */
void collect_turn_take(struct collect_region *r);
/* Charges a READ to the tenant's part of this round; returns false if nothing is left of it. */
bool collect_turn_pay(const struct collect_region *r, uint32_t bytes);

/*
 * Schemas are read outside the rounds, but by the same worker. Each tenant may spend a fixed share
 * of the worker's time on this, or less if many tenants have schemas to read.
 */
/* Called before the regions of a link are set up. */
void collect_turns_set_up(struct collect_link *l);
/* Returns true if the region may read a piece of its schema now. */
bool collect_turn_schema(const struct collect_region *r, uint64_t now_ns);
/* Charges time spent on a piece of a schema to the region's tenant. */
void collect_turn_spend(const struct collect_region *r, uint64_t spent_ns, uint64_t now_ns);

/*
 * Returns when a region may read its next piece of exemplars: the regions of a tenant take turns,
 * one piece per piece_ns in total.
 */
uint64_t collect_turn_exemplars(struct collect_turn *t, uint64_t now_ns, uint64_t piece_ns);

#endif
