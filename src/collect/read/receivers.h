/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receivers.h - the collector's own series about receivers of samples and alerts. The families are
 * the same for all receivers, whichever part sends to them.
 */
#ifndef SL_COLLECT_READ_RECEIVERS_H
#define SL_COLLECT_READ_RECEIVERS_H

#include "collect/read/attach.h"
#include "export/push.h"

#define COLLECT_RECEIVERS_MAX 12u

/* Initially zero. */
struct collect_receivers {
	struct collect_receiver {
		const char *to; /* value of the label "to"; a literal */
		void (*stats)(void *arg, struct export_push_stats *out); /* thread-safe */
		void *arg;
	} receiver[COLLECT_RECEIVERS_MAX];
	size_t n;
};

void collect_receivers_add(struct collect_receivers *r, const char *to,
			   void (*stats)(void *arg, struct export_push_stats *out), void *arg);
/* Adds the series. r must outlive the collector's source. Returns 0 or -errno. */
int collect_receivers_attach(struct collect_receivers *r, struct collect_collector *c);

#endif
