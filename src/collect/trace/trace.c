// SPDX-License-Identifier: Apache-2.0
/* trace.c - the tracer's thread, its start and stop, and views for other threads */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/judge/live.h"
#include "collect/trace/internal.h"

#define EXPORT_LINGER_NS 1000000000u

/* ---- the thread ---- */

static void show_stats(struct collect_tracer *t)
{
	struct act_trace_policy_stats p;

	act_trace_policy_stats(t->policy, &p);
	memcpy(t->stats.kept, p.kept, sizeof(t->stats.kept));
	memcpy(t->stats.over_budget, p.over_budget, sizeof(t->stats.over_budget));
	t->stats.lost_memory += p.lost - t->policy_lost;
	t->policy_lost = p.lost;
	pthread_mutex_lock(&t->lock);
	t->shown = t->stats;
	pthread_mutex_unlock(&t->lock);
}

static void run_period(struct collect_tracer *t)
{
	struct collect_trace_request *again = t->again;
	size_t n = t->decidable;

	t->again = NULL;
	t->tick++;
	collect_trace_pods_look(t);
	for (size_t i = 0; i < n; i++) {
		collect_trace_decide(t, &t->pending[i]);
		t->pending[i].pod->tenant->pendings--;
		collect_trace_pod_put(t->pending[i].pod);
	}
	memmove(t->pending, t->pending + n, (t->pendings - n) * sizeof(*t->pending));
	t->pendings -= n;
	t->decidable = t->pendings;
	while (again) {
		struct collect_trace_request *r = again;

		again = r->next;
		collect_trace_ask_lines(r);
	}
	BASE_TABLE_EACH(&t->pods, pod) {
		struct collect_trace_pod *p = (struct collect_trace_pod *)pod;

		if (p->schema_wanted)
			collect_trace_schema_ask(t, p);
		collect_trace_ask_heads(t, p);
	}
	collect_trace_close_some(t, base_now_ns());
	if (t->otlp)
		export_otlp_flush(t->otlp);
	show_stats(t);
}

static void take_answer(struct collect_tracer *t, struct collect_trace_request *r)
{
	struct collect_trace_kept *kept = r->kept;

	r->again = false;
	r->take(t, r);
	if (r->again) {
		r->tries++;
		r->next = t->again;
		t->again = r;
		return;
	}
	collect_trace_request_free(r);
	if (kept)
		collect_trace_kept_show(t, kept);
}

static void *tracer_main(void *arg)
{
	struct collect_tracer *t = arg;
	uint64_t due = base_now_ns();
	struct collect_analysis_view a;

	t->judged = collect_collector_analysis(t->c, &a);
	pthread_setname_np(pthread_self(), "trace");
	pthread_mutex_lock(&t->queue_lock);
	while (!t->stop) {
		struct collect_trace_request *r = t->queue;

		t->queue = NULL;
		if (!r && base_now_ns() < due) {
			base_cond_wait(&t->queue_filled, &t->queue_lock, due);
			continue;
		}
		pthread_mutex_unlock(&t->queue_lock);
		while (r) {
			struct collect_trace_request *next = r->next;

			take_answer(t, r);
			r = next;
		}
		if (base_now_ns() >= due) {
			run_period(t);
			due = base_now_ns() + TRACE_PERIOD_NS;
		}
		pthread_mutex_lock(&t->queue_lock);
	}
	pthread_mutex_unlock(&t->queue_lock);
	return NULL;
}

/* ---- start and stop ---- */

struct collect_tracer *collect_tracer_new(struct collect_collector *c,
					  const struct collect_tracer_opts *opts, char *error,
					  size_t error_bytes)
{
	struct collect_tracer *t = calloc(1, sizeof(*t));

	snprintf(error, error_bytes, "out of memory");
	if (!t)
		return NULL;
	t->o = *opts;
	t->o.linger_ns = t->o.linger_ns ?: 1000000000;
	t->o.memory = t->o.memory ?: 16u << 20;
	t->c = c;
	t->sequence = 1;
	pthread_mutex_init(&t->queue_lock, NULL);
	pthread_mutex_init(&t->lock, NULL);
	base_cond_init(&t->queue_filled);
	t->policy = act_trace_policy_new(&t->o.policy);
	if (!t->policy || !base_table_init(&t->pods) || !base_table_init(&t->tenants) ||
	    !base_table_init(&t->by_id))
		goto fail;
	t->since_ns = base_realtime_ns();
	if (t->o.otlp) {
		t->otlp = export_otlp_new(t->o.otlp, t->o.otlp_config, t->o.otlp_sent, error,
					  error_bytes);
		if (!t->otlp)
			goto fail;
	}
	if (collect_collector_attach(c, &collect_tracer_part, t))
		goto fail;
	return t;
fail:
	collect_tracer_free(t);
	return NULL;
}

