/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - what schema.c prepares for values.c, private to src/region. */
#ifndef SL_REGION_SCHEMA_H
#define SL_REGION_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

/* A cell whose value is not the u64 sum over the stripes. */
struct region_special {
	uint32_t cell;
	bool f64;    /* folded double */
	bool shared; /* stripe 0 only */
};

#endif
