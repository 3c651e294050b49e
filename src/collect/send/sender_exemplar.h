/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sender_exemplar.h - the exemplars of a pod's counters and histograms for sender.c. Not
 * thread-safe.
 */
#ifndef SL_COLLECT_SEND_SENDER_EXEMPLAR_H
#define SL_COLLECT_SEND_SENDER_EXEMPLAR_H

#include "collect/read/collector_internal.h"
#include "export/remote_write.h"

/*
 * Sends the new exemplars of a column. With a single series, of a counter or a native histogram,
 * all exemplars belong to it; otherwise series[i] belongs to bucket i.
 */
void collect_sender_exemplars(struct export_remote_write *w, const struct collect_region *r,
			      const struct collect_column *column,
			      struct export_remote_series **series, uint32_t count, int64_t ns);

#endif
