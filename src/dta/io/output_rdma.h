/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_rdma.h - the two outputs that write to another machine's memory, by operations of up to
 * DTA_OUTPUT_WRITE_MAX bytes; larger ones fail with -EMSGSIZE. Usage: output.h.
 */
#ifndef SL_DTA_IO_OUTPUT_RDMA_H
#define SL_DTA_IO_OUTPUT_RDMA_H

#include "dta/engine/output.h"
#include "dta/io/roce.h"

#define DTA_VERBS_PORT	     7476
#define DTA_OUTPUT_WRITE_MAX (1u << 20)

/* ---- verbs: over RDMA-CM ---- */

struct dta_output_verbs_opts {
	const char *host;   /* of the store server: name or address */
	uint16_t port;	    /* from "welcome"; 0: DTA_VERBS_PORT */
	const char *device; /* NULL: by the route */
	int gid_index;	    /* -1: by the route */
	int ib_port;	    /* 0: 1 */
	const char *name;   /* as in "hello" */
	uint64_t instance;  /* from "welcome"; a wrong one is refused */
	uint32_t depth;	    /* operations in flight; 0: 1024 */
};

/*
 * drive() connects, with a back-off between attempts. After a lost connection WRITEs that did not
 * complete are repeated in order; FETCH_ADDs count as unconfirmed. NULL with errno and one line in
 * error.
 */
struct dta_output *dta_output_verbs(const struct dta_output_verbs_opts *opts, char *error,
				    size_t error_bytes);

/* ---- raw: RoCEv2 frames, from the interface's first IPv4 address, else an IPv6 one ---- */

struct dta_output_raw_opts {
	const char *interface; /* to send by; NULL with file */
	bool xdp;	       /* frames leave by AF_XDP on the first free queue */
	const char *file;      /* a pcap file instead; operations count as acknowledged */
	uint32_t depth;	       /* packets in flight; 0: 1024 */
	uint32_t tries;	       /* retransmissions before it goes down; 0: 8 */
};

/*
 * Down until dta_output_raw_connect(). After it went down it needs a new queue pair by
 * dta_output_raw_ours(). With a file it is up at once. NULL with errno and one line in error.
 */
struct dta_output *dta_output_raw(const struct dta_output_raw_opts *opts, char *error,
				  size_t error_bytes);
/*
 * Makes a new queue pair, for the "queue" message. Of operations in flight WRITEs are repeated and
 * FETCH_ADDs count as unconfirmed. 0, or -errno: it cannot receive, and is down.
 */
int dta_output_raw_ours(struct dta_output *o, struct dta_roce_end *ours);
/*
 * Connects to the store server's end: the output is up. 0, -EINVAL, -EALREADY: not asked for,
 * -EMSGSIZE: packets smaller than those that wait, -ENOMEM.
 */
int dta_output_raw_connect(struct dta_output *o, const struct dta_roce_end *theirs);

/* ---- raw: the store server's end ---- */

struct fabric_host;
/*
 * Makes a queue pair towards theirs, whose numbers came in a "queue" message instead of by CM, and
 * fills in ours, the answer. The host's came() is not asked. May wait for an ARP answer. 0;
 * -EINVAL: theirs is invalid; -ENOSPC: max_queues; -errno of the device. fabric_host_queue_end()
 * destroys it.
 */
int dta_raw_queue_new(struct fabric_host *h, const char *name, const struct dta_roce_end *theirs,
		      struct dta_roce_end *ours, uint64_t *queue);

#endif
