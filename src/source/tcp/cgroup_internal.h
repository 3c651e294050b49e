/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup_internal.h - shared by cgroup.c (ids), cgroup_path.c (paths) and cgroup_runtime.c (names).
 */
#ifndef SL_SOURCE_TCP_CGROUP_INTERNAL_H
#define SL_SOURCE_TCP_CGROUP_INTERNAL_H

#include "source/tcp/cgroup.h"

/* Copies n bytes of untrusted text: whole characters that fit, made printable. */
void tcp_cgroup_text(char *to, size_t bytes, const char *from, size_t n);

/* Adds names from the runtimes' files below host for the ids of i. Names that these lack stay. */
void tcp_cgroup_runtime_names(const char *host, struct tcp_cgroup_identity *i);

#endif
