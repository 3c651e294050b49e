/* SPDX-License-Identifier: Apache-2.0 */
/* fake_counter.h - included before lib/span.c: it then reads the counter of test_span_clock.c. */
#ifndef SL_TEST_FAKE_COUNTER_H
#define SL_TEST_FAKE_COUNTER_H

#include <stdint.h>

uint64_t fake_counter(void);
#define __builtin_ia32_rdtsc fake_counter

#endif
