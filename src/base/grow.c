// SPDX-License-Identifier: Apache-2.0
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

bool base_grow(void *array, size_t *room, size_t count, size_t size)
{
	size_t n = *room ? *room : 16;
	void *v;

	if (count <= *room)
		return true;
	/* Below this, neither n nor its size in bytes wraps. */
	if (count > SIZE_MAX / 2 / size)
		return false;
	while (n < count)
		n *= 2;
	memcpy(&v, array, sizeof(v));
	v = reallocarray(v, n, size);
	if (!v)
		return false;
	memcpy(array, &v, sizeof(v));
	*room = n;
	return true;
}

int base_by_u64(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

int base_by_f32(const void *a, const void *b)
{
	float x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}