int collect_tracer_start(struct collect_tracer *t)
{
	int error = pthread_create(&t->thread, NULL, tracer_main, t);

	t->running = !error;
	return -error;
}

void collect_tracer_stop(struct collect_tracer *t)
{
	if (!t || !t->running)
		return;
	pthread_mutex_lock(&t->queue_lock);
	t->stop = true;
	pthread_cond_signal(&t->queue_filled);
	pthread_mutex_unlock(&t->queue_lock);
	pthread_join(t->thread, NULL);
	t->running = false;
}

static void free_requests(struct collect_trace_request *r)
{
	while (r) {
		struct collect_trace_request *next = r->next;

		collect_trace_request_free(r);
		r = next;
	}
}

void collect_tracer_free(struct collect_tracer *t)
{
	if (!t)
		return;
	collect_tracer_stop(t);
	free_requests(t->queue);
	free_requests(t->again);
	/* The collector has stopped, so open traces will not become more complete. */
	t->judged = false;
	collect_trace_kept_free_all(t);
	export_otlp_free(t->otlp, EXPORT_LINGER_NS);
	for (size_t i = 0; i < t->pendings; i++)
		collect_trace_pod_put(t->pending[i].pod);
	for (size_t i = 0; i < TRACE_RUNS; i++)
		if (t->run[i].pod)
			collect_trace_pod_put(t->run[i].pod);
	BASE_TABLE_EACH(&t->pods, p)
		collect_trace_pod_put((struct collect_trace_pod *)p);
	act_trace_policy_free(t->policy);
	pthread_cond_destroy(&t->queue_filled);
	pthread_mutex_destroy(&t->queue_lock);
	pthread_mutex_destroy(&t->lock);
	base_table_free(&t->pods);
	base_table_free(&t->tenants);
	base_table_free(&t->by_id);
	free(t);
}

/* ---- views ---- */

void collect_tracer_list(struct collect_tracer *t, bool (*fn)(const struct collect_trace *, void *),
			 void *arg)
{
	pthread_mutex_lock(&t->lock);
	for (struct collect_trace_kept *k = t->newest; k; k = k->older) {
		collect_trace_kept_tidy(t, k);
		if (!fn(&k->t, arg))
			break;
	}
	pthread_mutex_unlock(&t->lock);
}

bool collect_tracer_get(struct collect_tracer *t, uint64_t trace_hi, uint64_t trace_lo,
			void (*fn)(const struct collect_trace *, void *), void *arg)
{
	struct collect_trace_kept *k;

	pthread_mutex_lock(&t->lock);
	k = collect_trace_kept_find(t, trace_hi, trace_lo);
	if (k) {
		collect_trace_kept_tidy(t, k);
		fn(&k->t, arg);
	}
	pthread_mutex_unlock(&t->lock);
	return k != NULL;
}

void collect_tracer_stats(struct collect_tracer *t, struct collect_tracer_stats *out)
{
	pthread_mutex_lock(&t->lock);
	*out = t->shown;
	pthread_mutex_unlock(&t->lock);
	out->exports = t->otlp;
	if (t->otlp)
		export_otlp_stats(t->otlp, &out->otlp);
}

size_t collect_tracer_links(void *tracer, struct collect_trace_link *out)
{
	struct collect_tracer *t = tracer;
	size_t n = 0;

	pthread_mutex_lock(&t->lock);
	for (struct collect_trace_kept *k = t->newest; k && n < COLLECT_TRACE_LINKS; k = k->older) {
		collect_trace_kept_tidy(t, k);
		if (!k->t.instance)
			continue;
		out[n] = (struct collect_trace_link){
			.instance = k->t.instance,
			.trace_hi = k->t.trace_hi,
			.trace_lo = k->t.trace_lo,
			.duration_ns = k->t.duration_ns,
			.end_ns = k->t.start_ns + k->t.duration_ns,
		};
		snprintf(out[n].root, sizeof(out[n].root), "%s", k->t.root);
		n++;
	}
	pthread_mutex_unlock(&t->lock);
	return n;
}
