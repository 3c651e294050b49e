// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/live_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/grow.h"
#include "act/explain.h"
#include "collect/read/collector_internal.h"
#include "collect/read/host.h"
#include "collect/read/index.h"
#include "collect/read/past.h"
#include "collect/read/receivers.h"
#include "collect/tables/tables.h"
#include "export/kafka.h"
#include "export/push.h"

#define SERVER_NS 1000000000u /* time between two searches for the process of a port */
#define POLL_MS	  100	      /* time between two polls of findings */
#define SECOND_NS 1000000000u /* maximum age of signals */
#define LINGER_NS 1000000000u
#define AGAIN_NS  60000000000u /* interval between alerts about the same incident */

/* ---- anomalies and incidents that changed ---- */

/* Called with the verdicts' lock held, so only queues the change. */
static void note_change(const struct act_anomaly *a, void *arg)
{
	struct collect_live *l = arg;

	if (!BASE_GROW(l->change, l->changes, l->change_room)) {
		relaxed_bump(l->lost_changes, 1);
		return;
	}
	l->change[l->changes++] = *a;
}

static void push_copy(struct export_push *to, const char *json, size_t bytes, size_t count)
{
	char *body = malloc(bytes + 1);

	if (body)
		memcpy(body, json, bytes);
	export_push_send(to, body, body ? bytes : SIZE_MAX, count);
}

static void on_webhook(void *arg, const char *id, const char *json, size_t bytes)
{
	struct collect_live *l = arg;

	if (l->webhook)
		push_copy(l->webhook, json, bytes, 1);
	if (l->o.kafka)
		export_kafka_send(l->o.kafka, EXPORT_KAFKA_INCIDENTS, id, json, bytes);
}

static void on_alerts(void *arg, const char *json, size_t bytes, size_t count)
{
	struct collect_live *l = arg;

	push_copy(l->alert, json, bytes, count);
}

/* Logs incidents, at most one line per second and kind. */
static void log_incident(const struct act_incident *i, unsigned int news)
{
	const struct act_pod_name *n = &i->cause.name;

	if (news & ACT_NEWS_BEGAN)
		base_log_each(BASE_INFO, "analysis", i->id,
			      "incident began id=%s kind=%s service=%s pod=%s host=%s "
			      "score=%.3g sentence=\"%s\"",
			      i->id, act_incident_kinds[i->kind], n->service, n->pod, n->host,
			      i->cause.peak, i->sentence);
	if (news & ACT_NEWS_ENDED)
		base_log_each(BASE_INFO, "analysis", i->id,
			      "incident ended id=%s kind=%s service=%s pod=%s host=%s "
			      "seconds=%.1f members=%u sentence=\"%s\"",
			      i->id, act_incident_kinds[i->kind], n->service, n->pod, n->host,
			      (double)(i->end_ns - i->begin_ns) * 1e-9, i->members + i->left_out,
			      i->sentence);
}

/* Called with the incidents' lock held, so only queues the news. */
static void tell_incident(const struct act_incident *i, unsigned int news, void *arg)
{
	struct collect_live *l = arg;
	struct act_alerts_out out = {.webhook = l->webhook || l->o.kafka ? on_webhook : NULL,
				     .alertmanager = l->alert ? on_alerts : NULL,
				     .arg = l};

	log_incident(i, news);
	act_alerts_take(l->alerts, i, news, (int64_t)base_realtime_ns(), &out);
}

static void find_server(const struct collect_flow_view *v, void *arg)
{
	const struct region_flow *f = v->now;
	struct collect_live *l = arg;

	/* A container may listen on the same port in its own network namespace. */
	if (!(f->flags & SL_FLOW_LISTENER) || f->state != SL_STATE_LIVE || !f->pid ||
	    f->local_port != l->served.port || !v->workload ||
	    v->workload->instance != l->served.instance)
		return;
	l->served.pid = f->pid;
	snprintf(l->served.server, sizeof(l->served.server), "%s[%u]", f->comm, f->pid);
}

