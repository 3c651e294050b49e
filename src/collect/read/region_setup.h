/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_REGION_SETUP_H
#define SL_COLLECT_READ_REGION_SETUP_H

#include <stdint.h>

struct collect_link;

void collect_region_setup(struct collect_link *l, uint64_t now_ns);

#endif
