/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp.h - parses OpenTelemetry metrics and spans: bodies of POST /v1/metrics and /v1/traces
 * (opentelemetry.proto.metrics.v1 and .trace.v1) in protobuf or JSON. Supports cumulative and delta
 * temporality, gauges, sums, histograms, exponential histograms and summaries. Characters not
 * allowed in Prometheus names become "_".
 *
 * A body is checked before any of its points are taken. JSON is first converted to protobuf
 * (otlp_json.c), so that there is only one decoder.
 */
#ifndef SL_BRIDGE_OTLP_H
#define SL_BRIDGE_OTLP_H

#include <sidelight/span.h>

#include "bridge/bridge.h"

struct bridge_otlp;

/*
 * Returns the sink for a resource's points, which is used until the next resource, or NULL to
 * refuse them. The texts are empty if the resource lacks these attributes.
 */
typedef struct bridge_sink *bridge_otlp_resource(void *arg, struct bridge_text service,
						 struct bridge_text instance);

/*
 * Limits of a body. The size of a body says little about the work that it causes, because an empty
 * message takes only two bytes. Each part of a body is a message: resources, scopes, metrics,
 * points, attributes, exemplars and so on; in JSON, each value.
 */
#define BRIDGE_OTLP_RESOURCES 4096u
#define BRIDGE_OTLP_MESSAGES  500000u
#define BRIDGE_OTLP_NS	      5000000000ull /* time limit of the check */

enum bridge_otlp_cost {
	OTLP_COST_NONE,
	OTLP_COST_RESOURCES,
	OTLP_COST_MESSAGES,
	OTLP_COST_VALUES,
	OTLP_COST_TIME,
	OTLP_COSTS
};
extern const char *const bridge_otlp_costs[OTLP_COSTS]; /* "resources", ... */

struct bridge_otlp *bridge_otlp_new(void);
void bridge_otlp_free(struct bridge_otlp *o); /* NULL is ignored */

struct bridge_otlp_counts {
	uint64_t points; /* accepted points */
	/* points from refused resources, without temporality, or with malformed buckets */
	uint64_t refused;
	/* exemplars beyond the number allowed per point, or too long */
	uint64_t exemplars_left_out;
	enum bridge_otlp_cost cost; /* the limit because of which the body was refused */
};

/*
 * Returns 0; or, without taking anything, -EINVAL (malformed), -E2BIG (a limit was exceeded) or
 * -ENOMEM. Adds to counts.
 */
int bridge_otlp_read(struct bridge_otlp *o, const void *body, size_t bytes, bool json,
		     bridge_otlp_resource *resource, void *arg, struct bridge_otlp_counts *counts,
		     struct bridge_error *error);

/* ---- spans ---- */

enum bridge_span_type {
	BRIDGE_SPAN_NONE,
	BRIDGE_SPAN_TEXT,
	BRIDGE_SPAN_BOOL,
	BRIDGE_SPAN_I64,
	BRIDGE_SPAN_F64
};
struct bridge_span_attribute {
	struct bridge_text key, text;
	enum bridge_span_type type;
	int64_t i64; /* also holds a bool */
	double f64;
};

#define BRIDGE_SPAN_ATTRIBUTES_MAX 32u /* maximum per span in libsidelight */

struct bridge_span {
	struct sl_trace_context context;
	uint64_t parent_id; /* span ID of the parent; 0 means that this is a root span */
	bool remote;	    /* the parent is known to be in another process */
	struct bridge_text name, message;
	enum sl_span_kind kind;
	enum sl_span_status status;
	uint64_t start_ns, end_ns; /* since 1970 */
	struct bridge_span_attribute attributes[BRIDGE_SPAN_ATTRIBUTES_MAX];
	size_t attribute_count;
};

struct bridge_span_sink {
	/* Returns the target for a resource's spans, or NULL to refuse them. */
	void *(*resource)(void *arg, struct bridge_text service, struct bridge_text instance);
	void *arg;
	bool (*span)(void *to, const struct bridge_span *s); /* returns false if refused */
};

/* Like bridge_otlp_read(), but for spans, which count as points. Events and links are left out. */
int bridge_otlp_read_traces(struct bridge_otlp *o, const void *body, size_t bytes, bool json,
			    const struct bridge_span_sink *sink, struct bridge_otlp_counts *counts,
			    struct bridge_error *error);

/* otlp_json.c: converts a body to protobuf, which the caller frees. Returns NULL with an error. */
enum bridge_otlp_signal { OTLP_METRICS, OTLP_TRACES };
uint8_t *bridge_otlp_of_json(const char *text, size_t bytes, enum bridge_otlp_signal signal,
			     size_t *out_bytes, struct bridge_error *error);
/* Returns true if the text has at most BRIDGE_OTLP_MESSAGES values; counts commas and brackets. */
bool bridge_otlp_json_short(const char *text, size_t bytes);

#endif
