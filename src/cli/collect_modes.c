// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/collect.h"
#include "cli/common/common.h"

#define CSV_NS 10000000000u /* time between two rows per worker */
#define SAY_NS 500000000u   /* longer waits for hosts are logged */

/* Rates of the workers */

struct sample {
	uint64_t ns;
	unsigned int workers;
	struct collect_worker_view w[COLLECT_WORKERS_MAX];
};

static void take_worker(const struct collect_worker_view *v, void *arg)
{
	struct sample *s = arg;

	if (v->worker < s->workers)
		s->w[v->worker] = *v;
}

static void sample_copy(struct sample *to, const struct sample *from)
{
	memcpy(to, from, offsetof(struct sample, w) + from->workers * sizeof(from->w[0]));
}

static void sample_take(struct sample *s, const struct cli_collect_run *r)
{
	s->ns = base_now_ns();
	s->workers = r->set->c.workers;
	collect_collector_workers(r->c, take_worker, s);
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

static void print_rates(const struct cli_collect_settings *s, const struct sample *now,
			const struct sample *before, bool in_all)
{
	uint64_t ns = now->ns - before->ns, missed = GAIN(missed_deadlines);

	if (s->as_json) {
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

/* Logs the hosts that are not up, and how long the collector waits for them. */
static void say_waiting(struct collect_collector *c, uint64_t end_ns)
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

bool cli_collect_wait(struct collect_collector *c, int stop, uint64_t end_ns, bool all_up)
{
	uint64_t say = base_now_ns() + SAY_NS;
	struct collect_collector_totals t = {0};

	do {
		if (base_stop_wait(stop, 5))
			return false;
		if (base_now_ns() >= say) {
			say_waiting(c, end_ns);
			say = UINT64_MAX;
		}
		if (all_up)
			collect_collector_totals(c, &t);
	} while (base_now_ns() < end_ns &&
		 !(collect_collector_ready(c) && (!all_up || t.hosts_up == t.hosts)));
	return true;
}

int cli_collect_setup(struct cli_collect_run *r, int stop)
{
	json_t *hosts = json_array(), *regions = json_array(), *all;
	struct collect_collector_totals t;
	struct collect_collector *c = r->c;

	cli_collect_wait(c, stop, base_now_ns() + (r->set->duration_ns ?: COLLECT_SETUP_NS), true);
	collect_collector_totals(c, &t);
	collect_collector_hosts(c, collect_host, hosts);
	collect_collector_regions(c, collect_region, regions);
	all = json_pack("{s:o, s:o, s:I}", "hosts", hosts, "regions", regions, "series",
			(json_int_t)t.series);
	if (!r->set->as_json)
		print_found(all);
	else
		cli_json_print(stdout, json_incref(all), JSON_INDENT(2));
	json_decref(all);
	return cli_output_end(&cli_cmd_collect,
			      t.hosts_up == t.hosts ? BASE_EXIT_OK : BASE_EXIT_FAILURE);
}

/* The other modes, which run until stopped */

int cli_collect_until(struct cli_collect_run *r, int stop,
		      void (*every_second)(struct cli_collect_run *r))
{
	static struct sample first, before, now, row;
	const struct cli_collect_settings *s = r->set;
	uint64_t start = base_now_ns(), end = s->duration_ns ? start + s->duration_ns : UINT64_MAX;
	uint64_t tick = start + 1000000000u, csv_at = start + CSV_NS, wake, at;
	FILE *csv = csv_open(s->csv);
	int code = BASE_EXIT_OK;
	bool asked = false;

	if (s->csv && !csv)
		return CLI_FAIL("collect", "%s: %s", s->csv, strerror(errno));
	sample_take(&first, r);
	sample_copy(&before, &first);
	sample_copy(&row, &first);
	while (!asked && base_now_ns() < end) {
		at = base_now_ns();
		wake = BASE_MIN(tick, end);
		asked = base_stop_wait(stop, wake > at ? (int)((wake - at + 999999) / 1000000) : 0);
		at = base_now_ns();
		if (at >= tick) {
			sample_take(&now, r);
			if (!s->serves)
				print_rates(s, &now, &before, false);
			sample_copy(&before, &now);
			every_second(r);
			tick += (at - tick) / 1000000000u * 1000000000u + 1000000000u;
		}
		if (csv && at >= csv_at) {
			sample_take(&now, r);
			csv_rows(csv, &now, &row, start);
			sample_copy(&row, &now);
			csv_at += CSV_NS;
		}
	}
	sample_take(&now, r);
	csv_rows(csv, &now, &row, start);
	if (!s->serves) {
		print_rates(s, &now, &first, true);
		code = cli_output_end(&cli_cmd_collect, code);
	}
	if (csv && (ferror(csv) | fclose(csv)))
		code = CLI_FAIL("collect", "%s: write failed", s->csv);
	return code;
}
