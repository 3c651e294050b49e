/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - helpers of the decoders of kernel tables (flows, layers, tasks, nic). */
#ifndef SL_REGION_INTERNAL_H
#define SL_REGION_INTERNAL_H

#include <string.h>

#include "region/decode.h"

/* Parses a copy of a header and requires this kind. */
enum region_fault region_kind_parse(const struct sl_region_header *copy, uint64_t actual_size,
				    uint32_t kind, struct region_info *info);
/*
 * region_section_find() for elements of exactly `size` bytes. Writes nothing if it returns false.
 */
bool region_section_exact(const struct sl_region_header *copy, uint32_t type, uint32_t size,
			  uint32_t most, uint64_t *offset, uint32_t *count);

/* Copies the fields common to the info structs of all kinds. */
#define REGION_TAKE_COMMON(to, from)                                           \
	do {                                                                   \
		(to)->size = (from)->size;                                     \
		(to)->instance = (from)->instance;                             \
		(to)->start_ns = (from)->start_ns;                             \
		(to)->hot = (from)->hot;                                       \
		memcpy((to)->boot_id, (from)->boot_id, sizeof((to)->boot_id)); \
	} while (0)

#endif
