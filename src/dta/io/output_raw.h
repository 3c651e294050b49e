/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_raw.h - what output_raw.c, which knows operations and the window, and output_raw_port.c,
 * which knows how frames leave and come, share. Included by these two alone.
 */
#ifndef SL_DTA_IO_OUTPUT_RAW_H
#define SL_DTA_IO_OUTPUT_RAW_H

#include "dta/io/output_rdma.h"

#define DTA_RAW_BATCH 64u

struct dta_raw_frame {
	void *data;
	size_t bytes;
};

struct dta_xsk;

/* A packet socket, which AF_XDP may do the sending for, or a file. */
struct dta_raw_port {
	int fd;		     /* of the packet socket, or -1 */
	struct dta_xsk *xsk; /* or NULL */
	int ifindex;
	int deaf;   /* a UDP socket: while it is there, the kernel says nothing about our port's
		       frames; or -1 */
	void *file; /* FILE * */
	struct dta_roce_end end; /* mac, gid, mtu of the interface */
};

/* 0, or -errno and one line in error. */
int dta_raw_port_open(struct dta_raw_port *p, const struct dta_output_raw_opts *opts, char *error,
		      size_t error_bytes);
void dta_raw_port_close(struct dta_raw_port *p);
/* From now on only frames for this queue pair come. 0 or -errno. */
int dta_raw_port_listen(struct dta_raw_port *p, const struct dta_roce_end *ours);
/* Up to DTA_RAW_BATCH frames; never waits. Returns how many left, or -errno. */
int dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames, unsigned count);
/* The same the other way; frames[].bytes says the room and then what came. */
int dta_raw_port_receive(struct dta_raw_port *p, struct dta_raw_frame *frames, unsigned count);

#endif
