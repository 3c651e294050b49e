// SPDX-License-Identifier: Apache-2.0
/* helpers.c - the collector's own series about restarts of helper processes */
#include "base/child.h"
#include "collect/read/self.h"
#include "collect/self/self.h"

static bool restarts_of(struct collect_self *s, struct export_series *out)
{
	const char *name;
	uint64_t n;

	return base_children_restarts(s->at, &name, &n) &&
	       collect_self_label(s, out, "helper", name) && collect_self_u64(out, n);
}

static const struct collect_self_family helper_processes_families[] = {
	{"sidelight_helper_restarts", COUNTER, "",
	 "Helper processes restarted after they exited, by helper.", .series = restarts_of},
};

static const struct collect_part helper_processes_part = {COLLECT_SELF_FAMILIES(helper_processes)};

int collect_self_helpers(struct collect_collector *c)
{
	return collect_collector_attach(c, &helper_processes_part, NULL);
}
