/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_CONTROL_H
#define SL_COLLECT_READ_CONTROL_H

struct collect_collector;

/*
 * Time to make layouts: a tenant saves up this much, and gains one part in this many of the time
 * that passes. A trusted tenant is not bound to it.
 */
#define COLLECT_LAYOUT_SAVED_NS 1000000000
#define COLLECT_LAYOUT_PART	8

void *collect_control_main(void *arg);
void collect_control_wake(struct collect_collector *c);

#endif
