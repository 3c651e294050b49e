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
 *  - A reporter has no lock and belongs to one thread at a time. Open one per thread.
 *  - A report allocates nothing. It makes a system call only if its packet is full or older than
 *    flush_ns, by a clock as coarse as the kernel's tick (1 to 10 ms). If an application may stop
 *    reporting for a while, it should call sl_reporter_poll() or sl_reporter_flush().
 *  - No function blocks unless its description says so. No function prints or raises a signal.
 *  - Keys and values are sent unchanged: convert numbers to one byte order.
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
#define SL_REPORTER_WAIT   1u /* under back-pressure, wait up to wait_ns before dropping a report */
#define SL_REPORTER_SINGLE 2u /* send one report per packet */
/*
 * The packets of the original DTA, in one of their two forms: keys of 4 bytes; no stores,
 * authentication, essential reports or credits.
 */
#define SL_REPORTER_LEGACY_A 4u
#define SL_REPORTER_LEGACY_B 8u

/* Options of a reporter. 0 is the default. */
struct sl_reporter_opts {
	size_t sz;
	/*
	 * HOST, HOST:PORT, V6 or [V6]:PORT; default port SL_REPORTER_PORT. Up to
	 * SL_REPORTER_TARGETS_MAX targets, separated by commas: the reporter starts with the first
	 * and moves on to the next, cyclically, when its target is gone; see failovers in struct
	 * sl_reporter_stats
	 */
	const char *target;
	uint16_t tenant;
	/*
	 * number of this reporter, unique per address (with a key: per tenant); default: random.
	 * Sketches require a number below 1024
	 */
	uint32_t reporter;
	uint32_t flags; /* SL_REPORTER_... */
	/* file with 32 hexadecimal digits: packets carry a MAC; default: no MAC */
	const char *key_file;
	uint32_t packet_bytes; /* maximum UDP payload; 128 to 65507, default 1400 */
	/* maximum age of a packet before it is sent even if not full; default 5 ms */
	uint64_t flush_ns;
	uint64_t wait_ns; /* maximum wait with SL_REPORTER_WAIT; default 1 s */
	/*
	 * number of unacknowledged packets with essential reports to keep; up to 65536, default 128
	 */
	uint32_t backup_packets;
	/*
	 * number of keys whose last value is remembered for SL_REPORT_CHANGES; up to 2^24, rounded
	 * up to a power of two; default: none
	 */
	uint32_t change_entries;
	/* age at which an unchanged value is reported again; default 10 s, ~0 means never */
	uint64_t refresh_ns;
	/*
	 * with key_file: names of the targets' translators ('sidelight translate --name'), in the
	 * order of target, separated by commas. An empty name, and the default, identifies the
	 * translator by the address that packets are sent to. Names are needed where addresses are
	 * translated, because a translator refuses packets meant for another one
	 */
	const char *translator;
	/*
	 * keep the ring of backup_packets in this file, which is created with access for its owner
	 * only. When the process exits or is killed, the next one that opens the file resends the
	 * unacknowledged packets. A report is therefore safe once sl_reporter_flush() returned 0,
	 * or a later packet was sent. The file belongs to one reporter, tenant and size; with it,
	 * reporter defaults to the number in the file. Not available with the LEGACY forms
	 */
	const char *backup_file;
};

struct sl_reporter;

/*
 * May query a name server, and wait for it. On failure returns NULL with errno set: EINVAL
 * (options, target, or the contents of the key file), EADDRNOTAVAIL (no such host), ENOMEM, or an
 * errno of open(2), socket(2) or connect(2). For backup_file also: EBADMSG (not such a ring, or of
 * another reporter, tenant or size), EBUSY (in use), EPERM (other users own it or may write to it),
 * or an errno of posix_fallocate(3).
 */
SL_API struct sl_reporter *sl_reporter_open(const struct sl_reporter_opts *opts);
/*
 * Sends the open packet, and tells the translator that the stream is over. Does not wait for
 * acknowledgements, see sl_reporter_drain(). NULL is ignored.
 */
SL_API void sl_reporter_close(struct sl_reporter *r);

/* Flags of a report. */
#define SL_REPORT_IMMEDIATE	1u /* also wake the collector's application */
#define SL_REPORT_ESSENTIAL	2u /* keep the report, and resend it until it is acknowledged */
#define SL_REPORT_CHANGES	4u /* Key-Write: send only if the value differs from the last one */
#define SL_REPORT_SAMPLE_BY_KEY 8u /* sample the same keys at all reporters, not at random */

/* The destination of a report. Small; may be static. */
struct sl_report_dest {
	uint16_t store; /* number of the store */
	/* number of slots or rows to write, 1 to 8; 0 means 1. Not for append and sketches */
	uint8_t copies;
	uint8_t sample; /* send 1 of 2^sample reports, up to 63; 0 means all. Not for sketches */
	uint32_t flags; /* SL_REPORT_... */
};

/*
 * Functions that report. dest: NULL means store 0 and all defaults. All return 0 if the report was
 * packed, or skipped as dest requests; -EAGAIN if it was dropped and counted, because the socket is
 * full, the translator's credits are used up, or the ring of backup_packets is full; -EINVAL if a
 * length or number is out of range, or r is NULL; -EMSGSIZE if the report does not fit into a
 * packet.
 */

