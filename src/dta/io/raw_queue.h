/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw_queue.h - the store server's end of a queue pair whose other end output raw makes by hand:
 * the numbers come in "queue" messages of the control channel (control.h) instead of by CM.
 */
#ifndef SL_DTA_IO_RAW_QUEUE_H
#define SL_DTA_IO_RAW_QUEUE_H

#include "dta/io/roce.h"
#include "fabric/host.h"

/*
 * Makes a queue pair towards theirs and fills in ours, the answer. The host's came() is not asked.
 * May wait for an ARP answer. 0; -EINVAL: theirs is invalid; -ENOSPC: max_queues; -errno of the
 * device. fabric_host_queue_end() destroys it.
 */
int dta_raw_queue_new(struct fabric_host *h, const char *name, const struct dta_roce_end *theirs,
		      struct dta_roce_end *ours, uint64_t *queue);

#endif
