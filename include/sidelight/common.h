/* SPDX-License-Identifier: Apache-2.0 */
/* sidelight/common.h - definitions common to libsidelight and libsidelight-dta. */
#ifndef SIDELIGHT_COMMON_H
#define SIDELIGHT_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_API __attribute__((visibility("default")))

/*
 * Structures that may grow begin with `size_t sz`, the size known to the caller. The library
 * never reads or writes beyond it; members that the caller lacks are 0. If the caller's options are
 * larger than the library's, the unknown bytes must be 0, otherwise the options are refused: the
 * library never ignores an option.
 *
 * SL_OPTS(type, .member = value, ...) is a `struct type` with sz set and all other members 0:
 *
 *	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "shop"));
 *	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);
 *
 * C only, as C++ has no compound literals. In C++ use sidelight.hpp, or set the members one by one.
 */
#ifndef __cplusplus
#define SL_OPTS(...)	    SL__OPTS(__VA_ARGS__, )
#define SL__OPTS(type, ...) ((struct type){.sz = sizeof(struct type), __VA_ARGS__})
#endif

#endif
