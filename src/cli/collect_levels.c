// SPDX-License-Identifier: Apache-2.0
/* collect_levels.c - 'sidelight collect --publish': series for the collector of the next level. */
#include <errno.h>
#include <string.h>

#include "api/promql.h"
#include "cli/collect.h"
#include "collect/publish/publish.h"

static struct api_promql query[COLLECT_PUBLISH_RULES]; /* the parsed selectors, never freed */
static struct collect_publish_rule rule[COLLECT_PUBLISH_RULES];

static bool name_passes(void *arg, const char *name)
{
	return api_matchers_name(arg, name);
}

static int labels_pass(void *arg, const struct collect_series_view *s)
{
	struct api_matchers *m = arg;
	bool passes = api_matchers_labels(m, s);

	if (!m->too_costly)
		return passes;
	m->too_costly = false;
	return -1;
}

/* Accepts a selector, or sum by (LABELS) of a selector. Returns false for other expressions. */
static bool take_rule(const struct api_promql *q, struct collect_publish_rule *r)
{
	struct api_promql_node *n = q->root;

	if (n->kind == API_PROMQL_AGGREGATE) {
		if (n->aggregation != API_PROMQL_BY_SUM || n->by.without)
			return false;
		r->sum = true;
		r->by = (const char *const *)n->by.v;
		r->by_count = n->by.n;
		n = n->arg[0];
	}
	r->name = name_passes;
	r->labels = labels_pass;
	r->arg = &n->matchers;
	return n->kind == API_PROMQL_SELECTOR && n->type == API_PROMQL_VECTOR && !n->offset_ns &&
	       n->at == API_PROMQL_NOW;
}

static int check_selectors(const struct base_command *self, struct cli_collect_settings *s)
{
	char error[256] = "";

	if (s->publish.n > COLLECT_PUBLISH_RULES)
		return base_usage(self, "at most %u --publish are allowed", COLLECT_PUBLISH_RULES);
	if (s->publish_socket && !s->publish.n)
		return base_usage(self, "--publish-socket needs --publish");
	if (s->publish.n && !s->serves)
		return base_usage(self, "--publish needs --mode prometheus");
	for (size_t i = 0; i < s->publish.n; i++) {
		if (api_promql_parse(&query[i], s->publish.v[i], error, sizeof(error)))
			return base_usage(self, "--publish '%.100s': %s", s->publish.v[i],
					  *error ? error : "out of memory");
		if (!take_rule(&query[i], &rule[i]))
			return base_usage(self,
					  "--publish '%.100s' is neither a selector nor a sum by "
					  "labels over one",
					  s->publish.v[i]);
	}
	return BASE_EXIT_OK;
}

static int attach_publisher(struct cli_collect_run *r)
{
	const struct cli_collect_settings *s = r->set;
	const struct collect_publish_opts o = {
		.rules = rule,
		.rule_count = s->publish.n,
		.socket = s->publish_socket,
		.period_ns = s->c.period_ns,
	};

	if (!s->publish.n)
		return BASE_EXIT_OK;
	r->publish = collect_publish_new(r->c, &o);
	return r->publish ? BASE_EXIT_OK : CLI_FAIL("publish", "%s", strerror(errno));
}

static int start_publisher(struct cli_collect_run *r)
{
	int err = r->publish ? collect_publish_start(r->publish) : 0;

	return err ? CLI_FAIL("publish", "cannot publish series: %s", strerror(-err))
		   : BASE_EXIT_OK;
}

static void stop_publisher(struct cli_collect_run *r)
{
	collect_publish_stop(r->publish);
}

static void free_publisher(struct cli_collect_run *r)
{
	collect_publish_free(r->publish);
}

const struct cli_collect_part cli_collect_part_levels = {
	.check = check_selectors,
	.attach = attach_publisher,
	.follow = start_publisher,
	.stop = stop_publisher,
	.free = free_publisher,
};
