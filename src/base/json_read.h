/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_read.h - the one reader of JSON that came from elsewhere. libjansson up to 2.14 loses
 * characters of a string when memory runs out while it grows, and then copies the string beyond its
 * end. Here such a text is refused.
 */
#ifndef SL_BASE_JSON_READ_H
#define SL_BASE_JSON_READ_H

#include <stddef.h>

#include <jansson.h>

/*
 * Has libjansson ask us for memory. Once, by a program's main(), before there are threads or
 * values; without it, base_json_read() is as good as libjansson.
 */
void base_json_guard(void);

/*
 * The value that all of text is, in which no key stands twice. NULL, and why in *error (may be
 * NULL): not JSON, or out of memory. text: NULL if bytes is 0. Any thread.
 */
json_t *base_json_read(const char *text, size_t bytes, json_error_t *error);

#endif
