// SPDX-License-Identifier: Apache-2.0
/* collect_reports.c - sends the items of lists to Kafka, in builds with both DTA and Kafka. */
#include <string.h>

#include "cli/collect.h"
#include "collect/self/reports.h"
#include "collect/self/self.h"

static int attach_reports(struct cli_collect_run *r)
{
	char error[256];
	const struct collect_reports_opts o = {
		.stores = r->stores,
		.kafka = r->kafka,
		.offsets = r->set->kafka_offsets,
		.json = r->set->kafka_flows && !strcmp(r->set->kafka_flows, "json"),
		.ipfix = r->set->ipfix,
	};

	if ((!r->kafka && !r->set->ipfix) || !r->stores)
		return BASE_EXIT_OK;
	r->reports = collect_reports_new(&o, error, sizeof(error));
	if (!r->reports)
		return CLI_FAIL("kafka", "%s", error);
	return collect_self_reports(r->c, r->reports);
}

static void add_paths(const struct cli_collect_settings *s, struct base_confine_opts *c,
		      struct http_files *files)
{
	(void)files;
	cli_collect_path(c, s->kafka_offsets);
}

static int start_reports(struct cli_collect_run *r)
{
	return r->reports ? collect_reports_start(r->reports) : 0;
}

static void free_reports(struct cli_collect_run *r)
{
	collect_reports_free(r->reports);
}

const struct cli_collect_part cli_collect_part_reports = {
	.attach = attach_reports,
	.paths = add_paths,
	.follow = start_reports,
	.stop = free_reports,
};
