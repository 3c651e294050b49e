// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/judged.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "analyse/role.h"
#include "base/base.h"
#include "collect/judge/record.h"

_Static_assert((int)ANALYSE_LEARNING == ACT_LEARNING && (int)ANALYSE_COARSE == ACT_COARSE &&
		       (int)ANALYSE_READY == ACT_READY,
	       "the states of analysis and display must match");

#define NOW_S	0.5  /* time constant of the current request rate */
#define USUAL_S 60.0 /* time constant of the usual request rate */
/* a pod whose metrics have not changed for this long may have stopped */
#define ALIVE_NS 500000000
#define CHANCE	 5.0 /* standard deviations that the worst of many rows may reach by chance */
#define CLEAR	 3.0 /* number of standard deviations by which the two rates must differ */
/*
 * Steps of an MPI rank. Waiting hardly raises the CPU time of a step, except that caches are cold
 * after it. So CPU time that rises by more than COLD is evidence of more work, even if it is only a
 * small part of the rise: the rest may be the turns of others on the same CPU. A major fault takes
 * at most about 10 ms (a seek), and a turn of others at most about 50 ms.
 */
#define STEPS_S	 0.5 /* time constant of what was sampled */
#define COMPUTES 0.05
#define COLD	 0.3
#define FAULT_S	 0.01
#define TURN_S	 0.05

/* ---- what metrics measure ---- */

static enum act_measure find_measure(const char *name, bool counter)
{
	static const enum act_measure of_port[] = {[ANALYSE_PORT_LOSSES] = ACT_MEASURE_LOSSES,
						   [ANALYSE_PORT_PAUSES] = ACT_MEASURE_PAUSES,
						   [ANALYSE_PORT_SPEED] = ACT_MEASURE_SPEED};
	struct analyse_role role = analyse_role_of(name, counter);

	if (role.port)
		return of_port[role.port];
	if (analyse_role_waits(name, counter))
		return ACT_MEASURE_WAITING;
	switch (role.kind) {
	case ANALYSE_ROLE_LATENCY:
	case ANALYSE_ROLE_CLIENT:
	case ANALYSE_ROLE_SERVER:
		return ACT_MEASURE_LATENCY;
	case ANALYSE_ROLE_ERRORS:
		return ACT_MEASURE_ERRORS;
	case ANALYSE_ROLE_RESOURCE:
		return role.part == ANALYSE_CPU ? ACT_MEASURE_CPU : ACT_MEASURE_MEMORY;
	case ANALYSE_ROLE_LOAD:
	case ANALYSE_ROLE_WORK:
		return ACT_MEASURE_LOAD;
	default:
		return ACT_MEASURE_OTHER;
	}
}

/* ---- requests ---- */

static void follow_rate(double *to, double rate, double seconds, double tau)
{
	*to += -expm1(-seconds / tau) * (rate - *to);
}

/*
 * Takes a row, and returns the current request rate divided by the usual one; 1 if the difference
 * may be chance, 0 if a rate is unknown. For independent requests, an average rate r with time
 * constant t has standard deviation sqrt(r / 2t).
 */
static double take_load(struct collect_judged *p, const struct collect_judge_finding *is)
{
	double sum = 0, seconds, rate, learned;

	for (uint32_t c = 0; c < p->columns; c++)
		if (p->shows[c].requests)
			sum += is->value[c];
	if (!isfinite(sum)) /* a count is missing: the next row covers the time of this one, too */
		return 0;
	seconds = (double)(is->ns - p->load.ns) * 1e-9;
	rate = (sum - p->load.sum) / seconds;
	learned = (double)(is->ns - p->load.first_ns) * 1e-9;
	p->load.sum = sum;
	if (!p->load.ns || seconds <= 0 || rate < 0) {
		/* Start again also if the clock was set back. */
		p->load.first_ns = p->load.ns && seconds >= 0 ? p->load.first_ns : is->ns;
		p->load.ns = is->ns;
		return 0;
	}
	p->load.ns = is->ns;
	p->load.row = rate;
	p->load.seconds = seconds;
	follow_rate(&p->load.now, rate, seconds, NOW_S);
	if (!is->anomalous)
		follow_rate(&p->load.usual, rate, seconds, fmin(USUAL_S, fmax(learned, seconds)));
	if (learned < 10 * NOW_S || !(p->load.usual > 0))
		return 0;
	return fabs(p->load.now - p->load.usual) < CLEAR * sqrt(p->load.usual / (2 * NOW_S))
		       ? 1
		       : p->load.now / p->load.usual;
}

