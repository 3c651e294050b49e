// SPDX-License-Identifier: Apache-2.0
/* kube_none.c - replaces kube.c in builds without TLS, which every Kubernetes API needs. */
#include <errno.h>

#include "base/base.h"
#include "collect/discover/source_internal.h"

int collect_source_kube(const char *what, const struct collect_source_opts *o,
			struct collect_targets *t, char *error, size_t error_bytes)
{
	(void)what, (void)o, (void)t;
	return base_fail(error, error_bytes, -EOPNOTSUPP,
			 "Kubernetes: this build has no TLS support: rebuild with -Dtls=enabled");
}
