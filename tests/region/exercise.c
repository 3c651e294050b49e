// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exercise.h"
#include "region/exemplars.h"
#include "region/flows.h"
#include "region/layers.h"
#include "region/tasks.h"

#define must(cond)                                                                         \
	do {                                                                               \
		if (!(cond)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                           \
		}                                                                          \
	} while (0)

/* Makes a copy that ends at the end of its allocation, so that reads beyond it are detected. */
static void *exact_copy(const void *from, size_t bytes)
{
	void *copy = malloc(bytes ? bytes : 1);

	must(copy);
	memcpy(copy, from, bytes);
	return copy;
}

static void check_text(const char *s, size_t max)
{
	must(strlen(s) <= max);
}

static void check_info(const struct region_info *info, size_t size)
{
	must(info->size <= size && info->hot >= SL_HEADER_SIZE && info->hot + 64 <= info->size);
	must(info->label_count <= SL_LABELS_MAX);
	for (uint32_t i = 0; i < info->label_count; i++) {
		check_text(info->labels[i].key, SL_NAME_MAX);
		check_text(info->labels[i].value, SL_LABEL_VALUE_MAX);
	}
	if (info->kind == SL_REGION_METRICS) {
		must(info->stripes + (uint64_t)info->stripe_stride * info->max_stripes <=
		     info->size);
		must(info->schema + info->schema_bytes <= info->size);
		must((uint64_t)info->max_lines * 64 == info->stripe_stride);
	} else {
		must(info->entries + (uint64_t)info->max_entries * 64 <= info->size);
	}
}

static void check_metric(const struct region_metric *m, const struct region_info *info, bool *taken)
{
	bool unknown = m->removed && m->replaceable;

	check_text(m->name, SL_NAME_MAX);
	check_text(m->unit, SL_NAME_MAX);
	check_text(m->help, SL_HELP_MAX);
	must(*m->name || unknown);
	must(m->label_count <= SL_LABELS_MAX);
	for (uint32_t i = 0; i < m->label_count; i++) {
		check_text(m->labels[i].key, SL_NAME_MAX);
		check_text(m->labels[i].value, SL_LABEL_VALUE_MAX);
		must(!i || strcmp(m->labels[i - 1].key, m->labels[i].key) < 0);
	}
	must(m->bound_count < SL_BUCKETS_MAX && m->bucket_count <= SL_BUCKETS_MAX);
	for (uint32_t i = 0; i < m->bound_count; i++)
		must(isfinite(m->bounds[i]) && (!i || m->bounds[i - 1] < m->bounds[i]));
	must(m->state_count <= SL_STATES_MAX);
	for (uint32_t i = 0; i < m->state_count; i++)
		check_text(m->states[i], SL_NAME_MAX);
	must(m->cell + (uint64_t)m->cells <= (uint64_t)info->max_lines * SL_LINE_CELLS);
	for (uint32_t i = 0; i < m->cells; i++) {
		must(!taken[m->cell + i]);
		taken[m->cell + i] = true;
	}
	if (m->bucket_count)
		must(m->bucket_count + SL_HIST_BUCKETS == m->cells);
}