/*
 * True if more requests explain the errors in the last row. If a constant fraction of requests
 * fails, an expected error rate r has standard deviation sqrt(r / t) over t seconds.
 */
static bool errors_follow_load(const struct collect_judged *p, double load, double errors,
			       double usual)
{
	double expected;

	if (p->load.usual > 0)
		load = fmax(load, p->load.row / p->load.usual);
	expected = usual * load;
	return load >= ACT_LOAD_MOVED && p->load.seconds > 0 &&
	       errors <= expected + CHANCE * sqrt(expected / p->load.seconds);
}

/*
 * Adds blamed metrics: with by_load, the errors that follow from load, and otherwise all others.
 * Errors that follow from load have no share, because they are no evidence of a fault.
 */
static void add_blame(const struct collect_judged *p, const struct analyse_verdict *v,
		      struct act_finding *f, bool by_load)
{
	for (uint32_t i = 0; i < v->blamed && f->blames < ACT_BLAMES; i++) {
		uint32_t c = v->blame[i].column;
		double now = (double)v->blame[i].now, before = (double)v->blame[i].before;
		struct act_blame *b = &f->blame[f->blames];

		if (c >= p->columns ||
		    by_load != (p->shows[c].measure == ACT_MEASURE_ERRORS && p->column[c].counter &&
				errors_follow_load(p, f->load, now, before)))
			continue;
		*b = (struct act_blame){
			.share = by_load ? 0 : (double)v->blame[i].share,
			.value = now,
			.before = before,
			.rate = p->column[c].counter,
			.measure = p->shows[c].measure,
			.grows = v->blame[i].grows,
		};
		snprintf(b->metric, sizeof(b->metric), "%s", p->shows[c].metric);
		if (v->odd.score > 1 && c == v->odd.column && v->blame[i].before == v->odd.median)
			b->siblings = v->odd.siblings;
		f->blames++;
	}
}

/* ---- steps of an MPI rank ---- */

static void find_steps(struct collect_judged *p)
{
	static const char *const names[COLLECT_STEPS] = {
		[COLLECT_STEP_TIME] = "mpi_sampled_seconds_total",
		[COLLECT_STEP_CPU] = "mpi_sampled_cpu_seconds_total",
		[COLLECT_STEP_FAULTS] = "mpi_sampled_major_faults_total",
		[COLLECT_STEP_TURNS] = "mpi_sampled_preemptions_total",
	};
	uint32_t found = 0;

	memset(&p->step, 0, sizeof(p->step));
	for (uint32_t c = 0; c < p->columns; c++) {
		for (uint32_t i = 0; i < COLLECT_STEPS; i++)
			if (!strcmp(p->shows[c].metric, names[i])) {
				p->step.column[i] = c;
				found++;
			}
		if (!strcmp(p->shows[c].metric, "mpi_step_seconds_mean")) {
			p->step.mean = c;
			found++;
		}
	}
	p->step.known = found == COLLECT_STEPS + 1;
}

/*
 * Takes a row. Returns false if nothing is known of its steps; otherwise writes what a step
 * consists of: its length, and its part of what was sampled.
 */
