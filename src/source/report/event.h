/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - loads event.bpf.c, which counts drops and retransmissions. */
#ifndef SL_SOURCE_REPORT_EVENT_H
#define SL_SOURCE_REPORT_EVENT_H

#include <stdbool.h>
#include <stddef.h>

#include "source/report/shared.h"

struct report_events;

/*
 * Counts events of this network namespace in the map with descriptor `events`, which has at most
 * `entries` entries. On failure, returns NULL with one line in error.
 */
struct report_events *report_events_open(const struct report_event_config *c, int events,
					 __u32 entries, bool drops, bool retransmissions,
					 char *error, size_t bytes);
void report_events_close(struct report_events *e);
/* Counts the events of this interface from now on. It replaces the one that was deleted. */
void report_events_interface(struct report_events *e, __u32 index);

/*
 * Returns the number of frames dropped for a reason below RPT_REASONS; the last one stands for all
 * further reasons.
 */
__u64 report_events_dropped(const struct report_events *e, __u32 reason);
/* Returns the number of entries inserted into the map so far. */
__u64 report_events_entered(const struct report_events *e);
/* Returns this kernel's name for a drop reason, or NULL. */
const char *report_events_reason(const struct report_events *e, __u32 reason);

#endif
