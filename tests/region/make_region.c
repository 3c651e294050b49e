// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "make_region.h"

static void begin(struct make *m, size_t size, uint32_t kind)
{
	memset(m, 0, sizeof(*m));
	m->size = size;
	m->mem = aligned_alloc(4096, size);
	if (!m->mem)
		abort();
	memset(m->mem, 0, size);
	m->header = (struct sl_region_header *)m->mem;
	m->hot = (uint64_t *)(m->mem + SL_HEADER_SIZE);
	memcpy(m->header->magic, SL_REGION_MAGIC, 8);
	m->header->version = SL_REGION_VERSION;
	m->header->header_size = SL_HEADER_SIZE;
	m->header->size = size;
	m->header->kind = kind;
	m->header->pid = 4711;
	m->header->instance = 0x1122334455667788ull;
	m->header->start_ns = 1700000000000000000ull;
	m->header->start_ticks = 12345;
	for (unsigned int i = 0; i < 16; i++)
		m->header->boot_id[i] = (uint8_t)(i * 17);
	m->header->section[0] = (struct sl_region_section){SL_SECTION_HOT, 64, SL_HEADER_SIZE,
							   SL_LINE_SIZE};
	m->header->section_count = 1;
}

void make_metrics(struct make *m, uint32_t lines, uint32_t stripes, size_t schema_bytes,
		  const char *labels, size_t label_bytes)
{
	uint32_t stride = (lines * SL_LINE_SIZE + 4095) / 4096 * 4096;
	uint64_t at = 2 * 4096, schema;

	schema_bytes = (schema_bytes + 4095) / 4096 * 4096;
	schema = at + (uint64_t)stride * stripes;
	begin(m, schema + schema_bytes, SL_REGION_METRICS);
	m->stride = stride;
	m->max_stripes = stripes;
	m->stripes = m->mem + at;
	m->schema = m->mem + schema;
	m->schema_bytes = schema_bytes;
	m->header->section[1] = (struct sl_region_section){SL_SECTION_STRIPES, stride, at,
							   (uint64_t)stride * stripes};
	m->header->section[2] = (struct sl_region_section){SL_SECTION_SCHEMA, 8, schema,
							   schema_bytes};
	m->header->section_count = 3;
	m->header->label_bytes = (uint32_t)label_bytes;
	if (label_bytes)
		memcpy(m->header->labels, labels, label_bytes);
	make_header_check(m);
	make_set(m->hot, SL_HOT_STRIPES_USED, stripes);
	make_set(m->hot, SL_HOT_STATE, SL_STATE_LIVE);
	make_set(m->hot, SL_HOT_CHANGED_NS, m->header->start_ns);
}

/* Appends memory for one more section of a region of metrics; returns where it begins. */
static uint8_t *extend(struct make *m, uint32_t type, uint32_t stride, uint64_t length)
{
	size_t at = m->size, size = at + (length + 4095) / 4096 * 4096;
	uint8_t *mem = aligned_alloc(4096, size);

	if (!mem)
		abort();
	memcpy(mem, m->mem, at);
	memset(mem + at, 0, size - at);
	m->stripes = mem + (m->stripes - m->mem);
	m->schema = mem + (m->schema - m->mem);
	if (m->created)
		m->created = (uint64_t(*)[8])(mem + ((uint8_t *)m->created - m->mem));
	if (m->exemplars)
		m->exemplars = (uint64_t(*)[32])(mem + ((uint8_t *)m->exemplars - m->mem));
	free(m->mem);
	m->mem = mem;
	m->size = size;
	m->header = (struct sl_region_header *)mem;
	m->hot = (uint64_t *)(mem + SL_HEADER_SIZE);
	m->header->size = size;
	m->header->minor = 1;
	m->header->section[m->header->section_count++] = (struct sl_region_section){type, stride,
										    at, length};
	make_header_check(m);
	return mem + at;
}

void make_created(struct make *m, uint32_t records)
{
	m->created_lines = (records + 6) / 7;
	m->created = (uint64_t(*)[8])extend(m, SL_SECTION_CREATED, 64,
					    (uint64_t)m->created_lines * 64);
	for (uint32_t i = 0; i < m->created_lines * 7; i++)
		make_set_mixed(m->created[i / 7], i % 7, m->header->start_ns);
}

void make_exemplars(struct make *m, uint32_t elements)
{
	m->max_exemplars = elements;
	m->exemplars = (uint64_t(*)[32])extend(m, SL_SECTION_EXEMPLARS, 256,
					       (uint64_t)elements * 256);
}

