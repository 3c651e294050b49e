// SPDX-License-Identifier: Apache-2.0
/* error.c - formats error messages. */
#include <stdarg.h>

#include "base/base.h"

int base_fail(char *why, size_t bytes, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, bytes, fmt, ap);
	va_end(ap);
	return error;
}
