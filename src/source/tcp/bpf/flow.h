/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* flow.h - shared by flow.bpf.c and tcp.c alone. */
#ifndef SL_SOURCE_TCP_BPF_FLOW_H
#define SL_SOURCE_TCP_BPF_FLOW_H

#include <linux/types.h>

/* Elements of the map tcp_flows, SL_FLOW_SIZE bytes: header, hot line, slots, journal, cgroups. */
#define TCP_FLOWS_HOT_ELEMENT	8
#define TCP_FLOWS_FIRST_ELEMENT 9

/* Set before loading. */
struct tcp_flow_settings {
	__u64 interval_ns, quarantine_ns;
	__u32 slots;	     /* at most SL_FLOWS_MAX */
	__u32 ring_mask;     /* of tcp_dirty and tcp_quarantine: a power of two >= slots, minus 1 */
	__u32 journal_mask;  /* lines, a power of two, minus 1 */
	__u32 journal_first; /* first element of the journal */
	__u32 tick_us;	     /* 1e6 / HZ */
	__u32 near_shift;    /* from a 32-bit hash to a place of tcp_near */
	__u32 cgroups;	     /* slots for names of cgroups; 0: none */
};

#endif
