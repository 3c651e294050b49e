/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reporter.h - reports the flows of an interface from within the kernel, as packets of
 * docs/dta-wire.md. This side loads and attaches the programs (report.bpf.c), and flushes while
 * there is no traffic; no report passes through it.
 *
 * It makes a veth pair, slrN for interface number N, whose far end is in a network namespace that
 * ends with this process. The programs end with it too where the kernel has TCX links (6.6 and
 * later); otherwise a killed reporter leaves two filters, which are inert without their carrier and
 * which the next reporter replaces.
 */
#ifndef SL_SOURCE_REPORT_REPORTER_H
#define SL_SOURCE_REPORT_REPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source/report/shared.h"

struct report_kernel;

struct report_kernel_opts {
	const char *interface; /* Ethernet, or lo */
	/*
	 * "HOST:PORT" (IPv4 preferred), or ":PORT" for this host, where the translator must listen
	 * on any address or on report_kernel_target().
	 */
	const char *target;
	bool ingress, egress;
	uint32_t reporter;
	uint16_t tenant, store; /* of Key-Writes with values of 16 bytes */
	uint8_t copies;		/* 0: 2 */
	uint8_t sample;		/* one in 2^sample flows is counted, by key; up to 31 */
	uint64_t every_ns;	/* minimum interval of a flow's reports; 0: 100 ms */
	uint64_t bytes;		/* bytes of a flow after which it is reported earlier; 0: 1 MiB */
	uint64_t flush_ns;	/* how long a report waits for others; 0: 10 ms */
	uint32_t flows;		/* size of the flow table (LRU); 0: 65536 */
	/* Packets are signed with the key in this file (dta_key_read()); NULL: they are not. */
	const char *key_file;
	/* Besides flows: a bit for each enum report_subject, and its store. */
	uint32_t subjects;
	uint16_t subject_store[RPT_SUBJECTS];
	bool inner;		/* of VXLAN and Geneve, report the flows within */
	const char *translator; /* name of the one that is meant; NULL: its address */
};

struct report_kernel_counts {
	uint64_t n[RPT_COUNTS]; /* the programs' */
	/*
	 * Evicted flows, and their bytes that no report included: lost. As of the last sweep, at
	 * most a second ago, or the drain; a lower bound.
	 */
	uint64_t evicted, evicted_bytes;
	uint64_t evicted_events; /* of drops and retransmissions, as of the last look; a lower bound
				  */
	uint64_t unsaid_bytes;	 /* of flows in the table, as of then */
	uint64_t answers, answers_refused; /* of the translator */
};

/* Calls each() for each reason of drops, with the frames dropped for it, if drops are reported. */
void report_kernel_drops(const struct report_kernel *r,
			 void (*each)(void *context, const char *reason, uint64_t frames),
			 void *context);

/* NULL with one line in error. Needs CAP_NET_ADMIN, CAP_BPF and CAP_SYS_ADMIN. */
struct report_kernel *report_kernel_open(const struct report_kernel_opts *opts, char *error,
					 size_t error_bytes);
/* Stops counting and sends what waits, for at most 0.1 s. For the last counts. */
void report_kernel_drain(struct report_kernel *r);
/* Drains and removes everything. NULL is ignored. */
void report_kernel_close(struct report_kernel *r);

/* "ADDRESS:PORT" of the target. */
const char *report_kernel_target(const struct report_kernel *r);
/*
 * Flushes; call it about every flush_ns. While no translator listens at a target on this host,
 * flows are counted but not reported.
 */
void report_kernel_tick(struct report_kernel *r);
void report_kernel_counts(const struct report_kernel *r, struct report_kernel_counts *out);

#endif
