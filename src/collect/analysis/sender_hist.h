/* SPDX-License-Identifier: Apache-2.0 */
/* sender_hist.h - the sums and buckets of a pod's histograms for sender.c. One thread. */
#ifndef SL_COLLECT_ANALYSIS_SENDER_HIST_H
#define SL_COLLECT_ANALYSIS_SENDER_HIST_H

#include "collect/collector_internal.h"
#include "export/remote_write.h"

struct collect_sender_hists; /* of a pod */

/*
 * For the layout of a snapshot; continues the series of old. NULL: ENOMEM, and old is unchanged.
 */
struct collect_sender_hists *collect_sender_hists_new(const struct collect_region *r,
						      const struct collect_layout *l,
						      const struct collect_sender_hists *old,
						      bool native);
void collect_sender_hists_send(struct collect_sender_hists *h, struct export_remote_write *w,
			       const struct collect_snapshot *b, int64_t ns);
/* Marks the series that are in old and not in now stale at the receiver. */
void collect_sender_hists_leave(const struct collect_sender_hists *old,
				const struct collect_sender_hists *now,
				struct export_remote_write *w, int64_t ns);
/* Marks the series stale at the receiver. */
void collect_sender_hists_end(struct collect_sender_hists *h, struct export_remote_write *w,
			      int64_t ns);
void collect_sender_hists_free(struct collect_sender_hists *h); /* NULL is fine */

/* Labels of a metric's series, and one more if its key is not NULL; NULL: ENOMEM. */
struct export_remote_series *collect_sender_series(const struct collect_region *r,
						   const struct collect_def *d, const char *suffix,
						   const char *key, const char *value);
/* Frees n series, of which some may be NULL, and the array. */
void collect_sender_series_free(struct export_remote_series **series, uint32_t n);
/* Both have the same labels. */
bool collect_sender_series_same(const struct export_remote_series *a,
				const struct export_remote_series *b);
/* Continues series from as to. from may be NULL. */
void collect_sender_series_follow(struct export_remote_series *to,
				  const struct export_remote_series *from);

#endif
