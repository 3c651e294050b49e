/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - internals of a reporter.
 * - report.c: filters and packs reports
 * - report_open.c: options and memory
 * - report_target.c: translators and failover between them
 * - report_send.c: sending, answers and the ring of kept packets
 * - report_update.c: copies newer values into kept packets
 * - report_file.c: keeps the ring in a file
 */
#ifndef SL_LIB_REPORT_H
#define SL_LIB_REPORT_H

#include <sidelight/report.h>
#include <sidelight/store.h>

#include "../common.h"
#include "dta/wire/auth.h"
#include "dta/wire/wire.h"

#define SL__REPORT_RETRY_NS 20000000ull	 /* delay of the first retry; it doubles with each retry */
#define SL__REPORT_DOUBLES  5u		 /* number of times that the retry delay doubles */
#define SL__REPORT_WINDOW   4096u	 /* window assumed until the translator announces its own */
#define SL__REPORT_PROBE_NS 100000000ull /* period of probe packets while there is no credit */
/* a target that answers no request for this long is considered gone */
#define SL__REPORT_SILENT_NS 300000000ull
/* silence before a heartbeat; the second heartbeat waits 8 times as long */
#define SL__REPORT_BEAT_NS   20000000ull
#define SL__REPORT_ASKS	     3u /* unanswered requests before a target may be considered gone */
#define SL__REPORT_STAY_NS   200000000ull /* minimum time at a target before moving to the next */
#define SL__REPORT_ACK_EVERY 8u		  /* essential packets per request for an acknowledgement */
#define SL__REPORT_SKETCHES  16u

/* A packet with essential reports, kept until it is acknowledged. */
struct sl__backup {
	uint32_t first, reports;
	uint32_t bytes; /* length without the proof; 0 means acknowledged or unused */
	uint32_t tries;
	uint64_t sent_ns, retry_ns;
};

struct sl__change {
	uint64_t key, value; /* hashes; a key of 0 means an unused entry */
	uint64_t time_ns;
};

struct sl__sketch {
	uint16_t store;
	bool used;
	uint32_t epoch, items;
};

struct sl_reporter {
	int stop_fd; /* waits end while it is readable; -1 means none */
	int target[SL_REPORTER_TARGETS_MAX];
	/* identities of the translators, which a packet's MAC covers */
	uint64_t meant[SL_REPORTER_TARGETS_MAX];
	uint32_t targets, at;
	bool refused;	  /* the kernel reported that no process is listening at the target */
	uint64_t left_ns; /* time of the last failover */
	uint32_t asks;	  /* unanswered requests since asked_ns */
	uint64_t asked_ns;
	uint32_t flags, packet_bytes, reporter, incarnation;
	uint16_t tenant;
	enum dta_legacy legacy;
	uint64_t flush_ns, wait_ns, refresh_ns;
	struct dta_key *key;

	struct dta_builder b;
	uint8_t *packet;
	bool essential, open; /* state of the packet being built */
	uint64_t opened_ns;   /* time of the first report in the open packet */
	uint32_t sequence;    /* sequence number of the first report in the open packet */

	struct sl__backup *backup; /* ring of kept packets */
	/* bytes of the kept packets, `stride` apart; part of the mapped file, if there is one */
	uint8_t *backup_packet;
	uint32_t stride;
	uint8_t *file; /* mapped ring file; NULL means that the ring is in memory */
	size_t file_bytes;
	int file_fd;
	uint64_t order; /* order of the next packet in the file */
	uint32_t backups, head;
	uint32_t kept; /* number of entries, starting with the oldest unsettled one */
	/* number of entries at the end of the ring that wait for room in the window */
	uint32_t unsent;
	uint32_t unasked; /* essential packets since the last request for an acknowledgement */
	uint32_t *place;  /* hash table of the keys in one packet; see sl__report_update() */
	uint32_t place_mask;

	uint32_t window;  /* window of the current translator */
	uint64_t sent_ns; /* time of the last packet */
	uint32_t beats;	  /* heartbeats since the last packet */
	/* kept packets have left the translator's window and need new sequence numbers */
	bool outside;
	/*
	 * next: first report after those that have arrived; credits: number of reports allowed from
	 * there
	 */
	uint32_t next, credits;
	uint64_t answered_ns, probed_ns;

	struct sl__change *change;
	uint64_t change_mask, change_seed, chance;
	struct sl__sketch sketch[SL__REPORT_SKETCHES];
	struct sl_reporter_stats s;
};

static inline uint32_t sl__report_after(uint32_t a, uint32_t b) /* whether a follows b (RFC 1982) */
{
	return (int32_t)(a - b) > 0;
}

/*
 * The clock for every now_ns below. It needs no system call and is as coarse as the kernel's tick.
 */
static inline uint64_t sl__report_now(void)
{
	return sl__clock_ns(CLOCK_MONOTONIC_COARSE);
}

/*
 * report_target.c. Returns 0 or an error of sl_reporter_open(). names: names of the translators, or
 * NULL.
 */
SL__HIDDEN int sl__report_targets(struct sl_reporter *r, const char *targets, const char *names);
SL__HIDDEN uint32_t sl__report_incarnation(void);
SL__HIDDEN void sl__report_failover(struct sl_reporter *r, uint64_t now_ns);

/* report_send.c */
/* Returns the i-th kept packet. */
SL__HIDDEN struct sl__backup *sl__report_backup(const struct sl_reporter *r, uint32_t i);
SL__HIDDEN uint8_t *sl__report_packet(const struct sl_reporter *r, const struct sl__backup *b);
/*
 * report_file.c. Without a file, only sl__report_stride() has an effect; it returns the bytes per
 * packet.
 */
SL__HIDDEN uint32_t sl__report_stride(uint32_t packet_bytes);
/*
 * Returns 0 or an error of sl_reporter_open(). any_reporter: adopt the reporter number in the file.
 */
SL__HIDDEN int sl__report_file_open(struct sl_reporter *r, const char *path, bool any_reporter);
SL__HIDDEN void sl__report_file_close(struct sl_reporter *r);
SL__HIDDEN void sl__report_file_kept(struct sl_reporter *r, const struct sl__backup *b);
SL__HIDDEN void sl__report_file_freed(struct sl_reporter *r, const struct sl__backup *b);
SL__HIDDEN void sl__report_file_changing(const struct sl_reporter *r, const struct sl__backup *b);
SL__HIDDEN void sl__report_file_changed(const struct sl_reporter *r, const struct sl__backup *b);
SL__HIDDEN void sl__report_file_incarnation(const struct sl_reporter *r);
/*
 * report_update.c. Copies the values of a packet that is about to be settled into older kept
 * packets.
 */
SL__HIDDEN void sl__report_update(const struct sl_reporter *r, const struct sl__backup *newer);
/* report_send.c. Gives all packets that were sent and kept new sequence numbers, in order. */
SL__HIDDEN void sl__report_renumber(struct sl_reporter *r, uint64_t now_ns);
SL__HIDDEN void sl__report_begin(struct sl_reporter *r);
/* Returns 0, or -EAGAIN or -EDQUOT if the packet stays open. */
SL__HIDDEN int sl__report_send(struct sl_reporter *r, bool ask);
SL__HIDDEN int sl__report_send_raw(struct sl_reporter *r, const void *packet, size_t bytes);
SL__HIDDEN void sl__report_heartbeat(struct sl_reporter *r);
SL__HIDDEN void sl__report_answers(struct sl_reporter *r);
SL__HIDDEN void sl__report_retry(struct sl_reporter *r, uint64_t now_ns);

#endif
