/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_REGION_STATE_H
#define SL_COLLECT_READ_REGION_STATE_H

#include "collect/read/region.h"

struct collect_op;

void collect_region_unmap(struct collect_link *l, struct collect_region *r);
/* Sets the step and queues the region for control if it changed. */
void collect_region_set_step(struct collect_region *r, enum collect_step step);
/* A directory entry names it: it is to be mapped. */
void collect_region_bind(struct collect_link *l, struct collect_region *r,
			 const struct region_entry *e, uint32_t index);
/* No entry names it any more. */
void collect_region_unbind(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Maps it again later: it cannot be read now, through no fault of its own. */
void collect_region_retry_later(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Maps the region of a failed READ again if its memory is gone or has moved. */
void collect_region_read_failed(struct collect_link *l, struct collect_op *op, int status,
				uint64_t now_ns);
/* Hides its series and tries it again after a delay that doubles: its content is not valid. */
void collect_region_drop(struct collect_link *l, struct collect_region *r, enum region_fault fault,
			 uint64_t now_ns);
/* Takes the state of its publisher from the entry. */
void collect_region_state(struct collect_link *l, struct collect_region *r,
			  const struct region_entry *e);

#endif
