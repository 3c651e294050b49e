/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_PASS_H
#define SL_COLLECT_READ_PASS_H

#include <stdbool.h>
#include <stdint.h>

struct collect_link;
struct collect_region;

/* slow: no round waits for it, and its tenant's turn pays for it. False: out of memory. */
bool collect_pass_start(struct collect_link *l, struct collect_region *r, bool slow);
/* Posts READs as far as there is room, and part. True if the whole pass is in flight. */
bool collect_pass_issue(struct collect_link *l, struct collect_region *r);
/* Discards the pass: its memory is no longer ours, or not believed. */
void collect_pass_abort(struct collect_link *l, struct collect_region *r);
/* Ends a half-posted pass, so that the round does not wait for the rest. */
void collect_pass_cut_short(struct collect_link *l, struct collect_region *r);
/* Publishes values by cell of a synthetic region. */
void collect_pass_publish(struct collect_link *l, struct collect_region *r, const uint64_t *cell,
			  uint64_t now_ns);

#endif
