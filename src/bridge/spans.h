/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spans.h - publishes spans that ended in another program. As with any publisher, the collector
 * fetches the spans of the traces that it keeps. A bridge_spans must be used by only one thread at
 * a time.
 */
#ifndef SL_BRIDGE_SPANS_H
#define SL_BRIDGE_SPANS_H

#include "bridge/otlp.h"

struct bridge_spans;

/* service, pod: labels of the pod; socket: path of the agent's socket. Returns NULL with errno. */
struct bridge_spans *bridge_spans_open(const char *service, const char *pod, const char *socket);
void bridge_spans_close(struct bridge_spans *s); /* NULL is ignored */
/* Returns false if the span was refused because there is no room for its name. */
bool bridge_spans_put(struct bridge_spans *s, const struct bridge_span *t);

#endif