static enum region_fault read_schema(const uint8_t *data, const struct region_info *info,
				     const struct region_hot *hot, struct region_schema *schema)
{
	size_t cells = (size_t)info->max_lines * SL_LINE_CELLS;
	enum region_fault fault = REGION_FAULT_NONE;
	bool *taken = calloc(1, cells);
	uint64_t lines = region_created_lines(info, hot->schema_used);
	uint64_t(*created)[8] = exact_copy(data + info->created, lines * 64);

	must(taken && lines <= info->created_lines);
	for (uint64_t i = 0; i < lines; i++)
		if (created[i][7] != sl_mixed_check(created[i]))
			memset(created[i], 0, 64); /* a reader would read them again */
	if (info->created) {
		schema->created = (const uint64_t(*)[8])created;
		schema->created_lines = lines;
	}

	/* In two pieces split anywhere; the part that is cut off comes with the second. */
	for (int piece = 1; piece <= 2; piece++) {
		uint64_t end = piece == 1 ? hot->schema_used / 16 * 8 : hot->schema_used;
		void *copy;

		if (end < schema->parsed)
			continue;
		copy = exact_copy(data + info->schema + schema->parsed, end - schema->parsed);
		fault = region_schema_append(schema, info, copy, end - schema->parsed);
		free(copy);
		if (fault && fault != REGION_FAULT_CHECK)
			break;
	}
	must(schema->parsed <= hot->schema_used);
	must(fault || schema->parsed == hot->schema_used);
	for (size_t i = 0; i < schema->count; i++)
		check_metric(schema->metrics[i], info, taken);
	while (cells && !taken[cells - 1])
		cells--;
	must(schema->cells >= cells && (schema->skipped || schema->cells == cells));
	schema->created = NULL;
	free(created);
	/* Memory used is bounded by the memory that the publisher used. */
	must(schema->bytes <= 8 * schema->parsed + schema->cells / 4 + 8192);
	free(taken);
	return fault;
}

static void read_values(const uint8_t *data, const struct region_info *info,
			const struct region_hot *hot, const struct region_schema *schema)
{
	size_t bytes = (size_t)hot->lines_used * 64;
	struct region_values v;
	uint64_t *out, *retry;

	region_values_init(&v);
	must(!region_values_resize(&v, hot->lines_used, hot->stripes_used));
	retry = calloc(hot->lines_used / 64 + 1, 8);
	out = calloc(schema->cells + 1, 8);
	must(retry && out);
	out[schema->cells] = 0x5a5a;
	for (uint32_t s = 0; s < hot->stripes_used; s++) {
		const uint8_t *at = data + info->stripes + (uint64_t)s * info->stripe_stride;
		uint64_t(*copy)[8] = exact_copy(at, bytes);
		uint32_t failed = region_values_update(&v, s, 0, (const uint64_t(*)[8])copy,
						       hot->lines_used, retry),
			 bits = 0;

		for (uint32_t l = 0; l < hot->lines_used; l++) {
			bool bad = sl_stripe_check(s, copy[l]) != copy[l][7];
			const uint64_t *good = v.line + ((size_t)s * v.lines + l) * 8;

			must(bad == (retry[l / 64] >> l % 64 & 1));
			must(sl_stripe_check(s, good) == good[7]);
			bits += bad;
		}
		must(bits == failed);
		free(copy);
	}
	region_values_flatten(&v, schema->specials, schema->special_count, schema->cells, out);
	must(out[schema->cells] == 0x5a5a);
	for (size_t i = 0; i < schema->count; i++) {
		const struct region_metric *m = schema->metrics[i];

		if (m->kind == SL_KIND_COUNTER && !m->removed && !(m->flags & SL_FLAG_MIRROR) &&
		    m->cell < (uint64_t)v.lines * 7 && v.stripes)
			must(out[m->cell] == region_values_u64(&v, m->cell));
	}
	free(out);
	free(retry);
	region_values_free(&v);
}

static void read_exemplars(const uint8_t *data, const struct region_info *info,
			   const struct region_schema *schema)
{
	struct region_exemplars_head head;
	struct region_exemplar e;
	uint64_t *words = exact_copy(data + info->exemplars, 64);

	if (!region_exemplars_head_parse(words, info, &head))
		must(head.used <= info->max_exemplars);
	free(words);
	for (uint32_t i = 1; i < info->max_exemplars; i++) {
		words = exact_copy(data + info->exemplars + (uint64_t)i * SL_EXEMPLAR_SIZE,
				   SL_EXEMPLAR_SIZE);
		if (!region_exemplar_parse(words, &e)) {
			must(e.label_count <= SL_LABELS_MAX);
			for (uint32_t k = 0; k < e.label_count; k++)
				check_text(e.labels[k].value, SL_EXEMPLAR_LABELS - 2);
			for (size_t k = 0; k < schema->count; k++)
				if (region_exemplar_fits(&e, schema->metrics[k]))
					must(e.cell < schema->metrics[k]->cells);
		}
		free(words);
	}
}

