// SPDX-License-Identifier: Apache-2.0
/*
 * sample.c - the recorded rows that would be sent to a receiver: by the collector's own code from
 * findings to anomalies (act/verdict.h) and spans of time (act/sample.h). A step of the recording
 * stands for a live step of one second.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "act/sample.h"
#include "act/verdict.h"
#include "cli/replay/replay.h"

#define HOLD_STEPS   2 /* live: 2 s */
#define UNREAD_STEPS 10

struct cli_replay_sampler {
	const struct cli_replay_data *d;
	struct act_sample_opts o;
	struct act_verdicts *verdicts;
	struct {
		struct act_verdict_pod *shown; /* NULL: no row yet */
		struct act_sample_pod plan;
		uint64_t next, end; /* the first row not seen; the first behind the scored ones */
	} * pod;
	int64_t now_ns;
	uint64_t rows, sent;
	FILE *out;
};

struct cli_replay_sampler *cli_replay_sampler_new(const struct cli_replay_data *d,
						  uint64_t every_ns, uint64_t around_ns, FILE *out)
{
	struct cli_replay_sampler *s = calloc(1, sizeof(*s));
	uint64_t step = (uint64_t)d->step_ns;
	struct act_verdicts_opts o = {
		.max_pods = d->n_pods,
		.hold_ns = HOLD_STEPS * step,
		.unread_ns = UNREAD_STEPS * step,
		.step_ns = step / 2 + 1,
	};

	if (!s)
		return NULL;
	s->d = d;
	s->o = (struct act_sample_opts){.every_ns = every_ns, .around_ns = around_ns};
	s->out = out;
	s->pod = calloc(d->n_pods, sizeof(*s->pod));
	s->verdicts = act_verdicts_new(&o);
	if (!s->pod || !s->verdicts) {
		cli_replay_sampler_free(s);
		errno = ENOMEM;
		return NULL;
	}
	fputs("unix_s,pod,why\n", out);
	return s;
}

void cli_replay_sampler_free(struct cli_replay_sampler *s)
{
	if (!s)
		return;
	act_verdicts_free(s->verdicts);
	free(s->pod);
	free(s);
}

int cli_replay_sampler_row(struct cli_replay_sampler *s, uint32_t pod, uint64_t row,
			   const struct analyse_verdict *v)
{
	int64_t t = s->d->pods[pod].t[row];
	struct act_pod_name name = {.pod = ""};

	if (!s->pod[pod].shown) {
		s->pod[pod].shown = act_verdicts_add(s->verdicts, pod, &name);
		if (!s->pod[pod].shown)
			return -errno;
		act_sample_init(&s->pod[pod].plan, &s->o, t - (int64_t)s->o.around_ns - 1,
				(pod + 1) * 0x9e3779b97f4a7c15ull);
		s->pod[pod].next = row;
	}
	act_verdict_push(s->pod[pod].shown, &(struct act_finding){.ns = t,
								  .score = (double)v->score,
								  .threshold = 1,
								  .anomalous = v->anomalous});
	s->pod[pod].end = row + 1;
	s->rows++;
	if (t > s->now_ns)
		s->now_ns = t;
	return 0;
}

static void on_anomaly(const struct act_anomaly *a, void *arg)
{
	struct cli_replay_sampler *s = arg;

	act_sample_anomaly(&s->pod[a->instance].plan, &s->o, a->begin_ns,
			   a->end_ns ? a->last_ns : 0);
}

static void send_row(struct cli_replay_sampler *s, uint32_t pod, uint64_t row, bool baseline)
{
	cli_replay_print_time(s->out, s->d->pods[pod].t[row]);
	fprintf(s->out, ",%s,%s\n", s->d->pods[pod].name, baseline ? "baseline" : "anomaly");
	s->sent++;
}

static void send_pod(struct cli_replay_sampler *s, uint32_t pod, int64_t now_ns)
{
	const int64_t *t = s->d->pods[pod].t;
	struct act_sample_span span;

	while (act_sample_next(&s->pod[pod].plan, &s->o, now_ns, INT64_MAX, &span)) {
		uint64_t *row = &s->pod[pod].next, first;

		while (*row < s->pod[pod].end && t[*row] <= span.from_ns)
			++*row;
		for (first = *row; *row < s->pod[pod].end && t[*row] <= span.to_ns; ++*row)
			if (!span.last)
				send_row(s, pod, *row, false);
		if (span.last && *row > first)
			send_row(s, pod, *row - 1, true);
		if (*row == s->pod[pod].end && now_ns > s->now_ns)
			break; /* bounds the ticks at the end */
	}
}

static void turn(struct cli_replay_sampler *s, int64_t now_ns)
{
	act_verdicts_keep(s->verdicts, now_ns, on_anomaly, s);
	for (uint32_t i = 0; i < s->d->n_pods; i++)
		if (s->pod[i].shown)
			send_pod(s, i, now_ns);
}

void cli_replay_sampler_moment(struct cli_replay_sampler *s)
{
	turn(s, s->now_ns);
}

void cli_replay_sampler_end(struct cli_replay_sampler *s)
{
	uint64_t clipped = 0;

	/* An open anomaly ends after silence, and releases the samples that wait for it. */
	turn(s, s->now_ns + (UNREAD_STEPS + 1) * s->d->step_ns);
	turn(s, s->now_ns + (UNREAD_STEPS + 1) * s->d->step_ns + (int64_t)s->o.around_ns +
			(int64_t)s->o.every_ns);
	for (uint32_t i = 0; i < s->d->n_pods; i++)
		clipped += s->pod[i].plan.clipped_ns;
	cli_replay_say("%" PRIu64 " of %" PRIu64 " rows would be sent", s->sent, s->rows);
	if (clipped)
		cli_replay_say("%.0f s of them were asked for too late", (double)clipped * 1e-9);
}
