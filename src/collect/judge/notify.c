// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/notify.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/random.h>

#include <sidelight/attach.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/read/collector_internal.h"
#include "collect/read/host.h"
#include "collect/read/index.h"

#define RENEWALS 3u /* how often a verdict is renewed during its validity */
/* minimum time between two full repeats to a host that reconnects */
#define AGAIN_NS     5000000000u
#define OPEN_NS	     1000000000u /* time between two attempts to open a connection */
#define QUEUE	     32u	 /* maximum number of verdicts in flight to a host */
#define BUFFER_BYTES 4096u

struct notify_pod {
	uint64_t instance;
	uint64_t due_ns; /* when to send again; 0 means now */
	uint64_t seen;	 /* last pass that included the pod */
	int64_t time_ns; /* time of the last finding */
	double score;
	bool anomalous, sent_anomalous;
	size_t host; /* number of the host that was notified */
};

struct peer {
	struct fabric *fabric; /* NULL until first used, or if it could not be opened */
	uint64_t open_ns;      /* when to try again if it could not be opened */
	bool anew;	       /* reconnected: earlier verdicts may be lost */
	bool away;	       /* logged that no verdict can be written */
	uint64_t epoch, again_ns;
};

struct collect_notify {
	struct collect_collector *c;
	uint64_t ttl_ns, reader; /* reader: ID of this collector for the agents */
	struct peer *peer;	 /* peers by host */
	size_t hosts;
	/* Sorted by instance, except for pods added in this pass. */
	struct notify_pod *pod;
	size_t pods, sorted, room;
	uint64_t pass;
	struct act_incidents *incidents; /* during a pass */
	/* Read by any thread. */
	struct collect_notify_stats s;
};

struct collect_notify *collect_notify_new(struct collect_collector *c, uint64_t ttl_ns)
{
	struct collect_notify *t = calloc(1, sizeof(*t));

	if (!t || !(t->peer = calloc(c->hosts, sizeof(*t->peer))) ||
	    getrandom(&t->reader, sizeof(t->reader), 0) != sizeof(t->reader)) {
		collect_notify_free(t);
		return NULL;
	}
	t->c = c;
	t->hosts = c->hosts;
	t->ttl_ns = ttl_ns < SL_VERDICT_TTL_MAX ? ttl_ns : SL_VERDICT_TTL_MAX;
	return t;
}

void collect_notify_free(struct collect_notify *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->hosts; i++)
		fabric_close(t->peer[i].fabric);
	free(t->peer);
	free(t->pod);
	free(t);
}

/* ---- pods ---- */

static struct notify_pod *find_pod(struct collect_notify *t, uint64_t instance)
{
	struct notify_pod key = {.instance = instance};

	return !t->sorted ? NULL : bsearch(&key, t->pod, t->sorted, sizeof(key), base_by_u64);
}

/* ---- hosts ---- */

static struct fabric *fabric_of(struct collect_notify *t, size_t host, uint64_t now_ns)
{
	struct peer *p = &t->peer[host];
	struct fabric_opts o = t->c->opts.fabric;

	if (p->fabric || now_ns < p->open_ns)
		return p->fabric;
	o.notify = true;
	o.queue_depth = QUEUE;
	o.buffer_bytes = BUFFER_BYTES;
	p->fabric = fabric_open(t->c->host[host].target, &o);
	if (p->fabric)
		return p->fabric;
	/* The reason may pass: memory is short, or the RDMA device is away. */
	p->open_ns = now_ns + OPEN_NS;
	if (!p->away)
		base_logf(BASE_WARN, "notify",
			  "cannot write verdicts, will retry host=%s error=\"%s\"",
			  t->c->host[host].target, fabric_error());
	p->away = true;
	return NULL;
}

static void send_verdict(struct collect_notify *t, struct collect_index *x, struct notify_pod *p,
			 uint64_t now_ns)
{
	struct sl_msg_verdict v = {
		.instance = p->instance,
		.flags = p->anomalous ? SL_VERDICT_ANOMALOUS : 0,
		.ttl_ns = t->ttl_ns,
		.time_ns = p->time_ns,
		.score = p->score,
		.reader = t->reader,
	};
	ssize_t i = collect_index_find(x, p->instance);
	const struct collect_region *r = i < 0 ? NULL : x->region[i];
	struct fabric *f;
	int err;

	if (!r || r->synthetic || relaxed_load(r->state) != SL_STATE_LIVE ||
	    !relaxed_load(r->host->wanted))
		return;
	p->host = (size_t)(r->host - t->c->host);
	f = fabric_of(t, p->host, now_ns);
	err = f ? fabric_notify(f, relaxed_load(r->entry), &v) : -ENOTCONN;
	if (err) {
		p->due_ns = 0;
		relaxed_add(t->s.untold, 1);
		return;
	}
	p->sent_anomalous = p->anomalous;
	p->due_ns = now_ns + t->ttl_ns / RENEWALS;
	relaxed_add(t->s.notified, 1);
}