static void repair(const uint8_t *data, size_t size, const struct region_info *info)
{
	uint8_t *map = exact_copy(data, size);
	struct region_hot hot;

	region_repair(map, info);
	must(region_repair(map, info) == 0);
	if (info->kind == SL_REGION_METRICS)
		must(region_hot_parse((uint64_t *)(map + info->hot), info, &hot) !=
		     REGION_FAULT_UNSETTLED);
	free(map);
}

static enum region_fault read_directory(const uint8_t *data, const struct region_info *info)
{
	struct region_directory_hot hot;
	uint64_t line[8];
	enum region_fault fault, first;

	memcpy(line, data + info->hot, 64);
	first = region_directory_hot_parse(line, info, &hot);
	if (first)
		return first;
	must(hot.entries_used <= info->max_entries);
	for (uint32_t i = 0; i < hot.entries_used; i++) {
		struct region_entry e;

		memcpy(line, data + info->entries + (uint64_t)i * 64, 64);
		fault = region_entry_parse(line, &e);
		if (!fault && e.state != SL_STATE_FREE)
			must(e.length >= SL_HEADER_SIZE && e.length <= SL_REGION_SIZE_MAX &&
			     e.addr + e.length >= e.addr && e.instance && e.id);
		if (!first)
			first = fault;
	}
	return first;
}

/* A table of connections: every slot, and every line of the journal under every number. */
static enum region_fault read_flows(const uint8_t *data, const struct sl_region_header *header,
				    size_t size)
{
	struct region_flow_record record;
	struct region_flows_info info;
	struct region_flows_hot hot;
	char text[64];
	enum region_fault fault = region_flows_info_parse(header, size, &info);
	uint64_t slot[64];
	struct region_flow f;

	if (fault)
		return fault;
	must(info.hot + 64 <= info.size && info.size <= size);
	must(info.flows + (uint64_t)info.slots * SL_FLOW_SIZE <= info.size);
	must(info.journal + (uint64_t)info.journal_lines * 64 <= info.size);
	memcpy(slot, data + info.hot, 64);
	fault = region_flows_hot_parse(slot, &info, &hot);
	must(fault || hot.used <= info.slots);
	for (uint32_t i = 0; i < info.slots; i++) {
		memcpy(slot, data + info.flows + (uint64_t)i * SL_FLOW_SIZE, sizeof(slot));
		if (region_flow_parse(slot, &f) || f.state == SL_STATE_FREE)
			continue;
		must(f.id && (f.family == 4 || f.family == 6) && strlen(f.comm) <= 16);
		must(region_flow_address(f.local, text) && region_flow_address(f.remote, text));
		must(*region_tcp_state_name(f.tcp_state) && (region_flow_duration(&f, 0), true));
	}
	for (uint32_t i = 0; i < info.cgroup_slots; i++) {
		struct region_flow_cgroup who;

		memcpy(slot, data + info.cgroups + (uint64_t)i * SL_FLOW_CGROUP_SIZE, sizeof(slot));
		if (region_flow_cgroup_parse(slot, &who))
			continue;
		for (int n = 0; n < SL_CGROUP_TEXTS; n++)
			for (const char *c = who.name[n]; *c; c++)
				must((unsigned char)*c >= ' ' && *c != 127);
	}
	for (uint32_t i = 0; i < info.journal_lines; i++) {
		memcpy(slot, data + info.journal + (uint64_t)i * 64, 64);
		region_flow_event_parse(slot, slot[0] >> 8, &record);
	}
	return fault;
}

