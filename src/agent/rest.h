/* SPDX-License-Identifier: Apache-2.0 */
/* rest.h - one question to the REST interface and its answer, without HTTP: for tests, fuzzing, and
 * what its files share. */
#ifndef SL_AGENT_REST_H
#define SL_AGENT_REST_H

#include <jansson.h>

#include "agent/proxy.h"

struct agent_rest_request {
	const char *method, *path;
	const char *variable; /* what stands for {} in the route */
	const char *content_type, *origin, *host, *authorization; /* headers, or NULL */
	const void *body;
	size_t bytes;
};

struct agent_layout; /* GET /metrics, region by region */

struct agent_rest_reply {
	int status;
	json_t *json; /* or: */
	struct agent_layout
		*layout; /* streamed by agent_layout_read(), ended by agent_layout_done() */
};

/* Finds the route and answers. Takes the lock by itself. Always fills reply. */
void agent_rest_handle(struct agent *a, const struct agent_rest_request *q,
		       struct agent_rest_reply *reply);

ssize_t agent_layout_read(void *layout, char *buf, size_t max); /* -errno: it can't be told whole */
void agent_layout_done(void *layout);

/* ---- handlers of other files than rest.c: each fills reply ---- */

void agent_rest_get_metrics(struct agent *a, const struct agent_rest_request *q,
			    struct agent_rest_reply *reply);
void agent_rest_post_metrics(struct agent *a, const struct agent_rest_request *q,
			     struct agent_rest_reply *reply);
void agent_rest_get_tcp(struct agent *a, const struct agent_rest_request *q,
			struct agent_rest_reply *reply);
void agent_rest_set_tcp_filter(struct agent *a, const struct agent_rest_request *q,
			       struct agent_rest_reply *reply);
void agent_rest_post_mrs(struct agent *a, const struct agent_rest_request *q,
			 struct agent_rest_reply *reply);

/* ---- rest_fields.c ---- */

void agent_rest_fail(struct agent_rest_reply *reply, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void agent_rest_fail_refused(struct agent_rest_reply *reply, const struct agent_refused *why);
/* The body. These return NULL or false after an answer was given. */
json_t *agent_rest_object(const struct agent_rest_request *q, struct agent_rest_reply *reply);
/* A misspelled field would be left out in silence. known ends with NULL. */
bool agent_rest_fields_known(json_t *j, const char *const *known, struct agent_rest_reply *reply);
/* A field that is not there is "" unless it is needed. */
const char *agent_rest_text(const json_t *j, const char *key, size_t max, bool need,
			    struct agent_rest_reply *reply);
/* The "labels" object, sorted. */
bool agent_rest_labels(const json_t *j, struct agent_proxy_label out[SL_LABELS_MAX], size_t *count,
		       struct agent_rest_reply *reply);
bool agent_rest_name_ok(const char *s, bool colon);

#endif
