// SPDX-License-Identifier: Apache-2.0
#include "collect/services/services.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "collect/read/calc.h"
#include "collect/services/internal.h"

#define LOOK_MS	   1000
#define SERIES_MAX (1u << 20) /* maximum series whose last change is tracked: 16 MiB */

/* ---- services ---- */

static void copy_name(char to[COLLECT_SERVICE_NAME_BYTES], const char *from, size_t n)
{
	n = BASE_MIN(n, COLLECT_SERVICE_NAME_BYTES - 1);
	memcpy(to, from, n);
	to[n] = '\0';
}

/* Returns true for the regions of Sidelight itself and of a host, which are not services. */
static bool is_own(const struct region_info *info)
{
	const char *service = region_label(info, "service");

	return !strcmp(service, "sidelight-agent") || !strcmp(service, "sidelight-bridge") ||
	       !strcmp(service, "host");
}

/* Copies the name of a region's service, or "" if there is none. */
static void name_of(const struct collect_region_view *r, char name[COLLECT_SERVICE_NAME_BYTES])
{
	static const char *const keys[] = {"service", "unit", "container", "pod"};
	const char *text = "";
	size_t n;

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && !*text; i++)
		text = region_label(r->info, keys[i]);
	n = act_service_length(text);
	copy_name(name, text, n);
	if (!n && r->info->pid)
		snprintf(name, COLLECT_SERVICE_NAME_BYTES, "process %u", r->info->pid);
}

static struct collect_services_service *find_service(struct collect_services *s,
						     const struct collect_region_view *r)
{
	const char *space = region_label(r->info, "namespace");
	struct collect_service_name name;
	struct collect_services_service *v;
	uint64_t hash;

	name_of(r, name.service);
	copy_name(name.kube_namespace, space, strlen(space));
	if (!*name.service || *name.service == '(' || is_own(r->info))
		return NULL;
	hash = base_hash_text(base_hash_text(0, name.service), name.kube_namespace);
	for (v = base_table_first(&s->by_name, hash); v; v = base_table_next(v))
		if (!strcmp(v->name.service, name.service) &&
		    !strcmp(v->name.kube_namespace, name.kube_namespace))
			return v;
	if (s->services == COLLECT_SERVICES_MAX || !(v = calloc(1, sizeof(*v)))) {
		s->left_out++;
		return NULL;
	}
	v->cores = v->bytes = v->kernel_requests = NAN;
	v->name = name;
	v->next = s->first;
	s->first = v;
	base_table_add(&s->by_name, v, hash);
	s->services++;
	return v;
}

static void free_service(struct collect_services_service *v)
{
	free(v->latency);
	free(v->limits);
	free(v->anomaly);
	free(v);
}

/* Removes services without a region, and their edges. */
static void forget_empty(struct collect_services *s)
{
	for (struct collect_services_service **at = &s->first, *v; (v = *at);) {
		size_t kept = 0;

		if (v->regions) {
			at = &v->next;
			continue;
		}
		for (size_t i = 0; i < s->edges; i++)
			if (s->edge[i].from != v && s->edge[i].to != v)
				s->edge[kept++] = s->edge[i];
		s->edges = kept;
		*at = v->next;
		base_table_remove(&s->by_name, v);
		s->services--;
		free_service(v);
	}
}

/* ---- regions ---- */

static void free_region(struct collect_services *s, struct collect_services_region *r)
{
	if (r->service)
		r->service->regions--;
	s->series -= r->series_count;
	free(r->series);
	free(r->latency);
}

/* When the region is read again, its values will include all growth in the meantime. */
static void forget_values(struct collect_services_region *r)
{
	for (int i = 0; i < COLLECT_RULE_ROLES; i++)
		r->chosen[i] = UINT32_MAX;
	r->requests = r->errors = r->cores = NAN;
	free(r->latency);
	r->latency = NULL;
}

struct collect_services_region *collect_services_region(struct collect_services *s,
							uint64_t instance)
{
	const struct collect_services_region key = {.instance = instance};

	return s->regions ? bsearch(&key, s->region, s->regions, sizeof(*s->region), base_by_u64)
			  : NULL;
}

