/* SPDX-License-Identifier: Apache-2.0 */
/* rest.h - one question to the REST interface and its answer, without HTTP: for tests, fuzzing, and
 * what its files share. */
#ifndef SL_AGENT_REST_H
#define SL_AGENT_REST_H

#include <jansson.h>

#include "agent/proxy.h"

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

ssize_t layout_read(void *layout, char *buf, size_t max); /* -errno: it can't be told whole */
void layout_done(void *layout);

/* ---- handlers of other files than rest.c: each fills reply ----------------------------------------- */

void rest_get_metrics(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply);
void rest_post_metrics(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply);
void rest_get_tcp(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply);
void rest_set_tcp_filter(struct sl_agent *a, const struct rest_request *q,
			 struct rest_reply *reply);
void rest_post_mrs(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply);

/* ---- rest_fields.c ---------------------------------------------------------------------------------- */

void rest_fail(struct rest_reply *reply, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void rest_fail_refused(struct rest_reply *reply, const struct refused *why);
/* The body. These return NULL or false after an answer was given. */
json_t *rest_object(const struct rest_request *q, struct rest_reply *reply);
/* A misspelled field would be left out in silence. known ends with NULL. */
bool rest_fields_known(json_t *j, const char *const *known, struct rest_reply *reply);
/* A field that is not there is "" unless it is needed. */
const char *rest_text(const json_t *j, const char *key, size_t max, bool need,
		      struct rest_reply *reply);
/* The "labels" object, sorted. */
bool rest_labels(const json_t *j, struct proxy_label out[SL_LABELS_MAX], size_t *count,
		 struct rest_reply *reply);
bool rest_name_ok(const char *s, bool colon);

#endif
