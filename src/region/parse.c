// SPDX-License-Identifier: Apache-2.0
/*
 * parse.c - parses the fixed-size parts of a region: header, hot lines, directory entries, names.
 */
#include <string.h>

#include <sidelight/flow.h>
#include <sidelight/task.h>

#include "region/internal.h"
#include "region/text.h"

const char *region_fault_name(enum region_fault fault)
{
	static const char *const names[REGION_FAULT_COUNT] = {
		[REGION_FAULT_NONE] = "none",		[REGION_FAULT_MAGIC] = "magic",
		[REGION_FAULT_VERSION] = "version",	[REGION_FAULT_CHECK] = "check",
		[REGION_FAULT_SIZE] = "size",		[REGION_FAULT_SECTION] = "section",
		[REGION_FAULT_LABEL] = "label",		[REGION_FAULT_HOT] = "hot",
		[REGION_FAULT_RECORD] = "record",	[REGION_FAULT_CELLS] = "cells",
		[REGION_FAULT_UNSETTLED] = "unsettled", [REGION_FAULT_MEMORY] = "memory",
	};

	return (unsigned int)fault < REGION_FAULT_COUNT ? names[fault] : "unknown";
}

const char *region_state_name(uint32_t state)
{
	static const char *const names[] = {
		[SL_STATE_FREE] = "free",	[SL_STATE_LIVE] = "live",
		[SL_STATE_DEAD] = "dead",	[SL_STATE_CLOSED] = "closed",
		[SL_STATE_RETIRED] = "retired",
	};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "unknown";
}

const char *region_kind_name(enum sl_metric_kind kind)
{
	static const char *const names[] = {
		[SL_KIND_COUNTER] = "counter",
		[SL_KIND_COUNTER_F64] = "counter",
		[SL_KIND_GAUGE] = "gauge",
		[SL_KIND_GAUGE_F64] = "gauge",
		[SL_KIND_HISTOGRAM] = "histogram",
		[SL_KIND_HISTOGRAM_EXP] = "histogram",
		[SL_KIND_INFO] = "info",
		[SL_KIND_STATESET] = "stateset",
		[SL_KIND_SUMMARY] = "summary",
		[SL_KIND_UNKNOWN] = "unknown",
		[SL_KIND_GAUGE_TIMED] = "gauge",
		[SL_KIND_GAUGE_HISTOGRAM] = "gaugehistogram",
		[SL_KIND_GAUGE_HISTOGRAM_EXP] = "gaugehistogram",
	};

	return kind < sizeof(names) / sizeof(*names) && names[kind] ? names[kind] : "unknown";
}

/*
 * Checks that all sections, including those of unknown types, are inside the region, after the
 * header, and do not overlap: overlapping memory would have two meanings.
 */
static bool sections_apart(const struct sl_region_header *h)
{
	for (uint32_t i = 0; i < h->section_count; i++) {
		const struct sl_region_section *a = &h->section[i];

		if (!a->type || a->offset % SL_LINE_SIZE || a->offset < SL_HEADER_SIZE ||
		    a->offset > h->size || a->length > h->size - a->offset)
			return false;
		for (uint32_t j = 0; j < i; j++) {
			const struct sl_region_section *b = &h->section[j];

			if (a->offset < b->offset + b->length && b->offset < a->offset + a->length)
				return false;
		}
	}
	return true;
}

