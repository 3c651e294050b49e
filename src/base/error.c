// SPDX-License-Identifier: Apache-2.0
/* error.c - growing arrays, and errors in words. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

bool base_grow(void *array, size_t *room, size_t n, size_t bytes)
{
	size_t more = *room ? 2 * *room : 16;
	void *v;

	if (n < *room)
		return true;
	memcpy(&v, array, sizeof(v));
	v = reallocarray(v, more, bytes);
	if (!v)
		return false;
	memcpy(array, &v, sizeof(v));
	*room = more;
	return true;
}

int base_fail(char *why, size_t bytes, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, bytes, fmt, ap);
	va_end(ap);
	return error;
}
