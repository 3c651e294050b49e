// SPDX-License-Identifier: Apache-2.0
#include "analyse/table.h"

#include <stdlib.h>

#include "sketch/hash.h"

static uint32_t find_place(const struct analyse_table *t, uint64_t key)
{
	uint32_t i = (uint32_t)sketch_hash_nth(key, 0) & (t->room - 1);

	while (t->key[i] && t->key[i] != key)
		i = (i + 1) & (t->room - 1);
	return i;
}

uint32_t analyse_table_find(const struct analyse_table *t, uint64_t key)
{
	uint32_t i;

	key = key ? key : 1;
	if (!t->room)
		return ANALYSE_TABLE_NONE;
	i = find_place(t, key);
	return t->key[i] ? t->index[i] : ANALYSE_TABLE_NONE;
}

static bool grow_table(struct analyse_table *t)
{
	struct analyse_table more = {.room = t->room ? 2 * t->room : 64};

	more.key = calloc(more.room, sizeof(*more.key));
	more.index = malloc(more.room * sizeof(*more.index));
	if (!more.key || !more.index) {
		analyse_table_free(&more);
		return false;
	}
	for (uint32_t i = 0; i < t->room; i++)
		if (t->key[i]) {
			uint32_t k = find_place(&more, t->key[i]);

			more.key[k] = t->key[i];
			more.index[k] = t->index[i];
		}
	more.used = t->used;
	analyse_table_free(t);
	*t = more;
	return true;
}

bool analyse_table_add(struct analyse_table *t, uint64_t key, uint32_t index)
{
	uint32_t i;

	key = key ? key : 1;
	if (2 * (t->used + 1) > t->room && !grow_table(t))
		return false;
	i = find_place(t, key);
	t->key[i] = key;
	t->index[i] = index;
	t->used++;
	return true;
}

void analyse_table_free(struct analyse_table *t)
{
	free(t->key);
	free(t->index);
	*t = (struct analyse_table){0};
}
