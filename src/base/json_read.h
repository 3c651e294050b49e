/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_read.h - the parser for JSON from untrusted sources. libjansson up to 2.14 loses characters
 * of a string when memory runs out while the string grows, and then copies beyond its end. Here
 * such a text is refused.
 */
#ifndef SL_BASE_JSON_READ_H
#define SL_BASE_JSON_READ_H

#include <stddef.h>

#include <jansson.h>

/*
 * Installs our allocator in libjansson. Call it once, from main(), before there are threads or JSON
 * values. Without it, base_json_read() is only as safe as libjansson.
 */
void base_json_guard(void);

/*
 * Parses the whole text as one value and refuses duplicate keys. Returns NULL with the reason in
 * *error (may be NULL): not JSON, or out of memory. text may be NULL if bytes is 0. Thread-safe.
 */
json_t *base_json_read(const char *text, size_t bytes, json_error_t *error);

#endif
