/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/report.h - send reports to a translator ('sidelight translate'), which writes them into
 * stores in a collector's memory: Direct Telemetry Access. docs/dta-wire.md defines the packets.
 *
 *	struct sl_reporter *r =
 *		sl_reporter_open(&SL_OPTS(sl_reporter_opts, .target = "translator:40040"));
 *	struct sl_report_dest flows = {.store = 1, .copies = 2};
 *	...
 *	sl_report_keywrite(r, &flows, &tuple, sizeof(tuple), &value, sizeof(value));
 *	...
 *	sl_reporter_close(r);
 *
 * Rules for all functions:
 *  - A reporter belongs to one thread at a time: it has no lock. Open one per thread.
 *  - A report allocates nothing. It makes a system call only if its packet is full or older than
 *    flush_ns, by a clock as coarse as the kernel's tick (1 to 10 ms). An application that may stop
 *    reporting for a while calls sl_reporter_poll() or sl_reporter_flush().
 *  - Nothing blocks unless its description says so. Nothing prints or raises a signal.
 *  - Keys and values are sent as they are: convert numbers to one byte order.
 *  - In the child of fork() a reporter may only be closed.
 *
 * C11 and C++17. Link with -lsidelight-dta (pkg-config sidelight-dta).
 */
#ifndef SIDELIGHT_REPORT_H
#define SIDELIGHT_REPORT_H

#include <sidelight/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_REPORTER_PORT	40040
#define SL_REPORTER_TARGETS_MAX 8

/* Flags of a reporter. */
#define SL_REPORTER_WAIT   1u /* under back-pressure wait, for wait_ns at most, before dropping */
#define SL_REPORTER_SINGLE 2u /* one report per packet */
/*
 * The original's packets, in one of their two forms: keys of 4 bytes; no stores, authentication,
 * essential reports or credits.
 */
#define SL_REPORTER_LEGACY_A 4u
#define SL_REPORTER_LEGACY_B 8u

/* 0 is the default. */
struct sl_reporter_opts {
	size_t sz;
	const char *target; /* HOST, HOST:PORT, V6 or [V6]:PORT; default port SL_REPORTER_PORT. Up
			     * to SL_REPORTER_TARGETS_MAX, separated by commas: the reporter starts
			     * with the first and moves on to the next, in a circle, when its target
			     * is gone; see failovers in struct sl_reporter_stats */
	uint16_t tenant;
	uint32_t reporter;     /* its number, unique per address (with a key: per tenant); default:
				* random. Sketches need one below 1024 */
	uint32_t flags;	       /* SL_REPORTER_... */
	const char *key_file;  /* 32 hexadecimal digits: packets carry a MAC; default: no MAC */
	uint32_t packet_bytes; /* UDP payload; 128 to 65507, default 1400 */
	uint64_t flush_ns; /* age at which a packet is sent although it is not full; default 5 ms */
	uint64_t wait_ns;  /* of SL_REPORTER_WAIT; default 1 s */
	uint32_t backup_packets; /* unacknowledged packets with essential reports to keep; up to
				  * 65536, default 128 */
	uint32_t change_entries; /* keys whose last value is remembered, for SL_REPORT_CHANGES; up
				  * to 2^24, rounded up to a power of two; default: none */
	uint64_t refresh_ns;	 /* age at which an unchanged value is reported again, as epochs of
				  * stores     come and go; default 10 s, ~0: never */
	const char *translator;	 /* with key_file: the names of the targets' translators ('sidelight
				  * translate --name'), in the order of target, separated by
				  * commas; an empty one, and the default, means a translator by the
				  * address that packets are sent to. Needed where addresses are
				  * translated: a translator refuses what is meant for another */
	const char *backup_file; /* the ring of backup_packets is this file, which is created for
				  * its owner alone: what is not acknowledged when the process
				  * ends, or is killed, is sent again by the next one that opens
				  * it. So a report is safe once sl_reporter_flush() returned
				  * 0, or a later packet was sent. It belongs to one reporter,
				  * tenant and size; with it, the default of reporter is the file's.
				  * Not with LEGACY forms */
};

struct sl_reporter;

/*
 * May query a name server, and wait for it. Returns NULL with errno: EINVAL (options, target, or
 * the contents of the key file), EADDRNOTAVAIL (no such host), ENOMEM, or an errno of open(2),
 * socket(2) or connect(2). Of backup_file: EBADMSG (not such a ring, or of another reporter, tenant
 * or size), EBUSY (in use), EPERM (other users own it or may write to it), or one of
 * posix_fallocate(3).
 */
SL_API struct sl_reporter *sl_reporter_open(const struct sl_reporter_opts *opts);
/*
 * Sends what is packed, and tells the translator that the stream is over; waits for no
 * acknowledgement, see sl_reporter_drain(). NULL: nothing.
 */
SL_API void sl_reporter_close(struct sl_reporter *r);

/* Flags of a report. */
#define SL_REPORT_IMMEDIATE	1u /* also wakes the collector's application */
#define SL_REPORT_ESSENTIAL	2u /* is kept, and sent again until acknowledged */
#define SL_REPORT_CHANGES	4u /* Key-Write: only if the value differs from the last one */
#define SL_REPORT_SAMPLE_BY_KEY 8u /* sample the same keys at all reporters; else at random */