static void list_pod(struct collect_services_service *v, const struct collect_region_view *r)
{
	const char *host = r->hostname ? r->hostname : r->target ? r->target : "";

	v->pods++;
	v->live += r->state == SL_STATE_LIVE && !r->stale;
	v->stale += r->state == SL_STATE_LIVE && r->stale;
	v->dead += r->state == SL_STATE_DEAD;
	if (v->instances < COLLECT_SERVICES_LISTED)
		v->instance[v->instances++] = r->info->instance;
	for (uint32_t i = 0; i < v->hosts; i++)
		if (!strcmp(v->host[i], host))
			return;
	if (v->hosts < COLLECT_SERVICES_LISTED && *host)
		v->host[v->hosts++] = host;
}

/* Moves a region from the previous look to this one. */
static void note_region(const struct collect_region_view *r, void *arg)
{
	struct collect_services *s = arg;
	struct collect_services_region *old = collect_services_region(s, r->info->instance), *to;

	if (!BASE_GROW(s->next, s->next_count, s->next_room)) {
		s->left_out++;
		return;
	}
	to = &s->next[s->next_count++];
	*to = (struct collect_services_region){.instance = r->info->instance};
	if (old) {
		*to = *old;
		old->service = NULL;
		old->series = NULL;
		old->series_count = 0;
		old->series_room = 0;
		old->latency = NULL;
	} else {
		forget_values(to);
	}
	if (!to->service && !(r->fault && *r->fault)) {
		to->service = find_service(s, r);
		if (to->service)
			to->service->regions++;
	}
	to->kernel = r->info->kind == SL_REGION_FLOWS;
	to->live = r->state == SL_STATE_LIVE && !r->stale;
	to->stale = r->state == SL_STATE_LIVE && r->stale;
	to->target = r->target;
	snprintf(to->container, sizeof(to->container), "%s", r->tenant.container);
	to->host = !strcmp(region_label(r->info, "service"), "host") &&
		   (r->tenant.trusted || !r->tenant.known);
	if (!to->service || to->kernel)
		return;
	list_pod(to->service, r);
	if (to->live && r->info->pid && !*r->tenant.container &&
	    BASE_GROW(s->process, s->processes, s->process_room))
		s->process[s->processes++] =
			(struct collect_services_process){r->info->pid, r->target, to->service};
}

/* ---- values ---- */

/* The sums of one region's metrics for each role, using the best name. */
struct services_sums {
	struct collect_services *s;
	struct collect_services_region *r;
	struct {
		uint32_t rank;
		double sum, failed;
		bool outcomes;
		char name[SL_NAME_MAX + 1];
	} of[COLLECT_RULE_ROLES];
	struct collect_latency latency;
};

static uint64_t word_of(const struct region_metric *m, const uint64_t *value)
{
	if (region_is_histogram(m))
		return base_hash(0, value + SL_HIST_BUCKETS, m->bucket_count * sizeof(*value));
	return m->kind == SL_KIND_INFO ? 0 : value[0];
}

static bool is_changing(const struct collect_services *s, const struct collect_services_series *at)
{
	return at->changed && s->tick + 1 - at->changed < COLLECT_SERVICES_WINDOW;
}

void collect_services_still(struct collect_services *s, uint64_t instance, bool *still, size_t n)
{
	struct collect_services_region *r;

	pthread_mutex_lock(&s->lock);
	r = collect_services_region(s, instance);
	for (size_t i = 0; r && i < n && i < r->series_count; i++)
		still[i] = !is_changing(s, &r->series[i]);
	pthread_mutex_unlock(&s->lock);
}

static void note_change(struct collect_services *s, struct collect_services_region *r,
			const struct region_metric *m, const uint64_t *value)
{
	uint64_t word = word_of(m, value);
	struct collect_services_series *at;

	while (r->series_count <= m->id) {
		if (s->series >= SERIES_MAX || m->id >= SERIES_MAX ||
		    !BASE_GROW(r->series, r->series_count, r->series_room)) {
			s->left_out++;
			return;
		}
		r->series[r->series_count++] = (struct collect_services_series){.word = word};
		s->series++;
	}
	at = &r->series[m->id];
	if (at->word != word) {
		at->word = word;
		at->changed = s->tick + 1;
	}
	if (is_changing(s, at))
		r->service->changing++;
	else
		r->service->unchanged++;
}

