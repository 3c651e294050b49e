/* SPDX-License-Identifier: Apache-2.0 */
/* otlp_internal.h - shared by the otlp*.c files. */
#ifndef SL_BRIDGE_OTLP_INTERNAL_H
#define SL_BRIDGE_OTLP_INTERNAL_H

#include "bridge/otlp.h"

/*
 * Counts a message in the current body. Returns false if there are too many; then treat the body as
 * malformed.
 */
bool bridge_otlp_message(struct bridge_otlp *o, bool resource);
/* Takes the contents of a resource, or only checks them. Returns false if they are malformed. */
typedef bool bridge_otlp_take(void *arg, struct base_pb resource, bool check);
/*
 * Reads a body twice: first to check all of it within the time limit, then to take what it
 * contains. Returns the same values as bridge_otlp_read().
 */
int bridge_otlp_read_twice(struct bridge_otlp *o, const void *body, size_t bytes, bool json,
			   enum bridge_otlp_signal signal, bridge_otlp_take *take, void *arg,
			   struct bridge_otlp_counts *counts, struct bridge_error *error);

/*
 * Reads a Resource's identity. The texts are valid until the next resource. Returns false if
 * malformed.
 */
bool bridge_otlp_identity(struct bridge_otlp *o, struct base_pb resource,
			  struct bridge_otlp_identity *out);

/* ---- otlp_label.c: the names and labels of points ---- */

#define OTLP_LABELS_MAX 64u
#define OTLP_TEXT_BYTES (128u << 10) /* maximum size of the names and labels of a point */

struct bridge_otlp_label {
	struct bridge_text key, value;
	struct bridge_text original; /* the key as received */
};

/*
 * Labels, and the text that they point to. The resource's labels are added first, then the scope's,
 * then the point's. A mark saves the state, so that bridge_otlp_return() can remove later labels.
 */
struct bridge_otlp_labels {
	bool utf8;
	bool too_much; /* too many labels or too much text */
	size_t count, used;
	struct bridge_otlp_label set[OTLP_LABELS_MAX]; /* sorted by key, then by original */
	char text[OTLP_TEXT_BYTES];
};
struct bridge_otlp_mark {
	bool too_much;
	size_t count, used;
	struct bridge_otlp_label set[OTLP_LABELS_MAX];
};
void bridge_otlp_mark(const struct bridge_otlp_labels *l, struct bridge_otlp_mark *out);
void bridge_otlp_return(struct bridge_otlp_labels *l, const struct bridge_otlp_mark *to);

/* Returns the copy, or an empty text outside .text if there is no room, and sets .too_much. */
struct bridge_text bridge_otlp_keep(struct bridge_otlp_labels *l, struct bridge_text t);
/* Converts a key to the name of a label: characters outside [a-zA-Z0-9_] become "_". */
struct bridge_text bridge_otlp_label_name(struct bridge_otlp_labels *l, struct bridge_text key);
/*
 * Returns the Prometheus name of a metric: replaces each run of characters outside [a-zA-Z0-9_:]
 * with "_", and adds the unit and "_total" if missing. Sets *unit to the unit in words.
 */
struct bridge_text bridge_otlp_metric_name(struct bridge_otlp_labels *l, struct bridge_text name,
					   struct bridge_text *unit, enum bridge_type type);
/* Decodes a KeyValue without changing the key or value. Returns false if it is malformed. */
bool bridge_otlp_key_value(struct bridge_otlp *o, struct bridge_otlp_labels *l, struct base_pb p,
			   struct bridge_text *key, struct bridge_text *value);
/* prefix: text put before the key */
void bridge_otlp_add_label(struct bridge_otlp_labels *l, const char *prefix, struct bridge_text key,
			   struct bridge_text value);
/*
 * Joins labels whose keys have become equal: their values are separated by ";", in the order of the
 * original keys. Returns the number of labels.
 */
size_t bridge_otlp_join(struct bridge_otlp_labels *l, struct bridge_label out[OTLP_LABELS_MAX]);

/*
 * Assigns a Prometheus name to the first original name that asks for it. Returns true if it belongs
 * to this original name. Sets *error if there is no room for another name.
 */
bool bridge_otlp_names_own(struct base_table *names, struct bridge_text name,
			   struct bridge_text original, bool *error);

#endif
