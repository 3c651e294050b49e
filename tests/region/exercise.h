/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exercise.h - does with a region all that readers and agents do, and aborts if the decoder lets
 * through what it promises to hold back. For property tests and fuzzers.
 */
#ifndef TESTS_REGION_EXERCISE_H
#define TESTS_REGION_EXERCISE_H

#include <stddef.h>
#include <stdint.h>

#include "region/decode.h"

/* size bytes of anything. Returns the first fault that was met. */
enum region_fault exercise_region(const uint8_t *data, size_t size);

/* Makes the checksums of header, hot line, records and entries right, so that lies get through. */
void exercise_fix_checks(uint8_t *data, size_t size);

#endif
