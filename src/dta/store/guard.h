/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h - protects shared mappings whose pages another process can remove by truncating the file
 * or punching holes in it. After a fault (SIGBUS), the mapping reads as private zeros starting at
 * the lost page, and the process continues. Any thread may call these functions; call
 * dta_guard_remove() before unmapping.
 */
#ifndef SL_DTA_STORE_GUARD_H
#define SL_DTA_STORE_GUARD_H

#include <stddef.h>
#include <stdint.h>

/*
 * Guards a mapping of this descriptor. wake: an eventfd that becomes readable when a page is lost,
 * or -1. Returns 0, -ENOSPC if there are too many guards, or -errno. The first call installs a
 * SIGBUS handler, which passes faults outside guarded mappings to the previous handler.
 */
int dta_guard_add(void *at, size_t bytes, int fd, int wake);
void dta_guard_remove(const void *at);
/* Returns the number of faults in the mapping. */
uint64_t dta_guard_faults(const void *at);
/* Returns the number of faults in all mappings since the process started. */
uint64_t dta_guard_total(void);

#endif
