/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label.h - label sets as in the exposition: k1="v1",k2="v2". Labels are escaped once, when a
 * layout is made; a scrape only copies them.
 */
#ifndef SL_COLLECT_READ_LABEL_H
#define SL_COLLECT_READ_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/relaxed.h"
#include "collect/read/ref.h"
#include "region/decode.h"

/* An immutable label set in one allocation, shared by reference. */
struct collect_label_set {
	unsigned int refs;
	uint32_t count;
	uint32_t text_bytes;
	bool utf8;		 /* a key needs UTF-8 and is quoted */
	uint64_t hash;		 /* hash of text */
	const char *text;	 /* NUL-terminated; "" if there are no labels */
	const char *const *keys; /* unescaped, in the same order as in text */
	const char *const *values;
	size_t bytes;	  /* size of the allocation */
	uint64_t *memory; /* counts this size; NULL: nothing does */
};

/* Copies the labels. Returns NULL with errno ENOMEM on failure. */
struct collect_label_set *collect_label_set_new(const struct region_text_label *labels,
						uint32_t count);
static inline struct collect_label_set *collect_label_set_ref(struct collect_label_set *set)
{
	collect_ref_get(&set->refs);
	return set;
}
/* Counts the size of a new set in *memory until its last reference is put. */
static inline void collect_label_set_count(struct collect_label_set *set, uint64_t *memory)
{
	set->memory = memory;
	relaxed_add(*memory, set->bytes);
}
static inline void collect_label_set_put(struct collect_label_set *set)
{
	if (!set || !collect_ref_put(&set->refs))
		return;
	if (set->memory)
		relaxed_sub(*set->memory, set->bytes);
	free(set);
}
/*
 * Renames labels whose keys are taken to exported_KEY, as Prometheus does with a target's labels.
 * The prefix is repeated while the new key is taken or used by another label. Returns false if out
 * of memory. The caller frees *names, which holds the new keys.
 */
bool collect_labels_export(struct region_text_label *labels, uint32_t count,
			   const char *const *taken, uint32_t taken_count, char **names);

#endif
