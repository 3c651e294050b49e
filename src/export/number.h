/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.h - numbers as text, in the shortest form that reads back as the same number. Knows no
 * metric. All are pure; none writes more than EXPORT_NUMBER_MAX bytes, and none a NUL.
 */
#ifndef SL_EXPORT_NUMBER_H
#define SL_EXPORT_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#define EXPORT_NUMBER_MAX 32

/* Each returns the end of what it wrote. */
char *export_print_u64(char *p, uint64_t v);
char *export_print_i64(char *p, int64_t v);

/* A sample's value: "42", "0.1", "1.5e-09", "1e+300", "NaN", "+Inf", "-Inf". */
char *export_print_f64(char *p, double v);

/*
 * The bound of a bucket, as Go prints it, since "le" is compared as a string: exponents from 1e+06
 * and below 0.0001 on. With point there is always a "." or an exponent: OpenMetrics wants "1.0".
 */
char *export_print_bound(char *p, double v, bool point);

/* The shortest decimal that reads back as v > 0, finite: v is digits * 10^exponent. */
uint64_t export_shortest(double v, int *exponent);

#endif
