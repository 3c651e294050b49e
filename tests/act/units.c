// SPDX-License-Identifier: Apache-2.0
/* units.c - the unit tests of src/collect/judge. */
#include <stddef.h>

#include "support/units.h"

int act_test_judge(void), act_test_measured(void), act_test_edges(void), act_test_record(void),
	act_test_features(void), act_test_judged(void);

static const struct test_unit units[] = {
	{"judge", act_test_judge},
	{"measured", act_test_measured},
	{"edges", act_test_edges},
	{"record", act_test_record},
	{"features", act_test_features},
	{"judged", act_test_judged},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return test_run_unit(units, argc, argv);
}
