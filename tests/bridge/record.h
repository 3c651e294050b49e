/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - a sink that writes everything that it gets as text, one line per point. */
#ifndef BRIDGE_RECORD_H
#define BRIDGE_RECORD_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/bridge.h"
#include "base/number.h"

struct record {
	struct bridge_sink sink;
	FILE *to;
	char *text;
	size_t bytes;
	char type[16], name[300];
	unsigned int families, points, repeats;
	unsigned int most; /* points; 0: any number */
	double last[64];   /* values of repeats */
	size_t last_count;
};

static inline void record_text(FILE *f, struct bridge_text t)
{
	fwrite(t.s, 1, t.n, f);
}

static inline void record_number(FILE *f, double v)
{
	char text[BASE_NUMBER_MAX];

	fwrite(text, 1, (size_t)(base_print_f64(text, v) - text), f);
}

static inline bool record_family(struct bridge_sink *s, const struct bridge_family *f)
{
	struct record *r = (struct record *)s;

	r->families++;
	fprintf(r->to, "%s ", bridge_type_names[f->type]);
	record_text(r->to, f->name);
	if (f->unit.n) {
		fputs(" unit=", r->to);
		record_text(r->to, f->unit);
	}
	if (f->help.n) {
		fputs(" help=", r->to);
		record_text(r->to, f->help);
	}
	fputc('\n', r->to);
	return true;
}

static inline void record_labels(FILE *f, const struct bridge_label *l, size_t n)
{
	fputc('{', f);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? "," : "", f);
		record_text(f, l[i].key);
		fputc('=', f);
		record_text(f, l[i].value);
	}
	fputc('}', f);
}

static inline bool record_point(struct bridge_sink *s, const struct bridge_point *p)
{
	struct record *r = (struct record *)s;

	if (r->most && r->points == r->most)
		return false;
	r->points++;
	fputs("  ", r->to);
	record_labels(r->to, p->labels, p->label_count);
	for (size_t i = 0; i < p->value_count; i++) {
		fputc(' ', r->to);
		record_number(r->to, p->values[i]);
	}
	for (size_t i = 0; i < p->bound_count; i++) {
		fputs(i ? " " : " | ", r->to);
		record_number(r->to, p->bounds[i]);
	}
	for (size_t i = 0; i < p->state_count; i++) {
		fputs(i ? " " : " | ", r->to);
		record_text(r->to, p->states[i]);
	}
	if (p->exponential) {
		const struct bridge_exponential *e = p->exponential;

		fprintf(r->to, " scale=%d first=%d zero=%llu", e->scale, e->first,
			(unsigned long long)e->zero_count);
		for (size_t i = 0; i < e->bucket_count; i++)
			fprintf(r->to, " %llu", (unsigned long long)e->buckets[i]);
		if (e->negative)
			fprintf(r->to, " negative=%llu", (unsigned long long)e->negative);
	}
	if (p->delta)
		fputs(" delta", r->to);
	if (p->created_ns)
		fprintf(r->to, " created=%llu", (unsigned long long)p->created_ns / 1000000);
	for (size_t i = 0; i < p->exemplar_count; i++) {
		fprintf(r->to, " #%u", p->exemplars[i].bucket);
		record_labels(r->to, p->exemplars[i].labels, p->exemplars[i].label_count);
		record_number(r->to, p->exemplars[i].value);
		if (p->exemplars[i].time_ns)
			fprintf(r->to, "@%llu",
				(unsigned long long)p->exemplars[i].time_ns / 1000000);
	}
	fputc('\n', r->to);
	return true;
}

static inline void record_values(struct bridge_sink *s, const double *values, size_t n)
{
	struct record *r = (struct record *)s;

	r->repeats++;
	r->last_count = n;
	if (n)
		memcpy(r->last, values, (n < 64 ? n : 64) * sizeof(*values));
}

static inline void record_begin(struct record *r)
{
	*r = (struct record){.sink = {record_family, record_point, record_values}};
	r->to = open_memstream(&r->text, &r->bytes);
}

/* Ends the recording: r->text has everything; free it. */
static inline char *record_end(struct record *r)
{
	fclose(r->to);
	return r->text;
}

#endif
