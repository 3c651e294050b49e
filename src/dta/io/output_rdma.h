/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_rdma.h - the two outputs that write into another machine's memory; output.h says how they
 * are used.
 *
 * Both take an operation of up to DTA_OUTPUT_WRITE_MAX bytes; more is -EMSGSIZE.
 */
#ifndef SL_DTA_IO_OUTPUT_RDMA_H
#define SL_DTA_IO_OUTPUT_RDMA_H

#include "dta/engine/output.h"
#include "dta/io/roce.h"

#define DTA_OUTPUT_WRITE_MAX (1u << 20)

/* ---- verbs: over RDMA-CM ---- */

struct dta_output_verbs_opts {
	const char *host;	     /* of the owner: a name or an address */
	uint16_t port;		     /* as "welcome" says; 0: DTA_VERBS_PORT */
	const char *device;	     /* NULL: as the route says */
	int gid_index;		     /* -1: as the route says */
	int ib_port;		     /* 0: 1 */
	const char *name;	     /* as in "hello" */
	uint64_t instance;	     /* as "welcome" says; else it is refused */
	uint32_t depth;		     /* operations on the way; 0: 1024 */
	uint32_t connect_timeout_ms; /* 0: 2000 */
};

/*
 * Connects by drive(), again and again with a back-off. When a connection is lost, WRITEs that were
 * not completed are given again, in order, over the next one; FETCH_ADDs are counted as
 * unconfirmed. NULL with errno and one line in error.
 */
struct dta_output *dta_output_verbs(const struct dta_output_verbs_opts *opts, char *error,
				    size_t error_bytes);

/* ---- raw: RoCEv2 frames ---- */

struct dta_output_raw_opts {
	const char *interface; /* to send by; NULL if file is given */
	bool xdp; /* frames leave by AF_XDP: the interface's first queue that is free */
	const char
		*address; /* of that interface, to send from; NULL: its first IPv4 one, else IPv6 */
	const char *file; /* a pcap file: what would be sent, and taken for acknowledged */
	uint32_t mtu;	/* bytes of payload a packet; 0: as the interface and the other end allow */
	uint32_t depth; /* packets on the way; 0: 1024 */
	uint64_t timeout_ns; /* until what is not acknowledged is sent again, at first; 0: 20 ms */
	uint32_t tries;	     /* then it is down; 0: 8 */
};

/*
 * Is down until dta_output_raw_connect(). After it went down by itself it needs a new queue pair:
 * dta_output_ raw_ours() again. With file no other end is needed: it is up at once. NULL with errno
 * and one line in error.
 */
struct dta_output *dta_output_raw(const struct dta_output_raw_opts *opts, char *error,
				  size_t error_bytes);
/*
 * A new queue pair of our own, for the "queue" message to the owner. What was on the way over the
 * one before is kept: WRITEs are given again, FETCH_ADDs counted as unconfirmed. 0, or -errno if
 * nothing could be heard over it: then it is down.
 */
int dta_output_raw_ours(struct dta_output *o, struct dta_roce_end *ours);
/*
 * The owner's "queue": the output is up. 0, -EINVAL, -EALREADY if none was asked for, -EMSGSIZE if
 * its packets are smaller than those that wait, -ENOMEM.
 */
int dta_output_raw_connect(struct dta_output *o, const struct dta_roce_end *theirs);
/* For poll(2): readable when there are answers. -1 with file. */
int dta_output_raw_fd(const struct dta_output *o);

#endif
