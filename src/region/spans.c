// SPDX-License-Identifier: Apache-2.0
/* spans.c - parses span rings. A line is valid only if it verifies and has the right number. */
#include <string.h>

#include "region/spans.h"
#include "base/text.h"

#define NUMBER_MAX (1ull << 48)

/* ---- places ---- */

uint64_t region_span_head_at(const struct region_info *info, uint32_t ring)
{
	return info->spans + ring * (uint64_t)SL_LINE_SIZE;
}

static uint64_t ring_at(const struct region_info *info, uint32_t ring)
{
	return info->spans + SL_SPAN_HEADS_BYTES(info->max_stripes) +
	       ring * SL_SPAN_STRIDE(info->span_lines);
}

uint64_t region_span_root_at(const struct region_info *info, uint32_t ring, uint64_t number)
{
	return ring_at(info, ring) + SL_SPAN_ROOTS_AT(info->span_lines) +
	       number % SL_SPAN_ROOTS(info->span_lines) * SL_LINE_SIZE;
}

uint64_t region_span_index_at(const struct region_info *info, uint32_t ring, uint64_t number)
{
	return ring_at(info, ring) + SL_SPAN_INDEX_AT(info->span_lines) +
	       number % SL_SPAN_INDEX(info->span_lines) * SL_LINE_SIZE;
}

uint64_t region_span_line_at(const struct region_info *info, uint32_t ring, uint64_t number)
{
	return ring_at(info, ring) + SL_SPAN_LINES_AT(info->span_lines) +
	       number % info->span_lines * SL_LINE_SIZE;
}

/* ---- heads ---- */

enum region_fault region_span_head_parse(const uint64_t line[8], struct region_span_head *head)
{
	if (line[7] != sl_line_check(line))
		return REGION_FAULT_UNSETTLED;
	if (line[SL_SPAN_HEAD_LINES] >= NUMBER_MAX || line[SL_SPAN_HEAD_ROOTS] >= NUMBER_MAX ||
	    line[SL_SPAN_HEAD_INDEX] >= NUMBER_MAX)
		return REGION_FAULT_HOT;
	*head = (struct region_span_head){
		.lines = line[SL_SPAN_HEAD_LINES],
		.roots = line[SL_SPAN_HEAD_ROOTS],
		.index = line[SL_SPAN_HEAD_INDEX],
		.spans = line[SL_SPAN_HEAD_SPANS],
		.dropped = line[SL_SPAN_HEAD_DROPPED],
		.cut = line[SL_SPAN_HEAD_CUT],
	};
	return REGION_FAULT_NONE;
}

enum region_fault region_span_head_follows(const struct region_span_head *before,
					   const struct region_span_head *now)
{
	if (now->lines < before->lines || now->roots < before->roots ||
	    now->index < before->index || now->spans < before->spans ||
	    now->dropped < before->dropped || now->cut < before->cut)
		return REGION_FAULT_HOT;
	return REGION_FAULT_NONE;
}

/* ---- lines ---- */

/* Compares a line's number with the expected one. */
static enum region_span_line classify_line(const uint64_t line[8], uint64_t number)
{
	uint64_t any = 0;

	if (line[7] != sl_sealed_check(line)) {
		for (int i = 0; i < 8; i++)
			any |= line[i];
		return any ? REGION_SPAN_LINE_UNSETTLED : REGION_SPAN_LINE_EARLY;
	}
	if (SL_SPAN_TAG_NUMBER(line[0]) == number)
		return REGION_SPAN_LINE_GOOD;
	return SL_SPAN_TAG_NUMBER(line[0]) < number ? REGION_SPAN_LINE_EARLY
						    : REGION_SPAN_LINE_LATE;
}

/* True for enum values known to this version; a later one may add some. */
static bool meta_known(uint64_t meta)
{
	return SL_SPAN_META_KIND(meta) <= SL_SPAN_CONSUMER &&
	       SL_SPAN_META_STATUS(meta) <= SL_SPAN_ERROR;
}

enum region_span_line region_span_root_parse(const uint64_t line[8], uint64_t number,
					     struct region_span_root *root)
{
	enum region_span_line state = classify_line(line, number);
	uint64_t meta = line[SL_SPAN_ROOT_META];

	if (state)
		return state;
	if (line[SL_SPAN_ROOT_TAG] != SL_SPAN_TAG_ROOT(number) || !meta_known(meta) ||
	    !(line[SL_SPAN_ROOT_TRACE_HI] | line[SL_SPAN_ROOT_TRACE_LO]) ||
	    !line[SL_SPAN_ROOT_SPAN])
		return REGION_SPAN_LINE_LIE;
	*root = (struct region_span_root){
		.trace_hi = line[SL_SPAN_ROOT_TRACE_HI],
		.trace_lo = line[SL_SPAN_ROOT_TRACE_LO],
		.span_id = line[SL_SPAN_ROOT_SPAN],
		.start_ns = line[SL_SPAN_ROOT_START],
		.duration_ns = line[SL_SPAN_ROOT_DURATION],
		.name = SL_SPAN_META_NAME(meta),
		.kind = SL_SPAN_META_KIND(meta),
		.status = SL_SPAN_META_STATUS(meta),
		.flags = SL_SPAN_META_FLAGS(meta),
		.remote = SL_SPAN_META_REMOTE(meta),
	};
	return REGION_SPAN_LINE_GOOD;
}

