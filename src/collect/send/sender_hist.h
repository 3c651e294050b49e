/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sender_hist.h - what sender.c sends besides samples of the history: the sums and buckets of a
 * pod's histograms, and exemplars. Not thread-safe.
 */
#ifndef SL_COLLECT_SEND_SENDER_HIST_H
#define SL_COLLECT_SEND_SENDER_HIST_H

#include "collect/send/sender.h"
#include "collect/read/collector_internal.h"
#include "export/remote_write.h"

struct collect_sender_hists; /* all histograms of a pod */

/* Makes the histograms for the layout of a snapshot. Returns NULL if out of memory. */
struct collect_sender_hists *collect_sender_hists_new(const struct collect_region *r,
						      const struct collect_layout *l,
						      const struct collect_sender_form *form);
void collect_sender_hists_send(struct collect_sender_hists *h, struct export_remote_write *w,
			       const struct collect_region *r, const struct collect_snapshot *b,
			       int64_t ns);
/* Appends the series to `to`, which must have room for them or be NULL. Returns their number. */
size_t collect_sender_hists_series(const struct collect_sender_hists *h,
				   struct export_remote_series **to);
void collect_sender_hists_free(struct collect_sender_hists *h); /* h may be NULL */

/*
 * Makes a series with the metric's labels, plus one more if key is not NULL. Sets *out to NULL if a
 * rule drops the series. Returns false if out of memory.
 */
bool collect_sender_series(const struct collect_region *r, const struct collect_column *c,
			   const char *suffix, const char *key, const char *value,
			   const struct collect_sender_form *form,
			   struct export_remote_series **out);
/* Frees an array of n series, some of which may be NULL. */
void collect_sender_series_free(struct export_remote_series **series, uint32_t n);

/*
 * Sends the new exemplars of a column. With a single series, of a counter or a native histogram,
 * all exemplars belong to it; otherwise series[i] belongs to bucket i.
 */
void collect_sender_exemplars(struct export_remote_write *w, const struct collect_region *r,
			      const struct collect_column *column,
			      struct export_remote_series **series, uint32_t count, int64_t ns);

#endif
