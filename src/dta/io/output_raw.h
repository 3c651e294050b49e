/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_raw.h - interface between output_raw.c, which handles operations and the window, and
 * output_raw_port.c, which sends and receives frames. Only these files include it.
 */
#ifndef SL_DTA_IO_OUTPUT_RAW_H
#define SL_DTA_IO_OUTPUT_RAW_H

#include "dta/io/output_rdma.h"
#include "dta/io/roce.h"

#define DTA_RAW_BATCH 64u

struct dta_raw_frame {
	void *data;
	size_t bytes;
};

struct dta_xsk;

/* A file, or a packet socket that may send through AF_XDP. */
struct dta_raw_port {
	int fd;		     /* the packet socket, or -1 */
	struct dta_xsk *xsk; /* or NULL */
	int ifindex;
	int silencer;		 /* a UDP socket that suppresses the kernel's ICMP errors, or -1 */
	void *file;		 /* FILE * */
	struct dta_roce_end end; /* MAC, GID and MTU of the interface */
};

/* Returns 0, or -errno and one line in error. */
int dta_raw_port_open(struct dta_raw_port *p, const struct dta_output_raw_opts *opts, char *error,
		      size_t error_bytes);
void dta_raw_port_close(struct dta_raw_port *p);
/*
 * Looks the interface up again: it may have been created again, or its addresses may have changed.
 * Call dta_raw_port_listen() afterwards. Returns 0, or -errno and one line in error.
 */
int dta_raw_port_renew(struct dta_raw_port *p, const struct dta_output_raw_opts *opts, char *error,
		       size_t error_bytes);
/* Starts to receive the frames of this queue pair, and no others. Returns 0 or -errno. */
int dta_raw_port_listen(struct dta_raw_port *p, const struct dta_roce_end *ours);
/* Sends up to DTA_RAW_BATCH frames without waiting. Returns the number sent, or -errno. */
int dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames, unsigned count);
/*
 * Receives up to DTA_RAW_BATCH frames without waiting. frames[].bytes is the available room before
 * the call and the length after it. Returns the number received, or -errno; -ENXIO means that the
 * interface no longer exists.
 */
int dta_raw_port_receive(struct dta_raw_port *p, struct dta_raw_frame *frames, unsigned count);

#endif
