// SPDX-License-Identifier: Apache-2.0
#include "act/scale.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "base/relaxed.h"

#define FRESH_NS 10000000000ll

struct scale_entry {
	struct act_workload w;
	double sum;
	bool begun; /* set once pressure has a previous value */
};

struct act_scale {
	uint64_t tau_ns;
	size_t max, used;
	struct scale_entry *entry;
	int64_t now_ns;
	uint64_t left_out;    /* read by any thread */
	pthread_mutex_t lock; /* protects the following members */
	struct act_workload *shown;
	size_t shows;
};

struct act_scale *act_scale_new(uint64_t tau_ns, size_t max)
{
	struct act_scale *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->tau_ns = tau_ns ? tau_ns : 10000000000u;
	s->max = max ? max : 1024;
	pthread_mutex_init(&s->lock, NULL);
	s->entry = calloc(s->max, sizeof(*s->entry));
	s->shown = calloc(s->max, sizeof(*s->shown));
	if (!s->entry || !s->shown) {
		act_scale_free(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

void act_scale_free(struct act_scale *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	free(s->entry);
	free(s->shown);
	free(s);
}

void act_scale_begin(struct act_scale *s, int64_t now_ns)
{
	s->now_ns = now_ns;
	for (size_t i = 0; i < s->used; i++) {
		s->entry[i].w.pods = s->entry[i].w.anomalous = s->entry[i].w.loaded = 0;
		s->entry[i].sum = 0;
	}
}

static struct scale_entry *find_workload(struct act_scale *s, const struct act_pod_name *n)
{
	struct scale_entry *e;

	for (size_t i = 0; i < s->used; i++)
		if (!strcmp(s->entry[i].w.service, n->service) &&
		    !strcmp(s->entry[i].w.kube_namespace, n->kube_namespace) &&
		    !strcmp(s->entry[i].w.uid, act_owner_uid(n)))
			return &s->entry[i];
	if (s->used == s->max)
		return NULL;
	e = &s->entry[s->used++];
	*e = (struct scale_entry){.begun = false};
	strcpy(e->w.service, n->service);
	strcpy(e->w.kube_namespace, n->kube_namespace);
	strcpy(e->w.uid, act_owner_uid(n));
	return e;
}

void act_scale_pod(struct act_scale *s, const struct act_pod_verdict *v)
{
	struct scale_entry *e;

	if (!v->ns || s->now_ns - v->ns > FRESH_NS)
		return;
	e = find_workload(s, &v->name);
	if (!e) {
		relaxed_bump(s->left_out, 1);
		return;
	}
	e->w.pods++;
	e->w.anomalous += v->anomalous;
	if (!(v->slowdown > 0))
		return;
	e->w.loaded++;
	e->sum += fmin(v->slowdown, ACT_PRESSURE_MAX);
}

void act_scale_end(struct act_scale *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->used; i++) {
		struct scale_entry *e = &s->entry[i];
		double mean, part, elapsed;

		if (!e->w.pods)
			continue; /* no pods left */
		/* If the clock was set back, a negative time would make e^(t / tau) overflow. */
		elapsed = fmax((double)(s->now_ns - e->w.ns), 0);
		part = -expm1(-elapsed / (double)s->tau_ns);
		mean = e->sum / e->w.loaded; /* the mean is NaN if no pod is loaded */
		e->w.pressure = e->begun && e->w.loaded
					? e->w.pressure + part * (mean - e->w.pressure)
					: mean;
		e->w.anomalous_ratio = (double)e->w.anomalous / e->w.pods;
		e->w.ns = s->now_ns;
		e->begun = e->w.loaded;
		s->entry[n++] = *e;
	}
	s->used = n;
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < n; i++)
		s->shown[i] = s->entry[i].w;
	s->shows = n;
	pthread_mutex_unlock(&s->lock);
}

size_t act_scale_workloads(struct act_scale *s, struct act_workload *out, size_t max)
{
	size_t n;

	pthread_mutex_lock(&s->lock);
	n = s->shows;
	memcpy(out, s->shown, (n < max ? n : max) * sizeof(*out));
	pthread_mutex_unlock(&s->lock);
	return n;
}

uint64_t act_scale_left_out(const struct act_scale *s)
{
	return relaxed_load(s->left_out);
}
