// SPDX-License-Identifier: Apache-2.0
/* units.c - the unit tests of src/collect/read. */
#include <stddef.h>

#include "support/units.h"

int collect_test_calc(void), collect_test_codec(void), collect_test_plan(void),
	collect_test_names(void), collect_test_history(void);

static const struct test_unit units[] = {
	{"calc", collect_test_calc},	   {"codec", collect_test_codec},
	{"plan", collect_test_plan},	   {"names", collect_test_names},
	{"history", collect_test_history}, {NULL, NULL},
};

int main(int argc, char **argv)
{
	return test_run_unit(units, argc, argv);
}
