/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_TAP_H
#define SL_COLLECT_READ_TAP_H

#include <stdint.h>

struct collect_link;
struct collect_region;

/* Hands a complete pass to the taps; cell: the values by cell. */
void collect_tap_row(struct collect_link *l, struct collect_region *r, const uint64_t *cell);
void collect_tap_gone(struct collect_region *r);

#endif
