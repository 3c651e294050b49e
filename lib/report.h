/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - the insides of a reporter.
 *
 *   report.c         the calls: filter, pack
 *   report_open.c    options, socket, memory; all that a reporter ever allocates
 *   report_target.c  the translators that it may send to, and which one it is
 *   report_send.c    packets out, answers in, the backup ring
 *   report_filter.c  change detection and sampling
 */
#ifndef SL_LIB_REPORT_H
#define SL_LIB_REPORT_H

#include <sidelight/report.h>
#include <sidelight/store.h>

#include "dta/wire/auth.h"
#include "dta/wire/wire.h"
#include "internal.h"

#define SL__REPORT_TRIES    8u		/* of an essential packet */
#define SL__REPORT_RETRY_NS 20000000ull /* the first time; doubles */
#define SL__REPORT_PROBE_NS                                                  \
	100000000ull /* without credit, a packet in so long may ask for some \
		      */
#define SL__REPORT_SILENT_NS \
	300000000ull /* a translator that was asked, and asked again, and says nothing */
#define SL__REPORT_ASKS	     3u
#define SL__REPORT_STAY_NS   200000000ull /* at each of several */
#define SL__REPORT_ACK_EVERY 8u		  /* essential packets */
#define SL__REPORT_SKETCHES  16u

/* A packet with essential reports, as it was sent. */
struct sl__backup {
	uint32_t first, reports;
	uint32_t bytes; /* without the MAC; 0: settled, or never used */
	uint32_t tries;
	uint64_t sent_ns, retry_ns;
};

struct sl__change {
	uint64_t key, value; /* hashes; key 0: none */
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
	uint32_t targets, at;
	bool refused;	  /* the kernel says that nobody listens there */
	uint64_t left_ns; /* the one before */
	uint32_t asks;	  /* that were not answered, since asked_ns */
	uint64_t asked_ns;
	uint32_t flags, packet_bytes, reporter, incarnation;
	uint16_t tenant;
	enum dta_legacy legacy;
	uint64_t flush_ns, wait_ns, refresh_ns;
	struct dta_key *key;

	struct dta_builder b;
	uint8_t *packet;
	bool essential, open; /* the packet that is being built */
	uint64_t opened_ns;   /* when its first report came */
	uint32_t sequence;    /* of its first report */

	struct sl__backup *backup; /* a ring */
	uint8_t *backup_packet;	   /* packet_bytes of each */
	uint32_t backups, head,
		kept;	  /* of the oldest; from there on, settled ones between them too */
	uint32_t unasked; /* essential packets since the last that asked for an answer */

	uint32_t next, credits; /* behind the newest that arrived, as answers said */
	uint64_t answered_ns, probed_ns;

	struct sl__change *change;
	uint64_t change_mask, change_seed, chance;
	struct sl__sketch sketch[SL__REPORT_SKETCHES];
	struct sl_reporter_stats s;
};

static inline uint32_t sl__report_after(uint32_t a, uint32_t b) /* a is behind b: RFC 1982 */
{
	return (int32_t)(a - b) > 0;
}

/* report_target.c. 0, or as sl_reporter_open() */
SL__HIDDEN int sl__report_targets(struct sl_reporter *r, const char *targets);
SL__HIDDEN uint32_t sl__report_incarnation(void);
SL__HIDDEN void sl__report_failover(struct sl_reporter *r, uint64_t now_ns);

/* report_send.c. now_ns: CLOCK_MONOTONIC_COARSE */
/* The i-th of those that are kept, the oldest first. */
SL__HIDDEN struct sl__backup *sl__report_backup(const struct sl_reporter *r, uint32_t i);
SL__HIDDEN uint8_t *sl__report_packet(const struct sl_reporter *r, const struct sl__backup *b);
SL__HIDDEN uint64_t sl__report_now(void);
SL__HIDDEN void sl__report_begin(struct sl_reporter *r);
SL__HIDDEN int sl__report_send(struct sl_reporter *r, bool ask); /* 0, -EAGAIN: it stays */
SL__HIDDEN int sl__report_send_raw(struct sl_reporter *r, const void *packet, size_t bytes);
SL__HIDDEN void sl__report_answers(struct sl_reporter *r);
SL__HIDDEN void sl__report_retry(struct sl_reporter *r, uint64_t now_ns);

/* report_filter.c */
SL__HIDDEN bool sl__report_sampled(struct sl_reporter *r, const struct sl_report *how,
				   const void *key, size_t bytes);
/* Where to note the value if it is reported; *same: it need not be. */
SL__HIDDEN struct sl__change *sl__report_change(struct sl_reporter *r, const struct sl_report *how,
						const void *key, size_t key_bytes,
						const void *value, size_t value_bytes,
						uint64_t now_ns, struct sl__change *now,
						bool *same);

#endif
