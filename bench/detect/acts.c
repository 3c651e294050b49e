// SPDX-License-Identifier: Apache-2.0
/*
 * acts.c - the collector's policies on verdicts, which days.py writes to standard input.
 *
 * "acts traces BUDGET LATENCY" reads a trace per line, separated by tabs:
 *
 *	ID ROOT OPERATION PODS DURATION_NS SCORE OTHERS SUSPICIONS
 *
 * with PODS and SUSPICIONS joined by '|', and prints by act/trace.h the reason to keep each one, or
 * an empty line.
 *
 * "acts samples STEP_NS EVERY_NS AROUND_NS" reads a row per line:
 *
 *	MOMENT POD NS SCORE ANOMALOUS
 *
 * with pods by numbers, and prints by act/verdict.h and act/sample.h a line "POD NS baseline" or
 * "POD NS anomaly" for each row to send. A step stands for a second of a live collector.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "act/sample.h"
#include "act/trace.h"
#include "act/verdict.h"
#include "base/grow.h"

#define HOLD_STEPS   2 /* live: 2 s */
#define UNREAD_STEPS 10
#define PODS_MAX     1024u /* per trace; with more, its route is unknown */

static void *must(void *p)
{
	if (p)
		return p;
	fputs("acts: out of memory\n", stderr);
	exit(1);
}

/* ---- traces ---- */

static uint64_t key_of(const char *text)
{
	return act_trace_key(text, strlen(text));
}

static uint64_t route_of(uint64_t root, char *pods)
{
	uint64_t keys[PODS_MAX];
	size_t n = 0;

	for (char *pod; pods && *pods && (pod = strsep(&pods, "|")); keys[n++] = key_of(pod))
		if (n == PODS_MAX)
			return 0;
	return act_trace_route(root, keys, n);
}

/* Adds in the collector's order, so that traces of the same pods have bit-identical sums. */
static double sum_of(char *parts)
{
	float sum = 0;

	for (char *part; (part = strsep(&parts, "|"));)
		sum += strtof(part, NULL);
	return (double)sum;
}

static void decide(struct act_trace_policy *policy, char *line)
{
	char *field[8] = {0};

	for (int i = 0; i < 8 && line; i++)
		field[i] = strsep(&line, "\t");
	if (!field[7])
		exit(2);
	const uint64_t root = key_of(field[1]) ^ key_of(field[2]) << 1;
	const struct act_trace_facts f = {
		.root = root,
		.route = route_of(root, field[3]),
		.trace_lo = key_of(field[0]),
		.duration_ns = strtoull(field[4], NULL, 10),
		.score = (double)strtof(field[5], NULL),
		.others = (double)strtof(field[6], NULL),
		.suspicion = sum_of(field[7]),
	};

	puts(act_trace_reason_name(act_trace_decide(policy, &f)));
}

static int keep_traces(double budget, bool latency)
{
	/*
	 * Half of the budget left by verdicts is spent on random traces, and at the end all of it,
	 * so that useless verdicts do no harm. Twice the share of all ids compensates for the half.
	 */
	struct act_trace_policy_opts o = {
		.budget = budget, .at_start = !latency, .head = latency ? 0 : fmin(2 * budget, 1)};
	struct act_trace_policy *policy;
	char **line = NULL, *text = NULL;
	size_t n = 0, room = 0, text_room = 0;
	ssize_t bytes;

	while ((bytes = getline(&text, &text_room, stdin)) > 0) {
		text[bytes - 1] = 0;
		must(BASE_GROW(line, n, room) ? line : NULL);
		line[n++] = must(strdup(text));
	}
	o.total = n;
	policy = must(act_trace_policy_new(&o));
	for (size_t i = 0; i < n; i++) {
		decide(policy, line[i]);
		free(line[i]);
	}
	act_trace_policy_free(policy);
	free(line);
	free(text);
	return 0;
}

/* ---- samples ---- */

struct pod {
	struct act_verdict_pod *shown; /* NULL: no row yet */
	struct act_sample_pod plan;
	int64_t *t;
	size_t rows, room, next; /* next: the first row not looked at */
};

struct sampler {
	struct act_sample_opts o;
	struct act_verdicts *verdicts;
	struct pod *pod;
	size_t pods, room;
	int64_t now_ns;
};

