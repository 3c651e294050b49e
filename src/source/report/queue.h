/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h - what waits in the queueing discipline of an interface */
#ifndef SL_SOURCE_REPORT_QUEUE_H
#define SL_SOURCE_REPORT_QUEUE_H

#include <stdint.h>

/* A socket to ask with, or -errno. */
int report_queue_open(void);
/* The backlog of the interface's root discipline, as tc(8) prints it; without one 0. 0 or -errno.
 */
int report_queue_read(int fd, unsigned int interface, uint64_t *packets, uint64_t *bytes);

#endif
