/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relabel.h - selects and relabels the series that are sent to a remote-write receiver. Rules have
 * the form of Prometheus' write_relabel_configs; the actions are replace, keep, drop, labelkeep and
 * labeldrop. Not thread-safe.
 */
#ifndef SL_COLLECT_SEND_RELABEL_H
#define SL_COLLECT_SEND_RELABEL_H

#include <stddef.h>

#include "region/decode.h"

#define COLLECT_RELABEL_RULES 64u /* maximum number of rules in a file */

struct collect_relabel;

/* Labels of a series. */
struct collect_relabelled {
	struct region_text_label *label;
	size_t n, room;
	char *owned[COLLECT_RELABEL_RULES + 1]; /* label values allocated by rules */
	size_t owned_count;
};

/* Reads a YAML list of rules. Returns NULL with one line in error. */
struct collect_relabel *collect_relabel_load(const char *path, char *error, size_t error_bytes);
/*
 * Applies the rules in order to labels that include __name__. Returns 1, 0 if the series is
 * dropped, -ENOMEM, or -E2BIG if a value is too long or matching takes too many steps.
 */
int collect_relabel_apply(const struct collect_relabel *r, struct collect_relabelled *to);
void collect_relabelled_free(struct collect_relabelled *l); /* frees the owned values */
void collect_relabel_free(struct collect_relabel *r);	    /* r may be NULL */

#endif
