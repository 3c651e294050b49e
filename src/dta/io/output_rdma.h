/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_rdma.h - the two outputs that write to the memory of another machine. An operation has at
 * most DTA_OUTPUT_WRITE_MAX bytes; a larger one fails with -EMSGSIZE. See output.h for usage.
 */
#ifndef SL_DTA_IO_OUTPUT_RDMA_H
#define SL_DTA_IO_OUTPUT_RDMA_H

#include "dta/engine/output.h"
#include "dta/io/roce.h"

#define DTA_VERBS_PORT	     7476
#define DTA_OUTPUT_WRITE_MAX (1u << 20)

/* ---- verbs: over RDMA-CM ---- */

struct dta_output_verbs_opts {
	const char *host;   /* name or address of the store server */
	uint16_t port;	    /* port from "welcome"; 0 means DTA_VERBS_PORT */
	const char *device; /* must outlive the output; NULL means chosen by the route */
	int gid_index;	    /* -1 means chosen by the route */
	int ib_port;	    /* 0 means port 1 */
	const char *name;   /* name in the "hello" message */
	uint64_t instance;  /* instance from "welcome"; connecting to any other instance fails */
	uint32_t depth;	    /* operations in flight; 0 means 1024 */
};

/*
 * drive() connects, with a back-off between attempts. After a lost connection, incomplete WRITEs
 * are repeated in order, and FETCH_ADDs in flight count as unconfirmed. Returns NULL with one line
 * in error.
 */
struct dta_output *dta_output_verbs(const struct dta_output_verbs_opts *opts, char *error,
				    size_t error_bytes);

/*
 * ---- raw: RoCEv2 frames, sent from the interface's first IPv4 address, or else an IPv6 address
 * ----
 */

struct dta_output_raw_opts {
	/* interface used for sending, which must outlive the output; NULL with file */
	const char *interface;
	bool xdp;	  /* send frames through AF_XDP on the first free queue */
	const char *file; /* write to this pcap file instead; operations count as acknowledged */
	uint32_t depth;	  /* packets in flight; 0 means 1024 */
	uint32_t tries;	  /* retransmissions before the output goes down; 0 means 8 */
};

/*
 * The output is down until dta_output_raw_connect() is called. Whenever it goes down, it needs a
 * new queue pair from dta_output_raw_ours(). With a file the output is up immediately. Returns NULL
 * with one line in error.
 */
struct dta_output *dta_output_raw(const struct dta_output_raw_opts *opts, char *error,
				  size_t error_bytes);
/*
 * Creates a new queue pair for the "queue" message, from the interface's present address. WRITEs in
 * flight are repeated, and FETCH_ADDs in flight count as unconfirmed. Returns 0, or -errno if the
 * output can't receive and is down.
 */
int dta_output_raw_ours(struct dta_output *o, struct dta_roce_end *ours);
/*
 * Connects to the store server's end and brings the output up. Returns 0; -EINVAL; -ENOMEM;
 * -EALREADY if no connection was requested; or -EMSGSIZE if the MTU is smaller than the MTU of
 * waiting packets.
 */
int dta_output_raw_connect(struct dta_output *o, const struct dta_roce_end *theirs);

/* ---- raw: the store server's end ---- */

struct fabric_host;
/*
 * Creates a queue pair towards theirs, whose numbers came in a "queue" message rather than from the
 * CM, and fills in ours for the reply. The host's came() is not called. May wait for an ARP reply.
 * Returns 0; -EINVAL if theirs is invalid; -ENOSPC if max_queues is reached; or -errno from the
 * device. fabric_host_queue_end() destroys the queue pair.
 */
int dta_raw_queue_new(struct fabric_host *h, const char *name, const struct dta_roce_end *theirs,
		      struct dta_roce_end *ours, uint64_t *queue);

#endif
