/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.h - formats numbers as the shortest text that reads back as the same number. Pure
 * functions; each writes at most BASE_NUMBER_MAX bytes, without a NUL, and returns the end.
 */
#ifndef SL_BASE_NUMBER_H
#define SL_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#define BASE_NUMBER_MAX 32

char *base_print_u64(char *p, uint64_t v);
char *base_print_i64(char *p, int64_t v);

/* Formats a sample value: "42", "0.1", "1.5e-09", "1e+300", "NaN", "+Inf", "-Inf". */
char *base_print_f64(char *p, double v);

/*
 * Formats a bucket bound like Go, because readers compare "le" as a string: with an exponent at
 * 1e+06 and above, and below 0.0001. If point is set, the text has a "." or an exponent, as
 * OpenMetrics requires ("1.0").
 */
char *base_print_bound(char *p, double v, bool point);

/*
 * Returns the shortest decimal that reads back as v, which must be finite and > 0. v is digits *
 * 10^exponent.
 */
uint64_t base_shortest(double v, int *exponent);

#endif
