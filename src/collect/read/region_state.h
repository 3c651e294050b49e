/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_REGION_STATE_H
#define SL_COLLECT_READ_REGION_STATE_H

#include "collect/read/region.h"

struct collect_op;

void collect_region_unmap(struct collect_link *l, struct collect_region *r);
/* Sets the step, and queues the region for control if the step changed. */
void collect_region_set_step(struct collect_region *r, enum collect_step step);
/* Binds the region to the directory entry that names it; the region is then mapped. */
void collect_region_bind(struct collect_link *l, struct collect_region *r,
			 const struct region_entry *e, uint32_t index);
/* Unbinds the region because no entry names it any more. */
void collect_region_unbind(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Maps the region again later: it cannot be read now for reasons outside the region. */
void collect_region_retry_later(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Maps the region again after a failed READ if its memory is gone or has moved. */
void collect_region_read_failed(struct collect_link *l, struct collect_op *op, int status,
				uint64_t now_ns);
/*
 * Hides the series of a region with invalid content, and tries the region again after a delay that
 * doubles each time.
 */
void collect_region_drop(struct collect_link *l, struct collect_region *r, enum region_fault fault,
			 uint64_t now_ns);
/* Takes the publisher's state from the entry. */
void collect_region_state(struct collect_link *l, struct collect_region *r,
			  const struct region_entry *e);

#endif
