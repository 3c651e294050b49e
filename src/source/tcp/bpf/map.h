/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* map.h - declares a program's map. User space sets the size of maps declared with 1 entry. */
#ifndef SL_SOURCE_TCP_BPF_MAP_H
#define SL_SOURCE_TCP_BPF_MAP_H

#include <bpf/bpf_helpers.h>

/* type_: BPF_MAP_TYPE_ without its prefix; flags: BPF_F_..., or 0. */
#define MAP(name, type_, flags, entries, key_, value_) \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_##type_);    \
		__uint(map_flags, flags);              \
		__uint(max_entries, entries);          \
		__type(key, key_);                     \
		__type(value, value_);                 \
	} name SEC(".maps")

#define QUEUE(name, entries, value_)                \
	struct {                                    \
		__uint(type, BPF_MAP_TYPE_QUEUE);   \
		__uint(max_entries, entries);       \
		__uint(value_size, sizeof(value_)); \
	} name SEC(".maps")

#define RING_BUFFER(name, bytes)                    \
	struct {                                    \
		__uint(type, BPF_MAP_TYPE_RINGBUF); \
		__uint(max_entries, bytes);         \
	} name SEC(".maps")

#endif
