// SPDX-License-Identifier: Apache-2.0
/*
 * marks.c - events on the time axis: starts and ends of incidents; starts, deaths and deployments
 * of publishers; and the start of the collector.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/grow.h"
#include "collect/read/past.h"

#define MARKS_MAX 1000u /* in a response */
/*
 * Publishers of a service belong to one deployment if they start within this time of each other, or
 * of the time when an earlier one closed.
 */
#define DEPLOYMENT_NS 60000000000ll
#define TEXT_BYTES    320u

static const char *const kinds[] = {"start", "death", "deployment", "incident", "end", "collector"};
enum marks_kind {
	MARKS_START,
	MARKS_DEATH,
	MARKS_DEPLOYMENT,
	MARKS_INCIDENT,
	MARKS_END,
	MARKS_COLLECTOR
};

struct marks_mark {
	int64_t ns; /* first, for base_by_u64() */
	enum marks_kind kind;
	uint64_t instance;
	uint32_t pods; /* number of pods in a deployment */
	char service[COLLECT_LIFE_TEXT], kube_namespace[COLLECT_LIFE_TEXT], text[TEXT_BYTES];
};

struct marks {
	struct api_range range;
	struct marks_mark *v;
	size_t n, room;
	bool no_memory;
};

/* Adds a mark with a formatted text, if its time is in the range. */
__attribute__((format(printf, 7, 8))) static void
add_mark(struct marks *m, int64_t ns, enum marks_kind kind, uint64_t instance, const char *service,
	 const char *kube_namespace, const char *fmt, ...)
{
	struct marks_mark *to;
	va_list ap;

	if (ns < m->range.from_ns || ns > m->range.to_ns)
		return;
	if (!BASE_GROW(m->v, m->n, m->room)) {
		m->no_memory = true;
		return;
	}
	to = &m->v[m->n++];
	*to = (struct marks_mark){.ns = ns, .kind = kind, .instance = instance, .pods = 1};
	snprintf(to->service, sizeof(to->service), "%s", service);
	snprintf(to->kube_namespace, sizeof(to->kube_namespace), "%s", kube_namespace);
	va_start(ap, fmt);
	vsnprintf(to->text, sizeof(to->text), fmt, ap);
	va_end(ap);
}

/* Lives of publishers */

static bool same_service(const struct collect_life *a, const struct collect_life *b)
{
	return *a->service && !strcmp(a->service, b->service) &&
	       !strcmp(a->kube_namespace, b->kube_namespace);
}

static const char *pod_name(const struct collect_life *l)
{
	return *l->pod ? l->pod : *l->service ? l->service : "a publisher";
}

/* Finds the previous start of the same service that has a version. */
static const struct collect_life *version_before(const struct collect_life *l, size_t at)
{
	for (size_t i = at; i-- > 0;)
		if (l[i].kind == COLLECT_LIFE_START && *l[i].version && same_service(&l[i], &l[at]))
			return &l[i];
	return NULL;
}

static bool closed_before(const struct collect_life *l, size_t at)
{
	for (size_t i = at; i-- > 0 && l[at].ns - l[i].ns <= DEPLOYMENT_NS;)
		if (l[i].kind == COLLECT_LIFE_CLOSE && same_service(&l[i], &l[at]))
			return true;
	return false;
}

/* Finds a recent deployment of the same service that this start belongs to. */
static struct marks_mark *deployment_before(struct marks *m, const struct collect_life *l)
{
	for (size_t i = m->n; i-- > 0 && l->ns - m->v[i].ns <= DEPLOYMENT_NS;)
		if (m->v[i].kind == MARKS_DEPLOYMENT && !strcmp(m->v[i].service, l->service) &&
		    !strcmp(m->v[i].kube_namespace, l->kube_namespace))
			return &m->v[i];
	return NULL;
}

