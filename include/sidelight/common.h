/* SPDX-License-Identifier: Apache-2.0 */
/* sidelight/common.h - what the interfaces of libsidelight and libsidelight-dta share. */
#ifndef SIDELIGHT_COMMON_H
#define SIDELIGHT_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_API __attribute__((visibility("default")))

/*
 * Structures that may grow begin with `size_t sz`, the size that the caller compiled. The library
 * reads or writes no more than that; members that the caller does not have are 0. Options larger
 * than the library's are accepted if the bytes that it does not know are 0, else refused: an option
 * is never ignored.
 *
 * SL_OPTS(type, .member = value, ...) is a `struct type` with sz set and all other members 0:
 *
 *	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "shop"));
 *	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);
 *
 * C alone, as C++ has no compound literals. C++ has sidelight.hpp, or sets the members one by one.
 */
#ifndef __cplusplus
#define SL_OPTS(...)	    SL__OPTS(__VA_ARGS__, )
#define SL__OPTS(type, ...) ((struct type){.sz = sizeof(struct type), __VA_ARGS__})
#endif

#endif
