// SPDX-License-Identifier: Apache-2.0
/* xdp_none.c - a build without libxdp or eBPF: opening fails with a message */
#include "dta/io/xdp.h"

#include <errno.h>
#include <stdio.h>

static void *none(char *error, size_t error_bytes)
{
	snprintf(error, error_bytes,
		 "this build has no AF_XDP: libxdp, clang or bpftool was missing");
	errno = EOPNOTSUPP;
	return NULL;
}

struct dta_xsk *dta_xsk_open(const struct dta_xsk_opts *opts, char *error, size_t error_bytes)
{
	(void)opts;
	return none(error, error_bytes);
}

struct dta_xdp *dta_xdp_open(const struct dta_xdp_opts *opts, char *error, size_t error_bytes)
{
	(void)opts;
	return none(error, error_bytes);
}

struct dta_xsk *dta_xdp_socket(struct dta_xdp *x, uint32_t queue, char *error, size_t error_bytes)
{
	(void)x;
	(void)queue;
	return none(error, error_bytes);
}

/* ---- never called with an object ---- */

void dta_xsk_close(struct dta_xsk *x)
{
	(void)x;
}

int dta_xsk_fd(const struct dta_xsk *x)
{
	(void)x;
	return -1;
}

uint32_t dta_xsk_receive(struct dta_xsk *x, struct dta_xsk_frame *out, uint32_t max)
{
	(void)x;
	(void)out;
	(void)max;
	return 0;
}

int dta_xsk_send(struct dta_xsk *x, const struct dta_xsk_frame *frames, uint32_t count)
{
	(void)x;
	(void)frames;
	(void)count;
	return -EOPNOTSUPP;
}

void dta_xsk_stats(const struct dta_xsk *x, struct dta_xsk_stats *out)
{
	(void)x;
	*out = (struct dta_xsk_stats){0};
}

uint32_t dta_xsk_queues(const char *interface)
{
	(void)interface;
	return 0;
}

uint32_t dta_xdp_queues(const struct dta_xdp *x)
{
	(void)x;
	return 0;
}

uint16_t dta_xdp_port(const struct dta_xdp *x)
{
	(void)x;
	return 0;
}

bool dta_xdp_generic(const struct dta_xdp *x)
{
	(void)x;
	return false;
}

const char *dta_xdp_how(const struct dta_xdp *x, uint32_t i)
{
	(void)x;
	(void)i;
	return NULL;
}

void dta_xdp_close(struct dta_xdp *x)
{
	(void)x;
}
