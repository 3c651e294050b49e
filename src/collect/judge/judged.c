// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/judged.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "base/base.h"
#include "collect/judge/record.h"

_Static_assert((int)ANALYSE_LEARNING == ACT_LEARNING && (int)ANALYSE_COARSE == ACT_COARSE &&
		       (int)ANALYSE_READY == ACT_READY,
	       "the same states");

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
	free(p->metric);
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
	free(p->metric);
	free(p->text);
	p->column = calloc(n + 1, sizeof(*p->column));
	p->metric = calloc(n + 1, sizeof(*p->metric));
	p->text = at = malloc(room);
	p->columns = 0;
	if (!p->column || !p->metric || !p->text)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		bool counter = *names++ == '1';

		p->metric[i] = at;
		at = stpcpy(at, names) + 1;
		p->column[i] = (struct analyse_column){at, counter};
		at += collect_record_name(at, names, counter);
		names += strlen(names) + 1;
	}
	p->columns = n;
	return true;
}

static void say_state(const struct collect_judged *p, const struct collect_judge_finding *is)
{
	base_log_limited(BASE_INFO, "analysis",
			 "pod state changed pod=%s service=%s host=%s state=%s "
			 "least_latency_factor=%.3g",
			 p->label, p->name.service, p->name.host, act_state_names[is->state],
			 is->least);
}

void collect_judged_show(const struct collect_judged *p, const struct collect_judge_finding *is,
			 bool shadow)
{
	const struct collect_judged *next = is->next;
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
		.delay = (double)v->delay,
		.callers = is->callers,
		.next = next ? next->label : NULL,
		.next_score = is->next_score,
	};

	for (uint32_t i = 0; i < v->blamed && f.blames < ACT_BLAMES; i++) {
		uint32_t c = v->blame[i].column;

		if (c >= p->columns)
			continue;
		f.blame[f.blames].metric = p->metric[c];
		f.blame[f.blames].share = (double)v->blame[i].share;
		f.blame[f.blames].value = (double)v->blame[i].now;
		f.blame[f.blames].before = (double)v->blame[i].before;
		f.blame[f.blames++].rate = p->column[c].counter;
	}
	if (is->changed)
		say_state(p, is);
	if (p->shown)
		act_verdict_push(p->shown, &f);
}
