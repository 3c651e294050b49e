/* SPDX-License-Identifier: Apache-2.0 */
/* rest.h - one question to the REST interface and its answer, without HTTP: for tests, fuzzing. */
#ifndef SL_AGENT_REST_H
#define SL_AGENT_REST_H

#include <jansson.h>

#include "agent/internal.h"

struct rest_request {
	const char *method, *path;
	const char *variable; /* what stands for {} in the route */
	const char *content_type, *origin, *host, *authorization; /* headers, or NULL */
	const void *body;
	size_t bytes;
};

struct layout; /* GET /metrics, region by region */

struct rest_reply {
	int status;
	json_t *json;          /* or: */
	struct layout *layout; /* streamed by layout_read(), ended by layout_done() */
};

/* Finds the route and answers. Takes the lock by itself. Always fills reply. */
void rest_handle(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply);

ssize_t layout_read(void *layout, char *buf, size_t max);
void layout_done(void *layout);

#endif
