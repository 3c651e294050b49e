/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decoding.h - code shared by the tests of the decoder: records which faults were reached, and
 * makes allocations fail on demand.
 */
#ifndef SL_TESTS_REGION_DECODING_H
#define SL_TESTS_REGION_DECODING_H

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "make_region.h"
#include "region/decode.h"

extern bool reached[REGION_FAULT_COUNT];
extern long allocations_left; /* before malloc, calloc and realloc fail; -1: no limit */
void *__real_malloc(size_t size);

#define expect_of(what, fault_, expr)                                             \
	do {                                                                      \
		enum region_fault got_ = (expr);                                  \
		reached[got_] = true;                                             \
		if (got_ != (fault_))                                             \
			fail_msg("%s: %s, not %s", what, region_fault_name(got_), \
				 region_fault_name(fault_));                      \
	} while (0)
#define expect(fault, expr) expect_of(#expr, fault, expr)

enum region_fault parse(const struct make *m, struct region_info *info);
/*
 * Parses the part of the schema that is new, and the section "created" if there is one, from a
 * separate allocation.
 */
enum region_fault append(struct region_schema *s, const struct region_info *info,
			 const struct make *m);

#define KINDS 8
extern const struct make_metric of_every_kind[KINDS];

/* The tests of each file, up to one without a name. */
#define NEWER_KINDS 9
extern const struct make_metric of_newer_kinds[NEWER_KINDS];

extern const struct CMUnitTest schema_tests[], values_tests[], created_tests[];

#endif
