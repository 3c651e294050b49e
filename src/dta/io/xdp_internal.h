/* SPDX-License-Identifier: Apache-2.0 */
/* xdp_internal.h - between xdp.c, which knows programs, and input_xdp.c, which knows packets */
#ifndef SL_DTA_IO_XDP_INTERNAL_H
#define SL_DTA_IO_XDP_INTERNAL_H

#include "dta/io/xdp.h"

/*
 * Opens the socket of a queue (below dta_xdp_queues()) and redirects its packets there. NULL with
 * errno and error.
 */
struct dta_xsk *dta_xdp_socket(struct dta_xdp *x, uint32_t queue, char *error, size_t error_bytes);
uint16_t dta_xdp_port(const struct dta_xdp *x);
bool dta_xdp_generic(const struct dta_xdp *x); /* for any interface */

#endif
