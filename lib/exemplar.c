// SPDX-License-Identifier: Apache-2.0
/*
 * exemplar.c - exemplars of counters and histograms: the section of sidelight-region(5) with one
 * element for each cell that has ever had an exemplar.
 *
 * A hash table maps a cell to its element. The table only grows; it is written under the lock and
 * read without. A thread claims the element while it sets an exemplar. If another thread, or a
 * signal handler on the same one, finds the element claimed, it drops its own exemplar: either is
 * as good.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "metric.h"

struct element {
	_Atomic bool taken;
	uint32_t id, cell; /* ID of the record; index of the cell within the record */
	/* number of the latest exemplar; only the thread that claimed the element writes it */
	uint64_t number;
};

struct sl__exemplars {
	uint32_t used, max;	 /* elements including the head; protected by the lock */
	uint32_t mask;		 /* size of the table - 1 */
	_Atomic bool ready;	 /* true once the section is allocated */
	_Atomic uint64_t *table; /* cell + 1 in bits 32-63, element in bits 0-31; 0 means empty */
	struct element element[];
};

uint64_t sl__exemplars_bytes(uint32_t elements)
{
	return ((uint64_t)elements * SL_EXEMPLAR_SIZE + SL__PAGE - 1) & ~(uint64_t)(SL__PAGE - 1);
}

int sl__exemplars_make(struct sl__region *r)
{
	struct sl__exemplars *e = r->exemplars;
	uint32_t entries = 4;

	while (entries < 2 * r->exemplar_elements)
		entries *= 2;
	if (!e) {
		e = calloc(1, sizeof(*e) + r->exemplar_elements * sizeof(struct element));
		if (!e)
			return -ENOMEM;
		e->table = calloc(entries, sizeof(*e->table));
		if (!e->table) {
			free(e);
			return -ENOMEM;
		}
		r->exemplars = e;
	}
	/* A forked child has its own region: discard the parent's elements. */
	e->used = 0;
	e->max = r->exemplar_elements;
	e->mask = entries - 1;
	e->ready = false;
	for (uint32_t i = 0; i < entries; i++)
		atomic_store_explicit(&e->table[i], 0, memory_order_relaxed);
	memset(e->element, 0, e->max * sizeof(struct element));
	return 0;
}

void sl__exemplars_free(struct sl__region *r)
{
	if (r->exemplars)
		free(r->exemplars->table);
	free(r->exemplars);
}

/* ---- elements ---- */

static _Atomic uint64_t *entry_of(struct sl__exemplars *e, uint32_t cell)
{
	uint32_t at = cell * 0x9e3779b1u >> 7;

	for (;; at++) {
		_Atomic uint64_t *entry = &e->table[at & e->mask];
		/* Acquire pairs with the release in element_new(): the element is filled in. */
		uint64_t v = atomic_load_explicit(entry, memory_order_acquire);

		if (!v || v >> 32 == cell + 1ull)
			return entry;
	}
}

static void head_add(uintptr_t section, enum sl_exemplar_head_cell cell, uint64_t n)
{
	sl__plain_add(section + cell * 8u, n);
}

/* Finds the record that owns this cell. Slow, but only called once per element. */
static const struct sl__metric *metric_of(const struct sl__region *r, uint32_t cell)
{
	const struct sl__metric *m;

	for (m = r->first; m; m = m->next_new)
		if (cell - m->record.cell < m->record.cells)
			return m;
	return NULL;
}

/* Allocates the element of a cell that has none. Returns 0 if there is no space. */
static uint32_t element_new(struct sl__region *r, uintptr_t section, uint32_t cell)
{
	struct sl__exemplars *e = r->exemplars;
	const struct sl__metric *m;
	_Atomic uint64_t *entry;
	struct sl__guard guard;
	uint32_t index = 0;

	sl__lock(&guard);
	entry = entry_of(e, cell);
	index = (uint32_t)atomic_load_explicit(entry, memory_order_relaxed);
	if (index)
		goto out; /* another thread has allocated it in the meantime */
	if (e->used == e->max)
		goto out;
	m = metric_of(r, cell);
	if (!m)
		goto out;
	if (!e->ready) {
		if (sl__allocate(r, r->exemplars_offset, sl__exemplars_bytes(e->max)))
			goto out;
		e->ready = true;
		e->used = 1;
		head_add(section, SL_EXEMPLAR_HEAD_USED, 1);
	}
	index = e->used++;
	e->element[index].id = m->record.id;
	e->element[index].cell = cell - m->record.cell;
	head_add(section, SL_EXEMPLAR_HEAD_USED, 1);
	atomic_store_explicit(entry, (cell + 1ull) << 32 | index, memory_order_release);
out:
	sl__unlock(&guard);
	return index;
}

/* ---- labels ---- */

/* Appends text and its NUL. Returns false if it does not fit. */
static bool append_text(char *to, uint32_t *at, const char *text)
{
	size_t n = strlen(text) + 1;

	if (n > SL_EXEMPLAR_LABELS - *at)
		return false;
	memcpy(to + *at, text, n);
	*at += (uint32_t)n;
	return true;
}

static void format_hex(char *to, uint64_t v)
{
	for (int i = 15; i >= 0; i--, v >>= 4)
		to[i] = "0123456789abcdef"[v & 15];
}

