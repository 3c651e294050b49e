// SPDX-License-Identifier: Apache-2.0
/* http.c - counts of requests refused by the collector's HTTP server, by cause */
#include "base/relaxed.h"
#include "collect/read/self.h"
#include "collect/self/self.h"
#include "http/http.h"

static bool http_refused_of(struct collect_self *s, struct export_series *out)
{
	const uint64_t *refused = s->arg;

	return s->at < HTTP_REFUSALS &&
	       collect_self_label(s, out, "cause", http_refusal_names[s->at]) &&
	       collect_self_u64(out, relaxed_load(refused[s->at]));
}

static const struct collect_self_family http_server_families[] = {
	{"sidelight_collector_http_refused", COUNTER, "",
	 "HTTP requests and connections refused, by cause.", .series = http_refused_of},
};

static const struct collect_part http_server_part = {COLLECT_SELF_FAMILIES(http_server)};

int collect_self_http(struct collect_collector *c, uint64_t *refused)
{
	return collect_collector_attach(c, &http_server_part, refused);
}
