// SPDX-License-Identifier: Apache-2.0
#include "cli/collect_discover.h"

#include <string.h>

static int check_all(const struct base_command *self, const struct base_strings *all)
{
	char error[256];

	for (size_t i = 0; i < all->n; i++)
		if (collect_source_check(all->v[i], error, sizeof(error)))
			return base_usage(self, "%s", error);
	return BASE_EXIT_OK;
}

/* Returns true if other processes cannot use this address to reach the collector. */
static bool is_no_name(const char *listen)
{
	const char *port = strrchr(listen, ':');

	return !strncmp(listen, "unix:", 5) || !port || !strcmp(port, ":0") || port == listen ||
	       !strncmp(listen, "0.0.0.0:", 8) || !strncmp(listen, "[::]:", 5);
}

int cli_collect_discover_check(const struct base_command *self, struct cli_collect_discover *d,
			       const char *listen)
{
	struct collect_discover_opts *o = &d->o;
	int code = check_all(self, &o->sources) ?: check_all(self, &o->peers);

	if (code)
		return code;
	if (o->peers.n && !o->sources.n)
		return base_usage(self, "--peers needs --discover: peers share what is discovered");
	if ((o->self || o->peers_config) && !o->peers.n)
		return base_usage(self, "--self and --peers-config need --peers");
	if (o->peers.n && !listen)
		return base_usage(self, "--peers is for --mode prometheus");
	if (o->peers.n && !o->self) {
		if (is_no_name(listen))
			return base_usage(self,
					  "--peers needs --self: peers do not know this "
					  "collector as %s",
					  listen);
		o->self = listen;
	}
	return BASE_EXIT_OK;
}

static const char *file_of(const char *source)
{
	return strncmp(source, "file:", 5) ? NULL : source + 5;
}

void cli_collect_discover_paths(const struct cli_collect_discover *d, struct base_confine_opts *c)
{
	const struct base_strings *all[] = {&d->o.sources, &d->o.peers};
	size_t at = 0;

	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < all[k]->n; i++) {
			while (at < BASE_CONFINE_PATHS && c->paths[at])
				at++;
			if (file_of(all[k]->v[i]) && at < BASE_CONFINE_PATHS)
				c->paths[at] = file_of(all[k]->v[i]);
			else if (file_of(all[k]->v[i]))
				c->any_path = true; /* more files than entries in paths */
			if (!strncmp(all[k]->v[i], "kube:", 5))
				c->read =
					d->o.source.kube_account
						?: "/var/run/secrets/kubernetes.io/serviceaccount";
		}
}
