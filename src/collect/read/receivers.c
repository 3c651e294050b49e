// SPDX-License-Identifier: Apache-2.0
#include "collect/read/receivers.h"

#include <assert.h>

#include "collect/read/self.h"

/* Statistics of all receivers, as of the start of a walk. */
struct receivers_walk {
	struct export_push_stats stats[COLLECT_RECEIVERS_MAX];
};

static bool begin_walk(struct collect_self *s)
{
	const struct collect_receivers *r = s->arg;
	struct receivers_walk *w = s->own;

	for (size_t i = 0; i < r->n; i++)
		r->receiver[i].stats(r->receiver[i].arg, &w->stats[i]);
	return true;
}

static const void *receiver_at(struct collect_self *s, struct export_series *out)
{
	const struct collect_receivers *r = s->arg;
	const size_t i = s->at / s->family->counters;
	const struct region_text_label labels[] = {{"to", i < r->n ? r->receiver[i].to : ""},
						   collect_self_by(s)};

	return i < r->n && collect_self_labels(s, out, labels, s->family->key ? 2 : 1)
		       ? &((const struct receivers_walk *)s->own)->stats[i]
		       : NULL;
}

#define OF_PUSH(label, field) OF(label, FOUND, export_push_stats, field)
static const struct collect_self_family push_families[] = {
	{"sidelight_push_dropped", COUNTER, "",
	 "Samples or alerts not delivered to a receiver, by cause.", .find = receiver_at,
	 BY_LABEL("cause", OF_PUSH("full", dropped_full), OF_PUSH("refused", dropped_refused),
		  OF_PUSH("partial", dropped_partial), OF_PUSH("old", dropped_old),
		  OF_PUSH("stopping", dropped_stopping), OF_PUSH("corrupt", dropped_corrupt))},
	{"sidelight_push_errors", COUNTER, "", "Failed deliveries that will be retried, by cause.",
	 .find = receiver_at,
	 BY_LABEL("cause", OF_PUSH("connect", errors_connect), OF_PUSH("timeout", errors_timeout),
		  OF_PUSH("status", errors_status), OF_PUSH("secret", errors_secret))},
	{"sidelight_push_sent", COUNTER, "", "Samples or alerts that a receiver accepted.",
	 .find = receiver_at, SINGLE(OF_PUSH(NULL, sent_items))},
	{"sidelight_push_waiting_bytes", GAUGE, "bytes", "Bytes queued for a receiver.",
	 .find = receiver_at, SINGLE(OF_PUSH(NULL, waiting_bytes))},
};

static const struct collect_part receivers_part = {
	COLLECT_SELF_FAMILIES(push),
	.walk_bytes = sizeof(struct receivers_walk),
	.walk_begin = begin_walk,
};

void collect_receivers_add(struct collect_receivers *r, const char *to,
			   void (*stats)(void *arg, struct export_push_stats *out), void *arg)
{
	assert(r->n < COLLECT_RECEIVERS_MAX);
	r->receiver[r->n++] = (struct collect_receiver){to, stats, arg};
}

int collect_receivers_attach(struct collect_receivers *r, struct collect_collector *c)
{
	return r->n ? collect_collector_attach(c, &receivers_part, r) : 0;
}
