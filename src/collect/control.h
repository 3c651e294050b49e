/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_CONTROL_H
#define SL_COLLECT_CONTROL_H

struct collect_collector;

void *collect_control_main(void *arg);
void collect_control_wake(struct collect_collector *c);

#endif