static void add_start(struct marks *m, const struct collect_life *l, size_t at)
{
	const struct collect_life *life = &l[at], *old = version_before(l, at);
	const bool changed = old && *life->version && strcmp(old->version, life->version);
	struct marks_mark *mark = deployment_before(m, life);

	if (mark)
		mark->pods++;
	else if (changed)
		add_mark(m, life->ns, MARKS_DEPLOYMENT, life->instance, life->service,
			 life->kube_namespace, "%s: %s replaced %s", life->service, life->version,
			 old->version);
	else if (closed_before(l, at))
		add_mark(m, life->ns, MARKS_DEPLOYMENT, life->instance, life->service,
			 life->kube_namespace, "%s: pod %s replaced one that closed", life->service,
			 pod_name(life));
	else
		add_mark(m, life->ns, MARKS_START, life->instance, life->service,
			 life->kube_namespace, "%s began", pod_name(life));
}

static bool add_lives(struct marks *m, struct collect_collector *c)
{
	struct collect_life *l = malloc(COLLECT_LIVES_MAX * sizeof(*l));
	size_t n;

	if (!l)
		return false;
	n = collect_collector_lives(c, l, COLLECT_LIVES_MAX);
	/* Sort them, because a start is recorded late, when the publisher is first read. */
	qsort(l, n, sizeof(*l), base_by_u64);
	for (size_t i = 0; i < n; i++)
		if (l[i].kind == COLLECT_LIFE_START && strcmp(l[i].service, API_AGENT_SERVICE))
			add_start(m, l, i);
		else if (l[i].kind == COLLECT_LIFE_DEATH)
			add_mark(m, l[i].ns, MARKS_DEATH, l[i].instance, l[i].service,
				 l[i].kube_namespace, "%s died (pid %u)", pod_name(&l[i]),
				 l[i].pid);
	free(l);
	return true;
}

/* Incidents */

static bool add_incident(const struct act_incident *i, void *arg)
{
	struct marks *m = arg;
	const struct act_anomaly *a = &i->cause;
	const char *pod = *a->name.pod ? a->name.pod : a->name.service;

	if (i->joined)
		return true;
	add_mark(m, i->begin_ns, MARKS_INCIDENT, a->instance, a->name.service,
		 a->name.kube_namespace, "%s", i->sentence);
	if (i->end_ns)
		add_mark(m, i->end_ns, MARKS_END, a->instance, a->name.service,
			 a->name.kube_namespace, "%s %s", pod,
			 a->died     ? "has ended"
			 : a->unread ? "is no longer read"
				     : "is back to normal");
	return true;
}

/* Response */

/* If there are too many marks, the oldest ones of publishers are left out, but no incidents. */
static void put_marks(struct api_list *l, const struct marks *m)
{
	size_t too_many = m->n > MARKS_MAX ? m->n - MARKS_MAX : 0;

	base_json_kbegin(l->j, "marks", '[');
	for (size_t i = 0; i < m->n; i++) {
		const struct marks_mark *mark = &m->v[i];
		char many[TEXT_BYTES + 32];

		if (too_many && mark->kind != MARKS_INCIDENT && mark->kind != MARKS_END) {
			too_many--;
			continue;
		}
		if (!api_item(l))
			continue;
		snprintf(many, sizeof(many), "%s (%u pods)", mark->text, mark->pods);
		base_put(l->j, KV_TIME("at", mark->ns), KV("kind", kinds[mark->kind]),
			 KV_ID("instance", mark->instance), KV("service", mark->service),
			 KV("text", mark->pods > 1 ? many : mark->text));
		api_item_end(l);
	}
	base_json_end(l->j, ']');
}

void api_get_marks(struct http_request *req, void *arg)
{
	struct marks m = {.n = 0};
	struct api_list l = {.limit = MARKS_MAX};

	if (!api_param_range(req, 3600000000000ull, &m.range))
		return;
	add_mark(&m, api_status_begun_ns(), MARKS_COLLECTOR, 0, "", "", "the collector started");
	m.no_memory |= !add_lives(&m, arg);
	api_incidents(arg, add_incident, &m);
	if (m.no_memory)
		http_reply_error(req, 503, "out of memory");
	l.j = m.no_memory ? NULL : api_answer_begin(req);
	if (!l.j)
		goto out;
	if (m.n)
		qsort(m.v, m.n, sizeof(*m.v), base_by_u64);
	put_marks(&l, &m);
	base_put(l.j, KV_BOOL("truncated", l.truncated || m.n > MARKS_MAX));
	api_answer_end(req, l.j);
out:
	free(m.v);
}
