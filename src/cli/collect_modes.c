// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/collect.h"
#include "cli/common/common.h"

#define CSV_NS 10000000000u /* time between two rows per worker */

/* Rates of the workers */

struct sample {
	uint64_t ns;
	unsigned int workers;
	struct collect_worker_view w[];
};

static void take_worker(const struct collect_worker_view *v, void *arg)
{
	struct sample *s = arg;

	if (v->worker < s->workers)
		s->w[v->worker] = *v;
}

static struct sample *sample_new(unsigned int workers)
{
	struct sample *s = calloc(1, sizeof(*s) + workers * sizeof(s->w[0]));

	if (s)
		s->workers = workers;
	return s;
}

static void sample_copy(struct sample *to, const struct sample *from)
{
	memcpy(to, from, sizeof(*from) + from->workers * sizeof(from->w[0]));
}

static void sample_take(struct sample *s, struct collect_collector *c)
{
	s->ns = base_now_ns();
	collect_collector_workers(c, take_worker, s);
}

static double per_second(uint64_t n, uint64_t ns)
{
	return ns ? (double)n * 1e9 / (double)ns : 0;
}

static uint64_t sum_gain(const struct sample *now, const struct sample *before, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < now->workers; i++)
		sum += *(const uint64_t *)((const char *)&now->w[i] + offset) -
		       *(const uint64_t *)((const char *)&before->w[i] + offset);
	return sum;
}

/* Increase of a counter between before and now, summed over all workers. */
#define GAIN(field) sum_gain(now, before, offsetof(struct collect_worker_view, field))

static double rounds_per_second(const struct sample *now, const struct sample *before, unsigned i)
{
	return per_second(now->w[i].rounds - before->w[i].rounds, now->ns - before->ns);
}

static double all_rounds_per_second(const struct sample *now, const struct sample *before)
{
	double sum = 0;

	for (unsigned int i = 0; i < now->workers; i++)
		sum += rounds_per_second(now, before, i);
	return sum;
}

/* Returns the rates for the output lines of read_loop and its total. */
static json_t *rates_json(const struct sample *now, const struct sample *before)
{
	json_t *workers = json_array();

	for (unsigned int i = 0; i < now->workers; i++)
		json_array_append_new(workers, json_real(rounds_per_second(now, before, i)));
	return json_pack("{s:f, s:f, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "seconds",
			 (double)(now->ns - before->ns) * 1e-9, "scrapes_per_second",
			 all_rounds_per_second(now, before), "workers", workers, "rounds",
			 (json_int_t)GAIN(rounds), "missed_deadlines",
			 (json_int_t)GAIN(missed_deadlines), "samples", (json_int_t)GAIN(samples),
			 "reads", (json_int_t)GAIN(reads), "bytes", (json_int_t)GAIN(bytes),
			 "unsettled", (json_int_t)GAIN(unsettled), "busy_seconds",
			 (double)GAIN(busy_ns) * 1e-9);
}

static void print_rates(const struct cli_collect_mode *m, const struct sample *now,
			const struct sample *before, bool in_all)
{
	uint64_t ns = now->ns - before->ns, missed = GAIN(missed_deadlines);

	if (m->as_json) {
		json_t *j = rates_json(now, before);

		cli_json_print(stdout, in_all ? json_pack("{s:o}", "total", j) : j,
			       JSON_COMPACT | JSON_REAL_PRECISION(6));
		fflush(stdout);
		return;
	}
	printf("%s%.1f scrapes/s", in_all ? "total: " : "", all_rounds_per_second(now, before));
	for (unsigned int i = 0; i < now->workers && now->workers > 1; i++)
		printf("%s%u: %.1f%s", i ? ", " : "  (", i, rounds_per_second(now, before, i),
		       i + 1 == now->workers ? ")" : "");
	printf("  %.0f values/s  %.1f MB/s  %.0f %% busy", per_second(GAIN(samples), ns),
	       per_second(GAIN(bytes), ns) / 1e6, per_second(GAIN(busy_ns), ns) / 1e7);
	if (missed)
		printf("  %" PRIu64 " deadlines missed", missed);
	putchar('\n');
	fflush(stdout);
}

/* CSV */

