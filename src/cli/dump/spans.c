// SPDX-License-Identifier: Apache-2.0
/* spans.c - reads the span rings of a region once, and prints them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/common/common.h"
#include "cli/dump/dump.h"

#define TRIES 100u
/* read only the last lines: a corrupt head may claim more lines than exist */
#define LINES_MAX 65536u

static bool read_ring(struct cli_dump *d, uint32_t i)
{
	uint32_t size = d->info.span_lines, roots = SL_SPAN_ROOTS(size), most;
	struct cli_dump_ring *g = &d->ring[i];
	uint64_t line[8];

	for (uint32_t try = 0; try < TRIES && !g->settled; try++) {
		if (!cli_dump_read_at(d, line, SL_LINE_SIZE, region_span_head_at(&d->info, i)))
			return false;
		g->settled = !region_span_head_parse(line, &g->head);
	}
	if (!g->settled) {
		d->unsettled++;
		return true;
	}
	most = BASE_MIN(size, LINES_MAX);
	g->lines = g->head.lines < most ? (uint32_t)g->head.lines : most;
	g->first = g->head.lines - g->lines;
	most = BASE_MIN(roots, LINES_MAX);
	g->roots = g->head.roots < most ? (uint32_t)g->head.roots : most;
	g->line = malloc((g->lines + 1ull) * sizeof(*g->line));
	g->root = malloc((g->roots + 1ull) * sizeof(*g->root));
	if (!g->line || !g->root)
		return false;
	for (uint32_t k = 0; k < g->lines; k++)
		if (!cli_dump_read_at(d, g->line[k], SL_LINE_SIZE,
				      region_span_line_at(&d->info, i, g->first + k)))
			return false;
	for (uint32_t k = 0; k < g->roots; k++)
		if (!cli_dump_read_at(
			    d, g->root[k], SL_LINE_SIZE,
			    region_span_root_at(&d->info, i, g->head.roots - g->roots + k)))
			return false;
	return true;
}

bool cli_dump_spans_read(struct cli_dump *d)
{
	if (!d->info.spans)
		return true;
	d->ring = calloc(d->hot.stripes_used + 1u, sizeof(*d->ring));
	if (!d->ring)
		return false;
	for (; d->rings < d->hot.stripes_used; d->rings++)
		if (!read_ring(d, d->rings))
			return false;
	return true;
}

void cli_dump_spans_free(struct cli_dump *d)
{
	for (uint32_t i = 0; d->ring && i <= d->rings; i++) {
		free(d->ring[i].line);
		free(d->ring[i].root);
	}
	free(d->ring);
}

/* Output */

static const char *const kinds[] = {"internal", "server", "client", "producer", "consumer"};
static const char *const statuses[] = {"unset", "ok", "error"};

static const char *string_of(const struct cli_dump *d, uint32_t id)
{
	const char *s = region_schema_string(&d->schema, id);

	return s ? s : "?";
}

/* Calls fn for each well-formed span. Returns the number of lines that belong to no such span. */
static uint64_t each_span(const struct cli_dump *d, const struct cli_dump_ring *g,
			  void (*fn)(const struct cli_dump *, const struct region_span_data *,
				     uint64_t, struct base_json *),
			  struct base_json *j)
{
	struct region_span_data *data = malloc(sizeof(*data));
	uint64_t lost = 0;
	uint32_t n;

	for (uint32_t i = 0; data && i < g->lines; i += n) {
		if (region_span_parse((const uint64_t(*)[8])g->line + i, g->lines - i, g->first + i,
				      data, &n) == REGION_SPAN_LINE_GOOD)
			fn(d, data, g->first + i, j);
		else
			lost += n;
	}
	free(data);
	return lost;
}

