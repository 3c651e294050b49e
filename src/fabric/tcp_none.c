// SPDX-License-Identifier: Apache-2.0
/* tcp_none.c - replaces tcp_host.c in builds without GnuTLS. */
#include <errno.h>
#include <stdio.h>

#include "fabric/gate.h"

static struct fabric_host *none_open(const struct fabric_host_opts *opts, char *error,
				     size_t error_bytes)
{
	(void)opts;
	snprintf(error, error_bytes,
		 "this build has no READs over TCP: rebuild with -Dfabric-tcp=enabled");
	errno = EOPNOTSUPP;
	return NULL;
}

const struct fabric_host_ops fabric_host_tcp = {.open = none_open};