static void on_anomaly(const struct act_anomaly *a, void *arg)
{
	struct sampler *s = arg;

	act_sample_anomaly(&s->pod[a->instance].plan, &s->o, a->begin_ns,
			   a->end_ns ? a->last_ns : 0);
}

static void send_pod(struct sampler *s, struct pod *p, int64_t now_ns)
{
	struct act_sample_span span;

	while (act_sample_next(&p->plan, &s->o, now_ns, INT64_MAX, &span)) {
		size_t first;

		while (p->next < p->rows && p->t[p->next] <= span.from_ns)
			p->next++;
		for (first = p->next; p->next < p->rows && p->t[p->next] <= span.to_ns; p->next++)
			if (!span.last)
				printf("%zu %" PRId64 " anomaly\n", p - s->pod, p->t[p->next]);
		if (span.last && p->next > first)
			printf("%zu %" PRId64 " baseline\n", p - s->pod, p->t[p->next - 1]);
		if (p->next == p->rows && now_ns > s->now_ns)
			break; /* limits the number of ticks at the end */
	}
}

static void turn(struct sampler *s, int64_t now_ns)
{
	act_verdicts_keep(s->verdicts, now_ns, on_anomaly, s);
	for (size_t i = 0; i < s->pods; i++)
		if (s->pod[i].shown)
			send_pod(s, &s->pod[i], now_ns);
}

static void take_row(struct sampler *s, uint64_t number, const struct act_finding *f)
{
	struct pod *p;

	while (s->pods <= number) {
		must(BASE_GROW(s->pod, s->pods, s->room) ? s->pod : NULL);
		s->pod[s->pods++] = (struct pod){0};
	}
	p = &s->pod[number];
	if (!p->shown) {
		p->shown = must(
			act_verdicts_add(s->verdicts, number, &(struct act_pod_name){.pod = ""}));
		act_sample_init(&p->plan, &s->o, f->ns - (int64_t)s->o.around_ns - 1,
				(number + 1) * 0x9e3779b97f4a7c15ull);
	}
	act_verdict_push(p->shown, f);
	must(BASE_GROW(p->t, p->rows, p->room) ? p->t : NULL);
	p->t[p->rows++] = f->ns;
	s->now_ns = f->ns > s->now_ns ? f->ns : s->now_ns;
}

static int take_samples(int64_t step_ns, uint64_t every_ns, uint64_t around_ns)
{
	const struct act_verdicts_opts o = {
		.max_pods = 10000,
		.hold_ns = HOLD_STEPS * (uint64_t)step_ns,
		.unread_ns = UNREAD_STEPS * (uint64_t)step_ns,
		.step_ns = (uint64_t)step_ns / 2 + 1,
	};
	struct sampler s = {.o = {.every_ns = every_ns, .around_ns = around_ns},
			    .verdicts = must(act_verdicts_new(&o))};
	struct act_finding f = {.threshold = 1};
	uint64_t moment, before = 0, pod;
	int anomalous;

	while (scanf("%" SCNu64 " %" SCNu64 " %" SCNd64 " %lf %d", &moment, &pod, &f.ns, &f.score,
		     &anomalous) == 5) {
		if (moment != before)
			turn(&s, s.now_ns);
		before = moment;
		f.anomalous = anomalous;
		take_row(&s, pod, &f);
	}
	turn(&s, s.now_ns);
	/* An open anomaly ends after silence, and releases the samples that wait for it. */
	turn(&s, s.now_ns + (UNREAD_STEPS + 1) * step_ns);
	turn(&s, s.now_ns + (UNREAD_STEPS + 1) * step_ns + (int64_t)(around_ns + every_ns));
	for (size_t i = 0; i < s.pods; i++)
		free(s.pod[i].t);
	free(s.pod);
	act_verdicts_free(s.verdicts);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "traces"))
		return keep_traces(strtod(argv[2], NULL), atoi(argv[3]));
	if (argc == 5 && !strcmp(argv[1], "samples"))
		return take_samples(strtoll(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
				    strtoull(argv[4], NULL, 10));
	fputs("usage: acts traces BUDGET LATENCY | acts samples STEP_NS EVERY_NS AROUND_NS\n",
	      stderr);
	return 2;
}
