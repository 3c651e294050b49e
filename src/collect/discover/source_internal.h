/* SPDX-License-Identifier: Apache-2.0 */
/* source_internal.h - shared by source.c and the sources in separate files */
#ifndef SL_COLLECT_DISCOVER_SOURCE_INTERNAL_H
#define SL_COLLECT_DISCOVER_SOURCE_INTERNAL_H

#include "collect/discover/source.h"

/*
 * Adds a name. Returns 0, or -EINVAL (empty, too long, control characters), -ENOMEM or -E2BIG, with
 * one line in error.
 */
int collect_source_add(struct collect_targets *t, const char *name, char *error,
		       size_t error_bytes);
/* what: NAMESPACE/SELECTOR:PORT. Returns 0, or -errno with a one-line message in error. */
int collect_source_kube(const char *what, const struct collect_source_opts *o,
			struct collect_targets *t, char *error, size_t error_bytes);

#endif
