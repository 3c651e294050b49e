// SPDX-License-Identifier: Apache-2.0
/* self_tenant.c - the collector's own series about tenants: resources held and refused */
#include <stdio.h>

#include "base/base.h"
#include "collect/read/host.h"
#include "collect/read/index.h"
#include "collect/read/self.h"

/* Returns the next tenant and sets its labels: the regions of an index are sorted by tenant. */
static const struct collect_tenant *tenant_at(struct collect_self *s, struct export_series *out)
{
	const struct collect_tenant *t, *before;
	struct region_text_label labels[6];
	uint32_t n = 0;
	char key[20];

	s->tenant = s->at ? s->tenant : 0;
	before = s->tenant ? s->x->region[s->tenant - 1]->tenant : NULL;
	while (s->x && s->tenant < s->x->regions &&
	       (s->x->region[s->tenant]->tenant == before ||
		!s->x->region[s->tenant]->tenant->known))
		s->tenant++;
	if (!s->x || s->tenant == s->x->regions)
		return NULL;
	t = s->x->region[s->tenant++]->tenant;
	snprintf(key, sizeof(key), "%016llx", (unsigned long long)t->who.key);
	labels[n++] = (struct region_text_label){"host", collect_host_name(t->host)};
	labels[n++] = (struct region_text_label){"target", t->host->target};
	labels[n++] = (struct region_text_label){"tenant", key};
	labels[n++] = (struct region_text_label){"uid", t->uid};
	if (*t->container)
		labels[n++] = (struct region_text_label){"container_id", t->container};
	if (*t->pod)
		labels[n++] = (struct region_text_label){"pod_uid", t->pod};
	return collect_self_labels(s, out, labels, n) ? t : NULL;
}

static uint64_t lines_of(const struct collect_tenant *t)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < t->host->links; i++)
		sum += relaxed_load(t->turn[i].lines);
	return sum;
}

#define OF_TENANT(name, value) SERIES(name, t, tenant_at(s, out), value)

OF_TENANT(conflicts, collect_self_u64(out, relaxed_load(t->conflicts)))
OF_TENANT(held, collect_self_u64(out, relaxed_load(t->held_layouts)))
OF_TENANT(layouts, collect_self_f64(out, (double)relaxed_load(t->layout_ns) * 1e-9))
OF_TENANT(lines, collect_self_u64(out, lines_of(t)))
OF_TENANT(every, collect_self_u64(out, collect_tenant_every(t)))
OF_TENANT(refused, collect_self_u64(out, relaxed_load(t->refused_series)))
OF_TENANT(series, collect_self_u64(out, relaxed_load(t->series)))
OF_TENANT(trusted, collect_self_u64(out, t->who.trusted))

static const struct collect_self_family tenant_families[] = {
	{"sidelight_tenant_conflicts", GAUGE, "",
	 "Series of a tenant left out because they conflict with the series of another tenant.",
	 conflicts},
	{"sidelight_tenant_held_layouts", COUNTER, "",
	 "Layouts and series lists postponed because the tenant had used up its share of the time "
	 "for them.",
	 held},
	{"sidelight_tenant_layout_seconds", COUNTER, "seconds",
	 "Time spent on computing layouts from a tenant's schemas.", layouts},
	{"sidelight_tenant_lines", GAUGE, "",
	 "Lines read in one pass over all regions of a tenant.", lines},
	{"sidelight_tenant_read_every", GAUGE, "",
	 "Rounds between reads of a tenant's regions: 1, or more if reading them takes more than "
	 "the tenant's fair share.",
	 every},
	{"sidelight_tenant_refused_series", COUNTER, "",
	 "Series of a tenant refused because it has used up its share of --max-series.", refused},
	{"sidelight_tenant_series", GAUGE, "",
	 "Number of series of a tenant that count towards "
	 "--max-series.",
	 series},
	{"sidelight_tenant_trusted", GAUGE, "",
	 "1 if a tenant is root or the agent's user, outside of containers.", trusted},
};

static bool knows_any(const struct collect_self *s)
{
	for (size_t i = 0; s->x && i < s->x->regions; i++)
		if (s->x->region[i]->tenant->known)
			return true;
	return false;
}

COLLECT_SELF_GROUP(tenant, knows_any);
