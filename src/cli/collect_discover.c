// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cli/collect.h"

static int check_shard(const struct base_command *self, const struct collect_discover_opts *o)
{
	struct collect_shard s;
	char error[256];

	if (!o->shard)
		return o->replicas > 1 ? base_usage(self, "--replicas needs --shard")
				       : BASE_EXIT_OK;
	if (!o->sources.n)
		return base_usage(self,
				  "--shard needs --discover: it divides the discovered hosts");
	if (collect_source_file(o->shard))
		return BASE_EXIT_OK; /* the file may change later */
	if (collect_shard_parse(o->shard, &s, error, sizeof(error)))
		return base_usage(self, "--shard: %s", error);
	if (o->replicas > s.members)
		return base_usage(self, "--replicas %u requires at least as many shards, not %u",
				  o->replicas, s.members);
	return BASE_EXIT_OK;
}

int cli_collect_discover_check(const struct base_command *self,
			       const struct collect_discover_opts *o)
{
	char error[256];

	for (size_t i = 0; i < o->sources.n; i++)
		if (collect_source_check(o->sources.v[i], error, sizeof(error)))
			return base_usage(self, "%s", error);
	return check_shard(self, o);
}

void cli_collect_discover_paths(const struct collect_discover_opts *o, struct base_confine_opts *c)
{
	for (size_t i = 0; i < o->sources.n; i++) {
		cli_collect_path(c, collect_source_file(o->sources.v[i]));
		if (!strncmp(o->sources.v[i], "kube:", 5))
			c->read = o->source.kube_account
					  ?: "/var/run/secrets/kubernetes.io/serviceaccount";
	}
	if (o->shard)
		cli_collect_path(c, collect_source_file(o->shard));
}