/* Stores one section. Returns false if it is malformed for its type, or the second of its type. */
static bool section_take(const struct sl_region_section *s, struct region_info *info)
{
	uint64_t count = s->stride ? s->length / s->stride : 0;
	bool whole = count && s->length % s->stride == 0, ok;
	uint64_t *at;

	switch (s->type) {
	case SL_SECTION_HOT:
		at = &info->hot;
		ok = s->stride == SL_LINE_SIZE && s->length == SL_LINE_SIZE;
		break;
	case SL_SECTION_STRIPES:
		at = &info->stripes;
		ok = whole && s->stride % 4096 == 0;
		info->stripe_stride = s->stride;
		info->max_stripes = (uint32_t)count;
		info->max_lines = s->stride / SL_LINE_SIZE;
		break;
	case SL_SECTION_SCHEMA:
		at = &info->schema;
		ok = s->stride == 8 && s->length % 8 == 0;
		info->schema_bytes = s->length;
		break;
	case SL_SECTION_ENTRIES:
		at = &info->entries;
		ok = whole && s->stride == SL_LINE_SIZE;
		info->max_entries = (uint32_t)count;
		break;
	case SL_SECTION_TENANTS:
		at = &info->tenants;
		ok = whole && s->stride == SL_TENANT_SIZE;
		info->max_tenants = (uint32_t)count;
		break;
	case SL_SECTION_NAMES:
		at = &info->names;
		ok = whole && s->stride == SL_NAMES_SIZE;
		info->max_names = (uint32_t)count;
		break;
	case SL_SECTION_SPANS:
		at = &info->spans;
		info->span_lines = s->stride / (uint32_t)SL_SPAN_STRIDE(1);
		info->span_bytes = s->length;
		ok = s->stride % SL_SPAN_STRIDE(1) == 0 && info->span_lines >= SL_SPAN_RING_MIN &&
		     info->span_lines <= SL_SPAN_RING_MAX &&
		     !(info->span_lines & (info->span_lines - 1));
		break;
	case SL_SECTION_CREATED:
		at = &info->created;
		ok = whole && s->stride == SL_LINE_SIZE;
		info->created_lines = count;
		break;
	case SL_SECTION_EXEMPLARS:
		at = &info->exemplars;
		ok = whole && s->stride == SL_EXEMPLAR_SIZE && count >= 2 &&
		     count <= SL_EXEMPLARS_MAX;
		info->max_exemplars = (uint32_t)count;
		break;
	case SL_SECTION_FLOWS:
		at = &info->flows;
		ok = whole && s->stride == SL_FLOW_SIZE && count <= SL_FLOWS_MAX;
		info->max_flows = (uint32_t)count;
		break;
	case SL_SECTION_JOURNAL:
		at = &info->journal;
		ok = whole && s->stride == SL_LINE_SIZE && !(count & (count - 1)) &&
		     count <= UINT32_MAX;
		info->journal_lines = (uint32_t)count;
		break;
	default:
		return true;
	}
	if (!ok || *at)
		return false;
	*at = s->offset;
	return true;
}

/*
 * Checks that the sections of this kind are present, and those of other kinds absent. Other kinds
 * find their sections with region_section_find().
 */
static bool kind_complete(const struct region_info *info, uint32_t kind)
{
	bool metrics = kind == SL_REGION_METRICS, flows = kind == SL_REGION_FLOWS;

	if (info->tenants && (!info->entries || info->max_tenants != info->max_entries))
		return false;
	if (info->names && (!info->tenants || info->max_names != info->max_entries))
		return false;
	if ((info->created || info->exemplars) && !metrics)
		return false;
	return !info->stripes == !metrics && !info->schema == !metrics &&
	       !info->entries == (kind != SL_REGION_DIRECTORY) && !info->flows == !flows &&
	       !info->journal == !flows;
}

bool region_section_find(const struct sl_region_header *h, uint32_t type, uint32_t unit,
			 uint32_t most, struct region_section *section)
{
	const struct sl_region_section *found = NULL;

	for (uint32_t i = 0; i < h->section_count && i < SL_SECTIONS_MAX; i++) {
		if (h->section[i].type != type)
			continue;
		if (found)
			return false;
		found = &h->section[i];
	}
	if (!found || !found->stride || found->stride % unit || !found->length ||
	    found->length % found->stride || found->length / found->stride > most)
		return false;
	*section = (struct region_section){found->offset, found->stride,
					   (uint32_t)(found->length / found->stride)};
	return true;
}

bool region_section_exact(const struct sl_region_header *h, uint32_t type, uint32_t size,
			  uint32_t most, uint64_t *offset, uint32_t *count)
{
	struct region_section section;

	if (!region_section_find(h, type, size, most, &section) || section.stride != size)
		return false;
	*offset = section.offset;
	*count = section.count;
	return true;
}

bool region_losses_find(const struct sl_region_header *h, uint32_t n,
			struct region_section *section)
{
	uint32_t lines = (n + SL_LINE_CELLS - 1) / SL_LINE_CELLS;

	return region_section_find(h, SL_SECTION_LOSSES, SL_LINE_SIZE, SL_TASK_CPUS_MAX, section) &&
	       section->stride >= lines * SL_LINE_SIZE;
}

enum region_fault region_losses_add(const uint64_t *element, uint32_t n, uint64_t *sum)
{
	for (uint32_t i = 0; i < n; i += SL_LINE_CELLS)
		if (element[i / 7 * 8 + 7] != sl_line_check(element + i / 7 * 8))
			return REGION_FAULT_UNSETTLED;
	for (uint32_t i = 0; i < n; i++)
		sum[i] += element[i / 7 * 8 + i % 7];
	return REGION_FAULT_NONE;
}

