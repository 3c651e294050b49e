/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - the thread beside the workers: layouts, the list of regions, the index. */
#ifndef SL_COLLECT_CONTROL_H
#define SL_COLLECT_CONTROL_H

struct collect_collector;

void *collect_control_main(void *arg);
void collect_control_wake(struct collect_collector *c);

#endif
