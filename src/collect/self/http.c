// SPDX-License-Identifier: Apache-2.0
/* http.c - what the collector's HTTP server refused, by cause. */
#include "base/relaxed.h"
#include "collect/self/self.h"
#include "http/http.h"

static bool http_refused_of(struct collect_self *s, struct export_series *out)
{
	return s->at < HTTP_REFUSALS &&
	       collect_self_label(s, out, "cause", http_refusal_names[s->at]) &&
	       collect_self_u64(out, relaxed_load(s->c->http_refused[s->at]));
}

static bool http_exposed(const struct collect_self *s)
{
	return s->c->http_refused;
}

static const struct collect_self_family http_families[] = {
	{"sidelight_collector_http_refused", COUNTER, "",
	 "HTTP requests and connections refused, by cause.", http_refused_of},
};

COLLECT_SELF_PART(http, http_exposed);
