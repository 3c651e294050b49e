/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exercise.h - does everything with a region that readers and agents do, and aborts if the decoder
 * accepts something that it promises to refuse. For property tests and fuzzers.
 */
#ifndef TESTS_REGION_EXERCISE_H
#define TESTS_REGION_EXERCISE_H

#include <stddef.h>
#include <stdint.h>

#include "region/decode.h"

/* Takes any bytes. Returns the first fault. */
enum region_fault exercise_region(const uint8_t *data, size_t size);

/*
 * Corrects the checksums of header, hot line, records and entries, so that lies are not refused for
 * them.
 */
void exercise_fix_checks(uint8_t *data, size_t size);

#endif
