/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - UTF-8, truncation, control characters, and hexadecimal digits. Pure functions. */
#ifndef SL_BASE_TEXT_H
#define SL_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns the length of the well-formed UTF-8 sequence at the start of s, which has bytes > 0; 0 if
 * malformed. For NUL-terminated text, bytes may always be 4: reading stops at the NUL.
 */
size_t base_utf8_sequence(const char *s, size_t bytes);
/* True for well-formed UTF-8 without NUL. */
bool base_utf8(const char *s, size_t bytes);
/* Returns how many of the bytes to keep, at most `most`, without cutting within a character. */
size_t base_utf8_cut(const char *s, size_t bytes, size_t most);
/*
 * Makes untrusted text printable: control characters (C0, DEL, and C1 in UTF-8), which could
 * control a terminal, become '?'. In text that is not valid UTF-8, all non-ASCII bytes do, too.
 */
void base_harmless(char *s);

/* Writes 2 * bytes lower-case digits and a NUL. */
void base_hex(char *to, const void *from, size_t bytes);
/* Reads exactly 2 * bytes digits of either case. Returns 0, or -EINVAL after a partial write. */
int base_unhex(void *to, const char *from, size_t bytes);

#endif
