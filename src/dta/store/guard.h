/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h - shared mappings that another process can take away, by truncating the file or punching
 * holes: from a page that is gone (SIGBUS) on, such a mapping reads as zeros of this process alone,
 * which lives on. Any thread; dta_guard_remove() comes before the mapping goes.
 */
#ifndef SL_DTA_STORE_GUARD_H
#define SL_DTA_STORE_GUARD_H

#include <stddef.h>
#include <stdint.h>

/*
 * Guards a mapping of this descriptor. wake: an eventfd that becomes readable when a page is gone,
 * or -1. 0; -ENOSPC: too many; -errno. Handles SIGBUS from the first call on; what is not guarded
 * goes to the handler before.
 */
int dta_guard_add(void *at, size_t bytes, int fd, int wake);
void dta_guard_remove(const void *at);
/* How often pages of the mapping were gone. */
uint64_t dta_guard_faults(const void *at);
/* Over all mappings, ever. */
uint64_t dta_guard_total(void);

#endif
