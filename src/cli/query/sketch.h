/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sketch.h - merges sketches of one epoch that lie in several collectors, because translators
 * changed to another while one was away. Reporters count epochs, so that equal numbers mean the
 * same epoch everywhere.
 */
#ifndef SL_CLI_QUERY_SKETCH_H
#define SL_CLI_QUERY_SKETCH_H

#include <stdbool.h>

#include <jansson.h>

/*
 * Adds another collector's answer to all, both with cells: sketches of one epoch are merged, else
 * the newer wins. If cells cannot be merged (too many, other seed or size), the one with more
 * reporters wins. key: as asked, or NULL. says_more: a wins unless both found one.
 */
void cli_query_add_sketch(json_t *all, const json_t *a, const char *key, bool says_more);
/* Removes the members that only merging needs. */
void cli_query_end_sketch(json_t *all);

#endif
