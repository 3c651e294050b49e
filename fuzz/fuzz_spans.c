// SPDX-License-Identifier: Apache-2.0
/*
 * Lines of a ring of spans: the number of the first one in 8 bytes, then lines of 64. Each is read
 * as a head, a root, a line of the index and a span; once as it is, and once more resealed, so that
 * what lies behind the check is reached too.
 */
#include <stdlib.h>
#include <string.h>

#include "region/spans.h"
#include "base/text.h"
#include "region/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
	if (!condition)
		abort();
}

static void check_span(const struct region_span_data *d)
{
	must((d->trace_hi | d->trace_lo) && d->span_id);
	must(d->kind <= SL_SPAN_CONSUMER && d->status <= SL_SPAN_ERROR);
	must(d->attr_count <= SL_SPAN_WORDS_MAX);
	must(base_utf8(d->message, strlen(d->message)));
	for (uint32_t i = 0; i < d->attr_count; i++) {
		const struct region_span_attr *a = &d->attrs[i];

		for (uint32_t k = 0; k < i; k++)
			must(d->attrs[k].key != a->key);
		if (a->type == SL_SPAN_TYPE_STRING)
			must(strlen(a->string) <= SL_SPAN_STRING_MAX &&
			     base_utf8(a->string, strlen(a->string)));
	}
}

static void read_lines(const uint64_t (*lines)[8], uint32_t count, uint64_t number)
{
	struct region_span_data *d = malloc(sizeof(*d));
	uint64_t entries[SL_SPAN_ENTRIES];
	struct region_span_head head;
	struct region_span_root root;
	uint32_t n, used;

	must(d);
	for (uint32_t i = 0; i < count; i++) {
		if (!region_span_head_parse(lines[i], &head))
			must(!region_span_head_follows(&head, &head));
		if (!region_span_root_parse(lines[i], number + i, &root))
			must(root.span_id && root.kind <= SL_SPAN_CONSUMER);
		if (!region_span_index_parse(lines[i], number + i, entries, &n))
			for (uint32_t k = 0; k < n; k++) {
				uint64_t first = region_span_entry_number(entries[k], number);

				must(SL_SPAN_ENTRY_LINES(entries[k]));
				must(first == UINT64_MAX || first < number);
			}
	}
	for (uint32_t i = 0; i < count; i += used) {
		if (!region_span_parse(lines + i, count - i, number + i, d, &used))
			check_span(d);
		must(used && used <= count - i);
	}
	must(region_span_parse(lines, 0, number, d, &used) == REGION_SPAN_LINE_SHORT);
	free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t count = size < 8 ? 0 : (uint32_t)((size - 8) / SL_LINE_SIZE);
	uint64_t(*lines)[8], number;

	if (size < 8 || count > 1024)
		return 0;
	/* A copy that ends where its allocation ends, so that one byte too far is seen. */
	lines = malloc(count ? count * sizeof(*lines) : 1);
	must(lines);
	memcpy(&number, data, 8);
	number &= (1ull << 48) - 1;
	memcpy(lines, data + 8, count * sizeof(*lines));
	read_lines((const uint64_t(*)[8])lines, count, number);
	for (uint32_t i = 0; i < count; i++)
		lines[i][7] = sl_sealed_check(lines[i]);
	read_lines((const uint64_t(*)[8])lines, count, number);
	for (uint32_t i = 0; i < count; i++) {
		/* And with the number that it should have. */
		lines[i][0] = (lines[i][0] & 0xffff) | (number + i) << 16;
		lines[i][7] = sl_sealed_check(lines[i]);
	}
	read_lines((const uint64_t(*)[8])lines, count, number);
	free(lines);
	return 0;
}
