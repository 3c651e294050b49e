// SPDX-License-Identifier: Apache-2.0
/* xdp_none.c - a build without libxdp or eBPF: there is no AF_XDP, and that is said. */
#include "dta/io/xdp_internal.h"

#include <errno.h>
#include <stdio.h>

static void *none(char *error, size_t error_bytes)
{
	snprintf(error, error_bytes,
		 "this build has no AF_XDP: libxdp, clang or bpftool was missing");
	errno = EOPNOTSUPP;
	return NULL;
}

struct sl_xsk *sl_xsk_open(const struct sl_xsk_opts *opts, char *error, size_t error_bytes)
{
	(void)opts;
	return none(error, error_bytes);
}

struct sl_xdp *sl_xdp_open(const struct sl_xdp_opts *opts, char *error, size_t error_bytes)
{
	(void)opts;
	return none(error, error_bytes);
}

struct sl_xsk *xdp_socket(struct sl_xdp *x, uint32_t queue, char *error, size_t error_bytes)
{
	(void)x;
	(void)queue;
	return none(error, error_bytes);
}

/* ---- of what there is never one ------------------------------------------------------------------ */

void sl_xsk_close(struct sl_xsk *x)
{
	(void)x;
}

int sl_xsk_fd(const struct sl_xsk *x)
{
	(void)x;
	return -1;
}

uint32_t sl_xsk_receive(struct sl_xsk *x, struct sl_xsk_frame *out, uint32_t max)
{
	(void)x;
	(void)out;
	(void)max;
	return 0;
}

int sl_xsk_send(struct sl_xsk *x, const struct sl_xsk_frame *frames, uint32_t count)
{
	(void)x;
	(void)frames;
	(void)count;
	return -EOPNOTSUPP;
}

void sl_xsk_stats(const struct sl_xsk *x, struct sl_xsk_stats *out)
{
	(void)x;
	*out = (struct sl_xsk_stats){0};
}

uint32_t sl_xsk_queues(const char *interface)
{
	(void)interface;
	return 0;
}

uint32_t sl_xdp_queues(const struct sl_xdp *x)
{
	(void)x;
	return 0;
}

uint16_t xdp_port(const struct sl_xdp *x)
{
	(void)x;
	return 0;
}

bool xdp_generic(const struct sl_xdp *x)
{
	(void)x;
	return false;
}

const char *sl_xdp_how(const struct sl_xdp *x, uint32_t i)
{
	(void)x;
	(void)i;
	return NULL;
}

void sl_xdp_close(struct sl_xdp *x)
{
	(void)x;
}