static void take_metric(const struct region_metric *m, const uint64_t *value, void *arg)
{
	struct services_sums *t = arg;
	struct collect_rule rule;
	enum collect_outcome outcome;
	double v;

	note_change(t->s, t->r, m, value);
	if (t->r->kernel)
		return;
	rule = collect_rule_again(t->s->rule, SERVICES_RULES, m);
	if (rule.role == COLLECT_RULE_NONE || rule.rank > t->of[rule.role].rank)
		return;
	/* For each rule, use only the first name: several names would count a request twice. */
	if (rule.rank == t->of[rule.role].rank && strcmp(t->of[rule.role].name, m->name))
		return;
	if (rule.rank < t->of[rule.role].rank) {
		t->of[rule.role].rank = rule.rank;
		t->of[rule.role].sum = t->of[rule.role].failed = 0;
		t->of[rule.role].outcomes = false;
		snprintf(t->of[rule.role].name, sizeof(t->of[rule.role].name), "%s", m->name);
		if (rule.role == COLLECT_RULE_LATENCY)
			memset(&t->latency, 0, sizeof(t->latency));
	}
	v = collect_history_double(m, collect_history_word(m, value));
	outcome = collect_outcome_of(m);
	t->of[rule.role].outcomes |= outcome != COLLECT_OUTCOME_UNKNOWN;
	t->of[rule.role].sum += v;
	if (outcome == COLLECT_OUTCOME_ERROR)
		t->of[rule.role].failed += v;
	if (rule.role == COLLECT_RULE_LATENCY)
		collect_latency_add(&t->latency, m, value + SL_HIST_BUCKETS, rule.unit);
}

/* Returns the growth of a sum since the last read; NaN if the metric has changed. */
static double get_growth(struct services_sums *t, enum collect_rule_role role)
{
	struct collect_services_region *r = t->r;
	double by = t->of[role].sum - r->sum[role];
	bool same = r->chosen[role] == t->of[role].rank && by >= 0;

	r->chosen[role] = t->of[role].rank;
	r->sum[role] = t->of[role].sum;
	return same && t->of[role].rank != UINT32_MAX ? by : NAN;
}

static void take_requests(struct services_sums *t, double seconds)
{
	struct collect_services_region *r = t->r;
	double counted = get_growth(t, COLLECT_RULE_REQUESTS),
	       timed = get_growth(t, COLLECT_RULE_LATENCY);
	double errors = get_growth(t, COLLECT_RULE_ERRORS), failed;
	enum collect_rule_role role = t->of[COLLECT_RULE_REQUESTS].rank != UINT32_MAX
					      ? COLLECT_RULE_REQUESTS
					      : COLLECT_RULE_LATENCY;
	double requests = role == COLLECT_RULE_REQUESTS ? counted : timed;

	failed = t->of[role].failed - r->failed;
	r->failed = t->of[role].failed;
	r->requests = requests / seconds;
	failed = t->of[role].outcomes ? failed : errors;
	r->errors = failed > 0 ? failed / seconds : 0;
	if (t->of[role].rank != UINT32_MAX)
		snprintf(r->service->requests_metric, sizeof(r->service->requests_metric), "%s",
			 t->of[role].name);
}

static void take_latency(struct services_sums *t, uint32_t at)
{
	struct collect_services_region *r = t->r;
	struct collect_services_service *v = r->service;

	if (t->of[COLLECT_RULE_LATENCY].rank == UINT32_MAX)
		return;
	if (!v->latency)
		v->latency = calloc(SERVICES_TICKS, sizeof(*v->latency));
	if (!r->latency) {
		r->latency = malloc(sizeof(*r->latency));
		if (r->latency)
			*r->latency = t->latency;
	}
	if (!v->latency || !r->latency)
		return;
	snprintf(v->latency_metric, sizeof(v->latency_metric), "%s",
		 t->of[COLLECT_RULE_LATENCY].name);
	collect_latency_grown(&v->latency[at], r->latency, &t->latency);
	*r->latency = t->latency;
}

/*
 * Adds the region's rates to its service. They hold until the next read, because a region may be
 * read less often than it is looked at, and an agent may restart in between: then the values do not
 * grow, although requests go on.
 */
static void tell_rates(const struct services_sums *t, struct collect_services_tick *tick)
{
	const struct collect_services_region *r = t->r;
	struct collect_services_service *v = r->service;

	if (!isnan(r->requests)) {
		tick->told = true;
		tick->requests += r->requests;
		tick->errors += r->errors;
	}
	if (!isnan(r->cores) && r->live)
		v->cores = (isnan(v->cores) ? 0 : v->cores) + r->cores;
	if (t->of[COLLECT_RULE_MEMORY].rank != UINT32_MAX && r->live)
		v->bytes = (isnan(v->bytes) ? 0 : v->bytes) + t->of[COLLECT_RULE_MEMORY].sum;
}

static void look_at_region(struct collect_services *s, struct collect_services_region *r,
			   struct services_sums *t)
{
	const uint32_t at = s->tick % SERVICES_TICKS;
	uint64_t fresh_ns;
	double seconds;