static enum region_fault read_layers(const uint8_t *data, const struct sl_region_header *header,
				     size_t size)
{
	static struct region_layer_view v;
	uint64_t slot[SL_SLOT_WORDS], sum[SL_CAUSES] = {0};
	struct region_layers_info info;
	struct region_layers_hot hot;
	enum region_fault fault = region_layers_info_parse(header, size, &info);

	if (fault)
		return fault;
	must(info.losses.offset + (uint64_t)info.losses.stride * info.losses.count <= info.size);
	memcpy(slot, data + info.hot, 64);
	fault = region_layers_hot_parse(slot, &info, &hot);
	must(fault || (hot.flows_used <= info.flow_slots && hot.groups_used <= info.group_slots));
	for (uint32_t i = 0; i < info.losses.count; i++) {
		memcpy(slot, data + info.losses.offset + (uint64_t)i * info.losses.stride, 256);
		region_losses_add(slot, SL_CAUSES, sum);
	}
	for (uint32_t i = 0; i < info.flow_slots + info.group_slots; i++) {
		bool group = i >= info.flow_slots;
		uint64_t at = group ? info.groups + (uint64_t)(i - info.flow_slots) * sizeof(slot)
				    : info.flows + (uint64_t)i * sizeof(slot);

		memcpy(slot, data + at, sizeof(slot));
		if (region_layer_parse(slot, i == info.flow_slots, &v) ||
		    (v.state == SL_SLOT_FREE && i != info.flow_slots))
			continue;
		for (int l = 0; l < SL_LAYERS; l++)
			must(!(region_layer_quantile(v.cell[l], 0.5) < 0));
	}
	return fault;
}

static enum region_fault read_tasks(const uint8_t *data, const struct sl_region_header *header,
				    size_t size)
{
	struct region_tasks_info info;
	struct region_tasks_hot hot;
	struct region_cpu_row row;
	enum region_fault fault = region_tasks_info_parse(header, size, &info);
	uint64_t line[8], sum[SL_TASK_LOSSES] = {0}, *slot;

	if (fault)
		return fault;
	must(info.losses.offset + (uint64_t)info.losses.stride * info.losses.count <= info.size);
	must(info.cpus && info.cpus <= SL_TASK_CPUS_MAX);
	memcpy(line, data + info.hot, 64);
	fault = region_tasks_hot_parse(line, &info, &hot);
	must(fault || (hot.tasks_used <= info.task_slots && hot.cgroups_used <= info.cgroup_slots));
	memcpy(line, data + info.losses.offset, 64);
	region_losses_add(line, SL_TASK_LOSSES, sum);
	for (uint32_t i = 0; i < info.task_slots; i++) {
		slot = exact_copy(data + info.tasks + (uint64_t)i * SL_TASK_SIZE, SL_TASK_SIZE);
		if (!region_task_parse(slot, &row)) {
			must(strlen(row.comm) <= 16);
			region_cpu_wait_quantile(&row.n, 0.99);
		}
		free(slot);
	}
	for (uint32_t i = 0; i < info.cgroup_slots; i++) {
		size_t bytes = (size_t)info.cpus * SL_TASK_SIZE;

		slot = exact_copy(data + info.cgroups + i * bytes, bytes);
		region_task_cgroup_parse(slot, info.cpus, !i, &row);
		free(slot);
	}
	return fault;
}

/* Kinds that the kernel writes: none of them has metrics. */
static enum region_fault read_kernel(const uint8_t *data, const struct sl_region_header *header,
				     size_t size)
{
	switch (header->kind) {
	case SL_REGION_FLOWS:
		return read_flows(data, header, size);
	case SL_REGION_LAYERS:
		return read_layers(data, header, size);
	default:
		return read_tasks(data, header, size);
	}
}

enum region_fault exercise_region(const uint8_t *data, size_t size)
{
	struct sl_region_header *header;
	struct region_info *info;
	struct region_schema schema;
	enum region_fault fault;
	uint64_t line[8];
	struct region_hot hot;

