/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reporter.h - the kernel itself reports the flows of an interface, as packets of docs/dta-wire.md.
 * This side loads the programs (report.bpf.c), attaches them, and sees to what waits while nothing
 * goes by; no report goes through it.
 *
 * It makes a veth pair, slrN for interface number N, whose other end lies in a network namespace
 * that lives as long as this process: however it ends, both are gone. The same holds for the
 * programs where the kernel has links for them (6.6 and later); on an older one a killed reporter
 * leaves two filters, which drop out as soon as their carrier is gone, and which the next one
 * replaces.
 */
#ifndef SL_SOURCE_REPORT_REPORTER_H
#define SL_SOURCE_REPORT_REPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report_kernel_reporter;

struct report_kernel_reporter_opts {
	const char *interface; /* Ethernet, or lo */
	/* Where to: "HOST:PORT" (IPv4, or IPv6 if it has no address of IPv4); ":PORT" is this host,
	 * where the translator must listen on any address or on the one that
	 * report_kernel_reporter_target() names. */
	const char *target;
	bool ingress, egress;
	uint32_t reporter;
	uint16_t tenant, store; /* of Key-Writes with values of 16 bytes */
	uint8_t copies;		/* 0: 2 */
	uint8_t sample;		/* one in 2^sample flows is looked at, by its key; up to 31 */
	uint64_t every_ns;	/* a flow that goes on is reported so often at most; 0: 100 ms */
	uint64_t bytes;		/* and at least once in so many; 0: 1 MiB */
	uint64_t flush_ns;	/* how long a report waits for others; 0: 10 ms */
	uint32_t flows; /* that are known at a time, the one silent for longest goes; 0: 65536 */
};

/* Of the programs, as they are named in shared.h; all count up. */
struct report_kernel_reporter_counts {
	uint64_t packets, others, flows, reports, sent, sent_reports, no_room, no_flow, not_written,
		idle, left_out, held_back, bytes, said_bytes;
	/*
	 * Of flows that left the table for others, and bytes of those that no report had said: so
	 * they are lost. As of the last sweep, which is at most a second ago, or the drain; never
	 * too many.
	 */
	uint64_t evicted, evicted_bytes;
	uint64_t unsaid_bytes;		   /* of flows that are in the table, as of then */
	uint64_t answers, answers_refused; /* of the translator */
};

/* NULL with one line in error: what is missing or wrong. Needs CAP_NET_ADMIN, CAP_BPF,
 * CAP_SYS_ADMIN. */
struct report_kernel_reporter *
report_kernel_reporter_open(const struct report_kernel_reporter_opts *opts, char *error,
			    size_t error_bytes);
/* Sees no more, and sends what waits: within 0.1 s, or it is lost. For the last counts. */
void report_kernel_reporter_drain(struct report_kernel_reporter *r);
/* Drains, and takes everything away. NULL is nothing. */
void report_kernel_reporter_close(struct report_kernel_reporter *r);

/* "ADDRESS:PORT" that reports are sent to. */
const char *report_kernel_reporter_target(const struct report_kernel_reporter *r);
/*
 * Hands over what waits; to be called each flush_ns or so. Looks, too, whether somebody listens
 * where reports for this host go: as long as nobody does, flows are counted and no report is made.
 */
void report_kernel_reporter_tick(struct report_kernel_reporter *r);
void report_kernel_reporter_counts(const struct report_kernel_reporter *r,
				   struct report_kernel_reporter_counts *out);

#endif
