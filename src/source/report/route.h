/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - asks rtnetlink(7) for the interface through which the kernel sends to an address. */
#ifndef SL_SOURCE_REPORT_ROUTE_H
#define SL_SOURCE_REPORT_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

/* from, to: addresses of 16 bytes if v6, otherwise of 4 bytes. Returns 0 or -errno. */
int report_route_interface(bool v6, const void *from, const void *to, uint32_t *index);

#endif
