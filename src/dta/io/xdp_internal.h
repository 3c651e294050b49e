/* SPDX-License-Identifier: Apache-2.0 */
/* xdp_internal.h - what xdp.c, which knows programs, tells input_xdp.c, which knows packets. */
#ifndef SL_DTA_IO_XDP_INTERNAL_H
#define SL_DTA_IO_XDP_INTERNAL_H

#include "dta/io/xdp.h"

/* Makes the socket of a queue, of sl_xdp_queues(), and has its packets sent there. NULL with errno and error. */
struct sl_xsk *xdp_socket(struct sl_xdp *x, uint32_t queue, char *error, size_t error_bytes);
uint16_t xdp_port(const struct sl_xdp *x);
bool xdp_generic(const struct sl_xdp *x); /* of any interface */

#endif
