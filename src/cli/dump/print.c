// SPDX-License-Identifier: Apache-2.0
/* print.c - prints the contents of a region as text or JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/number.h"
#include "base/text.h"
#include "cli/common/common.h"
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
	[SL_KIND_SUMMARY] = "summary",
	[SL_KIND_UNKNOWN] = "unknown",
	[SL_KIND_GAUGE_HISTOGRAM] = "gauge_histogram",
	[SL_KIND_GAUGE_HISTOGRAM_EXP] = "gauge_histogram_exp",
	[SL_KIND_GAUGE_TIMED] = "gauge_timed",
};

/* Common helpers */

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

static void boot_id_text(char out[37], const uint8_t id[16])
{
	char hex[33];

	base_hex(hex, id, 16);
	snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

/* Prints a string quoted and escaped as in JSON, so that it cannot control the terminal. */
static void put_string(const char *s)
{
	struct base_json j;

	base_json_stream(&j, stdout);
	base_json_string(&j, s);
}

static void put_f64(double value)
{
	char text[BASE_NUMBER_MAX];

	fwrite(text, 1, (size_t)(base_print_f64(text, value) - text), stdout);
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

/* Returns true if all lines of the metric's value settled. */
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

/* Returns the upper bound of a bucket. Bucket 0 is the first one of the metric. */
static double upper_bound(const struct region_metric *m, uint32_t bucket)
{
	if (bucket + 1 == m->bucket_count)
		return INFINITY;
	if (!region_is_exponential(m))
		return m->bounds[bucket];
	if (!bucket)
		return m->zero_threshold;
	return exp2(ldexp(m->first_bucket + (int64_t)bucket - 1, -m->scale));
}

/* Returns true if the hot line is valid. */
static bool has_hot(const struct cli_dump *d)
{
	return !d->error &&
	       !(d->part && (!strcmp(d->part, "header") || !strcmp(d->part, "hot line")));
}

const char *cli_dump_fault(const struct cli_dump *d, char *out, size_t bytes)
{
	*out = 0;
	if (d->error)
		snprintf(out, bytes, "%s", strerror(d->error));
	else if (d->fault == REGION_FAULT_MAGIC)
		snprintf(out, bytes, "not a Sidelight region: no magic at offset 0");
	else if (d->fault == REGION_FAULT_SIZE && d->bytes < sizeof(d->header))
		snprintf(out, bytes, "header: size: the file ends after %" PRIu64 " bytes",
			 d->bytes);
	else if (d->fault)
		snprintf(out, bytes, "%s: %s at offset %" PRIu64, d->part,
			 region_fault_name(d->fault), d->fault_at);
	return out;
}

static bool put_fault(const struct cli_dump *d, const char *title)
{
	char fault[256];

	if (*cli_dump_fault(d, fault, sizeof(fault)))
		printf("%s%s\n", title, fault);
	return *fault;
}

/* Text */

static void text_labels(const struct region_text_label *labels, uint32_t count, const char *open,
			const char *separator, const char *close)
{
	if (!count)
		return;
	fputs(open, stdout);
	for (uint32_t i = 0; i < count; i++) {
		fputs(i ? separator : "", stdout);
		cli_print_safe(labels[i].key, 0); /* may be any UTF-8, like a metric's name */
		putchar('=');
		put_string(labels[i].value);
	}
	fputs(close, stdout);
}

static void text_histogram(const struct region_metric *m, const uint64_t *cell)
{
	printf(" count %" PRIu64 " sum ", count_of(m, cell));
	put_f64(region_f64(cell[SL_HIST_SUM]));
	if (cell[SL_HIST_REFUSED])
		printf(" refused %" PRIu64, cell[SL_HIST_REFUSED]);
	for (uint32_t i = 0; i < m->bucket_count; i++) {
		if (!cell[SL_HIST_BUCKETS + i] && region_is_exponential(m))
			continue;
		fputs("\n          <= ", stdout);
		put_f64(upper_bound(m, i));
		printf(": %" PRIu64, cell[SL_HIST_BUCKETS + i]);
	}
}

static void text_summary(const struct region_metric *m, const uint64_t *cell)
{
	printf(" count %" PRIu64 " sum ", cell[SL_SUMMARY_COUNT]);
	put_f64(region_f64(cell[SL_SUMMARY_SUM]));
	for (uint32_t i = 0; i < m->bound_count; i++) {
		fputs("\n          quantile ", stdout);
		put_f64(m->bounds[i]);
		fputs(": ", stdout);
		put_f64(region_f64(cell[SL_SUMMARY_QUANTILES + i]));
	}
}

static void text_metric(const struct cli_dump *d, const struct region_metric *m)
{
	const uint64_t *cell = d->flat + m->cell;

	printf("  %-13s ", kind_names[m->kind]);
	cli_print_safe(m->name, 0);
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
	case SL_KIND_UNKNOWN:
		putchar(' ');
		put_f64(region_f64(*cell));
		break;
	case SL_KIND_GAUGE_TIMED:
		putchar(' ');
		put_f64(region_f64(*cell));
		fputs(" at ", stdout);
		put_time(cell[1]);
		break;
	case SL_KIND_SUMMARY:
		text_summary(m, cell);
		break;
	case SL_KIND_HISTOGRAM:
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_GAUGE_HISTOGRAM:
	case SL_KIND_GAUGE_HISTOGRAM_EXP:
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

static void text_header(const struct cli_dump *d)
{
	const struct sl_region_header *h = &d->header;
	char boot_id[37];

	printf("format      %u.%u, %s, %" PRIu64 " bytes\n", h->version, h->minor,
	       sl_region_kind_name(h->kind) ?: "other", h->size);
	printf("instance    %016" PRIx64 ", pid %" PRIu32 ", started ", h->instance, h->pid);
	put_time(h->start_ns);
	boot_id_text(boot_id, h->boot_id);
	printf(" (tick %" PRIu64 ")\nboot        %s\n", h->start_ticks, boot_id);
	text_labels(d->info.labels, d->info.label_count, "labels      ", " ", "\n");
	for (uint32_t i = 0; i < h->section_count && i < SL_SECTIONS_MAX; i++) {
		const struct sl_region_section *s = &h->section[i];

		printf("section     %-8s offset %" PRIu64 " length %" PRIu64 " stride %" PRIu32
		       "\n",
		       sl_section_type_name(s->type) ?: "other", s->offset, s->length, s->stride);
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
		const struct cli_dump_entry *read = &d->entries[i];
		const struct region_entry *e = &read->parsed;

		if (read->fault)
			printf("  %5" PRIu32 " fault %s\n", i, region_fault_name(read->fault));
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
			text_words(read->line, read->fault != REGION_FAULT_UNSETTLED);
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
		printf(", and %zu of an unknown kind", d->schema.skipped);
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
	bool hot = has_hot(d);

	printf("region      %s\n", d->source);
	if (d->info.size) {
		text_header(d);
		if (raw_lines) {
			fputs("hot line   ", stdout);
			text_words(d->hot_line, d->fault != REGION_FAULT_UNSETTLED || hot);
		}
		if (hot && d->info.kind == SL_REGION_DIRECTORY)
			text_directory(d, raw_lines);
		else if (hot)
			text_metrics(d, raw_lines);
	}
	put_fault(d, "fault       ");
}

/* JSON */

static void json_labels(struct base_json *j, const struct region_text_label *labels, uint32_t count)
{
	base_json_kbegin(j, "labels", '{');
	for (uint32_t i = 0; i < count; i++)
		base_put(j, KV(labels[i].key, labels[i].value));
	base_json_end(j, '}');
}

static void json_words(struct base_json *j, const char *key, const uint64_t line[8])
{
	char word[17];

	base_json_kbegin(j, key, '[');
	for (int i = 0; i < 8; i++) {
		snprintf(word, sizeof(word), "%016" PRIx64, line[i]);
		base_json_string(j, word);
	}
	base_json_end(j, ']');
}

static void json_buckets(struct base_json *j, const uint64_t *v, uint32_t count)
{
	base_json_kbegin(j, "buckets", '[');
	for (uint32_t i = 0; i < count; i++)
		base_json_u64(j, v[i]);
	base_json_end(j, ']');
}

static void json_histogram(struct base_json *j, const struct region_metric *m, const uint64_t *cell)
{
	const uint64_t *bucket = cell + SL_HIST_BUCKETS;

	base_put(j, KV("count", count_of(m, cell)), KV("sum", region_f64(cell[SL_HIST_SUM])),
		 KV("refused", cell[SL_HIST_REFUSED]));
	if (!region_is_exponential(m)) {
		base_json_kbegin(j, "bounds", '[');
		for (uint32_t i = 0; i < m->bound_count; i++)
			base_json_f64(j, m->bounds[i]);
		base_json_end(j, ']');
		json_buckets(j, bucket, m->bucket_count);
		return;
	}
	base_put(j, KV("scale", (int64_t)m->scale), KV("first_bucket", (int64_t)m->first_bucket),
		 KV("zero_threshold", m->zero_threshold), KV("zero", bucket[0]));
	json_buckets(j, bucket + 1, m->bucket_count - 2);
	base_put(j, KV("above", bucket[m->bucket_count - 1]));
}

static void json_summary(struct base_json *j, const struct region_metric *m, const uint64_t *cell)
{
	base_put(j, KV("count", cell[SL_SUMMARY_COUNT]),
		 KV("sum", region_f64(cell[SL_SUMMARY_SUM])));
	base_json_kbegin(j, "quantiles", '[');
	for (uint32_t i = 0; i < m->bound_count; i++) {
		base_json_begin(j, '[');
		base_json_f64(j, m->bounds[i]);
		base_json_f64(j, region_f64(cell[SL_SUMMARY_QUANTILES + i]));
		base_json_end(j, ']');
	}
	base_json_end(j, ']');
}

static void json_value(struct base_json *j, const struct region_metric *m, const uint64_t *cell)
{
	switch (m->kind) {
	case SL_KIND_COUNTER:
		base_put(j, KV("value", *cell));
		break;
	case SL_KIND_GAUGE:
		base_put(j, KV("value", (int64_t)*cell));
		break;
	case SL_KIND_COUNTER_F64:
	case SL_KIND_GAUGE_F64:
	case SL_KIND_UNKNOWN:
		base_put(j, KV("value", region_f64(*cell)));
		break;
	case SL_KIND_GAUGE_TIMED:
		base_put(j, KV("value", region_f64(*cell)), KV("set_ns", cell[1]));
		break;
	case SL_KIND_SUMMARY:
		json_summary(j, m, cell);
		break;
	case SL_KIND_INFO:
		break;
	case SL_KIND_STATESET:
		base_json_kbegin(j, "value", '{');
		for (uint32_t i = 0; i < m->state_count; i++)
			base_put(j, KV_BOOL(m->states[i], *cell >> i & 1));
		base_json_end(j, '}');
		break;
	case SL_KIND_HISTOGRAM:
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_GAUGE_HISTOGRAM:
	case SL_KIND_GAUGE_HISTOGRAM_EXP:
		json_histogram(j, m, cell);
		break;
	}
}

static void json_metric(struct base_json *j, const struct cli_dump *d,
			const struct region_metric *m)
{
	base_json_begin(j, '{');
	base_put(j, KV("id", m->id), KV("kind", kind_names[m->kind]), KV("name", m->name));
	json_labels(j, m->labels, m->label_count);
	base_put(j, KV("unit", m->unit), KV("help", m->help), KV("cell", m->cell),
		 KV("cells", m->cells), KV_BOOL("settled", metric_settled(d, m)));
	json_value(j, m, d->flat + m->cell);
	base_json_end(j, '}');
}

static void json_header(struct base_json *j, const struct cli_dump *d)
{
	const struct sl_region_header *h = &d->header;
	char boot_id[37];

	boot_id_text(boot_id, h->boot_id);
	base_put(j, KV("version", h->version), KV("minor", h->minor),
		 KV("kind", sl_region_kind_name(h->kind) ?: "other"), KV("size", h->size),
		 KV("pid", h->pid));
	base_json_kformat(j, "instance", "%016" PRIx64, h->instance);
	base_put(j, KV("start_ns", h->start_ns), KV("start_ticks", h->start_ticks),
		 KV("boot_id", boot_id));
	json_labels(j, d->info.labels, d->info.label_count);
	base_json_kbegin(j, "sections", '[');
	for (uint32_t i = 0; i < h->section_count && i < SL_SECTIONS_MAX; i++) {
		const struct sl_region_section *s = &h->section[i];

		base_put_object(j, NULL, KV("type", s->type), KV("stride", s->stride),
				KV("offset", s->offset), KV("length", s->length));
	}
	base_json_end(j, ']');
}

static void json_entry(struct base_json *j, const struct region_entry *e)
{
	base_put(j, KV("id", e->id), KV("state", region_state_name(e->state)), KV("kind", e->kind));
	base_json_kformat(j, "instance", "%016" PRIx64, e->instance);
	base_put(j, KV("length", e->length), KV("addr", e->addr), KV("rkey", e->rkey),
		 KV("generation", e->generation), KV("changed_ns", e->changed_ns));
}

static void json_directory(struct base_json *j, const struct cli_dump *d, bool raw_lines)
{
	const struct region_directory_hot *h = &d->directory;

	base_put_object(j, "hot", KV("generation", h->generation),
			KV("entries_used", h->entries_used), KV("live", h->live),
			KV("refused", h->refused), KV("state", region_state_name(h->state)),
			KV("changed_ns", h->changed_ns), KV("lease_ns", h->lease_ns));
	base_json_kbegin(j, "entries", '[');
	for (uint32_t i = 0; d->entries && i < h->entries_used; i++) {
		const struct cli_dump_entry *e = &d->entries[i];

		base_json_begin(j, '{');
		base_put(j, KV("index", i));
		if (e->fault)
			base_put(j, KV("fault", region_fault_name(e->fault)));
		else
			json_entry(j, &e->parsed);
		if (raw_lines)
			json_words(j, "words", e->line);
		base_json_end(j, '}');
	}
	base_json_end(j, ']');
}

static void json_lines(struct base_json *j, const struct cli_dump *d)
{
	base_json_kbegin(j, "lines", '[');
	for (uint32_t s = 0; s < d->values.stripes; s++)
		for (uint32_t l = 0; l < d->values.lines; l++) {
			base_json_begin(j, '{');
			base_put(j, KV("stripe", s), KV("line", l),
				 KV_BOOL("settled", line_settled(d, s, l)));
			json_words(j, "words", d->raw[(size_t)s * d->values.lines + l]);
			base_json_end(j, '}');
		}
	base_json_end(j, ']');
}

static void json_metrics(struct base_json *j, const struct cli_dump *d, bool raw_lines)
{
	const struct region_hot *h = &d->hot;

	base_put_object(
		j, "hot", KV("generation", h->generation), KV("schema_used", h->schema_used),
		KV("lines_used", h->lines_used), KV("stripes_used", h->stripes_used),
		KV("state", region_state_name(h->state)), KV("threads_sharing", h->threads_sharing),
		KV("changed_ns", h->changed_ns), KV("refused", h->refused));
	base_put(j, KV("unsettled", d->unsettled), KV("read_again", d->retries),
		 KV("skipped", d->schema.skipped));
	base_json_kbegin(j, "metrics", '[');
	for (size_t i = 0; d->flat && i < d->schema.count; i++)
		json_metric(j, d, d->schema.metrics[i]);
	base_json_end(j, ']');
	if (d->info.spans)
		cli_dump_spans_json(j, d);
	if (raw_lines && d->raw)
		json_lines(j, d);
}

void cli_dump_print_json(const struct cli_dump *d, bool raw_lines)
{
	struct base_json out, *j = &out;

	base_json_stream(j, stdout);
	base_json_begin(j, '{');
	base_put(j, KV("source", d->source));
	if (d->error) {
		base_put(j, KV("error", strerror(d->error)));
	} else if (d->fault) {
		base_put(j, KV("fault", region_fault_name(d->fault)), KV("fault_in", d->part),
			 KV("fault_at", d->fault_at));
	}
	if (d->info.size) {
		json_header(j, d);
		if (raw_lines)
			json_words(j, "hot_line", d->hot_line);
		if (has_hot(d) && d->info.kind == SL_REGION_DIRECTORY)
			json_directory(j, d, raw_lines);
		else if (has_hot(d))
			json_metrics(j, d, raw_lines);
	}
	base_json_end(j, '}');
	base_json_line(j);
}

void cli_dump_print_check(const struct cli_dump *d)
{
	printf("%s: ", d->source);
	if (put_fault(d, ""))
		return;
	if (d->info.kind == SL_REGION_DIRECTORY)
		printf("ok, %" PRIu32 " entries, %" PRIu32 " live\n", d->directory.entries_used,
		       d->directory.live);
	else
		printf("ok, %zu metrics, %" PRIu32 " lines in %" PRIu32 " stripes\n",
		       d->schema.count, d->hot.lines_used, d->hot.stripes_used);
}