void collect_notify_anomaly(struct collect_notify *t, const struct act_anomaly *a,
			    struct act_incidents *incidents)
{
	struct notify_pod *p = find_pod(t, a->instance);
	struct collect_index *x;

	if (!p || a->unread) /* the next pass sends the verdict of a new pod */
		return;
	p->anomalous = !a->end_ns && !act_incidents_is_load(incidents, a->instance);
	if (p->due_ns && p->anomalous == p->sent_anomalous)
		return;
	p->time_ns = a->last_ns;
	if (p->anomalous)
		p->score = a->peak;
	x = collect_index_get(t->c);
	send_verdict(t, x, p, base_now_ns());
	collect_index_put(x);
}

/* Logs once until the host is reachable again. */
static void log_away(struct collect_notify *t, struct peer *p, enum fabric_state state)
{
	struct fabric_stats stats;

	if (state == FABRIC_DOWN && !p->away) {
		fabric_stats(p->fabric, &stats);
		base_logf(BASE_WARN, "notify",
			  "cannot write verdicts, will retry host=%s error=\"%s\"",
			  t->c->host[p - t->peer].target, stats.last_error);
	}
	if (state != FABRIC_CONNECTING)
		p->away = state == FABRIC_DOWN;
}

void collect_notify_poll(struct collect_notify *t, uint64_t now_ns)
{
	for (size_t i = 0; i < t->hosts; i++) {
		struct peer *p = &t->peer[i];
		uint64_t epoch = p->epoch;

		if (!relaxed_load(t->c->host[i].wanted)) { /* its place may get another host */
			fabric_close(p->fabric);
			*p = (struct peer){.fabric = NULL};
		}
		if (!p->fabric)
			continue;
		log_away(t, p, fabric_drive(p->fabric, now_ns, &epoch));
		p->anew |= epoch != p->epoch;
		p->epoch = epoch;
		if (!p->anew || now_ns < p->again_ns)
			continue;
		/* The host may have a new agent without any verdicts. */
		for (size_t k = 0; k < t->pods; k++)
			if (t->pod[k].host == i)
				t->pod[k].due_ns = 0;
		p->anew = false;
		p->again_ns = now_ns + AGAIN_NS;
	}
}

/* Called with the verdicts' lock held, so only copies. */
static void copy_verdict(const struct act_pod_verdict *v, void *arg)
{
	struct collect_notify *t = arg;
	struct notify_pod *p = find_pod(t, v->instance);

	/* During warm-up, only errors and their end produce a verdict. */
	if (!v->ns || (isinf(v->threshold) && !p))
		return;
	if (!p) {
		if (!BASE_GROW(t->pod, t->pods, t->room))
			return; /* the next pass tries again */
		p = &t->pod[t->pods++];
		*p = (struct notify_pod){.instance = v->instance};
	}
	p->seen = t->pass;
	p->time_ns = v->ns;
	p->anomalous = v->anomalous && !act_incidents_is_load(t->incidents, v->instance);
	/* Scores are sent in units of the threshold. */
	p->score = v->threshold > 0 && isfinite(v->score) ? v->score / v->threshold : 0;
}

void collect_notify_pods(struct collect_notify *t, struct act_verdicts *verdicts,
			 struct act_incidents *incidents, uint64_t now_ns)
{
	int64_t old_ns = (int64_t)(base_realtime_ns() - t->ttl_ns);
	struct collect_index *x;
	size_t n = 0;

	t->pass++;
	t->incidents = incidents;
	act_verdicts_pods(verdicts, copy_verdict, t);
	for (size_t i = 0; i < t->pods; i++)
		if (t->pod[i].seen == t->pass)
			t->pod[n++] = t->pod[i];
	t->pods = n;
	if (n)
		qsort(t->pod, n, sizeof(*t->pod), base_by_u64);
	t->sorted = t->pods;

	x = collect_index_get(t->c);
	for (size_t i = 0; i < t->pods; i++) {
		struct notify_pod *p = &t->pod[i];

		/* A pod that is no longer read has no verdict. */
		if (p->time_ns > old_ns &&
		    (!p->due_ns || now_ns >= p->due_ns || p->anomalous != p->sent_anomalous))
			send_verdict(t, x, p, now_ns);
	}
	collect_index_put(x);
}

void collect_notify_stats(const struct collect_notify *t, struct collect_notify_stats *out)
{
	*out = (struct collect_notify_stats){.notified = relaxed_load(t->s.notified),
					     .untold = relaxed_load(t->s.untold)};
}