static FILE *csv_open(const char *path)
{
	FILE *f = path ? fopen(path, "we") : NULL;

	if (f)
		fputs("worker,time_s,scrapes,rate_hz,missed_deadlines,values,reads,bytes,unsettled,"
		      "busy_s\n",
		      f);
	return f;
}

static void csv_rows(FILE *f, const struct sample *now, const struct sample *before, uint64_t start)
{
	for (unsigned int i = 0; f && i < now->workers; i++) {
		const struct collect_worker_view *a = &now->w[i], *b = &before->w[i];

		fprintf(f,
			"%u,%.3f,%" PRIu64 ",%.3f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
			",%" PRIu64 ",%.3f\n",
			i, (double)(now->ns - start) * 1e-9, a->rounds - b->rounds,
			rounds_per_second(now, before, i),
			a->missed_deadlines - b->missed_deadlines, a->samples - b->samples,
			a->reads - b->reads, a->bytes - b->bytes, a->unsettled - b->unsettled,
			(double)(a->busy_ns - b->busy_ns) * 1e-9);
	}
	if (f)
		/* make the rows visible to readers, and keep them if this process is killed */
		fflush(f);
}

/* Mode setup */

#define ABSENT_BYTES 1536u /* maximum length of the host list in a log line */

static void collect_host(const struct collect_host_view *v, void *arg)
{
	json_array_append_new(
		arg,
		json_pack("{s:s, s:s, s:s, s:s, s:i, s:s}", "target", v->target, "fabric",
			  v->fabric, "host", v->hostname, "condition",
			  collect_host_condition_name(v->condition), "regions", (int)v->regions,
			  "error", v->condition == COLLECT_HOST_UP ? "" : v->stats.last_error));
}

static void collect_region(const struct collect_region_view *v, void *arg)
{
	json_t *labels = json_object();
	char instance[20];

	for (uint32_t i = 0; i < v->info->label_count; i++)
		json_object_set_new(labels, v->info->labels[i].key,
				    json_string(v->info->labels[i].value));
	snprintf(instance, sizeof(instance), "%016" PRIx64, v->info->instance);
	json_array_append_new(arg,
			      json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:s}", "target",
					v->target, "host", v->hostname, "instance", instance,
					"state", region_state_name(v->state), "process",
					(json_int_t)v->info->pid, "metrics", (json_int_t)v->metrics,
					"labels", labels, "fault", v->fault));
}

static void print_found(const json_t *j)
{
	const json_t *hosts = json_object_get(j, "hosts"), *regions = json_object_get(j, "regions");
	const json_t *h, *r, *v;
	const char *key;
	size_t i;

	json_array_foreach(hosts, i, h)
	{
		fputs("host ", stdout);
		cli_print_safe(*cli_json_text(h, "host") ? cli_json_text(h, "host") : "?", 0);
		printf(" (%s, %s): %s, %lld regions%s", cli_json_text(h, "target"),
		       cli_json_text(h, "fabric"), cli_json_text(h, "condition"),
		       cli_json_integer(h, "regions"), *cli_json_text(h, "error") ? ": " : "");
		cli_print_safe(cli_json_text(h, "error"), 0);
		putchar('\n');
	}
	json_array_foreach(regions, i, r)
	{
		printf("region %s %s: %lld metrics", cli_json_text(r, "instance"),
		       cli_json_text(r, "state"), cli_json_integer(r, "metrics"));
		json_object_foreach(json_object_get(r, "labels"), key, v)
		{
			printf(" %s=", key);
			cli_print_safe(json_string_value(v), 0);
		}
		printf(" process=%lld%s%s\n", cli_json_integer(r, "process"),
		       *cli_json_text(r, "fault") ? " dropped: " : "", cli_json_text(r, "fault"));
	}
}

static void take_absent(const struct collect_host_view *v, void *arg)
{
	char *to = arg;
	size_t n = strlen(to);

	if (v->condition != COLLECT_HOST_UP)
		snprintf(to + n, ABSENT_BYTES - n, " host=%s condition=%s error=\"%s\"", v->target,
			 collect_host_condition_name(v->condition), v->stats.last_error);
}

