/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families.h - Prometheus' protobuf format: io.prometheus.client.MetricFamily messages, each after
 * its length (prometheus/client_model, metrics.proto). It alone has native histograms; a histogram
 * that has native and classic buckets is read as native.
 */
#ifndef SL_BRIDGE_FAMILIES_H
#define SL_BRIDGE_FAMILIES_H

#include "bridge/bridge.h"

struct bridge_families;

/* limits: NULL: defaults. NULL: out of memory. */
struct bridge_families *bridge_families_new(const struct bridge_limits *limits);
void bridge_families_free(struct bridge_families *f); /* NULL is fine */

/* Of the bodies to come; without it all times are good. */
void bridge_families_set_window(struct bridge_families *f, const struct bridge_window *w);

/*
 * Reads a whole body; the sink is called only if all of it is right. *values: numbers in it. 0,
 * -EINVAL, -E2BIG, -ENOMEM or -ENOSPC, as bridge_text_read().
 */
int bridge_families_read(struct bridge_families *f, const void *body, size_t bytes,
			 struct bridge_sink *sink, size_t *values, struct bridge_error *error);
size_t bridge_families_untimely(const struct bridge_families *f); /* points of the last body */

#endif