void make_directory(struct make *m, uint32_t entries)
{
	size_t bytes = ((size_t)entries * 64 + 4095) / 4096 * 4096;

	begin(m, 2 * 4096 + bytes, SL_REGION_DIRECTORY);
	m->entries = (uint64_t(*)[8])(m->mem + 2 * 4096);
	m->max_entries = entries;
	m->header->section[1] = (struct sl_region_section){SL_SECTION_ENTRIES, 64, 2 * 4096,
							   (uint64_t)entries * 64};
	m->header->section_count = 2;
	m->header->label_bytes = 12;
	memcpy(m->header->labels, "host\0node-1", 12);
	make_header_check(m);
	make_set(m->hot, SL_DIR_STATE, SL_STATE_LIVE);
	make_set(m->hot, SL_DIR_LEASE_NS, 1000000000);
}

void make_free(struct make *m)
{
	free(m->mem);
	memset(m, 0, sizeof(*m));
}

void make_header_check(struct make *m)
{
	m->header->check = sl_fnv1a(SL_FNV_BASIS, m->mem, 4088);
}

void make_check(uint64_t *line)
{
	line[7] = 0;
	for (unsigned int i = 0; i < 7; i++)
		line[7] += line[i] * sl_line_k[i];
}

void make_set(uint64_t *line, unsigned int cell, uint64_t value)
{
	line[7] += (value - line[cell]) * sl_line_k[cell];
	line[cell] = value;
}

