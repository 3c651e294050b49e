// SPDX-License-Identifier: Apache-2.0
/* collect_discover.c - 'sidelight collect --discover': discovered hosts and shards. */
#include <string.h>

#include "cli/collect.h"
#include "collect/self/self.h"

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

static int check_discovery(const struct base_command *self, struct cli_collect_settings *s)
{
	const struct base_strings *sources = &s->discover.sources;
	char error[256];

	for (size_t i = 0; i < sources->n; i++)
		if (collect_source_check(sources->v[i], error, sizeof(error)))
			return base_usage(self, "%s", error);
	s->c.spare_hosts = sources->n ? s->max_hosts : 0;
	return check_shard(self, &s->discover);
}

static int attach_discovery(struct cli_collect_run *r)
{
	char error[256];

	if (!r->set->discover.sources.n)
		return BASE_EXIT_OK;
	r->discover = collect_discover_new(r->c, &r->set->discover, error, sizeof(error));
	if (!r->discover)
		return CLI_FAIL("discover", "%s", error);
	return collect_self_discover(r->c, r->discover);
}

/* Adds the files of the sources and of the shard. */
static void add_paths(const struct cli_collect_settings *s, struct base_confine_opts *c,
		      struct http_files *files)
{
	const struct collect_discover_opts *o = &s->discover;

	(void)files;
	for (size_t i = 0; i < o->sources.n; i++) {
		cli_collect_path(c, collect_source_file(o->sources.v[i]));
		if (!strncmp(o->sources.v[i], "kube:", 5))
			c->read = o->source.kube_account
					  ?: "/var/run/secrets/kubernetes.io/serviceaccount";
	}
	if (o->shard)
		cli_collect_path(c, collect_source_file(o->shard));
}

static int start_discovery(struct cli_collect_run *r)
{
	return r->discover ? collect_discover_start(r->discover) : 0;
}

static void stop_discovery(struct cli_collect_run *r)
{
	collect_discover_free(r->discover);
}

const struct cli_collect_part cli_collect_part_discover = {
	.check = check_discovery,
	.attach = attach_discovery,
	.paths = add_paths,
	.follow = start_discovery,
	.stop = stop_discovery,
};
