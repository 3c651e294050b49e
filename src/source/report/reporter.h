/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reporter.h - reports the flows of an interface from within the kernel, as packets specified in
 * docs/dta-wire.md. The process loads and attaches the programs (report.bpf.c), and flushes while
 * there is no traffic; no report passes through it.
 *
 * The reporter creates a veth pair, slrN for interface number N, whose far end is in a network
 * namespace that disappears when this process exits. If the kernel has TCX links (Linux 6.6 and
 * later), the programs are removed at exit, too. Otherwise, a killed reporter leaves two filters
 * behind; without their carrier they have no effect, and the next reporter replaces them.
 */
#ifndef SL_SOURCE_REPORT_REPORTER_H
#define SL_SOURCE_REPORT_REPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source/report/shared.h"

struct report_kernel;

struct report_kernel_opts {
	const char *interface; /* an Ethernet interface, or lo */
	/*
	 * "HOST:PORT" (IPv4 is preferred), or ":PORT" for this host, where the translator must
	 * listen on any address or on report_kernel_target().
	 */
	const char *target;
	bool ingress, egress;
	uint32_t reporter;
	uint16_t tenant, store; /* tenant and store of Key-Writes with values of 16 bytes */
	uint8_t copies;		/* number of copies per Key-Write; 0 means 2 */
	uint8_t sample;		/* count one in 2^sample flows, selected by key; at most 31 */
	uint64_t every_ns;	/* minimum interval between a flow's reports; 0 means 100 ms */
	uint64_t bytes; /* report a flow earlier after this number of bytes; 0 means 1 MiB */
	/* maximum time that a report waits for others in its packet; 0 means 10 ms */
	uint64_t flush_ns;
	uint32_t flows; /* size of the flow table (LRU); 0 means 65536 */
	/*
	 * File with the key that signs packets (dta_key_read()); NULL means packets are not signed.
	 */
	const char *key_file;
	/* What to report besides flows (bit i: enum report_subject i), and the store of each. */
	uint32_t subjects;
	uint16_t subject_store[RPT_SUBJECTS];
	bool inner; /* report the flows inside VXLAN and Geneve tunnels */
	/* name of the translator; NULL means it is identified by its address */
	const char *translator;
};

struct report_kernel_counts {
	uint64_t n[RPT_COUNTS]; /* counters of the eBPF programs */
	/*
	 * Lost by eviction: flows, and their bytes that were in no report. Lower bounds, as of the
	 * last sweep (at most a second ago) or the drain.
	 */
	uint64_t evicted, evicted_bytes;
	uint64_t evicted_events; /* lower bound of evicted drop and retransmission entries */
	/* bytes of flows in the table not yet reported, as of the last sweep */
	uint64_t unsaid_bytes;
	uint64_t answers, answers_refused; /* answers received from the translator */
	/* how often the interface, and the route to the translator, no longer existed */
	uint64_t interface_gone, route_gone;
};

/* Calls each() with each drop reason and its number of dropped frames, if drops are reported. */
void report_kernel_drops(const struct report_kernel *r,
			 void (*each)(void *context, const char *reason, uint64_t frames),
			 void *context);

/* On failure, returns NULL with one line in error. Needs CAP_NET_ADMIN, CAP_BPF, CAP_SYS_ADMIN. */
struct report_kernel *report_kernel_open(const struct report_kernel_opts *opts, char *error,
					 size_t error_bytes);
/* Stops counting and sends what is waiting, for at most 0.1 s. Call it to get final counts. */
void report_kernel_drain(struct report_kernel *r);
/* Drains and removes everything. r may be NULL. */
void report_kernel_close(struct report_kernel *r);

/*
 * Capabilities (bits CAP_...) that the other functions need once the reporter is open. There are
 * none, except before Linux 6.6, to remove filters from interfaces and to add them again.
 */
uint64_t report_kernel_capabilities(const struct report_kernel *r);
/* Returns "ADDRESS:PORT" of the target. */
const char *report_kernel_target(const struct report_kernel *r);
/*
 * Flushes packets; call it about every flush_ns. While no translator is listening at a target on
 * this host, or there is no route to another host, flows are counted but not reported. If the
 * interface is created again, its flows are counted again.
 */
void report_kernel_tick(struct report_kernel *r);
void report_kernel_counts(const struct report_kernel *r, struct report_kernel_counts *out);

#endif
