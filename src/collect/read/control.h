/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_CONTROL_H
#define SL_COLLECT_READ_CONTROL_H

struct collect_collector;

/*
 * A tenant's budget for making its layouts: the most that it saves up, and the share of the elapsed
 * time that it gains (1 / COLLECT_LAYOUT_PART). Trusted tenants have no limit.
 */
#define COLLECT_LAYOUT_SAVED_NS 1000000000
#define COLLECT_LAYOUT_PART	8

void *collect_control_main(void *arg);
void collect_control_wake(struct collect_collector *c);

#endif
