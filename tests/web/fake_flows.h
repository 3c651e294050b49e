/* SPDX-License-Identifier: Apache-2.0 */
/* fake_flows.h - simulated connections of one host, for a simulated collector. */
#ifndef FAKE_FLOWS_H
#define FAKE_FLOWS_H

#include "fake_collector.h"

/*
 * id 1: cart-0 serves 10.0.0.2, limited by losses; 2: it calls a database, and its own application
 * is slow; 3: it listens; 4: ended; and many idle ones from id 100 on.
 */
void fake_flows(struct collect_collector *c, size_t idle);

#endif
