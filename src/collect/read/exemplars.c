// SPDX-License-Identifier: Apache-2.0
/*
 * exemplars.c - stores a region's exemplar elements by the ID of their record. An element belongs
 * to one cell for good, so it is linked once, and lists only grow.
 */
#include "collect/read/exemplars.h"

#include <stdlib.h>

#include "collect/read/collector_internal.h"

struct collect_exemplars {
	uint32_t mask;
	size_t bytes;
	uint32_t *first; /* first element of each bucket (id & mask); 0 means none */
	uint32_t *next;	 /* next element of the same bucket, by element */
	uint32_t *id;	 /* record ID by element; set before the element is linked */
	uint64_t (*words)[REGION_EXEMPLAR_WORDS];
};

/*
 * Allocates room for all elements; pages are touched only as elements arrive. Returns NULL if out
 * of memory.
 */
static struct collect_exemplars *exemplars_new(uint32_t elements)
{
	uint32_t buckets = 16;
	struct collect_exemplars *e;
	size_t bytes;

	while (buckets < elements)
		buckets *= 2;
	bytes = sizeof(*e) + elements * (sizeof(*e->words) + 2 * sizeof(uint32_t)) +
		buckets * sizeof(uint32_t);
	e = calloc(1, bytes);
	if (!e)
		return NULL;
	e->mask = buckets - 1;
	e->bytes = bytes;
	e->words = (uint64_t(*)[REGION_EXEMPLAR_WORDS])(e + 1);
	e->first = (uint32_t *)(e->words + elements);
	e->next = e->first + buckets;
	e->id = e->next + elements;
	return e;
}

void collect_exemplars_take(struct collect_region *r, uint32_t i,
			    const uint64_t words[REGION_EXEMPLAR_WORDS])
{
	struct collect_exemplars *e = r->exemplars;
	struct region_exemplar parsed;
	enum region_fault fault = region_exemplar_parse(words, &parsed);
	uint32_t *first;

	if (fault && fault != REGION_FAULT_UNSETTLED)
		relaxed_add(r->c->exemplars_malformed, 1);
	/* With a check word of 0, the element would look empty and be linked again, to itself. */
	if (fault || i >= r->info->max_exemplars || !words[7])
		return;
	if (!e) {
		e = exemplars_new(r->info->max_exemplars);
		if (!e) {
			relaxed_add(r->c->exemplars_memory, 1);
			return;
		}
		relaxed_add(r->c->memory, e->bytes);
		/* Pairs with the acquire in collect_exemplars_next(). */
		__atomic_store_n(&r->exemplars, e, __ATOMIC_RELEASE);
	}
	first = &e->first[parsed.id & e->mask];
	if (!e->words[i][7]) { /* still empty */
		e->id[i] = parsed.id;
		e->next[i] = *first;
		/* Pairs with the acquire in collect_exemplars_next(). */
		__atomic_store_n(first, i, __ATOMIC_RELEASE);
	} else if (e->id[i] != parsed.id) { /* no correct writer changes an element's ID */
		relaxed_add(r->c->exemplars_malformed, 1);
		return;
	}
	if (e->words[i][SL_EXEMPLAR_TAG] != words[SL_EXEMPLAR_TAG] &&
	    export_exemplar_is_long(&(struct export_exemplar){.labels = parsed.labels,
							      .label_count = parsed.label_count}))
		relaxed_add(r->c->exemplars_long, 1);
	for (uint32_t k = 0; k < REGION_EXEMPLAR_WORDS; k++)
		relaxed_store(e->words[i][k], words[k]);
}

void collect_exemplars_free(struct collect_region *r)
{
	if (r->exemplars)
		relaxed_sub(r->c->memory, r->exemplars->bytes);
	free(r->exemplars);
	r->exemplars = NULL;
}

bool collect_exemplars_next(const struct collect_region *r, const struct collect_column *col,
			    uint32_t *at, struct region_exemplar *out)
{
	const struct collect_exemplars *e = __atomic_load_n(&r->exemplars, __ATOMIC_ACQUIRE);
	uint64_t words[REGION_EXEMPLAR_WORDS];
	struct region_metric m = col->def->metric;
	uint32_t i;

	if (!e)
		return false;
	m.id = col->id;
	m.created_ns = col->created_ns;
	i = *at ? e->next[*at] : __atomic_load_n(&e->first[col->id & e->mask], __ATOMIC_ACQUIRE);
	for (; i; i = e->next[i]) {
		if (e->id[i] != col->id)
			continue;
		for (uint32_t k = 0; k < REGION_EXEMPLAR_WORDS; k++)
			words[k] = relaxed_load(e->words[i][k]);
		/* An element torn by the worker does not verify and is left out this time. */
		if (region_exemplar_parse(words, out) || !region_exemplar_fits(out, &m))
			continue;
		*at = i;
		return true;
	}
	return false;
}
