/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - UTF-8 and hexadecimal digits. Pure functions. */
#ifndef SL_BASE_TEXT_H
#define SL_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the well-formed UTF-8 sequence that s, of bytes > 0, begins with; 0 if it is ill-formed.
 * Of NUL-terminated text, bytes may be 4 throughout: reading ends at the NUL. */
size_t base_utf8_sequence(const char *s, size_t bytes);
/* Well-formed UTF-8 without NUL. */
bool base_utf8(const char *s, size_t bytes);

/* 2 * bytes lower-case digits and a NUL. */
void base_hex(char *to, const void *from, size_t bytes);
/* Exactly 2 * bytes digits of either case. 0 or -EINVAL; to may then be partly written. */
int base_unhex(void *to, const char *from, size_t bytes);

#endif
