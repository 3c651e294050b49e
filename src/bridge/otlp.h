/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp.h - metrics of OpenTelemetry: a body of POST /v1/metrics, opentelemetry.proto.metrics.v1 in
 * protobuf or JSON. Cumulative and delta, gauges, sums, histograms, exponential histograms and
 * summaries. Characters that Prometheus names lack become "_".
 *
 * A body is checked before any point of it is taken. JSON is first written as protobuf
 * (otlp_json.c), so that there is one decoder.
 */
#ifndef SL_BRIDGE_OTLP_H
#define SL_BRIDGE_OTLP_H

#include "bridge/bridge.h"

struct bridge_otlp;

/*
 * The sink of a resource, which is that of its points until the next one; NULL: refused. Texts are
 * empty if the resource does not say.
 */
typedef struct bridge_sink *bridge_otlp_resource(void *arg, struct bridge_text service,
						 struct bridge_text instance);

struct bridge_otlp *bridge_otlp_new(void);
void bridge_otlp_free(struct bridge_otlp *o); /* NULL is fine */

struct bridge_otlp_counts {
	uint64_t points;  /* taken */
	uint64_t refused; /* of refused resources, without a temporality, ill-formed buckets */
};

/* 0, -EINVAL: malformed, nothing was taken; or -ENOMEM. counts are added up. */
int bridge_otlp_read(struct bridge_otlp *o, const void *body, size_t bytes, bool json,
		     bridge_otlp_resource *resource, void *arg, struct bridge_otlp_counts *counts,
		     struct bridge_error *error);

/* otlp_json.c: the same body in protobuf, to be freed. NULL with an error. */
enum bridge_otlp_signal { OTLP_METRICS, OTLP_TRACES };
uint8_t *bridge_otlp_of_json(const char *text, size_t bytes, enum bridge_otlp_signal signal,
			     size_t *out_bytes, struct bridge_error *error);

#endif