/* The destination of a report. Small; may be static. */
struct sl_report_dest {
	uint16_t store; /* its number */
	uint8_t copies; /* slots or rows to write, 1 to 8; 0: 1. Not for append and sketches */
	uint8_t sample; /* send 1 of 2^sample reports, up to 63; 0: all. Not for sketches */
	uint32_t flags; /* SL_REPORT_... */
};

/*
 * The reports. dest: NULL is store 0 and all defaults. All return 0 if the report was packed, or
 * left out as dest says; -EAGAIN: dropped and counted, as the socket is full, the translator's
 * credits are used up, or the ring of backup_packets is full; -EINVAL: a length or number out of
 * range, or r is NULL; -EMSGSIZE: it does not fit into a packet.
 */

/* The value, 4 to 256 bytes, of a key, 4 to 64 bytes. */
SL_API int sl_report_keywrite(struct sl_reporter *r, const struct sl_report_dest *dest,
			      const void *key, size_t key_bytes, const void *value,
			      size_t value_bytes);
/* One more item, 4 to 256 bytes, of a list. */
SL_API int sl_report_append(struct sl_reporter *r, const struct sl_report_dest *dest, uint32_t list,
			    const void *value, size_t value_bytes);
/* Adds to the counter of a key. */
SL_API int sl_report_increment(struct sl_reporter *r, const struct sl_report_dest *dest,
			       const void *key, size_t key_bytes, uint64_t addend);
/* The value of hop 0 .. hops-1 of a key's path; hops is 64 at most. */
SL_API int sl_report_postcard(struct sl_reporter *r, const struct sl_report_dest *dest,
			      const void *key, size_t key_bytes, uint32_t hop, uint32_t hops,
			      uint32_t data);
/*
 * `count` cells of a row of a sketch, from `column` on, in as many reports as they need. After all
 * cells of an epoch, sl_report_sketch_end() states the number of reports. Up to 16 stores may be in
 * progress (-ENOSPC). Use SL_REPORT_ESSENTIAL: a sketch with a lost report never completes.
 */
SL_API int sl_report_sketch(struct sl_reporter *r, const struct sl_report_dest *dest,
			    uint32_t epoch, uint32_t row, uint32_t column, const uint64_t *cells,
			    uint32_t count);
/* The same for registers of a HyperLogLog. */
SL_API int sl_report_registers(struct sl_reporter *r, const struct sl_report_dest *dest,
			       uint32_t epoch, uint32_t column, const uint8_t *registers,
			       uint32_t count);
SL_API int sl_report_sketch_end(struct sl_reporter *r, const struct sl_report_dest *dest,
				uint32_t epoch);

/* Sends what is packed. 0; -EAGAIN: it stays packed, as the socket is full. */
SL_API int sl_reporter_flush(struct sl_reporter *r);
/*
 * Sends a packet older than flush_ns, takes answers, sends again what is missing, and tells the
 * translator when a stream is over, so that it knows of lost reports at its end. Call it every
 * few milliseconds while nothing is reported. 0, -EINVAL.
 */
SL_API int sl_reporter_poll(struct sl_reporter *r);
/*
 * Sends what is packed and waits until every essential report is acknowledged. 0; -EINVAL;
 * -ETIMEDOUT.
 */
SL_API int sl_reporter_drain(struct sl_reporter *r, uint64_t timeout_ns);

/*
 * reports = sent + packed + unchanged + sampled_out + dropped_full + dropped_credits +
 * dropped_error + dropped_ring
 */
struct sl_reporter_stats {
	size_t sz;
	uint64_t reports; /* requested, without refused ones */
	uint64_t refused; /* -EINVAL, -EMSGSIZE */
	uint64_t sent;	  /* reports, each once */
	uint64_t packed;  /* in the packet that is not sent yet */
	uint64_t unchanged, sampled_out;
	uint64_t dropped_full;	  /* the socket's buffer was full */
	uint64_t dropped_credits; /* the translator granted no credit */
	uint64_t dropped_error;	  /* the socket returned another error */
	uint64_t packets, bytes;  /* sent, retransmissions included */
	uint64_t again;		  /* packets retransmitted */
	uint64_t settled;	  /* packets with essential reports that were acknowledged */
	uint64_t dropped_ring;	  /* reports: backup_packets are kept, and none is acknowledged */
	uint64_t waiting;	  /* those that are kept now */
	uint64_t waits;		  /* times that a report had to wait */
	uint64_t acks, nacks;	  /* answers taken */
	uint64_t answers_refused; /* not an answer to this reporter, or forged */
	uint32_t reporter, incarnation; /* its identity at the translator */
	/*
	 * Moves to the next target, because the kernel says that no process listens at this one, or
	 * three requests for an answer had none for 300 ms. The incarnation changes. Packets that
	 * were not acknowledged go to the next target; counters and lists then hold twice what had
	 * arrived at the old one.
	 */
	uint64_t failovers;
	uint64_t heartbeats; /* packets without reports, after the last ones: not among packets */
	uint64_t restored;   /* packets of an earlier process that backup_file held */
	uint64_t damaged;    /* packets in it that could not be read, and are lost */
};
/* 0, or -EINVAL: NULL, or sz is too small. */
SL_API int sl_reporter_stats(const struct sl_reporter *r, struct sl_reporter_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
