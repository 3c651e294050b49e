/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka, with the headers that must precede it, and whether a test runs under valgrind. */
#ifndef SUPPORT_TEST_H
#define SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/*
 * Seconds after which a process that a test started has certainly hung, however slow and busy the
 * machine.
 */
#define TEST_HANGS_S 300

/*
 * Returns whether valgrind is used, where long double is a double and freed memory is kept for a
 * while.
 */
static inline bool test_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "vgpreload");
}

#endif