enum region_fault region_header_parse(const struct sl_region_header *h, uint64_t actual_size,
				      struct region_info *info)
{
	memset(info, 0, sizeof(*info));
	if (memcmp(h->magic, SL_REGION_MAGIC, sizeof(h->magic)))
		return REGION_FAULT_MAGIC;
	if (h->version != SL_REGION_VERSION)
		return REGION_FAULT_VERSION;
	if (h->check != sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check)))
		return REGION_FAULT_CHECK;
	if (h->kind < SL_REGION_METRICS || h->kind > SL_REGION_NIC)
		return REGION_FAULT_VERSION;
	if (!h->instance)
		return REGION_FAULT_MAGIC;
	if (h->header_size != SL_HEADER_SIZE || h->size < SL_HEADER_SIZE + SL_LINE_SIZE ||
	    h->size > SL_REGION_SIZE_MAX || h->size > actual_size)
		return REGION_FAULT_SIZE;
	if (h->section_count > SL_SECTIONS_MAX || !sections_apart(h))
		return REGION_FAULT_SECTION;
	for (uint32_t i = 0; i < h->section_count; i++)
		if (!section_take(&h->section[i], info))
			return REGION_FAULT_SECTION;
	if (!info->hot || !kind_complete(info, h->kind))
		return REGION_FAULT_SECTION;
	/* One ring per stripe. Checked last, as the stripes may follow the spans in the table. */
	if (info->spans &&
	    (!info->stripes ||
	     info->span_bytes != SL_SPAN_HEADS_BYTES(info->max_stripes) +
					 info->max_stripes * SL_SPAN_STRIDE(info->span_lines)))
		return REGION_FAULT_SECTION;
	if (h->label_bytes > SL_HEADER_LABELS_MAX)
		return REGION_FAULT_LABEL;
	memcpy(info->label_text, h->labels, h->label_bytes);
	if (!region_text_labels(info->label_text, h->label_bytes, false, false, info->labels,
				&info->label_count)) {
		info->label_count = 0;
		return REGION_FAULT_LABEL;
	}
	info->size = h->size;
	info->kind = h->kind;
	info->pid = h->pid;
	info->origin = h->flags & SL_REGION_ORIGIN;
	info->instance = h->instance;
	info->start_ns = h->start_ns;
	info->start_ticks = h->start_ticks;
	memcpy(info->boot_id, h->boot_id, sizeof(info->boot_id));
	return REGION_FAULT_NONE;
}

enum region_fault region_kind_parse(const struct sl_region_header *h, uint64_t actual_size,
				    uint32_t kind, struct region_info *info)
{
	enum region_fault fault = region_header_parse(h, actual_size, info);

	return fault ? fault : info->kind == kind ? REGION_FAULT_NONE : REGION_FAULT_VERSION;
}

const char *region_label_in(const struct region_text_label *labels, uint32_t count, const char *key)
{
	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(labels[i].key, key))
			return labels[i].value;
	return "";
}

const char *region_label(const struct region_info *info, const char *key)
{
	return region_label_in(info->labels, info->label_count, key);
}

void region_add_label(struct region_info *info, size_t *used, const char *key, const char *value)
{
	const size_t k = strlen(key) + 1, v = strlen(value) + 1;

	if (info->label_count == REGION_LABELS_MAX || *used + k + v > sizeof(info->label_text))
		return;
	memcpy(info->label_text + *used, key, k);
	memcpy(info->label_text + *used + k, value, v);
	info->labels[info->label_count++] =
		(struct region_text_label){info->label_text + *used, info->label_text + *used + k};
	*used += k + v;
}

enum region_fault region_info_parse(const struct sl_region_header *h, uint64_t actual_size,
				    struct region_info *info)
{
	enum region_fault fault = region_header_parse(h, actual_size, info);

	/* A reader of metrics never handles a region of a kind without metrics. */
	if ((!fault || fault == REGION_FAULT_SECTION) && h->kind > SL_REGION_DIRECTORY)
		return REGION_FAULT_VERSION;
	return fault;
}

enum region_fault region_hot_parse(const uint64_t line[8], const struct region_info *info,
				   struct region_hot *hot)
{
	uint32_t state = line[SL_HOT_STATE] & 0xff;

