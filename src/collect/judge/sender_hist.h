/* SPDX-License-Identifier: Apache-2.0 */
/* sender_hist.h - the sums and buckets of a pod's histograms for sender.c. One thread. */
#ifndef SL_COLLECT_JUDGE_SENDER_HIST_H
#define SL_COLLECT_JUDGE_SENDER_HIST_H

#include "collect/judge/sender.h"
#include "collect/read/collector_internal.h"
#include "export/remote_write.h"

struct collect_sender_hists; /* of a pod */

/* For the layout of a snapshot. NULL: ENOMEM. */
struct collect_sender_hists *collect_sender_hists_new(const struct collect_region *r,
						      const struct collect_layout *l,
						      const struct collect_sender_form *form);
void collect_sender_hists_send(struct collect_sender_hists *h, struct export_remote_write *w,
			       const struct collect_region *r, const struct collect_snapshot *b,
			       int64_t ns);
/* Appends its series at to, which has room for them unless it is NULL. Returns their number. */
size_t collect_sender_hists_series(const struct collect_sender_hists *h,
				   struct export_remote_series **to);
void collect_sender_hists_free(struct collect_sender_hists *h); /* NULL is fine */

/* Labels of a metric's series, and one more if its key is not NULL; NULL: ENOMEM. */
struct export_remote_series *collect_sender_series(const struct collect_region *r,
						   const struct collect_column *c,
						   const char *suffix, const char *key,
						   const char *value,
						   const struct collect_sender_form *form);
/* Frees n series, of which some may be NULL, and the array. */
void collect_sender_series_free(struct export_remote_series **series, uint32_t n);

#endif
