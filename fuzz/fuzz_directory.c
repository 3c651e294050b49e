// SPDX-License-Identifier: Apache-2.0
/*
 * A directory: lines of any content, first as the hot line and entries by themselves, then as the
 * body of a directory whose header is right, so that an input needs no header to get through.
 */
#include <stdlib.h>
#include <string.h>

#include "../tests/region/exercise.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_body(const uint8_t *data, size_t size, bool fix)
{
	size_t lines = size / 64, whole = SL_HEADER_SIZE + lines * 64;
	struct sl_region_header h = {
		.version = SL_REGION_VERSION,
		.header_size = SL_HEADER_SIZE,
		.size = whole,
		.kind = SL_REGION_DIRECTORY,
		.instance = 1,
		.section_count = 2,
		.section = {{SL_SECTION_HOT, 64, SL_HEADER_SIZE, 64},
			    {SL_SECTION_ENTRIES, 64, SL_HEADER_SIZE + 64, (lines - 1) * 64}},
	};
	uint8_t *region = malloc(whole);

	must(region);
	memcpy(h.magic, SL_REGION_MAGIC, 8);
	memcpy(region, &h, sizeof(h));
	memcpy(region + SL_HEADER_SIZE, data, lines * 64);
	if (fix)
		exercise_fix_checks(region, whole);
	else
		((struct sl_region_header *)region)->check =
			sl_fnv1a(SL_FNV_BASIS, region, offsetof(struct sl_region_header, check));
	must(exercise_region(region, whole) != REGION_FAULT_SECTION);
	free(region);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 128)
		return 0;
	as_body(data, size, false);
	as_body(data, size, true);
	return 0;
}
