/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - a source made of arrays, and the source of the golden files. */
#ifndef TESTS_EXPORT_FIXTURE_H
#define TESTS_EXPORT_FIXTURE_H

#include <stdatomic.h>

#include "export/model.h"

struct fixture_label {
	const char *key, *value;
};

struct fixture_series {
	struct export_series s; /* labels are filled in by fixture_source() */
	struct fixture_label labels[8];
};

struct fixture_family {
	struct export_family f; /* series is filled in */
	const struct fixture_series *series;
	size_t count;
};

struct fixture {
	const struct fixture_family *families;
	size_t count;
	int fail_at;	   /* the walk fails with -EIO at this series; 0: never */
	int (*tick)(void); /* called at the start of a walk, or NULL */
	_Atomic int walks; /* under way */
};

struct export_source fixture_source(struct fixture *f);

/* Every kind, every escape, numbers at their limits, and clashing names. */
extern struct fixture fixture_kinds;
/* Names that promtool accepts, for the real Prometheus. */
extern struct fixture fixture_shop;

#define FAMILY(name_, help_, unit_, type_, array)                                  \
	{                                                                          \
		.f = {.name = name_, .help = help_, .unit = unit_, .type = type_}, \
		.series = array, .count = sizeof(array) / sizeof(*(array))         \
	}
#define U64(v) .value_type = EXPORT_VALUE_U64, .value.u64 = v
#define I64(v) .value_type = EXPORT_VALUE_I64, .value.i64 = v
#define F64(v) .value_type = EXPORT_VALUE_F64, .value.f64 = v

#endif
