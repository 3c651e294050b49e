// SPDX-License-Identifier: Apache-2.0
/* ofi_none.c - replaces ofi_host.c in builds without libfabric. */
#include <errno.h>
#include <stdio.h>

#include "fabric/host_ops.h"

static struct fabric_host *none_open(const struct fabric_host_opts *opts, char *error,
				     size_t error_bytes)
{
	(void)opts;
	snprintf(error, error_bytes, "this sidelight was built without libfabric");
	errno = EOPNOTSUPP;
	return NULL;
}

const struct fabric_host_ops fabric_host_ofi = {.open = none_open};
