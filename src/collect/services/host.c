// SPDX-License-Identifier: Apache-2.0
/*
 * host.c - saturation according to the region of a host (docs/host.md): the resources that
 * containers use, their limits, and the time that tasks wait. A region counts only if the agent
 * attests that its publisher is root or the agent's own user, so that no other publisher can make
 * claims about a container.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/read/calc.h"
#include "collect/services/internal.h"

enum { CPU_SECONDS, WAIT_CPU, WAIT_MEMORY, WAIT_IO, BYTES, BYTES_MAX, QUOTA, PERIOD, VALUES };
#define RATES 4 /* the first RATES values are counters */

static const char *const names[VALUES] = {
	[CPU_SECONDS] = "cpu_usage_seconds",
	[WAIT_CPU] = "pressure_cpu_waiting_seconds",
	[WAIT_MEMORY] = "pressure_memory_waiting_seconds",
	[WAIT_IO] = "pressure_io_waiting_seconds",
	[BYTES] = "memory_working_set_bytes",
	[BYTES_MAX] = "spec_memory_limit_bytes",
	[QUOTA] = "spec_cpu_quota",
	[PERIOD] = "spec_cpu_period",
};
_Static_assert(VALUES == SERVICES_HOST_VALUES && RATES == SERVICES_HOST_RATES, "as in internal.h");

/* ---- values of hosts ---- */

static int by_name(const void *a, const void *b)
{
	const struct collect_services_container *x = a, *y = b;

	return strcmp(x->target, y->target) ?: strcmp(x->id, y->id);
}

static struct collect_services_container *
find_container(struct collect_services_container *v, size_t n, const char *target, const char *id)
{
	struct collect_services_container key = {.target = target};

	snprintf(key.id, sizeof(key.id), "%.12s", id);
	return n ? bsearch(&key, v, n, sizeof(*v), by_name) : NULL;
}

struct box_walk {
	struct collect_services *s;
	const char *target;
	size_t first; /* index of this host's first container, which is the host itself */
};

/*
 * Finds or adds the container with this id; while a host's region is walked, its containers are
 * contiguous.
 */
static struct collect_services_container *container_of(struct box_walk *w, const char *id)
{
	struct collect_services *s = w->s;
	struct collect_services_container *c;

	/* Series of one container are mostly adjacent. */
	for (size_t i = s->containers; i > w->first; i--)
		if (!strncmp(s->container[i - 1].id, id, sizeof(c->id) - 1))
			return &s->container[i - 1];
	if (s->containers - w->first > SERVICES_CONTAINERS_MAX ||
	    !BASE_GROW(s->container, s->containers, s->container_room)) {
		s->left_out++;
		return NULL;
	}
	c = &s->container[s->containers++];
	*c = (struct collect_services_container){.target = w->target};
	snprintf(c->id, sizeof(c->id), "%.12s", id);
	for (int i = 0; i < VALUES; i++)
		c->value[i] = NAN;
	return c;
}

static void take_metric(const struct region_metric *m, const uint64_t *value, void *arg)
{
	struct box_walk *w = arg;
	const bool of_host = !strncmp(m->name, "node_", 5);
	const char *name = m->name + (of_host ? 5 : 10), *id = "";
	struct collect_services_container *c;
	size_t n;
	int i;

	if (!of_host && strncmp(m->name, "container_", 10))
		return;
	n = strlen(name);
	n -= n > 6 && !strcmp(name + n - 6, "_total") ? 6 : 0;
	for (i = of_host ? WAIT_CPU : 0; i < (of_host ? RATES : VALUES); i++)
		if (strlen(names[i]) == n && !strncmp(names[i], name, n))
			break;
	if (i == (of_host ? RATES : VALUES))
		return;
	if (!of_host)
		id = region_label_in(m->labels, m->label_count, "container_id");
	/* The host itself is the container with an empty id. */
	c = of_host || *id ? container_of(w, id) : NULL;
	if (c)
		c->value[i] = collect_history_double(m, collect_history_word(m, value));
}

/*
 * Computes the growth of the counters per second, in cores and shares of time. Until the next read,
 * the rates of the last one hold.
 */
