/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - the internals of a reporter.
 *
 *   report.c         reports: filter and pack
 *   report_open.c    options, memory
 *   report_target.c  the translators, and moving between them
 *   report_send.c    sending, answers, the ring of kept packets
 *   report_update.c  newer values for kept packets
 *   report_file.c    the ring in a file
 */
#ifndef SL_LIB_REPORT_H
#define SL_LIB_REPORT_H

#include <sidelight/report.h>
#include <sidelight/store.h>

#include "../common.h"
#include "dta/wire/auth.h"
#include "dta/wire/wire.h"

#define SL__REPORT_RETRY_NS 20000000ull	 /* until the first retry; doubles ... */
#define SL__REPORT_DOUBLES  5u		 /* ... at most this many times */
#define SL__REPORT_WINDOW   4096u	 /* of a translator, until it says so */
#define SL__REPORT_PROBE_NS 100000000ull /* without credit, one packet per period asks for some */
#define SL__REPORT_SILENT_NS \
	300000000ull /* a target that answered no request for this long is gone */
/* of silence until a heartbeat; eight times for a second */
#define SL__REPORT_BEAT_NS   20000000ull
#define SL__REPORT_ASKS	     3u		  /* requests that it takes for that */
#define SL__REPORT_STAY_NS   200000000ull /* least time at a target before moving on */
#define SL__REPORT_ACK_EVERY 8u		  /* essential packets per request for an acknowledgement */
#define SL__REPORT_SKETCHES  16u

/* A packet with essential reports, as it was sent. */
struct sl__backup {
	uint32_t first, reports;
	uint32_t bytes; /* without the proof; 0: acknowledged or unused */
	uint32_t tries;
	uint64_t sent_ns, retry_ns;
};

struct sl__change {
	uint64_t key, value; /* hashes; key 0: unused */
	uint64_t time_ns;
};

struct sl__sketch {
	uint16_t store;
	bool used;
	uint32_t epoch, items;
};

struct sl_reporter {
	int fd; /* of target[at] */
	int target[SL_REPORTER_TARGETS_MAX];
	uint64_t meant[SL_REPORTER_TARGETS_MAX]; /* translators, as packets with a MAC name them */
	uint32_t targets, at;
	bool refused;	  /* the kernel reported that no process listens at the target */
	uint64_t left_ns; /* when the previous target was left */
	uint32_t asks;	  /* unanswered requests since asked_ns */
	uint64_t asked_ns;
	uint32_t flags, packet_bytes, reporter, incarnation;
	uint16_t tenant;
	enum dta_legacy legacy;
	uint64_t flush_ns, wait_ns, refresh_ns;
	struct dta_key *key;

	struct dta_builder b;
	uint8_t *packet;
	bool essential, open; /* of the packet being built */
	uint64_t opened_ns;   /* time of its first report */
	uint32_t sequence;    /* number of its first report */

	struct sl__backup *backup; /* a ring */
	uint8_t *backup_packet;	   /* stride each; within file, if there is one */
	uint32_t stride;
	uint8_t *file; /* NULL: the ring is memory */
	size_t file_bytes;
	int file_fd;
	uint64_t order; /* of the next packet in the file */
	uint32_t backups, head,
		kept;	  /* from the oldest unsettled on; settled ones may lie between */
	uint32_t unasked; /* essential packets since the last request for an answer */
	uint32_t *place;  /* of keys in a packet, for sl__report_update() */
	uint32_t place_mask;

	uint32_t window;	/* of the translator */
	uint64_t sent_ns;	/* of the last packet */
	uint32_t beats;		/* heartbeats since */
	bool outside;		/* kept packets need other numbers */
	uint32_t next, credits; /* behind the newest report that arrived, by the answers */
	uint64_t answered_ns, probed_ns;

	struct sl__change *change;
	uint64_t change_mask, change_seed, chance;
	struct sl__sketch sketch[SL__REPORT_SKETCHES];
	struct sl_reporter_stats s;
};

static inline uint32_t sl__report_after(uint32_t a, uint32_t b) /* a follows b: RFC 1982 */
{
	return (int32_t)(a - b) > 0;
}

/* All now_ns below. A clock without a system call, as coarse as the kernel's tick. */
static inline uint64_t sl__report_now(void)
{
	return sl__clock_ns(CLOCK_MONOTONIC_COARSE);
}

/* report_target.c. 0, or an error of sl_reporter_open(). names: of the translators, or NULL */
SL__HIDDEN int sl__report_targets(struct sl_reporter *r, const char *targets, const char *names);
SL__HIDDEN uint32_t sl__report_incarnation(void);
SL__HIDDEN void sl__report_failover(struct sl_reporter *r, uint64_t now_ns);

/* report_send.c */
/* Appends the proof if packets have one. Returns the packet's length. */
SL__HIDDEN size_t sl__report_sign(const struct sl_reporter *r, uint8_t *packet, size_t bytes);
SL__HIDDEN struct sl__backup *sl__report_backup(const struct sl_reporter *r,
						uint32_t i); /* i-th kept */
SL__HIDDEN uint8_t *sl__report_packet(const struct sl_reporter *r, const struct sl__backup *b);
/* report_file.c. No effect without a file, but for the stride: bytes from packet to packet. */
SL__HIDDEN uint32_t sl__report_stride(uint32_t packet_bytes);
/* 0, or an error of sl_reporter_open(). any_reporter: the file may say the reporter's number. */
SL__HIDDEN int sl__report_file_open(struct sl_reporter *r, const char *path, bool any_reporter);
SL__HIDDEN void sl__report_file_close(struct sl_reporter *r);
SL__HIDDEN void sl__report_file_kept(struct sl_reporter *r, const struct sl__backup *b);
SL__HIDDEN void sl__report_file_freed(struct sl_reporter *r, const struct sl__backup *b);
SL__HIDDEN void sl__report_file_changing(const struct sl_reporter *r, const struct sl__backup *b);
SL__HIDDEN void sl__report_file_changed(const struct sl_reporter *r, const struct sl__backup *b);
SL__HIDDEN void sl__report_file_incarnation(const struct sl_reporter *r);
/* report_update.c. A kept packet is about to be settled: older ones get its values. */
SL__HIDDEN void sl__report_update(const struct sl_reporter *r, const struct sl__backup *newer);
/* Gives all kept packets the next numbers, in their order. */
SL__HIDDEN void sl__report_renumber(struct sl_reporter *r, uint64_t now_ns);
SL__HIDDEN void sl__report_begin(struct sl_reporter *r);
SL__HIDDEN int sl__report_send(struct sl_reporter *r, bool ask); /* 0; -EAGAIN, -EDQUOT: it stays */
SL__HIDDEN int sl__report_send_raw(struct sl_reporter *r, const void *packet, size_t bytes);
SL__HIDDEN void sl__report_heartbeat(struct sl_reporter *r);
SL__HIDDEN void sl__report_answers(struct sl_reporter *r);
SL__HIDDEN void sl__report_retry(struct sl_reporter *r, uint64_t now_ns);

#endif
