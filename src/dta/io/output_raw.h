/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_raw.h - what output_raw.c, which knows operations and the window, and output_raw_port.c, which
 * knows how frames leave and come, share. Included by these two alone.
 */
#ifndef SL_DTA_IO_OUTPUT_RAW_H
#define SL_DTA_IO_OUTPUT_RAW_H

#include "dta/io/output_rdma.h"

#define SL_RAW_BATCH 64u

struct sl_raw_frame {
	void *data;
	size_t bytes;
};

struct sl_xsk;

/* A packet socket, which AF_XDP may do the sending for, or a file. */
struct sl_raw_port {
	int fd;	  /* of the packet socket, or -1 */
	struct sl_xsk *xsk; /* or NULL */
	int ifindex;
	int deaf; /* a UDP socket: while it is there, the kernel says nothing about our port's frames; or -1 */
	void *file; /* FILE * */
	struct sl_roce_end end; /* mac, gid, mtu of the interface */
};

/* 0, or -errno and one line in error. */
int sl_raw_port_open(struct sl_raw_port *p, const struct sl_output_raw_opts *opts, char *error,
		     size_t error_bytes);
void sl_raw_port_close(struct sl_raw_port *p);
/* From now on only frames for this queue pair come. 0 or -errno. */
int sl_raw_port_listen(struct sl_raw_port *p, const struct sl_roce_end *ours);
/* Up to SL_RAW_BATCH frames; never waits. Returns how many left, or -errno. */
int sl_raw_port_send(struct sl_raw_port *p, const struct sl_raw_frame *frames, unsigned count);
/* The same the other way; frames[].bytes says the room and then what came. */
int sl_raw_port_receive(struct sl_raw_port *p, struct sl_raw_frame *frames, unsigned count);

#endif
