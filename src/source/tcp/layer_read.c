// SPDX-License-Identifier: Apache-2.0
/* layer_read.c - reads slots out of kernel memory, line by line. */
#include <errno.h>

#include "source/tcp/layer_internal.h"

uint32_t tcp_layers_slots(const struct tcp_layers *l, enum tcp_layer_table table)
{
	const uint64_t *at = (const uint64_t *)((char *)l->table + l->info.hot);
	struct region_layers_hot hot;
	uint64_t line[8];

	if (!region_copy_lines(line, at, 1) || region_layers_hot_parse(line, &l->info, &hot))
		return table == TCP_LAYER_FLOWS ? l->info.flow_slots : l->info.group_slots;
	return table == TCP_LAYER_FLOWS ? hot.flows_used : hot.groups_used;
}

int tcp_layers_slot(const struct tcp_layers *l, enum tcp_layer_table table, uint32_t index,
		    struct region_layer_view *v)
{
	bool flows = table == TCP_LAYER_FLOWS, keyless = !flows && !index;
	const uint64_t *from =
		(const uint64_t *)((char *)l->table + (flows ? l->info.flows : l->info.groups)) +
		(size_t)index * SL_SLOT_WORDS;
	uint64_t copy[SL_SLOT_WORDS], key[8];

	if (index >= (flows ? l->info.flow_slots : l->info.group_slots))
		return -EINVAL;
	if (!region_copy_lines(copy, from, 1))
		return -EAGAIN;
	if ((copy[SL_SLOT_STATE] & 255) == SL_SLOT_FREE && !keyless)
		return 0;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!region_copy_lines(copy + 8, from + 8, SL_SLOT_WORDS / 8 - 1) ||
	    region_layer_parse(copy, keyless, v))
		return -EAGAIN;
	/* The same owner at the end? */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!region_copy_lines(key, from, 1) || key[SL_SLOT_STATE] >> 16 != v->generation)
		return -EAGAIN;
	return 1;
}

int tcp_layers_causes(const struct tcp_layers *l, uint64_t out[SL_CAUSES])
{
	const struct region_section *s = &l->info.losses;
	uint64_t copy[(SL_CAUSES + 6) / 7 * 8];

	for (int i = 0; i < SL_CAUSES; i++)
		out[i] = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		const uint64_t *from =
			(const uint64_t *)((char *)l->table + s->offset + (size_t)i * s->stride);

		if (!region_copy_lines(copy, from, sizeof(copy) / SL_LINE_SIZE) ||
		    region_losses_add(copy, SL_CAUSES, out))
			return -EAGAIN;
	}
	return 0;
}

void *tcp_layers_region(const struct tcp_layers *l, size_t *bytes, int *fd)
{
	*bytes = l->bytes;
	*fd = tcp_layer_table_fd(l);
	return l->table;
}
