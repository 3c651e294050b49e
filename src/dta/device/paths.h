/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paths.h - combines the reports of several switches about one packet (INT-XD and INT-MX) into the
 * packet's path. Reports belong to one packet if they have the same flow and identifier and arrive
 * within DTA_PATH_NS. Hops are ordered by the packet's TTL, then by the times at which the packet
 * entered the switches, then by arrival. Anyone can forge reports, so memory is bounded; each hop
 * is emitted exactly once in any case. All workers of a process share one object, because different
 * workers may receive the reports of a path's switches.
 */
#ifndef SL_DTA_DEVICE_PATHS_H
#define SL_DTA_DEVICE_PATHS_H

#include "device.h"

#define DTA_PATH_NS    UINT64_C(10000000)
#define DTA_PATH_HOPS  32u
#define DTA_PATHS      1024u /* maximum number of packets that wait for reports, a power of two */
#define DTA_PATHS_HOPS 4096u /* maximum number of hops of all these packets */

struct dta_paths;

/* Returns NULL if out of memory. */
struct dta_paths *dta_paths_new(void);
void dta_paths_free(struct dta_paths *p); /* NULL is ignored */
/*
 * Stores a hop. entered: time at which the packet entered the switch, or 0. Returns false if this
 * switch has already reported the packet. Emits the hops of all paths that are due through d; if
 * there is no room, emits the oldest path early, and counts DTA_DEVICE_NO_ROOM.
 */
bool dta_paths_take(struct dta_paths *p, struct dta_decoder *d, const struct dta_record *r,
		    uint64_t id, uint64_t entered, uint64_t now_ns);
/* Emits the hops of the paths that are due. */
void dta_paths_flush(struct dta_paths *p, struct dta_decoder *d, uint64_t now_ns);

#endif
