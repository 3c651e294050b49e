/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label.h - label sets as in the exposition: k1="v1",k2="v2". They are escaped once, when a layout
 * is made; a scrape only copies.
 */
#ifndef SL_COLLECT_READ_LABEL_H
#define SL_COLLECT_READ_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "region/decode.h"

/* One allocation; immutable. */
struct collect_label_set {
	uint32_t count;
	uint32_t text_bytes;
	bool utf8;		 /* a key needs it, and stands in quotes */
	uint64_t hash;		 /* of text */
	const char *text;	 /* NUL-terminated, "" if there are none */
	const char *const *keys; /* unescaped, in the order of text */
	const char *const *values;
	size_t bytes; /* of the allocation */
};

/* Copies and renders; NULL with errno ENOMEM. Free with free(). */
struct collect_label_set *collect_label_set_new(const struct region_text_label *labels,
						uint32_t count);
struct collect_label_set *collect_label_set_copy(const struct collect_label_set *from);
/*
 * Renames labels whose keys are taken to exported_KEY, as Prometheus does with labels of a target;
 * the prefix is repeated while another label has that key or it is taken, too. False: out of
 * memory. The caller frees *names, which holds the new keys.
 */
bool collect_labels_export(struct region_text_label *labels, uint32_t count,
			   const char *const *taken, uint32_t taken_count, char **names);

#endif