/* Names the process that listens on a port of the host, by its service if it publishes metrics. */
static void name_server(struct collect_live *l, struct act_anomaly *a)
{
	const uint64_t now = base_now_ns();
	struct collect_index *x = NULL;

	/* The owner of a listener may become known later. */
	if (l->served.anomaly != a->id || l->served.port != act_find_port(a) ||
	    (!l->served.pid && now - l->served.looked_ns > SERVER_NS)) {
		memset(&l->served, 0, sizeof(l->served));
		l->served.looked_ns = now;
		l->served.anomaly = a->id;
		l->served.instance = a->instance;
		l->served.port = act_find_port(a);
		collect_collector_flows(l->collector, find_server, l);
		x = l->served.pid ? collect_index_get(l->collector) : NULL;
	}
	for (size_t i = 0; x && i < x->regions; i++) {
		const struct region_info *info = x->region[i]->info;

		if (info->pid == l->served.pid && *region_label(info, "service") &&
		    !strcmp(collect_host_name(x->region[i]->host), a->name.host))
			snprintf(l->served.server, sizeof(l->served.server), "%s[%u]",
				 region_label(info, "service"), info->pid);
	}
	collect_index_put(x);
	memcpy(a->server, l->served.server, sizeof(a->server));
}

static void keep_anomalies(struct collect_live *l)
{
	struct act_alerts_out out = {.alertmanager = on_alerts, .arg = l};
	int64_t now = (int64_t)base_realtime_ns();

	l->changes = 0;
	act_verdicts_keep(collect_analysis_verdicts(l->analysis), now, note_change, l);
	for (size_t i = 0; i < l->changes; i++) {
		struct act_anomaly *a = &l->change[i];

		if (act_find_port(a))
			name_server(l, a);
		a->died = a->unread && collect_collector_ended(l->collector, a->instance);
		if (l->listener && !l->listener(l->listener_arg, a))
			relaxed_bump(l->lost_changes, 1);
		act_incidents_take(l->incidents, a, now);
	}
	for (size_t i = 0; l->notify && i < l->changes; i++)
		collect_notify_anomaly(l->notify, &l->change[i], l->incidents);
	act_incidents_poll(l->incidents, now, tell_incident, l);
	act_alerts_send(l->alerts, &out);
	relaxed_store(l->lost_alerts, act_alerts_lost(l->alerts));
}

static void scale_pod(const struct act_pod_verdict *v, void *arg)
{
	struct collect_live *l = arg;
	struct act_pod_verdict pod = *v;

	pod.anomalous = v->anomalous && !act_incidents_is_load(l->incidents, v->instance);
	act_scale_pod(l->scale, &pod);
}

static void scale_workloads(struct collect_live *l)
{
	act_scale_begin(l->scale, (int64_t)base_realtime_ns());
	act_verdicts_pods(collect_analysis_verdicts(l->analysis), scale_pod, l);
	act_scale_end(l->scale);
}

/* ---- the thread ---- */

static void *live_main(void *arg)
{
	struct collect_live *l = arg;
	uint64_t second = base_now_ns();

	pthread_setname_np(pthread_self(), "live");
	while (!base_stop_wait(l->thread.stop, POLL_MS)) {
		keep_anomalies(l);
		if (l->notify)
			collect_notify_poll(l->notify, base_now_ns());
		if (base_now_ns() >= second) {
			scale_workloads(l);
			collect_analysis_connections(l->analysis, l->collector);
			collect_analysis_poll(l->analysis);
			if (l->notify)
				collect_notify_pods(l->notify,
						    collect_analysis_verdicts(l->analysis),
						    l->incidents, base_now_ns());
			second = base_now_ns() + SECOND_NS;
		}
	}
	return NULL;
}

/* ---- start and end ---- */

/* Alerts about anomalies that ended long ago are dropped. */
static struct export_push *open_pusher(const char *name, const char *url, const char *config,
				       char *error, size_t error_bytes)
{
	struct export_push_opts o = {
		.url = url,
		.config = config,
		.name = name,
		.content_type = "application/json",
		.max_bytes = 4 << 20,
		.max_age_ns = 300ull * SECOND_NS,
		.timeout_ns = 5ull * SECOND_NS,
	};

	return export_push_new(&o, error, error_bytes);
}