static bool take_steps(struct collect_judged *p, const struct collect_judge_finding *is,
		       double now[COLLECT_STEPS])
{
	double v[COLLECT_STEPS], mean, seconds;

	if (!p->step.known)
		return false;
	if (is->ns < p->step.ns) /* the clock was set back: start again */
		p->step.ns = p->step.first_ns = 0;
	seconds = (double)(is->ns - p->step.ns) * 1e-9;
	for (uint32_t i = 0; i < COLLECT_STEPS; i++) {
		v[i] = is->value[p->step.column[i]];
		if (!isfinite(v[i]))
			return false;
	}
	for (uint32_t i = 0; i < COLLECT_STEPS; i++) {
		p->step.recent[i] *= exp(-seconds / STEPS_S);
		if (p->step.ns)
			p->step.recent[i] += fmax(v[i] - p->step.last[i], 0);
		p->step.last[i] = v[i];
	}
	p->step.ns = is->ns;
	p->step.seconds = seconds;
	mean = is->value[p->step.mean];
	if (!isfinite(mean) || !(p->step.recent[COLLECT_STEP_TIME] > 0))
		return false;
	for (uint32_t i = 0; i < COLLECT_STEPS; i++)
		now[i] = p->step.recent[i] * mean / p->step.recent[COLLECT_STEP_TIME];
	return true;
}

/* Finds out why the steps of an anomalous row take longer than usual. */
static void find_step_cause(struct collect_judged *p, const struct collect_judge_finding *is,
			    struct act_step *out)
{
	double now[COLLECT_STEPS], rise[COLLECT_STEPS], off, learned;
	const double *usual = p->step.usual;

	if (!take_steps(p, is, now))
		return;
	if (!is->anomalous) {
		p->step.first_ns = p->step.first_ns ? p->step.first_ns : is->ns;
		learned = (double)(is->ns - p->step.first_ns) * 1e-9;
		for (uint32_t i = 0; i < COLLECT_STEPS; i++)
			follow_rate(&p->step.usual[i], now[i], p->step.seconds,
				    fmin(USUAL_S, fmax(learned, p->step.seconds)));
		return;
	}
	for (uint32_t i = 0; i < COLLECT_STEPS; i++)
		rise[i] = now[i] - usual[i];
	off = rise[COLLECT_STEP_TIME] - rise[COLLECT_STEP_CPU];
	if (!p->step.first_ns || rise[COLLECT_STEP_TIME] <= 0)
		return;
	*out = (struct act_step){ACT_STEP_STOPPED, rise[COLLECT_STEP_TIME],
				 now[COLLECT_STEP_TIME] - now[COLLECT_STEP_CPU],
				 usual[COLLECT_STEP_TIME] - usual[COLLECT_STEP_CPU]};
	if (rise[COLLECT_STEP_CPU] >=
	    fmax(COMPUTES * rise[COLLECT_STEP_TIME], COLD * usual[COLLECT_STEP_CPU]))
		*out = (struct act_step){ACT_STEP_COMPUTES, out->rise, now[COLLECT_STEP_CPU],
					 usual[COLLECT_STEP_CPU]};
	else if (rise[COLLECT_STEP_FAULTS] * FAULT_S >= off)
		*out = (struct act_step){ACT_STEP_FAULTS, out->rise, now[COLLECT_STEP_FAULTS],
					 usual[COLLECT_STEP_FAULTS]};
	else if (rise[COLLECT_STEP_TURNS] * TURN_S >= off)
		out->cause = ACT_STEP_PREEMPTED;
}

/* ---- waiting work ---- */

/*
 * Finds the pod's longest queue. An empty queue counts as known only while the pod's metrics
 * change, because a stopped process does not count its waiting work.
 */
static void find_queue(struct collect_judged *p, const struct collect_judge_finding *is,
		       struct act_finding *f)
{
	double sum = 0;

