/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_hook_try.h - private to hook.c: one trial. */
#ifndef SL_SOURCE_TCP_HOOK_TRY_H
#define SL_SOURCE_TCP_HOOK_TRY_H

#include "source/tcp/hook.h"

/* 0, or why nothing can be tried: -EPERM, -ENOENT (no BTF). */
int tcp_hook_try_ready(void);
/* Loads an empty program, attaches it (to one tracepoint in place of all), and takes both away. 0
 * or -errno. */
int tcp_hook_try(enum tcp_hook_type type, const char *target);

#endif
