// SPDX-License-Identifier: Apache-2.0
/* dump_print.c - a snapshot for people, and for programs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/dump/dump.h"

static const char *const kind_names[] = {
	[SL_KIND_COUNTER] = "counter",
	[SL_KIND_COUNTER_F64] = "counter_f64",
	[SL_KIND_GAUGE] = "gauge",
	[SL_KIND_GAUGE_F64] = "gauge_f64",
	[SL_KIND_HISTOGRAM_EXP] = "histogram_exp",
	[SL_KIND_HISTOGRAM] = "histogram",
	[SL_KIND_INFO] = "info",
	[SL_KIND_STATESET] = "stateset",
};

/* ---- pieces of either ---- */

static void put_time(uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;
	char text[40];

	if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm))
		snprintf(text, sizeof(text), "%" PRIu64, ns);
	else
		snprintf(text + strlen(text), sizeof(text) - strlen(text), ".%09uZ",
			 (unsigned int)(ns % 1000000000));
	fputs(text, stdout);
}

static void put_boot_id(const uint8_t id[16])
{
	for (unsigned int i = 0; i < 16; i++)
		printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
}

/* A JSON string, quoted; what is valid UTF-8 stays. Terminals are spared control characters. */
static void put_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c == '\n')
			fputs("\\n", stdout);
		else if (c < 0x20 || c == 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static double f64(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* As short as it goes without loss; JSON knows no infinities: those are strings there. */
static void put_f64(double value, bool json)
{
	char text[40];

	if (isfinite(value)) {
		for (int digits = 15; digits <= 17; digits++) {
			snprintf(text, sizeof(text), "%.*g", digits, value);
			if (strtod(text, NULL) == value)
				break;
		}
		fputs(text, stdout);
		return;
	}
	printf(json ? "\"%s\"" : "%s", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
}

static uint64_t count_of(const struct region_metric *m, const uint64_t *cell)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < m->bucket_count; i++)
		count += cell[SL_HIST_BUCKETS + i];
	return count;
}

static bool line_settled(const struct cli_dump *d, uint32_t stripe, uint32_t line)
{
	return d->settled && d->settled[(size_t)stripe * d->values.lines + line];
}

/* Did every line verify that the value is made of? */
static bool metric_settled(const struct cli_dump *d, const struct region_metric *m)
{
	if (!m->cells)
		return true;
	for (uint32_t s = 0; s < d->values.stripes; s++)
		for (uint32_t l = m->cell / 7; l <= (m->cell + m->cells - 1) / 7; l++)
			if (l < d->values.lines && !line_settled(d, s, l))
				return false;
	return true;
}

/* Upper end of a bucket of a histogram; bucket 0 is the first of region_metric. */
static double upper_bound(const struct region_metric *m, uint32_t bucket)
{
	if (bucket + 1 == m->bucket_count)
		return INFINITY;
	if (m->kind == SL_KIND_HISTOGRAM)
		return m->bounds[bucket];
	if (!bucket)
		return m->zero_threshold;
	return exp2(ldexp(m->first_bucket + (int64_t)bucket - 1, -m->scale));
}

/* ---- text ---- */

static void text_labels(const struct region_text_label *labels, uint32_t count, const char *open,
			const char *separator, const char *close)
{
	if (!count)
		return;
	fputs(open, stdout);
	for (uint32_t i = 0; i < count; i++) {
		printf("%s%s=", i ? separator : "", labels[i].key);
		put_string(labels[i].value);
	}
	fputs(close, stdout);
}

static void text_histogram(const struct region_metric *m, const uint64_t *cell)
{
	printf(" count %" PRIu64 " sum ", count_of(m, cell));
	put_f64(f64(cell[SL_HIST_SUM]), false);
	if (cell[SL_HIST_REFUSED])
		printf(" refused %" PRIu64, cell[SL_HIST_REFUSED]);
	for (uint32_t i = 0; i < m->bucket_count; i++) {
		if (!cell[SL_HIST_BUCKETS + i] && m->kind == SL_KIND_HISTOGRAM_EXP)
			continue;
		fputs("\n          <= ", stdout);
		put_f64(upper_bound(m, i), false);
		printf(": %" PRIu64, cell[SL_HIST_BUCKETS + i]);
	}
}

static void text_metric(const struct cli_dump *d, const struct region_metric *m)
{
	const uint64_t *cell = d->flat + m->cell;

	printf("  %-13s %s", kind_names[m->kind], m->name);
	text_labels(m->labels, m->label_count, "{", ",", "}");
	switch (m->kind) {
	case SL_KIND_COUNTER:
		printf(" %" PRIu64, *cell);
		break;
	case SL_KIND_GAUGE:
		printf(" %" PRId64, (int64_t)*cell);
		break;
	case SL_KIND_COUNTER_F64:
	case SL_KIND_GAUGE_F64:
		putchar(' ');
		put_f64(f64(*cell), false);
		break;
	case SL_KIND_HISTOGRAM:
	case SL_KIND_HISTOGRAM_EXP:
		text_histogram(m, cell);
		break;
	case SL_KIND_INFO:
		break;
	case SL_KIND_STATESET:
		for (uint32_t i = 0; i < m->state_count; i++) {
			putchar(' ');
			put_string(m->states[i]);
			printf("=%d", (int)(*cell >> i & 1));
		}
		break;
	}
	if (!metric_settled(d, m))
		fputs("  (unsettled)", stdout);
	if (*m->unit)
		printf("  [%s]", m->unit);
	if (*m->help) {
		fputs("  # ", stdout);
		put_string(m->help);
	}
	putchar('\n');
}

static void text_words(const uint64_t line[8], bool good)
{
	for (unsigned int i = 0; i < 8; i++)
		printf(" %016" PRIx64, line[i]);
	puts(good ? " ok" : " UNSETTLED");
}

static void text_fault(const struct cli_dump *d)
{
	if (d->error)
		printf("fault       %s\n", strerror(d->error));
	else if (d->fault)
		printf("fault       %s: %s at offset %" PRIu64 "\n", d->part,
		       region_fault_name(d->fault), d->fault_at);
}

static const char *registered(const char *name)
{
	return name ? name : "other";
}

static void text_header(const struct cli_dump *d)
{
	const struct sl_region_header *h = &d->header;

	printf("region      %s\n", d->source);
	printf("format      %u.%u, %s, %" PRIu64 " bytes\n", h->version, h->minor,
	       registered(sl_region_kind_name(h->kind)), h->size);
	printf("instance    %016" PRIx64 ", pid %" PRIu32 ", started ", h->instance, h->pid);
	put_time(h->start_ns);
	printf(" (tick %" PRIu64 ")\nboot        ", h->start_ticks);
	put_boot_id(h->boot_id);
	putchar('\n');
	text_labels(d->info.labels, d->info.label_count, "labels      ", " ", "\n");
	for (uint32_t i = 0; i < h->section_count && i < SL_SECTIONS_MAX; i++) {
		const struct sl_region_section *s = &h->section[i];

		printf("section     %-8s offset %" PRIu64 " length %" PRIu64 " stride %" PRIu32
		       "\n",
		       registered(sl_section_type_name(s->type)), s->offset, s->length, s->stride);
	}
}

static void text_directory(const struct cli_dump *d, bool raw_lines)
{
	const struct region_directory_hot *h = &d->directory;

	printf("hot         generation %" PRIu64 ", %" PRIu32 " entries used, %" PRIu32 " live, "
	       "%" PRIu64 " refused, %s, lease %" PRIu64 " ms, changed ",
	       h->generation, h->entries_used, h->live, h->refused, region_state_name(h->state),
	       h->lease_ns / 1000000);
	put_time(h->changed_ns);
	puts("\nentries");
	for (uint32_t i = 0; d->entries && i < h->entries_used; i++) {
		const struct region_entry *e = &d->entries[i];

		if (d->entry_faults[i])
			printf("  %5" PRIu32 " fault %s\n", i,
			       region_fault_name(d->entry_faults[i]));
		else if (e->state == SL_STATE_FREE)
			printf("  %5" PRIu32 " free\n", i);
		else
			printf("  %5" PRIu32 " id %" PRIu64 " %s instance %016" PRIx64
			       " length %" PRIu64 " addr %#" PRIx64 " rkey %#" PRIx32
			       " generation %" PRIu64 "\n",
			       i, e->id, region_state_name(e->state), e->instance, e->length,
			       e->addr, e->rkey, e->generation);
		if (raw_lines) {
			fputs("       ", stdout);
			text_words(d->entry_lines[i], d->entry_faults[i] != REGION_FAULT_UNSETTLED);
		}
	}
}

static void text_metrics(const struct cli_dump *d, bool raw_lines)
{
	const struct region_hot *h = &d->hot;

	printf("hot         generation %" PRIu64 ", %" PRIu64 " bytes of schema, %" PRIu32
	       " lines in each of %" PRIu32 " stripes, %s, %" PRIu64 " threads sharing, %" PRIu64
	       " metrics refused, changed ",
	       h->generation, h->schema_used, h->lines_used, h->stripes_used,
	       region_state_name(h->state), h->threads_sharing, h->refused);
	put_time(h->changed_ns);
	printf("\nlines       %" PRIu64 " unsettled, %" PRIu64 " read again\n", d->unsettled,
	       d->retries);
	printf("metrics     %zu", d->schema.count);
	if (d->schema.skipped)
		printf(", and %zu of a kind not known", d->schema.skipped);
	putchar('\n');
	for (size_t i = 0; d->flat && i < d->schema.count; i++)
		text_metric(d, d->schema.metrics[i]);
	cli_dump_spans_text(d);
	if (!raw_lines || !d->raw)
		return;
	puts("raw lines: stripe, line, seven cells, check");
	for (uint32_t s = 0; s < d->values.stripes; s++)
		for (uint32_t l = 0; l < d->values.lines; l++) {
			printf("  %3" PRIu32 " %4" PRIu32, s, l);
			text_words(d->raw[(size_t)s * d->values.lines + l], line_settled(d, s, l));
		}
}

void cli_dump_print_text(const struct cli_dump *d, bool raw_lines)
{
	bool hot = !d->error &&
		   !(d->part && (!strcmp(d->part, "header") || !strcmp(d->part, "hot line")));

	if (d->info.size) {
		text_header(d);
		if (raw_lines) {
			fputs("hot line   ", stdout);
			text_words(d->hot_line, d->fault != REGION_FAULT_UNSETTLED || hot);
		}
	} else {
		printf("region      %s\n", d->source);
	}
	if (d->info.size && hot) {
		if (d->info.kind == SL_REGION_DIRECTORY)
			text_directory(d, raw_lines);
		else
			text_metrics(d, raw_lines);
	}
	text_fault(d);
}

void cli_dump_json_string(const char *s)
{
	put_string(s);
}

void cli_dump_json_f64(double value)
{
	put_f64(value, true);
}

/* ---- JSON ---- */

static void json_labels(const struct region_text_label *labels, uint32_t count)
{
	fputs("\"labels\":{", stdout);
	for (uint32_t i = 0; i < count; i++) {
		fputs(i ? "," : "", stdout);
		put_string(labels[i].key);
		putchar(':');
		put_string(labels[i].value);
	}
	putchar('}');
}

static void json_words(const uint64_t line[8])
{
	putchar('[');
	for (unsigned int i = 0; i < 8; i++)
		printf("%s\"%016" PRIx64 "\"", i ? "," : "", line[i]);
	putchar(']');
}

static void json_u64s(const uint64_t *v, uint32_t count)
{
	putchar('[');
	for (uint32_t i = 0; i < count; i++)
		printf("%s%" PRIu64, i ? "," : "", v[i]);
	putchar(']');
}

static void json_value(const struct region_metric *m, const uint64_t *cell)
{
	switch (m->kind) {
	case SL_KIND_COUNTER:
		printf(",\"value\":%" PRIu64, *cell);
		break;
	case SL_KIND_GAUGE:
		printf(",\"value\":%" PRId64, (int64_t)*cell);
		break;
	case SL_KIND_COUNTER_F64:
	case SL_KIND_GAUGE_F64:
		fputs(",\"value\":", stdout);
		put_f64(f64(*cell), true);
		break;
	case SL_KIND_INFO:
		break;
	case SL_KIND_STATESET:
		fputs(",\"value\":{", stdout);
		for (uint32_t i = 0; i < m->state_count; i++) {
			fputs(i ? "," : "", stdout);
			put_string(m->states[i]);
			fputs(*cell >> i & 1 ? ":true" : ":false", stdout);
		}
		putchar('}');
		break;
	case SL_KIND_HISTOGRAM:
	case SL_KIND_HISTOGRAM_EXP:
		printf(",\"count\":%" PRIu64 ",\"sum\":", count_of(m, cell));
		put_f64(f64(cell[SL_HIST_SUM]), true);
		printf(",\"refused\":%" PRIu64, cell[SL_HIST_REFUSED]);
		if (m->kind == SL_KIND_HISTOGRAM) {
			fputs(",\"bounds\":[", stdout);
			for (uint32_t i = 0; i < m->bound_count; i++) {
				fputs(i ? "," : "", stdout);
				put_f64(m->bounds[i], true);
			}
			fputs("],\"buckets\":", stdout);
			json_u64s(cell + SL_HIST_BUCKETS, m->bucket_count);
			break;
		}
		printf(",\"scale\":%d,\"first_bucket\":%" PRId32 ",\"zero_threshold\":", m->scale,
		       m->first_bucket);
		put_f64(m->zero_threshold, true);
		printf(",\"zero\":%" PRIu64 ",\"buckets\":", cell[SL_HIST_BUCKETS]);
		json_u64s(cell + SL_HIST_BUCKETS + 1, m->bucket_count - 2);
		printf(",\"above\":%" PRIu64, cell[SL_HIST_BUCKETS + m->bucket_count - 1]);
		break;
	}
}

static void json_metric(const struct cli_dump *d, const struct region_metric *m)
{
	printf("{\"id\":%" PRIu32 ",\"kind\":\"%s\",\"name\":\"%s\",", m->id, kind_names[m->kind],
	       m->name);
	json_labels(m->labels, m->label_count);
	fputs(",\"unit\":", stdout);
	put_string(m->unit);
	fputs(",\"help\":", stdout);
	put_string(m->help);
	printf(",\"cell\":%" PRIu32 ",\"cells\":%" PRIu32 ",\"settled\":%s", m->cell, m->cells,
	       metric_settled(d, m) ? "true" : "false");
	json_value(m, d->flat + m->cell);
	putchar('}');
}

static void json_header(const struct cli_dump *d)
{
	const struct sl_region_header *h = &d->header;

	printf(",\"version\":%u,\"minor\":%u,\"kind\":\"%s\",\"size\":%" PRIu64 ",\"pid\":%" PRIu32
	       ",\"instance\":\"%016" PRIx64 "\",\"start_ns\":%" PRIu64 ",\"start_ticks\":%" PRIu64
	       ",\"boot_id\":\"",
	       h->version, h->minor, registered(sl_region_kind_name(h->kind)), h->size, h->pid,
	       h->instance, h->start_ns, h->start_ticks);
	put_boot_id(h->boot_id);
	fputs("\",", stdout);
	json_labels(d->info.labels, d->info.label_count);
	fputs(",\"sections\":[", stdout);
	for (uint32_t i = 0; i < h->section_count && i < SL_SECTIONS_MAX; i++)
		printf("%s{\"type\":%" PRIu32 ",\"stride\":%" PRIu32 ",\"offset\":%" PRIu64
		       ",\"length\":%" PRIu64 "}",
		       i ? "," : "", h->section[i].type, h->section[i].stride, h->section[i].offset,
		       h->section[i].length);
	putchar(']');
}

static void json_directory(const struct cli_dump *d, bool raw_lines)
{
	const struct region_directory_hot *h = &d->directory;
	bool first = true;

	printf(",\"hot\":{\"generation\":%" PRIu64 ",\"entries_used\":%" PRIu32 ",\"live\":%" PRIu32
	       ",\"refused\":%" PRIu64 ",\"state\":\"%s\",\"changed_ns\":%" PRIu64
	       ",\"lease_ns\":%" PRIu64 "},\"entries\":[",
	       h->generation, h->entries_used, h->live, h->refused, region_state_name(h->state),
	       h->changed_ns, h->lease_ns);
	for (uint32_t i = 0; d->entries && i < h->entries_used; i++) {
		const struct region_entry *e = &d->entries[i];

		printf("%s{\"index\":%" PRIu32, first ? "" : ",", i);
		first = false;
		if (d->entry_faults[i])
			printf(",\"fault\":\"%s\"", region_fault_name(d->entry_faults[i]));
		else
			printf(",\"id\":%" PRIu64 ",\"state\":\"%s\",\"kind\":%" PRIu32
			       ",\"instance\":\"%016" PRIx64 "\",\"length\":%" PRIu64
			       ",\"addr\":%" PRIu64 ",\"rkey\":%" PRIu32 ",\"generation\":%" PRIu64
			       ",\"changed_ns\":%" PRIu64,
			       e->id, region_state_name(e->state), e->kind, e->instance, e->length,
			       e->addr, e->rkey, e->generation, e->changed_ns);
		if (raw_lines) {
			fputs(",\"words\":", stdout);
			json_words(d->entry_lines[i]);
		}
		putchar('}');
	}
	putchar(']');
}

static void json_metrics(const struct cli_dump *d, bool raw_lines)
{
	const struct region_hot *h = &d->hot;

	printf(",\"hot\":{\"generation\":%" PRIu64 ",\"schema_used\":%" PRIu64
	       ",\"lines_used\":%" PRIu32 ",\"stripes_used\":%" PRIu32
	       ",\"state\":\"%s\",\"threads_sharing\":%" PRIu64 ",\"changed_ns\":%" PRIu64
	       ",\"refused\":%" PRIu64 "},\"unsettled\":%" PRIu64 ",\"read_again\":%" PRIu64
	       ",\"skipped\":%zu,\"metrics\":[",
	       h->generation, h->schema_used, h->lines_used, h->stripes_used,
	       region_state_name(h->state), h->threads_sharing, h->changed_ns, h->refused,
	       d->unsettled, d->retries, d->schema.skipped);
	for (size_t i = 0; d->flat && i < d->schema.count; i++) {
		fputs(i ? "," : "", stdout);
		json_metric(d, d->schema.metrics[i]);
	}
	putchar(']');
	if (d->info.spans)
		cli_dump_spans_json(d);
	if (!raw_lines || !d->raw)
		return;
	fputs(",\"lines\":[", stdout);
	for (uint32_t s = 0; s < d->values.stripes; s++)
		for (uint32_t l = 0; l < d->values.lines; l++) {
			printf("%s{\"stripe\":%" PRIu32 ",\"line\":%" PRIu32
			       ",\"settled\":%s,\"words\":",
			       s || l ? "," : "", s, l, line_settled(d, s, l) ? "true" : "false");
			json_words(d->raw[(size_t)s * d->values.lines + l]);
			putchar('}');
		}
	putchar(']');
}

void cli_dump_print_json(const struct cli_dump *d, bool raw_lines)
{
	bool hot = !d->error &&
		   !(d->part && (!strcmp(d->part, "header") || !strcmp(d->part, "hot line")));

	fputs("{\"source\":", stdout);
	put_string(d->source);
	if (d->error) {
		fputs(",\"error\":", stdout);
		put_string(strerror(d->error));
	} else if (d->fault) {
		printf(",\"fault\":\"%s\",\"fault_in\":\"%s\",\"fault_at\":%" PRIu64,
		       region_fault_name(d->fault), d->part, d->fault_at);
	}
	if (d->info.size) {
		json_header(d);
		if (raw_lines) {
			fputs(",\"hot_line\":", stdout);
			json_words(d->hot_line);
		}
		if (hot && d->info.kind == SL_REGION_DIRECTORY)
			json_directory(d, raw_lines);
		else if (hot)
			json_metrics(d, raw_lines);
	}
	puts("}");
}

void cli_dump_print_check(const struct cli_dump *d)
{
	printf("%s: ", d->source);
	if (d->error)
		printf("%s\n", strerror(d->error));
	else if (d->fault)
		printf("%s: %s at offset %" PRIu64 "\n", d->part, region_fault_name(d->fault),
		       d->fault_at);
	else if (d->info.kind == SL_REGION_DIRECTORY)
		printf("ok, %" PRIu32 " entries, %" PRIu32 " live\n", d->directory.entries_used,
		       d->directory.live);
	else
		printf("ok, %zu metrics, %" PRIu32 " lines in %" PRIu32 " stripes\n",
		       d->schema.count, d->hot.lines_used, d->hot.stripes_used);
}
