// SPDX-License-Identifier: Apache-2.0
/* self_tenant.c - the collector's own series about tenants: resources held and refused */
#include <stdio.h>

#include "collect/read/host.h"
#include "collect/read/index.h"
#include "collect/read/self.h"

/* Returns the next tenant and sets its labels: the regions of an index are sorted by tenant. */
static const void *tenant_at(struct collect_self *s, struct export_series *out)
{
	const struct collect_tenant *t, *before;
	struct region_text_label labels[3 + COLLECT_TENANT_LABELS];
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
	n += collect_tenant_labels(t, labels + n);
	return collect_self_labels(s, out, labels, n) ? t : NULL;
}

static uint64_t lines_of(const struct collect_tenant *t)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < t->host->links; i++)
		sum += relaxed_load(t->turn[i].lines);
	return sum;
}

#define OF_TENANT(field) EACH(tenant_at, OF(NULL, FOUND, collect_tenant, field))

SERIES(lines, struct collect_tenant, t, tenant_at(s, out), collect_self_u64(out, lines_of(t)))
SERIES(every, struct collect_tenant, t, tenant_at(s, out),
       collect_self_u64(out, collect_tenant_every(t)))
SERIES(trusted, struct collect_tenant, t, tenant_at(s, out), collect_self_u64(out, t->who.trusted))

static const struct collect_self_family tenant_families[] = {
	{"sidelight_tenant_conflicts", GAUGE, "",
	 "Series of a tenant left out because they conflict with the series of another tenant.",
	 OF_TENANT(conflicts)},
	{"sidelight_tenant_held_layouts", COUNTER, "",
	 "Layouts and series lists postponed because the tenant had used up its share of the time "
	 "for them.",
	 OF_TENANT(held_layouts)},
	{"sidelight_tenant_layout_seconds", COUNTER, "seconds",
	 "Time spent on computing layouts from a tenant's schemas.", OF_TENANT(layout_ns)},
	{"sidelight_tenant_lines", GAUGE, "",
	 "Lines read in one pass over all regions of a tenant.", .series = lines},
	{"sidelight_tenant_read_every", GAUGE, "",
	 "Rounds between reads of a tenant's regions: 1, or more if reading them takes more than "
	 "the tenant's fair share.",
	 .series = every},
	{"sidelight_tenant_refused_series", COUNTER, "",
	 "Series of a tenant refused because it has used up its share of --max-series.",
	 OF_TENANT(refused_series)},
	{"sidelight_tenant_series", GAUGE, "",
	 "Number of series of a tenant that count towards "
	 "--max-series.",
	 OF_TENANT(series)},
	{"sidelight_tenant_trusted", GAUGE, "",
	 "1 if a tenant is root or the agent's user, outside of containers.", .series = trusted},
};

static bool knows_any(const struct collect_self *s)
{
	for (size_t i = 0; s->x && i < s->x->regions; i++)
		if (s->x->region[i]->tenant->known)
			return true;
	return false;
}

COLLECT_SELF_GROUP(tenant, knows_any);
