/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_PASS_H
#define SL_COLLECT_READ_PASS_H

#include <stdbool.h>
#include <stdint.h>

struct collect_link;
struct collect_region;

/*
 * slow: no round waits for the pass, and its tenant's turn pays for it. Returns false if out of
 * memory.
 */
bool collect_pass_start(struct collect_link *l, struct collect_region *r, bool slow);
/*
 * Posts as many READs as there is room for, possibly part of a READ. Returns true if the whole pass
 * is in flight.
 */
bool collect_pass_issue(struct collect_link *l, struct collect_region *r);
/* Discards the pass, because the memory is no longer the region's or its data is not trusted. */
void collect_pass_abort(struct collect_link *l, struct collect_region *r);
/* Ends a partly posted pass, so that the round does not wait for the rest. */
void collect_pass_cut_short(struct collect_link *l, struct collect_region *r);
/* Publishes a synthetic region's values, given by cell. */
void collect_pass_publish(struct collect_link *l, struct collect_region *r, const uint64_t *cell,
			  uint64_t now_ns);

#endif