/* Reports a value of 4 to 256 bytes for a key of 4 to 64 bytes. */
SL_API int sl_report_keywrite(struct sl_reporter *r, const struct sl_report_dest *dest,
			      const void *key, size_t key_bytes, const void *value,
			      size_t value_bytes);
/* Appends an item of 4 to 256 bytes to a list. */
SL_API int sl_report_append(struct sl_reporter *r, const struct sl_report_dest *dest, uint32_t list,
			    const void *value, size_t value_bytes);
/* Adds a number to the counter of a key. */
SL_API int sl_report_increment(struct sl_reporter *r, const struct sl_report_dest *dest,
			       const void *key, size_t key_bytes, uint64_t addend);
/* Reports the value of hop 0 to hops-1 on a key's path; hops is 64 at most. */
SL_API int sl_report_postcard(struct sl_reporter *r, const struct sl_report_dest *dest,
			      const void *key, size_t key_bytes, uint32_t hop, uint32_t hops,
			      uint32_t data);
/*
 * Reports `count` cells of a sketch's row, starting at `column`, in as many reports as needed.
 * After all cells of an epoch, sl_report_sketch_end() states the number of reports. Up to 16 stores
 * may be in progress (-ENOSPC). Use SL_REPORT_ESSENTIAL: a sketch with a lost report never
 * completes.
 */
SL_API int sl_report_sketch(struct sl_reporter *r, const struct sl_report_dest *dest,
			    uint32_t epoch, uint32_t row, uint32_t column, const uint64_t *cells,
			    uint32_t count);
/* The same for the registers of a HyperLogLog. */
SL_API int sl_report_registers(struct sl_reporter *r, const struct sl_report_dest *dest,
			       uint32_t epoch, uint32_t column, const uint8_t *registers,
			       uint32_t count);
SL_API int sl_report_sketch_end(struct sl_reporter *r, const struct sl_report_dest *dest,
				uint32_t epoch);

/*
 * Sends the open packet. Returns 0, or -EAGAIN if the socket is full; the packet then stays open.
 */
SL_API int sl_reporter_flush(struct sl_reporter *r);
/*
 * Sends a packet older than flush_ns, processes answers, resends missing packets, and tells the
 * translator when a stream is over, so that it notices the loss of the last reports. Call it every
 * few milliseconds while nothing is reported. Returns 0 or -EINVAL.
 */
SL_API int sl_reporter_poll(struct sl_reporter *r);
/* Sends the open packet and waits for all acknowledgements. Returns 0, -EINVAL or -ETIMEDOUT. */
SL_API int sl_reporter_drain(struct sl_reporter *r, uint64_t timeout_ns);
/*
 * Lets a descriptor, such as one of signalfd(2), end each wait of SL_REPORTER_WAIT and of
 * sl_reporter_drain() as soon as it is readable, as if the time were over. The caller reads from it
 * and closes it after the reporter. -1, the default, means none. Returns 0 or -EINVAL.
 */
SL_API int sl_reporter_stop_fd(struct sl_reporter *r, int fd);

/*
 * The counters add up: reports = sent + packed + unchanged + sampled_out + dropped_full +
 * dropped_credits + dropped_error + dropped_ring.
 */
struct sl_reporter_stats {
	size_t sz;
	uint64_t reports; /* reports requested, excluding refused ones */
	uint64_t refused; /* reports refused with -EINVAL or -EMSGSIZE */
	uint64_t sent;	  /* reports sent, each counted once */
	/* reports in packets not sent yet: the open one, and those that await room in the window */
	uint64_t packed;
	uint64_t unchanged, sampled_out;
	uint64_t dropped_full;	  /* reports dropped because the socket's buffer was full */
	uint64_t dropped_credits; /* reports dropped because the translator granted no credit */
	uint64_t dropped_error;	  /* reports dropped because of another error of the socket */
	uint64_t packets, bytes;  /* packets and bytes sent, including retransmissions */
	uint64_t again;		  /* number of packets retransmitted */
	uint64_t settled;	  /* packets with essential reports that have been acknowledged */
	/* reports dropped because backup_packets are kept and none is acknowledged */
	uint64_t dropped_ring;
	uint64_t waiting;		/* packets kept now */
	uint64_t waits;			/* number of times a report had to wait */
	uint64_t acks, nacks;		/* answers processed */
	uint64_t answers_refused;	/* answers forged or not meant for this reporter */
	uint32_t reporter, incarnation; /* identity of this reporter at the translator */
	/*
	 * Number of moves to the next target, either because the kernel reported that no process
	 * listens at the current one, or because three requests went unanswered for 300 ms. Each
	 * changes the incarnation. Unacknowledged packets go to the next target; counters and lists
	 * then count twice what had arrived at the old one.
	 */
	uint64_t failovers;
	/* packets without reports at the end of a stream; not included in packets */
	uint64_t heartbeats;
	uint64_t restored; /* packets recovered from an earlier process's backup_file */
	uint64_t damaged;  /* packets in backup_file that could not be read, and are lost */
};
/* Returns 0, or -EINVAL for NULL, or if sz is too small. */
SL_API int sl_reporter_stats(const struct sl_reporter *r, struct sl_reporter_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
