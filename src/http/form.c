// SPDX-License-Identifier: Apache-2.0
/* form.c - reads the fields of an HTML form (application/x-www-form-urlencoded) from a body */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "http/internal.h"

/* Decodes a NUL-terminated text in place. Returns false if it is malformed or contains a NUL. */
static bool decode_text(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s != '%') {
			*to++ = *s == '+' ? ' ' : *s;
			continue;
		}
		const char digits[] = {s[1], s[1] ? s[2] : '\0', '\0'};

		if (base_unhex(to, digits, 1) || !*to++)
			return false;
		s += 2;
	}
	*to = 0;
	return true;
}

static bool decode_field(char *text, struct http_message_field *f)
{
	char *value = strchr(text, '=');

	if (value)
		*value++ = 0;
	*f = (struct http_message_field){text, value ? value : "", HTTP_FIELD_QUERY};
	return decode_text(text) && (!value || decode_text(value));
}

bool http_form_read(struct http_request *req)
{
	struct http_message_request *in = &req->in;
	/* The payload is writable, and one byte longer than the body (back.c). */
	char *body = (char *)(uintptr_t)in->body, *text;
	struct http_message_field *all;
	size_t most = 1, n = 0;

	body[in->body_bytes] = 0;
	for (size_t i = 0; i < in->body_bytes; i++)
		most += body[i] == '&';
	if (strlen(body) != in->body_bytes || most > HTTP_MESSAGE_FIELDS) {
		http_reply_error(req, 400, "the form is malformed or has more than %u fields",
				 HTTP_MESSAGE_FIELDS);
		return false;
	}
	all = calloc(most + in->field_count, sizeof(*all));
	if (!all) {
		http_reply_error(req, 503, "out of memory");
		return false;
	}
	while ((text = strsep(&body, "&")))
		if (*text && !decode_field(text, &all[n++])) {
			http_reply_error(req, 400, "the form has a malformed escape sequence");
			free(all);
			return false;
		}
	if (in->field_count)
		memcpy(all + n, in->fields, in->field_count * sizeof(*all));
	free(in->fields);
	in->fields = all;
	in->field_count += n;
	return true;
}
