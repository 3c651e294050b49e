/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_CONTROL_H
#define SL_COLLECT_READ_CONTROL_H

struct collect_collector;

/*
 * CPU time for making layouts: a tenant gains 1 / COLLECT_LAYOUT_PART of the elapsed time and saves
 * up at most COLLECT_LAYOUT_SAVED_NS. Trusted tenants are exempt.
 */
#define COLLECT_LAYOUT_SAVED_NS 1000000000
#define COLLECT_LAYOUT_PART	8

void *collect_control_main(void *arg);
void collect_control_wake(struct collect_collector *c);

#endif
