/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h - reads the backlog of an interface's queueing discipline. */
#ifndef SL_SOURCE_REPORT_QUEUE_H
#define SL_SOURCE_REPORT_QUEUE_H

#include <stdint.h>

/* Opens a netlink socket for queries. Returns a descriptor or -errno. */
int report_queue_open(void);
/*
 * Reads the backlog of the interface's root discipline, as shown by tc(8); 0 if there is none.
 * Returns 0 or -errno.
 */
int report_queue_read(int fd, unsigned int interface, uint64_t *packets, uint64_t *bytes);

#endif
