/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families.h - parses Prometheus' protobuf format: length-delimited
 * io.prometheus.client.MetricFamily messages (prometheus/client_model, metrics.proto). Only this
 * format has native histograms. A histogram with both native and classic buckets is read as a
 * native histogram.
 */
#ifndef SL_BRIDGE_FAMILIES_H
#define SL_BRIDGE_FAMILIES_H

#include "bridge/bridge.h"

struct bridge_families;

/* limits may be NULL for defaults. Returns NULL if out of memory. */
struct bridge_families *bridge_families_new(const struct bridge_limits *limits);
void bridge_families_free(struct bridge_families *f); /* NULL is ignored */

/* Sets the window for all subsequent bodies; without a window, all timestamps are accepted. */
void bridge_families_set_window(struct bridge_families *f, const struct bridge_window *w);

/*
 * Reads a whole body; calls the sink only if the entire body is valid. *values: number of values in
 * the body. Returns 0, -EINVAL, -E2BIG, -ENOMEM or -ENOSPC, like bridge_text_read().
 */
int bridge_families_read(struct bridge_families *f, const void *body, size_t bytes,
			 struct bridge_sink *sink, size_t *values, struct bridge_error *error);
/* Returns the number of points in the last body that were outside the window. */
size_t bridge_families_untimely(const struct bridge_families *f);

#endif
