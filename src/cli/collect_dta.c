// SPDX-License-Identifier: Apache-2.0
/* collect_dta.c - 'sidelight collect --dta': stores for reports of network devices. */
#include <string.h>

#include "cli/collect.h"
#include "collect/self/self.h"
#include "dta/store_server/server.h"

static int check_stores(const struct base_command *self, struct cli_collect_settings *s)
{
	if (s->dta && !s->serves)
		return base_usage(self, "--dta needs --mode prometheus");
	if (s->store_bytes && !s->dta)
		return base_usage(self, "--max-store-bytes needs --dta");
	return BASE_EXIT_OK;
}

static int attach_stores(struct cli_collect_run *r)
{
	char error[256];

	if (!r->set->dta)
		return BASE_EXIT_OK;
	r->stores = dta_store_server_new(r->set->dta, error, sizeof(error));
	if (!r->stores)
		return CLI_FAIL("dta", "%s", error);
	dta_store_server_reload_on(r->stores, r->reload);
	dta_store_server_bound(r->stores, r->set->store_bytes);
	return collect_self_stores(r->c, r->stores);
}

static int add_routes(struct cli_collect_run *r, struct http *http)
{
	return r->stores ? api_dta(http, r->stores) : 0;
}

/* The file of stores may be reloaded and then name any path. */
static void add_paths(const struct cli_collect_settings *s, struct base_confine_opts *c,
		      struct http_files *files)
{
	(void)files;
	c->any_path = c->any_path || s->dta;
}

static int start_stores(struct cli_collect_run *r)
{
	char error[512];

	if (!r->stores)
		return BASE_EXIT_OK;
	if (dta_store_server_start(r->stores, error, sizeof(error)))
		return CLI_FAIL("dta", "%s", error);
	r->dta_address = dta_store_server_address(r->stores, 0);
	return BASE_EXIT_OK;
}

static void free_stores(struct cli_collect_run *r)
{
	dta_store_server_free(r->stores);
}

const struct cli_collect_part cli_collect_part_dta = {
	.check = check_stores,
	.attach = attach_stores,
	.routes = add_routes,
	.paths = add_paths,
	.follow = start_stores,
	.stop = free_stores,
};