void cli_collect_say_waiting(struct collect_collector *c, uint64_t end_ns)
{
	char absent[ABSENT_BYTES] = "";
	struct collect_collector_totals t;
	uint64_t now = base_now_ns();

	collect_collector_totals(c, &t);
	collect_collector_hosts(c, take_absent, absent);
	if (*absent)
		base_logf(BASE_INFO, "collect",
			  "waiting for hosts reached=%" PRIu64 "/%" PRIu64 " seconds=%.0f%s",
			  t.hosts_up, t.hosts, end_ns > now ? (double)(end_ns - now) * 1e-9 : 0,
			  absent);
}

int cli_collect_setup(const struct cli_collect_mode *m, struct collect_collector *c, int stop)
{
	uint64_t start = base_now_ns();
	uint64_t end = start + (m->duration_ns ? m->duration_ns : COLLECT_SETUP_NS);
	json_t *hosts = json_array(), *regions = json_array(), *all;
	struct collect_collector_totals t;
	bool asked = false, said = false;

	do {
		asked = base_stop_wait(stop, 20);
		collect_collector_totals(c, &t);
		if (!said && base_now_ns() - start >= COLLECT_SAY_NS) {
			cli_collect_say_waiting(c, end);
			said = true;
		}
	} while (!asked && base_now_ns() < end &&
		 !(collect_collector_ready(c) && t.hosts_up == t.hosts));
	collect_collector_totals(c, &t);
	collect_collector_hosts(c, collect_host, hosts);
	collect_collector_regions(c, collect_region, regions);
	all = json_pack("{s:o, s:o, s:I}", "hosts", hosts, "regions", regions, "series",
			(json_int_t)t.series);
	if (!m->as_json)
		print_found(all);
	else
		cli_json_print(stdout, json_incref(all), JSON_INDENT(2));
	json_decref(all);
	return cli_output_end(&cli_cmd_collect,
			      t.hosts_up == t.hosts ? BASE_EXIT_OK : BASE_EXIT_FAILURE);
}

/* The other modes, which run until stopped */

int cli_collect_until(const struct cli_collect_mode *m, struct collect_collector *c, int stop,
		      bool print)
{
	uint64_t start = base_now_ns(), end = m->duration_ns ? start + m->duration_ns : UINT64_MAX;
	struct sample *first = sample_new(m->workers), *before = sample_new(m->workers);
	struct sample *now = sample_new(m->workers), *row = sample_new(m->workers);
	uint64_t tick = start + 1000000000u, csv_at = start + CSV_NS, wake, at;
	FILE *csv = csv_open(m->csv);
	int code = BASE_EXIT_FAILURE;
	bool asked = false;

	if (m->csv && !csv) {
		base_logf(BASE_ERROR, "collect", "%s: %s", m->csv, strerror(errno));
		goto out;
	}
	if (!first || !before || !now || !row) {
		base_logf(BASE_ERROR, "collect", "out of memory");
		goto out;
	}
	sample_take(first, c);
	sample_copy(before, first);
	sample_copy(row, first);
	while (!asked && base_now_ns() < end) {
		at = base_now_ns();
		wake = BASE_MIN(tick, end);
		asked = base_stop_wait(stop, wake > at ? (int)((wake - at + 999999) / 1000000) : 0);
		at = base_now_ns();
		if (at >= tick) {
			sample_take(now, c);
			if (print)
				print_rates(m, now, before, false);
			sample_copy(before, now);
			if (m->every_second)
				m->every_second(m->arg);
			tick += (at - tick) / 1000000000u * 1000000000u + 1000000000u;
		}
		if (csv && at >= csv_at) {
			sample_take(now, c);
			csv_rows(csv, now, row, start);
			sample_copy(row, now);
			csv_at += CSV_NS;
		}
	}
	sample_take(now, c);
	csv_rows(csv, now, row, start);
	code = BASE_EXIT_OK;
	if (print) {
		print_rates(m, now, first, true);
		code = cli_output_end(&cli_cmd_collect, code);
	}
out:
	if (csv && (ferror(csv) | fclose(csv))) {
		base_logf(BASE_ERROR, "collect", "%s: write failed", m->csv);
		code = BASE_EXIT_FAILURE;
	}
	free(first);
	free(before);
	free(now);
	free(row);
	return code;
}
