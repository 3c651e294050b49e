// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_traceparent.c - the header that a stranger's request carries. What is taken is a context
 * that says of itself what was accepted; what it leaves out is invalid.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/span.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes ? bytes : 1), again[SL_TRACEPARENT_LENGTH + 1];
	struct sl_trace_context c, d;

	must(text);
	memset(&c, 0xaa, sizeof(c)); /* of what was there before nothing stays */
	memcpy(text, data, bytes);
	if (sl_traceparent_parse(text, bytes, &c)) {
		must(!sl_trace_context_valid(&c));
		must(!sl_traceparent_format(&c, again) && !*again);
	} else {
		must(bytes >= SL_TRACEPARENT_LENGTH && sl_trace_context_valid(&c) && c.remote);
		must(sl_traceparent_format(&c, again) == SL_TRACEPARENT_LENGTH);
		/* Its version is ours, and of the flags only those that we know are handed on. */
		must(!memcmp(again + 2, text + 2, SL_TRACEPARENT_LENGTH - 4));
		must(!sl_traceparent_parse(again, SL_TRACEPARENT_LENGTH, &d));
		must(c.trace_hi == d.trace_hi && c.trace_lo == d.trace_lo &&
		     c.span_id == d.span_id);
	}
	free(text);
	return 0;
}