	memset(t, 0, sizeof(*t));
	t->s = s;
	t->r = r;
	for (int i = 0; i < COLLECT_RULE_ROLES; i++)
		t->of[i].rank = UINT32_MAX;
	if (collect_collector_metrics(s->c, r->instance, take_metric, t, &fresh_ns) || r->kernel)
		return;
	if (r->stale) {
		forget_values(r);
		return;
	}
	if (fresh_ns != r->fresh_ns) {
		seconds = (double)(fresh_ns - r->fresh_ns) * 1e-9;
		r->fresh_ns = fresh_ns;
		take_requests(t, seconds);
		take_latency(t, at);
		r->cores = get_growth(t, COLLECT_RULE_CPU) / seconds;
	} else if (!r->live && r->requests > 0) {
		r->requests = r->errors = 0; /* it has ended, so it is not read again */
	}
	tell_rates(t, &r->service->tick[at]);
}

/* ---- a look ---- */

static void begin_look(struct collect_services *s)
{
	const uint32_t at = s->tick % SERVICES_TICKS;

	for (struct collect_services_service *v = s->first; v; v = v->next) {
		v->pods = v->live = v->stale = v->dead = v->hosts = v->instances = 0;
		v->changing = v->unchanged = 0;
		v->cores = v->bytes = NAN;
		v->tick[at] = (struct collect_services_tick){.told = false};
		if (v->latency)
			memset(&v->latency[at], 0, sizeof(v->latency[at]));
		v->kernel_requests = NAN;
		memset(&v->kernel_latency, 0, sizeof(v->kernel_latency));
	}
}

static void take_regions(struct collect_services *s)
{
	struct collect_services_region *old = s->region;
	size_t room = s->region_room;

	s->next_count = s->processes = 0;
	collect_collector_regions(s->c, note_region, s);
	for (size_t i = 0; i < s->regions; i++)
		free_region(s, &s->region[i]);
	s->region = s->next;
	s->regions = s->next_count;
	s->region_room = s->next_room;
	s->next = old;
	s->next_room = room;
	if (s->regions)
		qsort(s->region, s->regions, sizeof(*s->region), base_by_u64);
	if (s->processes)
		qsort(s->process, s->processes, sizeof(*s->process), base_by_u64);
}

void collect_services_look(struct collect_services *s, int64_t real_ns, uint64_t ns)
{
	struct services_sums *t = malloc(sizeof(*t));

	pthread_mutex_lock(&s->lock);
	s->tick++;
	s->seconds[s->tick % SERVICES_TICKS] = s->looked_ns ? (double)(ns - s->looked_ns) * 1e-9
							    : 0;
	s->looked_ns = ns;
	s->now_ns = real_ns;
	s->left_out = 0;
	begin_look(s);
	take_regions(s);
	for (size_t i = 0; t && i < s->regions; i++)
		if (s->region[i].service)
			look_at_region(s, &s->region[i], t);
	forget_empty(s);
	collect_services_hosts(s);
	collect_services_saturation(s);
	collect_services_layers(s);
	collect_services_connections(s);
	pthread_mutex_unlock(&s->lock);
	free(t);
}

/* ---- the thread ---- */

static void *services_main(void *arg)
{
	struct collect_services *s = arg;

	pthread_setname_np(pthread_self(), "services");
	do
		collect_services_look(s, (int64_t)base_realtime_ns(), base_now_ns());
	while (!base_stop_wait(s->thread.stop, LOOK_MS));
	return NULL;
}

struct collect_services *collect_services_new(struct collect_collector *c)
{
	struct collect_services *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->c = c;
	pthread_mutex_init(&s->lock, NULL);
	if (base_table_init(&s->by_name))
		return s;
	collect_services_free(s);
	return NULL;
}

int collect_services_start(struct collect_services *s)
{
	return base_thread_start(&s->thread, services_main, s);
}

void collect_services_free(struct collect_services *s)
{
	struct collect_services_service *v;

	if (!s)
		return;
	base_thread_stop(&s->thread);
	for (size_t i = 0; i < s->regions; i++)
		free_region(s, &s->region[i]);
	while ((v = s->first)) {
		s->first = v->next;
		free_service(v);
	}
	base_table_free(&s->by_name);
	free(s->region);
	free(s->next);
	free(s->process);
	free(s->container);
	free(s->container_before);
	free(s->initiated);
	free(s->accepted);
	free(s->edge);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
