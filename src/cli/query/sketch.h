/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_sketch.h - sketches of one epoch that lie in several collectors, as translators went to
 * another while one was away: their cells are merged, as those of reporters are. Epochs of sketches
 * are counted by reporters, so that the same number is the same epoch everywhere.
 */
#ifndef SL_CLI_QUERY_SKETCH_H
#define SL_CLI_QUERY_SKETCH_H

#include <stdbool.h>

#include <jansson.h>

/*
 * Adds another collector's answer to all, both with their cells: of the same epoch merged, else the
 * newer one counts. Where cells can't be merged (too many, another seed or size), it is the one
 * that more reporters are in. key: as it was asked for, or NULL. says_more: the one of a, if not
 * both have found one.
 */
void cli_query_add_sketch(json_t *all, const json_t *a, const char *key, bool says_more);
/* Takes out of it what merging alone needs. Nothing of other kinds. */
void cli_query_end_sketch(json_t *all);

#endif
