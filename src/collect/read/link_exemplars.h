/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_LINK_EXEMPLARS_H
#define SL_COLLECT_READ_LINK_EXEMPLARS_H

#include <stdint.h>

struct collect_link;
struct collect_region;

/* After a pass, READs the region's new exemplars, if any, a few at a time. */
void collect_exemplars_read(struct collect_link *l, struct collect_region *r, uint64_t now_ns);

#endif