static uint64_t mixed(uint64_t cell, unsigned int i)
{
	unsigned __int128 product = (unsigned __int128)cell * sl_line_k[i];

	return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

void make_set_mixed(uint64_t *line, unsigned int cell, uint64_t value)
{
	line[7] += mixed(value, cell) - mixed(line[cell], cell);
	line[cell] = value;
}

static uint16_t put(uint8_t **to, const char *s)
{
	size_t n = s ? strlen(s) : 0;

	if (n)
		memcpy(*to, s, n);
	*to += n;
	return (uint16_t)n;
}

static uint16_t put_list(uint8_t **to, const char *const *list)
{
	uint8_t *start = *to;

	for (; *list; list++) {
		memcpy(*to, *list, strlen(*list) + 1);
		*to += strlen(*list) + 1;
	}
	return (uint16_t)(*to - start);
}

size_t make_record(const struct make *m, const struct make_metric *metric, uint8_t *out)
{
	struct sl_schema_record r = {
		.kind = metric->kind,
		.flags = metric->flags,
		.cell = m->next_cell,
		.cells = 1,
		.id = m->next_id,
		.generation = (uint32_t)m->hot[SL_HOT_GENERATION] + 1,
		.bound_count = metric->bound_count,
	};
	uint8_t *to = out + sizeof(r);

	if (metric->bound_count)
		memcpy(to, metric->bounds, metric->bound_count * sizeof(double));
	to += metric->bound_count * sizeof(double);
	r.name_bytes = put(&to, metric->name);
	r.unit_bytes = put(&to, metric->unit);
	r.help_bytes = put(&to, metric->help);
	r.label_bytes = put_list(&to, metric->labels);
	r.state_bytes = put_list(&to, metric->states);
	while (metric->states[r.state_count])
		r.state_count++;
	switch (metric->kind & ~SL_KIND_REPLACEABLE) {
	case SL_KIND_SUMMARY:
		r.cells = 2u + metric->bound_count;
		break;
	case SL_KIND_GAUGE_TIMED:
		r.cells = 2;
		break;
	case SL_KIND_HISTOGRAM:
	case SL_KIND_GAUGE_HISTOGRAM:
		r.cells = 3u + metric->bound_count;
		break;
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_GAUGE_HISTOGRAM_EXP:
		r.cells = 4 + metric->buckets;
		r.scale = metric->scale;
		r.first_bucket = metric->first_bucket;
		r.zero_threshold = metric->zero_threshold;
		break;
	case SL_KIND_INFO:
		r.cell = r.cells = 0;
		break;
	}
	while ((to - out) % 8)
		*to++ = 0;
	memset(to, 0, metric->spare);
	to += metric->spare;
	r.length = (uint32_t)(to - out);
	memcpy(out, &r, sizeof(r));
	make_record_check(out);
	return r.length;
}

void make_record_check(uint8_t *record)
{
	struct sl_schema_record r;
	uint64_t zero = 0;

	memcpy(&r, record, sizeof(r));
	memcpy(record + offsetof(struct sl_schema_record, check), &zero, 8);
	r.check = sl_fnv1a(SL_FNV_BASIS, record, r.length);
	memcpy(record + offsetof(struct sl_schema_record, check), &r.check, 8);
}

void make_append(struct make *m, const uint8_t *record)
{
	struct sl_schema_record r;
	uint64_t used = m->hot[SL_HOT_SCHEMA_USED];

	memcpy(&r, record, sizeof(r));
	if (r.length > m->schema_bytes - used)
		abort();
	memcpy(m->schema + used, record, r.length);
	m->next_id++;
	if (r.cells)
		m->next_cell = r.cell + r.cells;
	if (m->next_cell > m->cells)
		m->cells = m->next_cell;
	make_set(m->hot, SL_HOT_LINES_USED, (m->cells + 6) / 7);
	make_set(m->hot, SL_HOT_SCHEMA_USED, used + r.length);
	make_set(m->hot, SL_HOT_GENERATION, m->hot[SL_HOT_GENERATION] + 1);
}

uint32_t make_metric(struct make *m, const struct make_metric *metric)
{
	static uint8_t record[1 << 18];
	uint32_t cell = m->next_cell;

	make_record(m, metric, record);
	make_append(m, record);
	return cell;
}

uint64_t *make_line(const struct make *m, uint32_t stripe, uint32_t line)
{
	return (uint64_t *)(m->stripes + (size_t)stripe * m->stride + (size_t)line * 64);
}

void make_cell_set(struct make *m, uint32_t stripe, uint32_t cell, uint64_t value)
{
	uint64_t *line = make_line(m, stripe, cell / 7);

	if (stripe)
		make_set(line, cell % 7, value);
	else
		make_set_mixed(line, cell % 7, value);
}

void make_cell_add(struct make *m, uint32_t stripe, uint32_t cell, uint64_t n)
{
	make_cell_set(m, stripe, cell, make_cell(m, stripe, cell) + n);
}

uint64_t make_cell(const struct make *m, uint32_t stripe, uint32_t cell)
{
	return make_line(m, stripe, cell / 7)[cell % 7];
}

void make_created_set(struct make *m, uint32_t id, uint64_t ns)
{
	make_set_mixed(m->created[id / 7], id % 7, ns);
	make_set(m->hot, SL_HOT_GENERATION, m->hot[SL_HOT_GENERATION] + 1);
}

void make_replace(struct make *m, uint64_t at, const struct make_metric *metric, uint64_t ns)
{
	static uint8_t record[1 << 18];
	struct make as = *m;
	struct make_metric with = *metric;
	struct sl_schema_record old, now;

	memcpy(&old, m->schema + at, sizeof(old));
	as.next_id = old.id;
	as.next_cell = old.cell;
	with.spare = 0;
	with.spare = old.length - (uint32_t)make_record(&as, &with, record);
	make_record(&as, &with, record);
	memcpy(&now, record, sizeof(now));
	if (now.length != old.length || now.cells != old.cells || now.kind != old.kind)
		abort();
	for (uint32_t c = 0; c < old.cells; c++)
		for (uint32_t s = 0; s < m->max_stripes; s++)
			make_cell_set(m, s, old.cell + c, 0);
	memcpy(m->schema + at, record, old.length);
	make_created_set(m, old.id, ns);
}

static uint64_t sealed_pair(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

void make_exemplar(struct make *m, uint32_t element, uint32_t id, uint32_t cell, double value,
		   uint64_t ns, const char *labels, size_t label_bytes)
{
	uint64_t *head = m->exemplars[0], *e = m->exemplars[element], number = (e[0] >> 16) + 1;
	uint8_t text[8 + 3 * 48] = {0};

	memcpy(text, labels, label_bytes < sizeof(text) ? label_bytes : sizeof(text));
	e[1] = id | (uint64_t)cell << 32;
	e[2] = m->created && id / 7 < m->created_lines ? m->created[id / 7][id % 7] : 0;
	memcpy(&e[3], &value, 8);
	e[4] = ns;
	e[5] = label_bytes;
	memcpy(&e[6], text, 8);
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t *line = e + i * 8;

		line[0] = number << 16 | i;
		if (i)
			memcpy(line + 1, text + 8 + (i - 1) * 48, 48);
		line[7] = sealed_pair(line[6] ^ sl_line_k[6], sl_line_k[0]);
		for (int k = 0; k < 6; k += 2)
			line[7] += sealed_pair(line[k] ^ sl_line_k[k],
					       line[k + 1] ^ sl_line_k[k + 1]);
	}
	if (head[0] <= element)
		make_set(head, 0, element + 1);
	make_set(head, 1, head[1] + 1);
}

void make_entry(struct make *m, uint32_t index, uint64_t id, uint64_t addr, uint64_t length,
		uint32_t rkey, uint32_t state, uint32_t kind, uint64_t instance)
{
	uint64_t *e = m->entries[index];

	e[SL_ENTRY_ID] = id;
	e[SL_ENTRY_ADDR] = addr;
	e[SL_ENTRY_LENGTH] = length;
	e[SL_ENTRY_KEY] = SL_ENTRY_KEY_OF(rkey, state, kind);
	e[SL_ENTRY_GENERATION]++;
	e[SL_ENTRY_CHANGED_NS] = 1700000000000000000ull + id;
	e[SL_ENTRY_INSTANCE] = instance;
	make_check(e);
	if (m->hot[SL_DIR_ENTRIES_USED] <= index)
		make_set(m->hot, SL_DIR_ENTRIES_USED, index + 1);
	make_set(m->hot, SL_DIR_GENERATION, m->hot[SL_DIR_GENERATION] + 1);
	if (state == SL_STATE_LIVE)
		make_set(m->hot, SL_DIR_LIVE, m->hot[SL_DIR_LIVE] + 1);
}
