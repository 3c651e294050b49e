/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.h - remote write: for each receiver and shard, a thread that chooses samples from the
 * history (sender.h) and hands them to a thread that sends them. The pods are divided among the
 * shards of a receiver.
 *
 * Order of calls:
 * - collect_send_new()
 * - collect_collector_new(), collect_send_attach(), collect_send_start(), collect_collector_start()
 * - collect_send_stop(), collect_collector_free(), collect_send_free()
 */
#ifndef SL_COLLECT_SEND_SEND_H
#define SL_COLLECT_SEND_SEND_H

#include "collect/read/receivers.h"
#include "collect/send/sender.h"

#define COLLECT_SEND_MAX    8u	/* maximum number of receivers */
#define COLLECT_SEND_SHARDS 16u /* maximum number of senders per receiver */

struct collect_send_opts {
	const char *url;
	const char *relabel; /* file of rules (relabel.h), or NULL */
	/* further options of remote write; its url is ignored */
	struct export_remote_opts remote;
	struct collect_sender_form form;
	uint64_t period_ns;	  /* period of the collector's rounds */
	uint64_t sample_every_ns; /* sampling interval; 0 means send all samples */
	uint64_t sample_around_ns;
};

struct collect_send;

/*
 * Makes form.shards senders for each of n receivers, at least one. Returns NULL with a one-line
 * message in error. The functions below apply to all of these senders.
 */
struct collect_send *collect_send_new(const struct collect_send_opts *opts, size_t n, char *error,
				      size_t error_bytes);
/* Adds the series, and the receivers to the list. Returns 0 or -errno. */
int collect_send_attach(struct collect_send *s, struct collect_collector *c,
			struct collect_receivers *to);
int collect_send_start(struct collect_send *s); /* returns 0 or -errno */
/*
 * Callback for collect_live_listen(): sends the samples around this anomaly. send is a struct
 * collect_send. May be called by any thread, at any time until collect_send_free(). Returns false
 * if out of memory.
 */
bool collect_send_anomaly(void *send, const struct act_anomaly *a);
void collect_send_stop(struct collect_send *s);
/* Queued samples have one second to be sent. s may be NULL. */
void collect_send_free(struct collect_send *s);

#endif
