// SPDX-License-Identifier: Apache-2.0
/*
 * A saved sketch, as a file or another host could have it. Each input is loaded as it
 * is, and once more with length and checksum made right, so that what lies behind them is reached.
 */
#include "../tests/sketch/exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *fixed;

	exercise_fd(data, size);
	if (size < FRAME)
		return 0;
	fixed = malloc(size);
	must(fixed);
	memcpy(fixed, data, size);
	for (int i = 0; i < 8; i++)
		fixed[8 + i] = (uint8_t)((uint64_t)size >> 8 * i);
	seal(fixed, size);
	exercise_fd(fixed, size);
	free(fixed);
	return 0;
}