	if (line[7] != sl_line_check(line))
		return REGION_FAULT_UNSETTLED;
	/*
	 * A hot line changes one cell at a time, and each intermediate state verifies. The cells
	 * need not be consistent with each other, so each is checked against the header only.
	 */
	if (line[SL_HOT_SCHEMA_USED] > info->schema_bytes || line[SL_HOT_SCHEMA_USED] % 8 ||
	    line[SL_HOT_LINES_USED] > info->max_lines ||
	    line[SL_HOT_STRIPES_USED] > info->max_stripes || state > SL_STATE_CLOSED)
		return REGION_FAULT_HOT;
	*hot = (struct region_hot){
		.generation = line[SL_HOT_GENERATION],
		.schema_used = line[SL_HOT_SCHEMA_USED],
		.lines_used = (uint32_t)line[SL_HOT_LINES_USED],
		.stripes_used = (uint32_t)line[SL_HOT_STRIPES_USED],
		.state = state,
		.threads_sharing = line[SL_HOT_STATE] >> 8,
		.changed_ns = line[SL_HOT_CHANGED_NS],
		.refused = line[SL_HOT_REFUSED],
	};
	return REGION_FAULT_NONE;
}

enum region_fault region_hot_follows(const struct region_hot *before, const struct region_hot *now)
{
	if (now->generation < before->generation || now->schema_used < before->schema_used ||
	    now->lines_used < before->lines_used || now->stripes_used < before->stripes_used)
		return REGION_FAULT_HOT;
	return REGION_FAULT_NONE;
}

enum region_fault region_directory_hot_parse(const uint64_t line[8], const struct region_info *info,
					     struct region_directory_hot *hot)
{
	if (line[7] != sl_line_check(line))
		return REGION_FAULT_UNSETTLED;
	if (line[SL_DIR_ENTRIES_USED] > info->max_entries ||
	    line[SL_DIR_LIVE] > info->max_entries || line[SL_DIR_STATE] > SL_STATE_CLOSED)
		return REGION_FAULT_HOT;
	*hot = (struct region_directory_hot){
		.generation = line[SL_DIR_GENERATION],
		.entries_used = (uint32_t)line[SL_DIR_ENTRIES_USED],
		.live = (uint32_t)line[SL_DIR_LIVE],
		.refused = line[SL_DIR_REFUSED],
		.state = (uint32_t)line[SL_DIR_STATE],
		.changed_ns = line[SL_DIR_CHANGED_NS],
		.lease_ns = line[SL_DIR_LEASE_NS],
	};
	return REGION_FAULT_NONE;
}

enum region_fault region_entry_parse(const uint64_t line[8], struct region_entry *entry)
{
	uint64_t key = line[SL_ENTRY_KEY], addr = line[SL_ENTRY_ADDR];
	uint64_t length = line[SL_ENTRY_LENGTH];
	uint32_t state = SL_ENTRY_STATE(key), kind = SL_ENTRY_KIND(key);

	if (line[7] != sl_line_check(line))
		return REGION_FAULT_UNSETTLED;
	if (state > SL_STATE_RETIRED || key >> 48)
		return REGION_FAULT_HOT;
	if (state != SL_STATE_FREE) {
		/* Unknown kinds are no fault: a reader skips them. */
		if (!line[SL_ENTRY_ID] || !line[SL_ENTRY_INSTANCE] || !kind)
			return REGION_FAULT_HOT;
		if (length < SL_HEADER_SIZE + SL_LINE_SIZE || length > SL_REGION_SIZE_MAX ||
		    addr + length < addr)
			return REGION_FAULT_SIZE;
	}
	*entry = (struct region_entry){
		.id = line[SL_ENTRY_ID],
		.addr = addr,
		.length = length,
		.rkey = SL_ENTRY_RKEY(key),
		.state = state,
		.kind = kind,
		.generation = line[SL_ENTRY_GENERATION],
		.changed_ns = line[SL_ENTRY_CHANGED_NS],
		.instance = line[SL_ENTRY_INSTANCE],
	};
	return REGION_FAULT_NONE;
}

static void put_bytes(uint64_t *to, const uint8_t from[8])
{
	uint64_t v;

	memcpy(&v, from, sizeof(v));
	*to = __builtin_bswap64(v); /* big-endian; regions are little-endian */
}

static void get_bytes(uint8_t to[8], uint64_t from)
{
	from = __builtin_bswap64(from);
	memcpy(to, &from, sizeof(from));
}

enum region_fault region_tenant_parse(const uint64_t lines[16], struct region_tenant *t)
{
	const uint64_t *more = lines + 8;
	uint32_t flags = (uint32_t)(lines[SL_TENANT_UID] >> 32);

