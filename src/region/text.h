/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - checks names, labels and UTF-8 by the rules of sidelight-region(5). */
#ifndef SL_REGION_TEXT_H
#define SL_REGION_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "region/decode.h"

bool region_text_metric_name(const char *s, size_t bytes); /* accepts [a-zA-Z_:][a-zA-Z0-9_:]* */
/* accepts any UTF-8, for SL_KIND_SUMMARY and later kinds */
bool region_text_name_utf8(const char *s, size_t bytes);
bool region_text_unit(const char *s, size_t bytes); /* accepts [a-zA-Z0-9_:]* */
/* accepts [a-zA-Z_][a-zA-Z0-9_]*, but not "__..." */
bool region_text_label_key(const char *s, size_t bytes);

/*
 * Splits text[0, bytes), "key NUL value NUL ...", into at most SL_LABELS_MAX labels that point into
 * it. utf8: keys may be any UTF-8, as for SL_KIND_SUMMARY and later kinds. Returns false if a
 * terminator is missing, a key or value is malformed or too long, a key occurs twice, or (if
 * sorted) keys do not ascend.
 */
bool region_text_labels(const char *text, size_t bytes, bool sorted, bool utf8,
			struct region_text_label labels[SL_LABELS_MAX], uint32_t *count);

/* Writes labels as such a text. Returns its full length, even if only `room` bytes were written. */
size_t region_text_put_labels(char *to, size_t room, const struct region_text_label *labels,
			      size_t count);

#endif
