/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/report.h - reports to a translator (sidelight translate), which puts them straight into
 * stores in a collector's memory: Direct Telemetry Access. The packets are docs/dta-wire.md's.
 *
 * 	struct sl_reporter *r = sl_reporter_open(&(struct sl_reporter_opts){
 * 		.sz = sizeof(struct sl_reporter_opts), .target = "translator:40040" });
 * 	struct sl_report flows = {.store = 1, .copies = 2};
 * 	...
 * 	sl_report_keywrite(r, &flows, &tuple, sizeof(tuple), &value, sizeof(value));
 * 	...
 * 	sl_reporter_close(r);
 *
 * Rules that hold everywhere:
 *  - A reporter belongs to one thread at a time: there is no lock. Threads that report have one
 *    each.
 *  - A report allocates nothing. It makes a system call only if its packet is full or has waited
 *    for flush_ns; a clock of the kernel's tick (1 to 10 ms) says so, so that flush_ns is as
 *    coarse. Somebody who may stop reporting calls sl_reporter_poll() or sl_reporter_flush().
 *  - Nothing here waits, but where it says so. Nothing prints or raises a signal.
 *  - Bytes of keys and values go out as they are: a number that others are to read wants a byte
 *    order.
 *  - In the child of fork() a reporter may only be closed.
 *
 * C11 and C++17. Link with -lsidelight (pkg-config sidelight).
 */
#ifndef SIDELIGHT_REPORT_H
#define SIDELIGHT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sidelight/sidelight.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_REPORTER_PORT	40040
#define SL_REPORTER_TARGETS_MAX 8

/* Flags of a reporter. */
#define SL_REPORTER_WAIT                                                               \
	1u /* back-pressure makes a report wait, for wait_ns at most, instead of being \
	    * dropped */
#define SL_REPORTER_SINGLE 2u /* one report a packet */
#define SL_REPORTER_LEGACY_A \
	4u /* the original's packets: keys of 4 bytes, no stores, no authentication, */
#define SL_REPORTER_LEGACY_B \
	8u /* nothing that is essential or limited by credits. At most one of both */

/* Zero means the default. sz makes the structure extensible: set it to its sizeof. */
struct sl_reporter_opts {
	size_t sz;
	const char *
		target; /* HOST:PORT, HOST or [V6]:PORT; default port SL_REPORTER_PORT. Several,
			 * up to SL_REPORTER_TARGETS_MAX, with commas between them: the first, and
			 * when it is gone the next, in a circle. See sl_reporter_stats.failovers */
	uint16_t tenant;
	uint32_t reporter;     /* its number, its own among those of its address (with a key: of its
				* tenant). Default: one at random. Sketches want one below 1024 */
	uint32_t flags;	       /* SL_REPORTER_... */
	const char *key_file;  /* 32 hexadecimal digits: packets get a MAC. Default: none */
	uint32_t packet_bytes; /* payload of UDP; 128 to 65507, default 1400 */
	uint64_t flush_ns;     /* a packet that is not full is sent after so long; default 5 ms */
	uint64_t wait_ns;      /* default 1 s */
	uint32_t backup_packets; /* with essential reports that are kept until they are
				  * acknowledged; up to 65536, default 128 */
	uint32_t change_entries; /* keys whose last value is remembered, for SL_REPORT_CHANGES; up
				  * to 2^24, rounded up to a power of two. Default: none */
	uint64_t refresh_ns; /* a value that stays the same is reported after so long all the same,
			      * as epochs of stores come and go; default 10 s, ~0: never */
};

struct sl_reporter;

/*
 * May ask a name server, and wait for it. NULL with errno: EINVAL (options, target), ENOENT and
 * others of the key's file (EINVAL: what it holds), EADDRNOTAVAIL (no such host), ENOMEM, EMFILE
 * and others of socket(2), connect(2).
 */
SL_API struct sl_reporter *sl_reporter_open(const struct sl_reporter_opts *opts);
/* Sends what is packed, does not wait for acknowledgements (see sl_reporter_drain()). NULL is
 * nothing. */
SL_API void sl_reporter_close(struct sl_reporter *r);

/* Flags of a report. */
#define SL_REPORT_IMMEDIATE 1u /* wakes the collector's application, too */
#define SL_REPORT_ESSENTIAL 2u /* is kept, and sent again until it is acknowledged or given up */
#define SL_REPORT_CHANGES   4u /* key-write: only if the key's value is another than last time */
#define SL_REPORT_SAMPLE_BY_KEY                                          \
	8u /* the same keys at every reporter, by a hash; else by chance \
	    */