	if (lines[7] != sl_line_check(lines) || more[7] != sl_line_check(more) ||
	    lines[SL_TENANT_ID] != more[SL_TENANT_ID2])
		return REGION_FAULT_UNSETTLED;
	*t = (struct region_tenant){
		.id = lines[SL_TENANT_ID],
		.key = lines[SL_TENANT_KEY],
		.instance = more[SL_TENANT_INSTANCE],
		.uid = (uint32_t)lines[SL_TENANT_UID],
		.pid = (uint32_t)lines[SL_TENANT_PID],
		.trusted = flags & SL_TENANT_TRUSTED,
		.contained = flags & SL_TENANT_CONTAINED,
		.origin = flags & SL_TENANT_ORIGIN,
	};
	get_bytes(t->container, lines[SL_TENANT_CONTAINER0]);
	get_bytes(t->container + 8, lines[SL_TENANT_CONTAINER1]);
	get_bytes(t->pod, lines[SL_TENANT_POD0]);
	get_bytes(t->pod + 8, more[SL_TENANT_POD1]);
	return REGION_FAULT_NONE;
}

void region_tenant_write(uint64_t lines[16], const struct region_tenant *t)
{
	uint64_t flags = (t->trusted ? SL_TENANT_TRUSTED : 0) |
			 (t->contained ? SL_TENANT_CONTAINED : 0) |
			 (t->origin ? SL_TENANT_ORIGIN : 0);
	uint64_t *more = lines + 8;

	memset(lines, 0, SL_TENANT_SIZE);
	lines[SL_TENANT_ID] = more[SL_TENANT_ID2] = t->id;
	lines[SL_TENANT_KEY] = t->key;
	lines[SL_TENANT_UID] = t->uid | flags << 32;
	lines[SL_TENANT_PID] = t->pid;
	put_bytes(&lines[SL_TENANT_CONTAINER0], t->container);
	put_bytes(&lines[SL_TENANT_CONTAINER1], t->container + 8);
	put_bytes(&lines[SL_TENANT_POD0], t->pod);
	put_bytes(&more[SL_TENANT_POD1], t->pod + 8);
	more[SL_TENANT_INSTANCE] = t->instance;
	lines[7] = sl_line_check(lines);
	more[7] = sl_line_check(more);
}

bool region_is_name(const char name[REGION_NAME_BYTES])
{
	size_t n = strnlen(name, REGION_NAME_BYTES);

	for (size_t i = 0; i < n; i++)
		if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
		      (name[i] >= '0' && name[i] <= '9') || strchr("_.-", name[i])))
			return false;
	return n && n < REGION_NAME_BYTES;
}

/* Reads the name at *from and advances *from. */
static void get_name(char to[REGION_NAME_BYTES], const char **from, const char *end)
{
	size_t n = strnlen(*from, (size_t)(end - *from));

	if (n < REGION_NAME_BYTES)
		memcpy(to, *from, n);
	if (!region_is_name(to))
		*to = 0;
	*from += *from + n < end ? n + 1 : n;
}

enum region_fault region_names_parse(const uint64_t lines[SL_NAMES_SIZE / 8],
				     struct region_names *names)
{
	char text[SL_NAMES_TEXT];
	const char *at = text, *end = text + sizeof(text);

	for (size_t i = 0; i < SL_NAMES_SIZE / SL_LINE_SIZE; i++) {
		const uint64_t *line = lines + i * 8;

		if (line[7] != sl_line_check(line) || line[0] != lines[0])
			return REGION_FAULT_UNSETTLED;
		memcpy(text + i * 48, line + 1, 48);
	}
	*names = (struct region_names){.id = lines[0]};
	get_name(names->kube_namespace, &at, end);
	get_name(names->pod, &at, end);
	get_name(names->container, &at, end);
	return REGION_FAULT_NONE;
}

void region_names_write(uint64_t lines[SL_NAMES_SIZE / 8], const struct region_names *names)
{
	char text[SL_NAMES_TEXT] = "", *to = text;

	to = stpcpy(to, names->kube_namespace) + 1;
	to = stpcpy(to, names->pod) + 1;
	stpcpy(to, names->container);
	for (size_t i = 0; i < SL_NAMES_SIZE / SL_LINE_SIZE; i++) {
		uint64_t *line = lines + i * 8;

		line[0] = names->id;
		memcpy(line + 1, text + i * 48, 48);
		line[7] = sl_line_check(line);
	}
}
