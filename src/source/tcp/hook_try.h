/* SPDX-License-Identifier: Apache-2.0 */
/* hook_try.h - one trial, for hook.c. */
#ifndef SL_SOURCE_TCP_HOOK_TRY_H
#define SL_SOURCE_TCP_HOOK_TRY_H

#include "source/tcp/hook.h"

/* 0, or why no trial is possible: -EPERM, -ENOENT (no BTF). */
int tcp_hook_try_ready(void);
/* Loads an empty program, attaches it (tracepoints: only the first), removes it. 0 or -errno. */
int tcp_hook_try(enum tcp_hook_type type, const char *target);

#endif
