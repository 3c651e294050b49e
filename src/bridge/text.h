/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - Prometheus text format 0.0.4 and OpenMetrics 1.0.
 *
 * A body that differs from the one before in its numbers alone costs a comparison and a number per
 * line: the parser keeps the shape of the last body, each line up to its value. A sink is called
 * only if the whole body is right, so that a scrape is taken as a whole or not at all.
 *
 * Text 0.0.4 is read as Prometheus does; OpenMetrics by the rules of its specification, with
 * exemplars. Both may have quoted names in UTF-8. Timestamps say which points are left out, and are
 * not kept.
 */
#ifndef SL_BRIDGE_TEXT_H
#define SL_BRIDGE_TEXT_H

#include "bridge/bridge.h"

enum bridge_text_format { BRIDGE_TEXT_004, BRIDGE_OPENMETRICS };

struct bridge_text_parser;

/* For the bodies of one target. NULL: out of memory, or limits is NULL: defaults. */
struct bridge_text_parser *bridge_text_new(const struct bridge_limits *limits);
void bridge_text_free(struct bridge_text_parser *p); /* NULL is fine */

/* Of the bodies to come; without it all times are good. */
void bridge_text_set_window(struct bridge_text_parser *p, const struct bridge_window *w);

/* The sink must not use the last body's shape, as it lost what it had. */
void bridge_text_forget(struct bridge_text_parser *p);

/*
 * Reads a whole body. 0; -EINVAL: malformed; -E2BIG: more than the limits; -ENOMEM; -ENOSPC: the
 * sink has no room. The sink is called by the last one alone, or by 0.
 */
int bridge_text_read(struct bridge_text_parser *p, enum bridge_text_format format, const char *body,
		     size_t bytes, struct bridge_sink *sink, struct bridge_error *error);

struct bridge_text_counts {
	size_t points, values; /* of the last body */
	size_t untimely;       /* points outside of the window */
	bool same_shape;       /* as the one before */
};
struct bridge_text_counts bridge_text_counts(const struct bridge_text_parser *p);

#endif
