/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - the rules for names, labels and UTF-8 (sidelight-region(5)); not part of the library's
 * API. */
#ifndef SL_REGION_TEXT_H
#define SL_REGION_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "region/decode.h"

bool region_text_metric_name(const char *s, size_t bytes); /* [a-zA-Z_:][a-zA-Z0-9_:]* */
bool region_text_unit(const char *s, size_t bytes);	   /* [a-zA-Z0-9_:]* */
bool region_text_label_key(const char *s, size_t bytes);   /* [a-zA-Z_][a-zA-Z0-9_]*, not "__..." */

/*
 * Splits text[0, bytes), "key NUL value NUL ...", into at most SL_LABELS_MAX labels that point
 * into it. False if any rule is broken: an end missing, a key or value ill-formed or too long, a
 * key twice, or (sorted) keys that do not ascend.
 */
bool region_text_labels(const char *text, size_t bytes, bool sorted,
			struct region_text_label labels[SL_LABELS_MAX], uint32_t *count);

/*
 * Text of a stranger, for people to read: control characters (C0, DEL, and C1 as UTF-8 has them),
 * which could steer a terminal, become '?'; if it is no UTF-8 all bytes above ASCII do.
 */
void region_text_harmless(char *s);

#endif
