// SPDX-License-Identifier: Apache-2.0
/* span_context.c - the traceparent header: https://www.w3.org/TR/trace-context/, section 3.2. */
#include <errno.h>
#include <string.h>

#include "span.h"

/* HEXDIGLC: lower case only. Returns false for any other character. */
static bool read_hex(const char *text, size_t digits, uint64_t *value)
{
	uint64_t v = 0;

	for (size_t i = 0; i < digits; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*value = v;
	return true;
}

static char *write_hex(char *to, uint64_t value, unsigned int digits)
{
	while (digits--)
		*to++ = "0123456789abcdef"[value >> digits * 4 & 15];
	return to;
}

/* Parses version "-" trace-id "-" parent-id "-" trace-flags: 2, 32, 16 and 2 digits. */
int sl_traceparent_parse(const char *text, size_t length, struct sl_trace_context *context)
{
	uint64_t version, hi, lo, span, flags;

	memset(context, 0, sizeof(*context));
	if (!text || length < SL_TRACEPARENT_LENGTH || !read_hex(text, 2, &version) ||
	    version == 0xff || text[2] != '-' || !read_hex(text + 3, 16, &hi) ||
	    !read_hex(text + 19, 16, &lo) || text[35] != '-' || !read_hex(text + 36, 16, &span) ||
	    text[52] != '-' || !read_hex(text + 53, 2, &flags))
		return -EINVAL;
	/* 3.2.4: accept a later version if nothing or a dash follows these parts. */
	if (length > SL_TRACEPARENT_LENGTH && (!version || text[SL_TRACEPARENT_LENGTH] != '-'))
		return -EINVAL;
	if (!(hi | lo) || !span)
		return -EINVAL;
	*context = (struct sl_trace_context){
		.trace_hi = hi,
		.trace_lo = lo,
		.span_id = span,
		.flags = (uint8_t)flags,
		.remote = 1,
	};
	return 0;
}

size_t sl_traceparent_format(const struct sl_trace_context *c, char text[SL_TRACEPARENT_LENGTH + 1])
{
	char *to = text;

	if (!c || !sl_trace_context_valid(c)) {
		*text = 0;
		return 0;
	}
	to = mempcpy(to, "00-", 3);
	to = write_hex(to, c->trace_hi, 16);
	to = write_hex(to, c->trace_lo, 16);
	*to++ = '-';
	to = write_hex(to, c->span_id, 16);
	*to++ = '-';
	/* Unknown flags must be sent as 0. */
	to = write_hex(to, c->flags & SL_TRACE_SAMPLED, 2);
	*to = 0;
	return SL_TRACEPARENT_LENGTH;
}
