/* SPDX-License-Identifier: Apache-2.0 */
/* rest.h - REST requests and replies without HTTP, for the rest*.c files, tests and fuzzers. */
#ifndef SL_AGENT_REST_H
#define SL_AGENT_REST_H

#include <jansson.h>

#include "agent/proxy.h"

struct agent_rest_request {
	const char *method, *path;
	const char *variable; /* the part of the path that matches {} in the route */
	/* the process that sent the request; NULL means the agent's own user */
	const struct agent_rest_caller *caller;
	const void *body;
	size_t bytes;
};

struct agent_layout; /* produces the reply of GET /metrics region by region */

struct agent_rest_reply {
	int status;
	json_t *json;		     /* or: */
	struct agent_layout *layout; /* stream for agent_layout_read() and agent_layout_done() */
};

int agent_rest_init(struct agent *a, char *error, size_t bytes);
void agent_rest_fini(struct agent *a);	/* call it without the lock: it waits for handlers */
void agent_rest_count(struct agent *a); /* updates the counters of requests refused by src/http */

/*
 * For tests and fuzzers: answers without HTTP. The path is that of a route, in which {} stands for
 * .variable. Takes the lock.
 */
void agent_rest_handle(struct agent *a, const struct agent_rest_request *q,
		       struct agent_rest_reply *reply);

/* returns -errno to end the stream */
ssize_t agent_layout_read(void *layout, char *buf, size_t max);
void agent_layout_done(void *layout);

/* ---- handlers outside rest.c; each fills in the reply ---- */

void agent_rest_get_metrics(struct agent *a, const struct agent_rest_request *q,
			    struct agent_rest_reply *reply);
void agent_rest_post_metrics(struct agent *a, const struct agent_rest_request *q,
			     struct agent_rest_reply *reply);
void agent_rest_set_tcp_filter(struct agent *a, const struct agent_rest_request *q,
			       struct agent_rest_reply *reply);
void agent_rest_post_mrs(struct agent *a, const struct agent_rest_request *q,
			 struct agent_rest_reply *reply);

/* ---- rest_fields.c ---- */

/* Fills in an error reply. Always returns false. */
bool agent_rest_fail(struct agent_rest_reply *reply, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Fills in a reply and counts the refusal. Call it with the lock held. */
void agent_rest_fail_refused(struct agent *a, struct agent_rest_reply *reply,
			     const struct agent_refused *why);
/*
 * Parses the JSON body. On error, this and the functions below fill in a reply and return NULL or
 * false.
 */
json_t *agent_rest_object(const struct agent_rest_request *q, struct agent_rest_reply *reply);
/* Refuses unknown fields, which may be misspelled. known is NULL-terminated. */
bool agent_rest_fields_known(json_t *j, const char *const *known, struct agent_rest_reply *reply);
/* Returns a string field; "" if it is absent and not needed. */
const char *agent_rest_text(const json_t *j, const char *key, size_t max, bool need,
			    struct agent_rest_reply *reply);
/* Parses the "labels" object and sorts it. */
bool agent_rest_labels(const json_t *j, struct region_text_label out[SL_LABELS_MAX], size_t *count,
		       struct agent_rest_reply *reply);

#endif