enum region_span_line region_span_index_parse(const uint64_t line[8], uint64_t number,
					      uint64_t entries[SL_SPAN_ENTRIES], uint32_t *count)
{
	enum region_span_line state = classify_line(line, number);

	*count = 0;
	if (state)
		return state;
	if (line[0] != SL_SPAN_TAG_INDEX(number))
		return REGION_SPAN_LINE_LIE;
	for (uint32_t i = 0; i < SL_SPAN_ENTRIES; i++)
		if (SL_SPAN_ENTRY_LINES(line[1 + i]))
			entries[(*count)++] = line[1 + i];
	return REGION_SPAN_LINE_GOOD;
}

uint64_t region_span_entry_number(uint64_t entry, uint64_t head_lines)
{
	uint64_t number = (head_lines & ~0xffffffffull) | SL_SPAN_ENTRY_FIRST(entry);

	if (number < head_lines)
		return number;
	return number >> 32 ? number - (1ull << 32) : UINT64_MAX;
}

/* ---- spans ---- */

/* Copies a string of the stream and makes it printable: a publisher may write any bytes. */
static const char *take_string(struct region_span_data *data, size_t *used, const uint64_t *words,
			       uint32_t bytes)
{
	char *to = data->text + *used;

	memcpy(to, words, bytes);
	to[bytes] = 0;
	if (!base_utf8(to, bytes))
		for (uint32_t i = 0; i < bytes; i++)
			if (!to[i] || to[i] & 0x80)
				to[i] = '?';
	*used += bytes + 1;
	return to;
}

/* Decodes the attributes. Returns false if they contradict the meta word. */
static bool take_attrs(struct region_span_data *data, const uint64_t *words, uint32_t count,
		       uint32_t attrs)
{
	uint32_t at = 0;
	size_t used = 0;

	data->attr_count = 0;
	data->message = "";
	for (uint32_t i = 0; i < attrs; i++) {
		struct region_span_attr a;
		uint64_t head;
		uint32_t bytes, n;

		if (at >= count)
			return false;
		head = words[at++];
		bytes = SL_SPAN_ATTR_BYTES(head);
		a = (struct region_span_attr){
			.key = SL_SPAN_ATTR_KEY(head),
			.type = (enum sl_span_type)SL_SPAN_ATTR_TYPE(head),
			.cut = SL_SPAN_ATTR_CUT(head),
		};
		switch (SL_SPAN_ATTR_TYPE(head)) {
		case SL_SPAN_TYPE_STRING:
		case SL_SPAN_TYPE_MESSAGE:
			n = (bytes + 7) / 8;
			if (bytes > SL_SPAN_STRING_MAX || n > count - at)
				return false;
			a.string = take_string(data, &used, words + at, bytes);
			break;
		case SL_SPAN_TYPE_I64:
		case SL_SPAN_TYPE_F64:
		case SL_SPAN_TYPE_BOOL:
			n = 1;
			if (at == count)
				return false;
			memcpy(&a.i64, words + at, 8);
			if (a.type == SL_SPAN_TYPE_BOOL)
				a.boolean = words[at] != 0;
			break;
		default:
			return false;
		}
		at += n;
		if (a.type == SL_SPAN_TYPE_MESSAGE) {
			data->message = a.string;
			continue;
		}
		/* If two attributes have the same key, the later one wins. */
		for (uint32_t k = 0; k <= data->attr_count; k++) {
			if (k == data->attr_count)
				data->attr_count++;
			else if (data->attrs[k].key != a.key)
				continue;
			data->attrs[k] = a;
			break;
		}
	}
	return true;
}

enum region_span_line region_span_parse(const uint64_t (*lines)[8], uint32_t count, uint64_t number,
					struct region_span_data *data, uint32_t *lines_used)
{
	uint64_t words[6 * (SL_SPAN_LINES_MAX - 1)], meta;
	enum region_span_line state;
	uint32_t n;

	*lines_used = 1;
	if (!count)
		return REGION_SPAN_LINE_SHORT;
	state = classify_line(lines[0], number);
	if (state)
		return state;
	n = SL_SPAN_TAG_LINES(lines[0][0]);
	if (n < 2 || n > SL_SPAN_LINES_MAX || SL_SPAN_TAG_LINE(lines[0][0]) >= n)
		return REGION_SPAN_LINE_LIE;
	if (SL_SPAN_TAG_LINE(lines[0][0]))
		return REGION_SPAN_LINE_INSIDE;
	if (n > count)
		return REGION_SPAN_LINE_SHORT;
	for (uint32_t i = 1; i < n; i++) {
		state = classify_line(lines[i], number + i);
		if (state)
			return state;
		if (lines[i][0] != SL_SPAN_TAG(number + i, n, i))
			return REGION_SPAN_LINE_LIE;
		memcpy(words + (size_t)(i - 1) * 6, &lines[i][1], 48);
	}
	meta = words[0];
	if (!meta_known(meta) || !(lines[0][1] | lines[0][2]) || !lines[0][3])
		return REGION_SPAN_LINE_LIE;
	*lines_used = n;
	if (!data)
		return REGION_SPAN_LINE_GOOD;
	data->trace_hi = lines[0][1];
	data->trace_lo = lines[0][2];
	data->span_id = lines[0][3];
	data->parent_id = lines[0][4];
	data->start_ns = lines[0][5];
	data->duration_ns = lines[0][6];
	data->name = SL_SPAN_META_NAME(meta);
	data->kind = SL_SPAN_META_KIND(meta);
	data->status = SL_SPAN_META_STATUS(meta);
	data->flags = SL_SPAN_META_FLAGS(meta);
	data->remote = SL_SPAN_META_REMOTE(meta);
	return take_attrs(data, words + 1, (n - 1) * 6 - 1, SL_SPAN_META_ATTRS(meta))
		       ? REGION_SPAN_LINE_GOOD
		       : REGION_SPAN_LINE_LIE;
}