/* Where a report goes, and how. Small; may be static. */
struct sl_report {
	uint16_t store; /* its number */
	uint8_t copies; /* N, 1 to 8: slots or rows that it is written to. 0: 1. Not for append,
			   sketches */
	uint8_t sample; /* one in 2^sample goes out, up to 63; 0: all. Not for sketches */
	uint32_t flags; /* SL_REPORT_... */
};

/*
 * The reports. All return 0 if it was packed, or left out as how says; -EAGAIN: dropped, and
 * counted, as the socket is full or the translator's credits are used up; -EINVAL: a length or
 * number out of bounds, or r is NULL; -EMSGSIZE: larger than packets are.
 */

/* The value of a key: 4 to 64 bytes; 4 to 256 bytes. */
SL_API int sl_report_keywrite(struct sl_reporter *r, const struct sl_report *how, const void *key,
			      size_t key_bytes, const void *value, size_t value_bytes);
/* One more item of a list: 4 to 256 bytes. */
SL_API int sl_report_append(struct sl_reporter *r, const struct sl_report *how, uint32_t list,
			    const void *value, size_t value_bytes);
/* Adds to the counter of a key. */
SL_API int sl_report_increment(struct sl_reporter *r, const struct sl_report *how, const void *key,
			       size_t key_bytes, uint64_t addend);
/* What hop 0 .. hops-1 of a path saw of a key's packet; hops up to 64. */
SL_API int sl_report_postcard(struct sl_reporter *r, const struct sl_report *how, const void *key,
			      size_t key_bytes, uint32_t hop, uint32_t hops, uint32_t data);
/*
 * Cells of a row of a sketch, from column on; as many reports as it takes. When all of an epoch
 * were sent, sl_report_sketch_end() tells how many reports those were: up to 16 stores at a time
 * (-ENOSPC). They are best essential.
 */
SL_API int sl_report_sketch(struct sl_reporter *r, const struct sl_report *how, uint32_t epoch,
			    uint32_t row, uint32_t column, const uint64_t *cells, uint32_t count);
/* The same for registers of a HyperLogLog. */
SL_API int sl_report_registers(struct sl_reporter *r, const struct sl_report *how, uint32_t epoch,
			       uint32_t column, const uint8_t *registers, uint32_t count);
SL_API int sl_report_sketch_end(struct sl_reporter *r, const struct sl_report *how, uint32_t epoch);

/* Sends what is packed. 0; -EAGAIN: it stays, as the socket is full. */
SL_API int sl_reporter_flush(struct sl_reporter *r);
/*
 * Does what time and answers ask for: sends a packet that waited for long enough, takes answers,
 * sends again what is missing. Call it each few milliseconds while nothing is reported. 0, -EINVAL.
 */
SL_API int sl_reporter_poll(struct sl_reporter *r);
/*
 * Sends all, and waits until every essential report is acknowledged or given up. 0; -ETIMEDOUT;
 * -EINVAL; -ENODATA: some were given up since it was opened.
 */
SL_API int sl_reporter_drain(struct sl_reporter *r, uint64_t timeout_ns);

/* reports = sent + packed + unchanged + sampled_out + dropped_full + dropped_credits +
 * dropped_error. */
struct sl_reporter_stats {
	size_t sz;	  /* in: sizeof */
	uint64_t reports; /* asked for, but for those that were refused */
	uint64_t refused; /* -EINVAL, -EMSGSIZE */
	uint64_t sent;	  /* reports, each once */
	uint64_t packed;  /* in the packet that is not sent yet */
	uint64_t unchanged, sampled_out;
	uint64_t dropped_full;	  /* the socket's buffer was full */
	uint64_t dropped_credits; /* the translator gave no credit */
	uint64_t dropped_error;	  /* the socket said another error */
	uint64_t packets, bytes;  /* sent, those again too */
	uint64_t again;		  /* packets that were sent again */
	uint64_t settled;	  /* packets with essential reports that were acknowledged */
	uint64_t
		given_up; /* those that were not: after 8 times, or as there was no room for more */
	uint64_t waiting; /* those that are kept now */
	uint64_t waits;	  /* times that a report had to wait */
	uint64_t acks, nacks;		/* answers taken */
	uint64_t answers_refused;	/* not an answer to this reporter, or forged */
	uint32_t reporter, incarnation; /* who it is to the translator */
	/*
	 * Times that it went on to the next target, as nobody listened at the one before (the
	 * kernel says so), or three questions in 300 ms had no answer. The incarnation is another
	 * one then. Essential packets that were not acknowledged are sent to the next: what of them
	 * did arrive, and was not acknowledged in time, is stored twice, which counters and lists
	 * show.
	 */
	uint64_t failovers;
};
/* Returns 0, or -EINVAL for NULL or an sz that is too small. */
SL_API int sl_reporter_stats(const struct sl_reporter *r, struct sl_reporter_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
