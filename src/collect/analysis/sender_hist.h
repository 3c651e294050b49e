/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sender_hist.h - histograms as sender.h sends them: sums and buckets of a pod as they are now. One
 * thread.
 */
#ifndef SL_COLLECT_ANALYSIS_SENDER_HIST_H
#define SL_COLLECT_ANALYSIS_SENDER_HIST_H

#include "collect/internal.h"
#include "export/remote_write.h"

struct sender_hists; /* of a pod */

/* For the layout of a board; what old has sent goes on. NULL: ENOMEM, and old is as it was. */
struct sender_hists *sender_hists_new(const struct region *r, const struct layout *l,
				      const struct sender_hists *old, bool native);
void sender_hists_send(struct sender_hists *h, struct sl_remote_write *w, const struct board *b,
		       int64_t ns);
/* They end: the receiver is told. */
void sender_hists_end(struct sender_hists *h, struct sl_remote_write *w, int64_t ns);
void sender_hists_free(struct sender_hists *h); /* NULL is fine */

/* Labels of a metric's series, and one more if its key is not NULL; NULL: ENOMEM. */
struct sl_remote_series *sender_series(const struct region *r, const struct def *d,
				       const char *suffix, const char *key, const char *value);
/* A series that was there before goes on where it was. from may be NULL. */
void sender_series_follow(struct sl_remote_series *to, const struct sl_remote_series *from);

#endif
