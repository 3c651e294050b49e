/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* flow.h - what flow.bpf.c and tcp.c agree upon, and nobody else needs. */
#ifndef SL_SOURCE_TCP_BPF_FLOW_H
#define SL_SOURCE_TCP_BPF_FLOW_H

#include <linux/types.h>

/* Elements of the map tcp_flows, of SL_FLOW_SIZE bytes: header, hot line, slots, journal, cgroups.
 */
#define TCP_FLOWS_HOT_ELEMENT	8
#define TCP_FLOWS_FIRST_ELEMENT 9

/* Set before the programs are loaded. */
struct tcp_flow_settings {
	__u64 interval_ns, quarantine_ns;
	__u32 slots;	     /* at most SL_FLOWS_MAX */
	__u32 ring_mask;     /* of tcp_dirty and tcp_quarantine: a power of two >= slots, less 1 */
	__u32 journal_mask;  /* lines, a power of two, less 1 */
	__u32 journal_first; /* element where the journal starts */
	__u32 tick_us;	     /* 1e6 / HZ */
	__u32 near_shift;    /* of a hash of 32 bits, to a place of tcp_near */
	__u32 cgroups;	     /* slots for who a cgroup is; 0: nobody wants to know */
};

#endif
