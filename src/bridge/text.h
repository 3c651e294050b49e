/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - parses Prometheus' text format 0.0.4 and OpenMetrics 1.0.
 *
 * If a body differs from the previous one only in its numbers, each line costs just a comparison
 * and the parsing of a number: the parser keeps the shape of the last body, which consists of each
 * line up to its value. The sink is called only if the whole body is valid, so a scrape is accepted
 * completely or not at all.
 *
 * Text 0.0.4 is parsed as in Prometheus, and OpenMetrics as in its specification, including
 * exemplars. Both may contain quoted UTF-8 names. Timestamps are used only to decide which points
 * are left out.
 */
#ifndef SL_BRIDGE_TEXT_H
#define SL_BRIDGE_TEXT_H

#include "bridge/bridge.h"

enum bridge_text_format { BRIDGE_TEXT_004, BRIDGE_OPENMETRICS };

struct bridge_text_parser;

/*
 * Creates a parser for one target. limits may be NULL for defaults. Returns NULL if out of memory.
 */
struct bridge_text_parser *bridge_text_new(const struct bridge_limits *limits);
void bridge_text_free(struct bridge_text_parser *p); /* NULL is ignored */

/* Sets the window for all subsequent bodies; without a window, all timestamps are accepted. */
void bridge_text_set_window(struct bridge_text_parser *p, const struct bridge_window *w);

/* Forgets the last body's shape, because the sink no longer has its series. */
void bridge_text_forget(struct bridge_text_parser *p);

/*
 * Reads a whole body. Returns 0; -EINVAL if malformed; -E2BIG if it exceeds the limits; -ENOMEM; or
 * -ENOSPC if the sink has no room. The sink is called only if the result is 0 or -ENOSPC.
 */
int bridge_text_read(struct bridge_text_parser *p, enum bridge_text_format format, const char *body,
		     size_t bytes, struct bridge_sink *sink, struct bridge_error *error);

struct bridge_body_counts bridge_text_counts(const struct bridge_text_parser *p);

#endif
