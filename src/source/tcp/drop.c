// SPDX-License-Identifier: Apache-2.0
#include "source/tcp/drop.h"

#include <bpf/btf.h>
#include <stdio.h>
#include <string.h>

#include "source/tcp/hook.h"

#define PREFIX	  "SKB_DROP_REASON_"
#define ARGUMENTS 5 /* context, skb, location, reason, socket */

bool tcp_drop_says_socket(void)
{
	const struct btf_type *t;
	const struct btf *btf;
	int id;

	if (tcp_hooks_begin(&btf))
		return false;
	id = btf__find_by_name_kind(btf, "btf_trace_kfree_skb", BTF_KIND_TYPEDEF);
	t = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	t = t ? btf__type_by_id(btf, t->type) : NULL; /* a pointer to a function */
	t = t && btf_is_ptr(t) ? btf__type_by_id(btf, t->type) : NULL;
	return t && btf_is_func_proto(t) && btf_vlen(t) >= ARGUMENTS;
}

static void write_name(uint64_t line[8], const char *name)
{
	char text[SL_DROP_NAME] = "";

	if (!strncmp(name, PREFIX, strlen(PREFIX)))
		name += strlen(PREFIX);
	snprintf(text, sizeof(text), "%s", name);
	memcpy(&line[1], text, sizeof(text));
	line[7] = sl_line_check(line);
}

void tcp_drop_names(uint64_t line[SL_DROP_REASONS][8])
{
	const struct btf_type *t;
	const struct btf *btf;
	const struct btf_enum *e;
	int id;

	write_name(line[0], "OTHER");
	if (tcp_hooks_begin(&btf))
		return;
	id = btf__find_by_name_kind(btf, "skb_drop_reason", BTF_KIND_ENUM);
	t = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	if (!t)
		return;
	e = btf_enum(t);
	for (uint16_t i = 0; i < btf_vlen(t); i++)
		if (e[i].val > 0 && (uint32_t)e[i].val < SL_DROP_REASONS)
			write_name(line[e[i].val], btf__name_by_offset(btf, e[i].name_off));
}
