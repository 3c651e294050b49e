// SPDX-License-Identifier: Apache-2.0
/* rest_fields.c - parses fields of a request body and reports errors in them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/rest.h"
#include "base/json_read.h"
#include "base/text.h"
#include "region/text.h"

bool agent_rest_fail(struct agent_rest_reply *reply, int status, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* The text may quote a body that is not UTF-8, or be truncated inside a character. */
	if (!base_utf8(text, strlen(text)))
		base_harmless(text);
	reply->status = status;
	reply->json = json_pack("{s:s}", "error", text);
	return false;
}

void agent_rest_fail_refused(struct agent *a, struct agent_rest_reply *reply,
			     const struct agent_refused *why)
{
	static const int status[REFUSED_COUNT] = {
		[REFUSED_REGIONS] = 507, [REFUSED_MEMORY] = 507, [REFUSED_QUOTA] = 507,
		[REFUSED_SYSTEM] = 507,	 [REFUSED_HEADER] = 400, [REFUSED_SIZE] = 400,
	};

	agent_refused_count(a, why->cause);
	agent_rest_fail(reply, status[why->cause] ?: 500, "%s", why->reason);
}

json_t *agent_rest_object(const struct agent_rest_request *q, struct agent_rest_reply *reply)
{
	json_error_t err;
	json_t *j = base_json_read(q->body, q->bytes, &err);

	if (!j) {
		agent_rest_fail(reply, 400, "the body is not JSON: %s (line %d, column %d)",
				err.text, err.line, err.column);
		return NULL;
	}
	if (!json_is_object(j)) {
		agent_rest_fail(reply, 400, "the body must be a JSON object");
		json_decref(j);
		return NULL;
	}
	return j;
}

const char *agent_rest_text(const json_t *j, const char *key, size_t max, bool need,
			    struct agent_rest_reply *reply)
{
	const json_t *v = json_object_get(j, key);

	if (!v && !need)
		return "";
	if (!json_is_string(v) || (need && !json_string_length(v))) {
		agent_rest_fail(reply, 400, "\"%s\" must be a string%s", key,
				need ? " that is not empty" : "");
		return NULL;
	}
	if (json_string_length(v) > max) {
		agent_rest_fail(reply, 400, "\"%s\" has %zu bytes; at most %zu are allowed", key,
				json_string_length(v), max);
		return NULL;
	}
	return json_string_value(v);
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct region_text_label *)a)->key,
		      ((const struct region_text_label *)b)->key);
}

bool agent_rest_labels(const json_t *j, struct region_text_label out[SL_LABELS_MAX], size_t *count,
		       struct agent_rest_reply *reply)
{
	json_t *labels = json_object_get(j, "labels"), *v;
	const char *key;

	*count = 0;
	if (!labels || json_is_null(labels))
		return true;
	if (!json_is_object(labels))
		return agent_rest_fail(reply, 400, "\"labels\" must be an object of strings");
	json_object_foreach(labels, key, v)
	{
		if (*count == SL_LABELS_MAX)
			return agent_rest_fail(reply, 400, "more than %u labels", SL_LABELS_MAX);
		if (!region_text_label_key(key, strlen(key)))
			return agent_rest_fail(
				reply, 400,
				"label key \"%.64s\" must match [a-zA-Z_][a-zA-Z0-9_]*, have at "
				"most %u bytes, and not begin with \"__\"",
				key, SL_NAME_MAX);
		if (!json_is_string(v) || json_string_length(v) > SL_LABEL_VALUE_MAX)
			return agent_rest_fail(
				reply, 400, "label \"%.64s\" must be a string of at most %u bytes",
				key, SL_LABEL_VALUE_MAX);
		out[(*count)++] = (struct region_text_label){key, json_string_value(v)};
	}
	qsort(out, *count, sizeof(*out), by_key);
	return true;
}

bool agent_rest_fields_known(json_t *j, const char *const *known, struct agent_rest_reply *reply)
{
	const char *key;
	json_t *v;

	json_object_foreach(j, key, v)
	{
		size_t i = 0;

		while (known[i] && strcmp(key, known[i]))
			i++;
		if (!known[i])
			return agent_rest_fail(reply, 400, "unknown field \"%.64s\"", key);
	}
	return true;
}
