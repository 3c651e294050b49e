/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp.h - parses OpenTelemetry metrics and spans: bodies of POST /v1/metrics and /v1/traces
 * (opentelemetry.proto.metrics.v1 and .trace.v1) in protobuf or JSON. Supports cumulative and delta
 * temporality, gauges, sums, histograms, exponential histograms and summaries. Names and labels
 * follow the OpenTelemetry specification "Prometheus and OpenMetrics Compatibility".
 *
 * A body is checked before any of its points are taken. JSON is first converted to protobuf
 * (otlp_json.c), so that there is only one decoder.
 */
#ifndef SL_BRIDGE_OTLP_H
#define SL_BRIDGE_OTLP_H

#include <sidelight/span.h>

#include "base/table.h"
#include "bridge/bridge.h"

struct bridge_otlp;

/* Identifies a resource by its attributes. A missing attribute is an empty text. */
struct bridge_otlp_identity {
	struct bridge_text service, instance; /* service.name, service.instance.id */
	uint64_t hash; /* hash of all attributes, independent of their order */
};

/*
 * Returns the sink for a resource's points, or NULL to refuse them. The sink is used until the next
 * resource. Sets *names to a table of the target, initially zero, in which the parser records the
 * original name of each metric, because different ones may become the same Prometheus name.
 */
typedef struct bridge_sink *bridge_otlp_resource(void *arg, const struct bridge_otlp_identity *id,
						 struct base_table **names);
void bridge_otlp_names_free(struct base_table *names);

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

struct bridge_otlp_opts {
	/*
	 * keys of resource attributes that become labels of all points, separated by ","; or NULL
	 */
	const char *resource_labels;
	bool utf8; /* keep names and keys unchanged, instead of replacing characters with "_" */
};

/* opts may be NULL; its strings must outlive the result. Returns NULL if out of memory. */
struct bridge_otlp *bridge_otlp_new(const struct bridge_otlp_opts *opts);
void bridge_otlp_free(struct bridge_otlp *o); /* NULL is ignored */

/* Why a point or span is refused. */
enum bridge_otlp_cause {
	OTLP_TEMPORALITY,
	OTLP_VALUE,
	OTLP_NAME,
	OTLP_BUCKETS,
	OTLP_LABELS,
	OTLP_SERVICES,
	OTLP_REGIONS,
	OTLP_DUPLICATE,
	OTLP_NEGATIVE,
	OTLP_UNPUBLISHABLE,
	OTLP_FULL,
	OTLP_IDS,
	OTLP_TIMES,
	OTLP_CAUSES
};
extern const struct bridge_otlp_cause_text {
	const char *cause; /* value of the label "cause" */
	const char *why;   /* explanation sent to the client */
} bridge_otlp_causes[OTLP_CAUSES];

struct bridge_otlp_counts {
	uint64_t points; /* accepted points */
	uint64_t refused[OTLP_CAUSES];
	/*
	 * exemplars left out because the type has none, there were too many for a point, or they
	 * were too long
	 */
	uint64_t exemplars_left_out;
	uint64_t attributes_left_out; /* resource attributes missing from target_info */
	enum bridge_otlp_cost cost;   /* the limit that the body exceeded, if it was refused */
	/* why the current resource is refused: OTLP_SERVICES unless set by .resource() */
	enum bridge_otlp_cause unserved;
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
	void *(*resource)(void *arg, const struct bridge_otlp_identity *id);
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

/*
 * spans.c: publishes spans that ended in another program. As with any publisher, the collector
 * fetches the spans of the traces that it keeps. A bridge_spans must be used by only one thread at
 * a time.
 */

struct bridge_spans;

/* service, pod: labels of the pod; socket: path of the agent's socket. Returns NULL with errno. */
struct bridge_spans *bridge_spans_open(const char *service, const char *pod, const char *socket);
void bridge_spans_close(struct bridge_spans *s); /* NULL is ignored */
/* Returns false if the span was refused because there is no room for its name. */
bool bridge_spans_put(struct bridge_spans *s, const struct bridge_span *t);

#endif