static void get_rates(struct collect_services_container *c,
		      const struct collect_services_container *old)
{
	const double seconds = old ? (double)(c->fresh_ns - old->fresh_ns) * 1e-9 : 0;

	for (int i = 0; i < RATES; i++) {
		double by = old ? old->rate[i] : NAN;

		if (seconds > 0)
			by = (c->value[i] - old->value[i]) / seconds;
		c->rate[i] = by >= 0 ? by : NAN;
	}
}

void collect_services_hosts(struct collect_services *s)
{
	struct collect_services_container *old = s->container;
	size_t olds = s->containers, room = s->container_room;

	s->container = s->container_before;
	s->container_room = s->container_before_room;
	s->containers = 0;
	for (size_t i = 0; i < s->regions; i++) {
		struct box_walk w = {.s = s, .target = s->region[i].target, .first = s->containers};
		uint64_t fresh_ns = 0;

		if (s->region[i].host && s->region[i].live)
			collect_collector_metrics(s->c, s->region[i].instance, take_metric, &w,
						  &fresh_ns);
		for (size_t k = w.first; k < s->containers; k++)
			s->container[k].fresh_ns = fresh_ns;
	}
	if (s->containers)
		qsort(s->container, s->containers, sizeof(*s->container), by_name);
	for (size_t i = 0; i < s->containers; i++)
		get_rates(&s->container[i],
			  find_container(old, olds, s->container[i].target, s->container[i].id));
	s->container_before = old;
	s->container_before_room = room;
}

/* ---- saturation of services ---- */

static void add_value(double *sum, double v)
{
	if (!isnan(v))
		*sum = (isnan(*sum) ? 0 : *sum) + v;
}

static void raise_to(double *of, double v)
{
	if (!(*of >= v) && !isnan(v))
		*of = v > 1 ? 1 : v;
}

static void use_container(struct collect_services_service *v, struct collect_services_container *c)
{
	double cores = c->value[QUOTA] > 0 && c->value[PERIOD] > 0
			       ? c->value[QUOTA] / c->value[PERIOD]
			       : NAN;

	if (c->user == v)
		return; /* another process in the same container */
	c->user = v;
	add_value(&v->box_cores, c->rate[CPU_SECONDS]);
	add_value(&v->box_bytes, c->value[BYTES]);
	raise_to(&v->cpu_ratio, c->rate[CPU_SECONDS] / cores);
	raise_to(&v->memory_ratio,
		 c->value[BYTES_MAX] > 0 ? c->value[BYTES] / c->value[BYTES_MAX] : NAN);
	for (int i = 0; i < 3; i++)
		raise_to(&v->pressure[i], c->rate[WAIT_CPU + i]);
}

void collect_services_saturation(struct collect_services *s)
{
	for (struct collect_services_service *v = s->first; v; v = v->next) {
		v->box_cores = v->box_bytes = v->cpu_ratio = v->memory_ratio = NAN;
		v->pressure[0] = v->pressure[1] = v->pressure[2] = NAN;
	}
	for (size_t i = 0; i < s->regions; i++) {
		const struct collect_services_region *r = &s->region[i];
		struct collect_services_container *c = NULL;

		if (!r->service || r->kernel || !r->live)
			continue;
		if (*r->container)
			c = find_container(s->container, s->containers, r->target, r->container);
		if (c)
			use_container(r->service, c);
	}
	/* Use the host's values for services without a known container. */
	for (size_t i = 0; i < s->regions; i++) {
		const struct collect_services_region *r = &s->region[i];
		struct collect_services_container *c;

		if (!r->service || r->kernel || !r->live || !isnan(r->service->box_cores))
			continue;
		c = find_container(s->container, s->containers, r->target, "");
		for (int k = 0; c && k < 3; k++)
			raise_to(&r->service->pressure[k], c->rate[WAIT_CPU + k]);
	}
	for (struct collect_services_service *v = s->first; v; v = v->next) {
		v->cores = isnan(v->box_cores) ? v->cores : v->box_cores;
		v->bytes = isnan(v->box_bytes) ? v->bytes : v->box_bytes;
	}
}