	if (size < SL_HEADER_SIZE)
		return REGION_FAULT_SIZE;
	header = exact_copy(data, SL_HEADER_SIZE);
	info = malloc(sizeof(*info));
	must(info);
	fault = region_info_parse(header, size, info);
	if (header->kind > SL_REGION_DIRECTORY) {
		must(fault);
		fault = read_kernel(data, header, size);
		free(header);
		goto out;
	}
	free(header);
	if (fault)
		goto out;
	check_info(info, size);
	repair(data, size, info);
	if (info->kind == SL_REGION_DIRECTORY) {
		fault = read_directory(data, info);
		goto out;
	}
	memcpy(line, data + info->hot, 64);
	fault = region_hot_parse(line, info, &hot);
	if (fault)
		goto out;
	region_schema_init(&schema);
	fault = read_schema(data, info, &hot, &schema);
	read_values(data, info, &hot, &schema);
	read_exemplars(data, info, &schema);
	region_schema_free(&schema);
out:
	free(info);
	return fault;
}

void exercise_fix_checks(uint8_t *data, size_t size)
{
	struct sl_region_header h;
	uint64_t line[8], check;

	if (size < SL_HEADER_SIZE)
		return;
	check = sl_fnv1a(SL_FNV_BASIS, data, 4088);
	memcpy(data + 4088, &check, 8);
	memcpy(&h, data, sizeof(h));
	for (uint32_t i = 0; i < SL_SECTIONS_MAX; i++) {
		const struct sl_region_section *s = &h.section[i];

		if (s->offset < SL_HEADER_SIZE || s->offset > size || s->length > size - s->offset)
			continue;
		if (s->type == SL_SECTION_HOT || s->type == SL_SECTION_ENTRIES ||
		    s->type == SL_SECTION_LOSSES ||
		    (s->type >= SL_SECTION_LAYER_FLOWS && s->type <= SL_SECTION_TASK_CGROUPS))
			for (uint64_t at = 0; at + 64 <= s->length; at += 64) {
				memcpy(line, data + s->offset + at, 64);
				check = sl_line_check(line);
				memcpy(data + s->offset + at + 56, &check, 8);
			}
		if (s->type == SL_SECTION_FLOWS || s->type == SL_SECTION_JOURNAL ||
		    s->type == SL_SECTION_CGROUPS || s->type == SL_SECTION_NIC_RING ||
		    (h.kind == SL_REGION_FLOWS && s->type == SL_SECTION_HOT))
			for (uint64_t at = 0; at + 64 <= s->length; at += 64) {
				memcpy(line, data + s->offset + at, 64);
				check = sl_folded_check(line);
				memcpy(data + s->offset + at + 56, &check, 8);
			}
		if (s->type == SL_SECTION_CREATED || s->type == SL_SECTION_EXEMPLARS)
			for (uint64_t at = 0; at + 64 <= s->length; at += 64) {
				memcpy(line, data + s->offset + at, 64);
				check = s->type == SL_SECTION_CREATED ? sl_mixed_check(line)
					: at < 256		      ? sl_line_check(line)
								      : sl_sealed_check(line);
				memcpy(data + s->offset + at + 56, &check, 8);
			}
		if (s->type != SL_SECTION_SCHEMA)
			continue;
		for (uint64_t at = 0; at + sizeof(struct sl_schema_record) <= s->length;) {
			uint8_t *r = data + s->offset + at;
			uint32_t length;

			memcpy(&length, r, 4);
			if (length < sizeof(struct sl_schema_record) || length % 8 ||
			    length > s->length - at)
				break;
			memset(r + 56, 0, 8);
			check = sl_fnv1a(SL_FNV_BASIS, r, length);
			memcpy(r + 56, &check, 8);
			at += length;
		}
	}
}
