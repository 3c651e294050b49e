/* SPDX-License-Identifier: Apache-2.0 */
/* xdp_internal.h - what xdp.c, which knows programs, tells input_xdp.c, which knows packets. */
#ifndef SL_DTA_IO_XDP_INTERNAL_H
#define SL_DTA_IO_XDP_INTERNAL_H

#include "dta/io/xdp.h"

/* Makes the socket of a queue, of dta_xdp_queues(), and has its packets sent there. NULL with errno
 * and error. */
struct dta_xsk *dta_xdp_socket(struct dta_xdp *x, uint32_t queue, char *error, size_t error_bytes);
uint16_t dta_xdp_port(const struct dta_xdp *x);
bool dta_xdp_generic(const struct dta_xdp *x); /* of any interface */

#endif