static void text_span(const struct cli_dump *d, const struct region_span_data *s, uint64_t number,
		      struct base_json *unused)
{
	(void)unused;
	printf("  %8" PRIu64 " %016" PRIx64 "%016" PRIx64 " %016" PRIx64 " %016" PRIx64
	       " %.9f +%.9f %s %s ",
	       number, s->trace_hi, s->trace_lo, s->span_id, s->parent_id,
	       (double)s->start_ns * 1e-9, (double)s->duration_ns * 1e-9, kinds[s->kind],
	       statuses[s->status]);
	cli_print_safe(string_of(d, s->name), 0);
	for (uint32_t i = 0; i < s->attr_count; i++) {
		const struct region_span_attr *a = &s->attrs[i];

		putchar(' ');
		cli_print_safe(string_of(d, a->key), 0);
		putchar('=');
		if (a->type == SL_SPAN_TYPE_STRING)
			cli_print_safe(a->string, 0);
		else if (a->type == SL_SPAN_TYPE_F64)
			printf("%.17g", a->f64);
		else if (a->type == SL_SPAN_TYPE_BOOL)
			fputs(a->boolean ? "true" : "false", stdout);
		else
			printf("%" PRId64, a->i64);
	}
	if (*s->message) {
		fputs(" message=", stdout);
		cli_print_safe(s->message, 0);
	}
	putchar('\n');
}

void cli_dump_spans_text(const struct cli_dump *d)
{
	for (uint32_t i = 0; i < d->rings; i++) {
		const struct cli_dump_ring *g = &d->ring[i];

		if (g->settled && !g->head.lines)
			continue;
		printf("ring %-6" PRIu32 " %" PRIu64 " spans in %" PRIu64 " lines, %" PRIu64
		       " roots, %" PRIu64 " attributes dropped, %" PRIu64 " strings cut%s\n",
		       i, g->head.spans, g->head.lines, g->head.roots, g->head.dropped, g->head.cut,
		       g->settled ? "" : ", head unsettled");
		each_span(d, g, text_span, NULL);
	}
}

static void json_attribute(struct base_json *j, const char *key, const struct region_span_attr *a)
{
	base_json_key(j, key);
	if (a->type == SL_SPAN_TYPE_STRING)
		base_json_string(j, a->string);
	else if (a->type == SL_SPAN_TYPE_F64)
		base_json_f64(j, a->f64);
	else if (a->type == SL_SPAN_TYPE_BOOL)
		base_json_bool(j, a->boolean);
	else
		base_json_i64(j, a->i64);
}

static void json_span(const struct cli_dump *d, const struct region_span_data *s, uint64_t number,
		      struct base_json *j)
{
	base_json_begin(j, '{');
	base_put(j, KV("number", number));
	base_json_kformat(j, "trace_id", "%016" PRIx64 "%016" PRIx64, s->trace_hi, s->trace_lo);
	base_json_kformat(j, "span_id", "%016" PRIx64, s->span_id);
	base_put(j, KV_ID("parent_id", s->parent_id), KV("start_ns", s->start_ns),
		 KV("duration_ns", s->duration_ns), KV("name", string_of(d, s->name)),
		 KV("kind", kinds[s->kind]), KV("status", statuses[s->status]),
		 KV("flags", s->flags), KV_BOOL("remote", s->remote), KV("message", s->message));
	base_json_kbegin(j, "attributes", '{');
	for (uint32_t i = 0; i < s->attr_count; i++)
		json_attribute(j, string_of(d, s->attrs[i].key), &s->attrs[i]);
	base_json_end(j, '}');
	base_json_end(j, '}');
}

static void json_ring(struct base_json *j, const struct cli_dump *d, const struct cli_dump_ring *g)
{
	struct region_span_root root;
	char id[33];
	uint64_t lost;

	base_json_begin(j, '{');
	base_put(j, KV_BOOL("settled", g->settled), KV("spans_written", g->head.spans),
		 KV("lines", g->head.lines), KV("dropped", g->head.dropped),
		 KV("cut", g->head.cut));
	base_json_kbegin(j, "roots", '[');
	for (uint32_t k = 0; k < g->roots; k++) {
		if (region_span_root_parse(g->root[k], g->head.roots - g->roots + k, &root))
			continue;
		snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, root.trace_hi, root.trace_lo);
		base_json_string(j, id);
	}
	base_json_end(j, ']');
	base_json_kbegin(j, "spans", '[');
	lost = each_span(d, g, json_span, j);
	base_json_end(j, ']');
	base_put(j, KV("lines_of_no_span", lost));
	base_json_end(j, '}');
}

void cli_dump_spans_json(struct base_json *j, const struct cli_dump *d)
{
	base_json_kbegin(j, "rings", '[');
	for (uint32_t i = 0; i < d->rings; i++)
		json_ring(j, d, &d->ring[i]);
	base_json_end(j, ']');
}
