/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relaxed.h - relaxed atomic access to plain variables: one thread writes and others read, without
 * ordering any other memory access.
 */
#ifndef SL_BASE_RELAXED_H
#define SL_BASE_RELAXED_H

#define relaxed_load(x)	    __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define relaxed_store(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
/* Adds to a variable whose only writer is the caller. */
#define relaxed_bump(x, n) relaxed_store(x, (x) + (n))
/* Add and subtract for any number of writers; return the previous value. */
#define relaxed_add(x, n) __atomic_fetch_add(&(x), (n), __ATOMIC_RELAXED)
#define relaxed_sub(x, n) __atomic_fetch_sub(&(x), (n), __ATOMIC_RELAXED)

#endif
