/* SPDX-License-Identifier: Apache-2.0 */
/* confine_internal.h - interface between confine.c, confine_calls.c and confine_paths.c. */
#ifndef SL_BASE_CONFINE_INTERNAL_H
#define SL_BASE_CONFINE_INTERNAL_H

#include "base/confine.h"

/* Creates a Landlock ruleset. Returns -1 if Landlock is not available. */
int base_landlock_rules(const struct base_confine_opts *opts);
/* Restricts this thread; no_new_privs is already set. Returns 0 or -errno. */
int base_landlock_apply(int ruleset);

/* Restricts the system calls of all threads. Returns 0 or -errno. */
int base_seccomp_apply(enum base_role role, bool packets);

#endif
