// SPDX-License-Identifier: Apache-2.0
/* dump_spans.c - the rings of spans of a region: read once, as they are, then printed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "cli/dump/dump.h"

#define TRIES	  100u
#define LINES_MAX 65536u /* of a ring, the last ones: a hostile head may say more than there is */

static bool read_line(struct cli_dump *d, uint64_t line[8], uint64_t at)
{
	return cli_dump_read_at(d, line, SL_LINE_SIZE, at);
}

static bool read_ring(struct cli_dump *d, uint32_t i)
{
	uint32_t size = d->info.span_lines, roots = SL_SPAN_ROOTS(size), most;
	struct cli_dump_ring *g = &d->ring[i];
	uint64_t line[8];

	for (uint32_t try = 0; try < TRIES && !g->settled; try++) {
		if (!read_line(d, line, region_span_head_at(&d->info, i)))
			return false;
		g->settled = !region_span_head_parse(line, &g->head);
	}
	if (!g->settled) {
		d->unsettled++;
		return true;
	}
	most = size < LINES_MAX ? size : LINES_MAX;
	g->lines = g->head.lines < most ? (uint32_t)g->head.lines : most;
	g->first = g->head.lines - g->lines;
	most = roots < LINES_MAX ? roots : LINES_MAX;
	g->roots = g->head.roots < most ? (uint32_t)g->head.roots : most;
	g->line = malloc((g->lines + 1ull) * sizeof(*g->line));
	g->root = malloc((g->roots + 1ull) * sizeof(*g->root));
	if (!g->line || !g->root)
		return false;
	for (uint32_t k = 0; k < g->lines; k++)
		if (!read_line(d, g->line[k], region_span_line_at(&d->info, i, g->first + k)))
			return false;
	for (uint32_t k = 0; k < g->roots; k++)
		if (!read_line(d, g->root[k],
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

/* ---- printing ---- */

static const char *const kinds[] = {"internal", "server", "client", "producer", "consumer"};
static const char *const statuses[] = {"unset", "ok", "error"};

static const char *string_of(const struct cli_dump *d, uint32_t id)
{
	const char *s = region_schema_string(&d->schema, id);

	return s ? s : "?";
}

/* Calls fn for each span that is to be believed; returns how many lines belong to none. */
static uint64_t each_span(const struct cli_dump *d, const struct cli_dump_ring *g,
			  void (*fn)(const struct cli_dump *, const struct region_span_data *,
				     uint64_t))
{
	struct region_span_data *data = malloc(sizeof(*data));
	uint64_t lost = 0;
	uint32_t n;

	for (uint32_t i = 0; data && i < g->lines; i += n) {
		if (region_span_parse((const uint64_t(*)[8])g->line + i, g->lines - i, g->first + i,
				      data, &n) == REGION_SPAN_LINE_GOOD)
			fn(d, data, g->first + i);
		else
			lost += n;
	}
	free(data);
	return lost;
}

static void text_span(const struct cli_dump *d, const struct region_span_data *s, uint64_t number)
{
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
		each_span(d, g, text_span);
	}
}

static bool more; /* a span was printed before in this array */

static void json_span(const struct cli_dump *d, const struct region_span_data *s, uint64_t number)
{
	printf("%s{\"number\":%" PRIu64 ",\"trace_id\":\"%016" PRIx64 "%016" PRIx64
	       "\",\"span_id\":\"%016" PRIx64 "\",\"parent_id\":\"",
	       more ? "," : "", number, s->trace_hi, s->trace_lo, s->span_id);
	if (s->parent_id)
		printf("%016" PRIx64, s->parent_id);
	printf("\",\"start_ns\":%" PRIu64 ",\"duration_ns\":%" PRIu64 ",\"name\":", s->start_ns,
	       s->duration_ns);
	cli_dump_json_string(string_of(d, s->name));
	printf(",\"kind\":\"%s\",\"status\":\"%s\",\"flags\":%" PRIu32
	       ",\"remote\":%s,\"message\":",
	       kinds[s->kind], statuses[s->status], s->flags, s->remote ? "true" : "false");
	cli_dump_json_string(s->message);
	fputs(",\"attributes\":{", stdout);
	for (uint32_t i = 0; i < s->attr_count; i++) {
		const struct region_span_attr *a = &s->attrs[i];

		fputs(i ? "," : "", stdout);
		cli_dump_json_string(string_of(d, a->key));
		putchar(':');
		if (a->type == SL_SPAN_TYPE_STRING)
			cli_dump_json_string(a->string);
		else if (a->type == SL_SPAN_TYPE_F64)
			cli_dump_json_f64(a->f64);
		else if (a->type == SL_SPAN_TYPE_BOOL)
			fputs(a->boolean ? "true" : "false", stdout);
		else
			printf("%" PRId64, a->i64);
	}
	fputs("}}", stdout);
	more = true;
}

void cli_dump_spans_json(const struct cli_dump *d)
{
	fputs(",\"rings\":[", stdout);
	for (uint32_t i = 0; i < d->rings; i++) {
		const struct cli_dump_ring *g = &d->ring[i];
		struct region_span_root root;
		uint64_t lost;

		printf("%s{\"settled\":%s,\"spans_written\":%" PRIu64 ",\"lines\":%" PRIu64
		       ",\"dropped\":%" PRIu64 ",\"cut\":%" PRIu64 ",\"roots\":[",
		       i ? "," : "", g->settled ? "true" : "false", g->head.spans, g->head.lines,
		       g->head.dropped, g->head.cut);
		more = false;
		for (uint32_t k = 0; k < g->roots; k++) {
			if (region_span_root_parse(g->root[k], g->head.roots - g->roots + k, &root))
				continue;
			printf("%s\"%016" PRIx64 "%016" PRIx64 "\"", more ? "," : "", root.trace_hi,
			       root.trace_lo);
			more = true;
		}
		fputs("],\"spans\":[", stdout);
		more = false;
		lost = each_span(d, g, json_span);
		printf("],\"lines_of_no_span\":%" PRIu64 "}", lost);
	}
	putchar(']');
}
