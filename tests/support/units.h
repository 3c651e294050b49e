/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units.h - combines several programs of unit tests into one, so that a change links only one
 * program.
 */
#ifndef SUPPORT_UNITS_H
#define SUPPORT_UNITS_H

#include <stdio.h>
#include <string.h>

struct test_unit {
	const char *name;
	int (*run)(void); /* returns the exit code */
};

/* Runs the unit named by the first argument. The last unit has no name. */
static inline int test_run_unit(const struct test_unit *unit, int argc, char **argv)
{
	for (; unit->name; unit++)
		if (argc == 2 && !strcmp(argv[1], unit->name))
			return unit->run();
	fprintf(stderr, "usage: %s UNIT; there is no unit '%s'\n", argv[0],
		argc > 1 ? argv[1] : "");
	return 2;
}

#endif