static bool encode_labels(const struct sl_exemplar *x, char *to, uint32_t *bytes)
{
	char id[33] = "";

	*bytes = 0;
	if (x->span_id) {
		format_hex(id, x->span_id);
		if (!append_text(to, bytes, "span_id") || !append_text(to, bytes, id))
			return false;
	}
	if (x->trace_hi | x->trace_lo) {
		format_hex(id, x->trace_hi);
		format_hex(id + 16, x->trace_lo);
		if (!append_text(to, bytes, "trace_id") || !append_text(to, bytes, id))
			return false;
	}
	if (x->label_count > SL_LABELS_MAX - 2 || (x->label_count && !x->labels))
		return false;
	for (size_t i = 0; i < x->label_count; i++) {
		const struct sl_label *l = &x->labels[i];
		size_t unused;

		if (!sl__label_key_valid(l->key, NULL, false) || !l->value ||
		    !sl__utf8(l->value, SL_LABEL_VALUE_MAX, &unused))
			return false;
		for (uint32_t at = 0; at < *bytes;) { /* reject duplicate keys */
			if (!strcmp(to + at, l->key))
				return false;
			at += (uint32_t)strlen(to + at) + 1;
			at += (uint32_t)strlen(to + at) + 1;
		}
		if (!append_text(to, bytes, l->key) || !append_text(to, bytes, l->value))
			return false;
	}
	return true;
}

/* ---- setting ---- */

/* Relaxed: the check word tells a reader whether its copy is consistent. */
static void put_line(uint64_t *to, const uint64_t line[8])
{
	for (int i = 0; i < 7; i++)
		__atomic_store_n(to + i, line[i], __ATOMIC_RELAXED);
	__atomic_store_n(to + 7, sl_sealed_check(line), __ATOMIC_RELAXED);
}

void sl__exemplar_set(unsigned int slot, uint32_t cell, double value, bool mirror,
		      const struct sl_exemplar *opts)
{
	/* sl__shared() handles the first use in a forked child */
	uintptr_t shared = sl__shared(slot), section;
	struct sl__region *r = atomic_load(&sl__slots[slot].region);
	struct sl_exemplar x = {0};
	union {
		char text[SL_EXEMPLAR_LABELS];
		uint64_t words[SL_EXEMPLAR_LABELS / 8];
	} labels = {.words = {0}};
	const uint64_t *words = labels.words;
	struct element *element;
	uint32_t index, bytes;
	uint64_t created;

	if (!opts || !shared || !r)
		return;
	section = shared - r->stripe_offset + r->exemplars_offset;
	index = (uint32_t)atomic_load_explicit(entry_of(r->exemplars, cell), memory_order_acquire);
	if (!index)
		index = element_new(r, section, cell);
	if (!index || !SL__HAS(opts, span_id) || !sl__opts_take(&x, sizeof(x), opts) ||
	    !encode_labels(&x, labels.text, &bytes))
		goto dropped;
	element = &r->exemplars->element[index];
	created = __atomic_load_n((uint64_t *)(shared - r->stripe_offset + r->created_offset +
					       sl_cell_offset(element->id)),
				  __ATOMIC_RELAXED);
	if (!created)
		goto dropped; /* the metric was removed */
	/* Acquire pairs with the release below: the next owner's stores follow ours. */
	if (atomic_exchange_explicit(&element->taken, true, memory_order_acquire))
		goto dropped;
	element->number++;
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t line[8] = {SL_EXEMPLAR_TAG_OF(element->number, i)};

		if (i) {
			memcpy(line + 1, words, 48);
			words += 6;
		} else {
			line[SL_EXEMPLAR_OF] = element->id | (uint64_t)element->cell << 32;
			line[SL_EXEMPLAR_CREATED] = created;
			memcpy(&line[SL_EXEMPLAR_VALUE], &value, 8);
			line[SL_EXEMPLAR_TIME] = x.time_ns || mirror ? x.time_ns
								     : sl__realtime_ns();
			line[SL_EXEMPLAR_BYTES] = bytes;
			line[SL_EXEMPLAR_TEXT] = *words++;
		}
		put_line((uint64_t *)(section + (uintptr_t)index * SL_EXEMPLAR_SIZE +
				      i * (uintptr_t)SL_LINE_SIZE),
			 line);
	}
	atomic_store_explicit(&element->taken, false, memory_order_release);
	head_add(section, SL_EXEMPLAR_HEAD_SET, 1);
	return;

dropped:
	/* Until the section is allocated, count the drop as a refused observation. */
	if (r->exemplars->ready)
		head_add(section, SL_EXEMPLAR_HEAD_DROPPED, 1);
	else
		sl__refuse_observation(slot);
}

static uint32_t cell_of(uint64_t bits)
{
	uint32_t offset = (uint32_t)bits;

	return offset / SL_LINE_SIZE * SL_LINE_CELLS + offset % SL_LINE_SIZE / 8;
}

void sl_counter_add_exemplar(struct sl_counter c, uint64_t n, const struct sl_exemplar *exemplar)
{
	unsigned int slot = sl__slot_of(c.bits);

	sl_counter_add(c, n);
	if (slot != SL__SLOT_NONE)
		sl__exemplar_set(slot, cell_of(c.bits), (double)n, false, exemplar);
}

void sl_counter_f64_add_exemplar(struct sl_counter_f64 c, double v,
				 const struct sl_exemplar *exemplar)
{
	unsigned int slot = sl__slot_of(c.bits);

	sl_counter_f64_add(c, v);
	if (slot != SL__SLOT_NONE && v >= 0 && v <= __DBL_MAX__)
		sl__exemplar_set(slot, cell_of(c.bits), v, false, exemplar);
}

void sl_counter_f64_mirror_exemplar(struct sl_counter_f64 c, double value,
				    const struct sl_exemplar *exemplar)
{
	unsigned int slot = sl__slot_of(c.bits);

	if (slot != SL__SLOT_NONE)
		sl__exemplar_set(slot, cell_of(c.bits), value, true, exemplar);
}
