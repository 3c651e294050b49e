/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_AGENT_BUILD_H
#define SL_AGENT_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "region/decode.h"

struct agent_build {
	uint32_t kind;
	uint64_t size;
	const struct sl_region_section *section;
	uint32_t section_count;
	const struct region_text_label *labels;
	size_t label_count;
};

/* Creates a memfd of fixed size, its mapping and a random instance. Returns 0 or -errno. */
int agent_build_region(const struct agent_build *b, const char *name, int *fd, void **map,
		       uint64_t *instance);
void agent_line_store(uint64_t *to,
		      const uint64_t cells[7]); /* stores a whole line that only the agent writes */
void agent_line_set(uint64_t *line, unsigned int cell,
		    uint64_t v);    /* sets a cell of a line that others may add to */
int agent_reopen_read_only(int fd); /* returns a descriptor or -errno */
/* Prevents writing except through existing mappings, and further seals. Returns 0 or -errno. */
int agent_seal(int fd);

#endif
