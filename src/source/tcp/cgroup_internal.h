/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_internal.h - between what finds paths, what reads them, and cgroup_runtime.c, which finds
 * names. */
#ifndef SL_SOURCE_TCP_CGROUP_INTERNAL_H
#define SL_SOURCE_TCP_CGROUP_INTERNAL_H

#include "source/tcp/cgroup.h"

/* A stranger's text of n bytes: as many whole characters as fit, none that steers a terminal. */
void tcp_cgroup_text(char *to, size_t bytes, const char *from, size_t n);

/* Adds the names that the runtimes' files below host have for i's ids. What they do not say stays.
 */
void tcp_cgroup_runtime_names(const char *host, struct tcp_cgroup_identity *i);

#endif
