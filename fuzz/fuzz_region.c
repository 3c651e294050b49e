// SPDX-License-Identifier: Apache-2.0
/*
 * A whole region of metrics, as a publisher could have made it: header, hot line, schema, values,
 * repair. Each input is read as it is, and once more with its checksums made right, so that what
 * lies behind them is reached too.
 */
#include <stdlib.h>
#include <string.h>

#include "../tests/region/exercise.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *fixed;

	exercise_region(data, size);
	fixed = malloc(size ? size : 1);
	if (!fixed)
		return 0;
	memcpy(fixed, data, size);
	exercise_fix_checks(fixed, size);
	exercise_region(fixed, size);
	free(fixed);
	return 0;
}
