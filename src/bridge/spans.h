/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spans.h - publishes spans of another program, which ended there. The collector fetches those of
 * traces that it keeps, as from any publisher. One thread per struct.
 */
#ifndef SL_BRIDGE_SPANS_H
#define SL_BRIDGE_SPANS_H

#include "bridge/otlp.h"

struct bridge_spans;

/* Labels of the pod, and the agent's socket. NULL with errno. */
struct bridge_spans *bridge_spans_open(const char *service, const char *pod, const char *socket);
void bridge_spans_close(struct bridge_spans *s); /* NULL is fine */
/* False: refused, as there is no room for its name. */
bool bridge_spans_put(struct bridge_spans *s, const struct bridge_span *t);

#endif