	for (uint32_t c = 0; c < p->columns; c++) {
		double v = is->value[c];

		sum += isfinite(v) ? v : 0;
		if (p->shows[c].measure != ACT_MEASURE_WAITING || !isfinite(v) ||
		    strstr(p->shows[c].metric, "active") || (f->queue && v <= f->waiting))
			continue;
		f->queue = p->shows[c].metric;
		f->waiting = v;
	}
	if (sum != p->sum)
		p->moved_ns = is->ns;
	p->sum = sum;
	if (f->waiting <= 0 && is->ns - p->moved_ns > ALIVE_NS)
		f->queue = NULL;
}

/* ---- pods ---- */

struct collect_judged *collect_judged_new(struct act_verdicts *verdicts,
					  const struct collect_rows_entry *e, const uint8_t *entry)
{
	struct collect_judged *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->instance = e->instance;
	memcpy(&p->name, entry, sizeof(p->name));
	act_pod_label(&p->name, p->label, sizeof(p->label));
	p->shown = act_verdicts_add(verdicts, p->instance, &p->name);
	if (p->shown)
		return p;
	free(p);
	return NULL;
}

void collect_judged_free(struct collect_judged *p)
{
	if (p->shown)
		act_verdict_gone(p->shown);
	free(p->column);
	free(p->shows);
	free(p->text);
	free(p);
}

bool collect_judged_columns(struct collect_judged *p, const struct collect_rows_entry *e,
			    const uint8_t *entry)
{
	const char *names = (const char *)entry + sizeof(p->name);
	/* A name for replay is at most eight bytes longer than the displayed one. */
	size_t bytes = e->bytes - sizeof(p->name), room = 2 * bytes + 8 * (size_t)e->columns + 1;
	uint32_t n = e->columns;
	char *at;

	free(p->column);
	free(p->shows);
	free(p->text);
	memset(&p->load, 0, sizeof(p->load));
	p->column = calloc(n + 1, sizeof(*p->column));
	p->shows = calloc(n + 1, sizeof(*p->shows));
	p->text = at = malloc(room);
	p->columns = 0;
	if (!p->column || !p->shows || !p->text)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		bool counter = *names++ == '1';

		p->shows[i].metric = at;
		at = stpcpy(at, names) + 1;
		p->column[i] = (struct analyse_column){at, counter};
		p->shows[i].measure = find_measure(names, counter);
		p->shows[i].requests = analyse_role_of(names, counter).kind == ANALYSE_ROLE_WORK;
		at += collect_record_name(at, names, counter);
		names += strlen(names) + 1;
	}
	p->columns = n;
	find_steps(p);
	return true;
}

static void log_state(const struct collect_judged *p, const struct collect_judge_finding *is)
{
	base_log_each(BASE_INFO, "analysis", p->label,
		      "pod state changed pod=%s service=%s host=%s state=%s "
		      "least_latency_factor=%.3g",
		      p->label, p->name.service, p->name.host, act_state_names[is->state],
		      is->least);
}

void collect_judged_show(struct collect_judged *p, const struct collect_judge_finding *is,
			 bool shadow)
{
	const struct analyse_verdict *v = is->verdict;
	struct act_finding f = {
		.ns = is->ns,
		.score = v->score,
		.suspicion = v->suspicion,
		.threshold = is->anomalous || (v->known && !is->warming) ? 1 : INFINITY,
		.anomalous = is->anomalous,
		.drift = v->drift,
		.state = (enum act_state)is->state,
		.least = is->least,
		.slowdown = is->slowdown,
		.shadow_anomalous = v->shadow_anomalous && !is->warming,
		.shadow_score = shadow ? v->shadow_score : NAN,
		.load = take_load(p, is),
		.working = p->load.now > ACT_LOAD_STOPPED * p->load.usual,
		.delay = (double)v->delay,
		.callers = is->callers,
		.born_ns = is->born_ns,
	};

	add_blame(p, v, &f, false);
	add_blame(p, v, &f, true);
	find_queue(p, is, &f);
	find_step_cause(p, is, &f.step);
	if (is->changed)
		log_state(p, is);
	if (p->shown)
		act_verdict_push(p->shown, &f);
}
