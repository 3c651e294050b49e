/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h - the translator in the kernel (kernel.bpf.c): loads it behind the program of an
 * interface (xdp.h), and tells it what to do by its maps. Each receive queue of the interface has a
 * queue pair, whose frames only the program sends. Single-threaded.
 */
#ifndef SL_DTA_IO_KERNEL_H
#define SL_DTA_IO_KERNEL_H

#include "dta/io/output_rdma.h"
#include "dta/io/xdp.h"

#include <linux/types.h>

#include "dta/io/kernel_shared.h"

struct dta_kernel;

/*
 * Until its queue pairs are connected, everything goes the way it does without. NULL with errno and
 * one line in error. x has one interface, in native mode, which must not be closed before.
 */
struct dta_kernel *dta_kernel_open(struct dta_xdp *x, const char *interface, char *error,
				   size_t error_bytes);
/* The kernel takes no more packets, and has finished those that it took. */
void dta_kernel_stop(struct dta_kernel *k);
void dta_kernel_close(struct dta_kernel *k);

uint32_t dta_kernel_queues(const struct dta_kernel *k);
struct dta_kernel_queue *dta_kernel_queue(struct dta_kernel *k, uint32_t queue);
struct dta_kernel_reporter *dta_kernel_reporter(struct dta_kernel *k, uint32_t place);
/* The next event, in order. False: none. */
bool dta_kernel_event(struct dta_kernel *k, struct dta_kernel_event *out);
/* Reports that the queue's program has taken, as an engine counts them. */
struct dta_engine_stats;
void dta_kernel_engine(struct dta_kernel *k, uint32_t queue, struct dta_engine_stats *s);
/* Waits until no program runs any more that saw what its maps held before. */
void dta_kernel_settle(void);

/*
 * The output of a queue: as the raw one, but what it sends is the kernel's; it refuses operations.
 * Frames are never sent again: those lost count as failed. NULL with errno and one line in error.
 */
struct dta_output *dta_output_kernel(struct dta_kernel *k, uint32_t queue, char *error,
				     size_t error_bytes);
/* ---- for output_kernel.c ---- */

const char *dta_kernel_interface(const struct dta_kernel *k);
/* Gives the store to the queue's program, or takes it away if s is NULL. */
void dta_kernel_store(struct dta_kernel *k, uint32_t queue, uint16_t tenant, uint16_t number,
		      const struct dta_output_store *s);

#endif
