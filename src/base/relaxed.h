/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relaxed.h - relaxed atomic access to plain variables: one thread writes, others read, and no
 * other memory is ordered by it.
 */
#ifndef SL_BASE_RELAXED_H
#define SL_BASE_RELAXED_H

#define relaxed_load(x)	    __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define relaxed_store(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
/* Adds to a variable of which the caller is the only writer. */
#define relaxed_bump(x, n) relaxed_store(x, (x) + (n))
/* Add and subtract for any number of writers; return the value before. */
#define relaxed_add(x, n) __atomic_fetch_add(&(x), (n), __ATOMIC_RELAXED)
#define relaxed_sub(x, n) __atomic_fetch_sub(&(x), (n), __ATOMIC_RELAXED)

#endif
