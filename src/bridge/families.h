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

/*
 * Reads a whole body; calls the sink only if the entire body is valid. limits and error may be
 * NULL. Returns 0, -EINVAL, -E2BIG, -ENOMEM or -ENOSPC, like bridge_text_read().
 */
int bridge_families_read(const struct bridge_limits *limits, const struct bridge_window *window,
			 const void *body, size_t bytes, struct bridge_sink *sink,
			 struct bridge_body_counts *counts, struct bridge_error *error);

#endif