struct collect_live *collect_live_new(const struct collect_live_opts *opts, char *error,
				      size_t error_bytes)
{
	struct collect_live *l = calloc(1, sizeof(*l));

	snprintf(error, error_bytes, "out of memory");
	if (!l)
		return NULL;
	l->o = *opts;
	l->incidents = act_incidents_new(&(struct act_incidents_opts){.again_ns = AGAIN_NS});
	l->alerts = act_alerts_new(opts->link, AGAIN_NS);
	l->scale = act_scale_new(0, 0);
	if (!l->incidents || !l->alerts || !l->scale)
		goto fail;
	l->o.analysis.incidents = l->incidents;
	l->analysis = collect_analysis_new(&l->o.analysis, error, error_bytes);
	if (!l->analysis)
		goto fail;
	tzset(); /* for times in sentences; the file that it reads cannot be accessed later */
	if (opts->alert)
		l->alert = open_pusher("alert", opts->alert, opts->alert_config, error,
				       error_bytes);
	if (opts->webhook)
		l->webhook = open_pusher("webhook", opts->webhook, opts->webhook_config, error,
					 error_bytes);
	if ((opts->alert && !l->alert) || (opts->webhook && !l->webhook))
		goto fail;
	return l;
fail:
	collect_live_free(l);
	return NULL;
}

int collect_live_attach(struct collect_live *l, struct collect_collector *c)
{
	int err = collect_analysis_attach(l->analysis, c);

	if (!err && l->o.verdict_ttl_ns) {
		l->notify = collect_notify_new(c, l->o.verdict_ttl_ns);
		err = l->notify ? 0 : -ENOMEM;
	}
	l->collector = c;
	return err ?: collect_collector_attach(c, &collect_live_part, l);
}

void collect_live_listen(struct collect_live *l, bool (*fn)(void *arg, const struct act_anomaly *a),
			 void *arg)
{
	l->listener = fn;
	l->listener_arg = arg;
}

static void stats_of(void *push, struct export_push_stats *out)
{
	export_push_stats(push, out);
}

void collect_live_receivers(struct collect_live *l, struct collect_receivers *to)
{
	if (l->alert)
		collect_receivers_add(to, "alert", stats_of, l->alert);
	if (l->webhook)
		collect_receivers_add(to, "webhook", stats_of, l->webhook);
}

int collect_live_start(struct collect_live *l)
{
	return base_thread_start(&l->thread, live_main, l);
}

void collect_live_stop(struct collect_live *l)
{
	if (l)
		base_thread_stop(&l->thread);
}

int collect_live_free(struct collect_live *l)
{
	int err;

	if (!l)
		return 0;
	collect_live_stop(l);
	collect_notify_free(l->notify);
	export_push_free(l->webhook, LINGER_NS);
	export_push_free(l->alert, LINGER_NS);
	err = collect_analysis_free(l->analysis);
	act_alerts_free(l->alerts);
	act_incidents_free(l->incidents);
	act_scale_free(l->scale);
	free(l->change);
	free(l);
	return err;
}

bool collect_collector_analysis(struct collect_collector *c, struct collect_analysis_view *out)
{
	const struct collect_live *l = collect_collector_part(c, &collect_live_part);
	const struct collect_analysis_opts *o;
	struct collect_analysis_stats s;

	if (!l)
		return false;
	o = collect_analysis_opts(l->analysis);
	collect_analysis_stats(l->analysis, &s);
	*out = (struct collect_analysis_view){
		.analysis = l->analysis,
		.verdicts = collect_analysis_verdicts(l->analysis),
		.detector = o->detector,
		.shadow = o->shadow,
		.false_alarms = o->false_alarms,
		.warming = s.judge.warming,
		.scale = l->scale,
		.incidents = l->incidents,
	};
	return true;
}
