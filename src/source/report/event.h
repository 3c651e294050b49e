/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - loads event.bpf.c, which counts drops and retransmissions. */
#ifndef SL_SOURCE_REPORT_EVENT_H
#define SL_SOURCE_REPORT_EVENT_H

#include <stdbool.h>
#include <stddef.h>

#include "source/report/shared.h"

struct report_events;

/*
 * Counts into the map `events`, of max entries, in this network namespace. NULL with one line in
 * error.
 */
struct report_events *report_events_open(const struct report_event_config *c, int events,
					 __u32 entries, bool drops, bool retransmissions,
					 char *error, size_t bytes);
void report_events_close(struct report_events *e);

/* Frames dropped for a reason, by its number below RPT_REASONS; the last one: all others. */
__u64 report_events_dropped(const struct report_events *e, __u32 reason);
/* Entries that were ever made in the map. */
__u64 report_events_entered(const struct report_events *e);
/* This kernel's name for it, or NULL. */
const char *report_events_reason(const struct report_events *e, __u32 reason);

#endif
