/* SPDX-License-Identifier: Apache-2.0 */
/* no_port.h - a simulated clock and an interface without a peer, for tests of raw outputs. */
#ifndef SL_TESTS_DTA_NO_PORT_H
#define SL_TESTS_DTA_NO_PORT_H

#include "dta/io/output_raw.h"

static uint64_t now;

uint64_t __wrap_base_now_ns(void);
uint64_t __wrap_base_now_ns(void)
{
	return now;
}

static struct dta_raw_port no_port(void)
{
	return (struct dta_raw_port){
		.fd = -1,
		.silencer = -1,
		.end = {.gid = {[10] = 0xff, 0xff, 10, 0, 0, 1}, .mac = {2, 1}, .mtu = 1024},
	};
}

int __wrap_dta_raw_port_open(struct dta_raw_port *p, const struct dta_output_raw_opts *opts,
			     char *error, size_t error_bytes);

int __wrap_dta_raw_port_renew(struct dta_raw_port *p, const struct dta_output_raw_opts *opts,
			      char *error, size_t error_bytes);
int __wrap_dta_raw_port_renew(struct dta_raw_port *p, const struct dta_output_raw_opts *opts,
			      char *error, size_t error_bytes)
{
	(void)p, (void)opts, (void)error, (void)error_bytes;
	return 0;
}

#endif
