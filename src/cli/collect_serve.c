// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/relaxed.h"
#include "cli/collect.h"
#include "cli/common/common.h"
#include "cli/collect-parts.h"
#include "collect/self/self.h"

static void reply_text(struct http_request *req, int status, const char *text)
{
	http_reply(req, status, "text/plain; charset=utf-8", text, strlen(text));
}

static void get_healthy(struct http_request *req, void *arg)
{
	(void)arg;
	reply_text(req, 200, "ok\n");
}

/* Once ready, stays ready: later hosts and pods must not take the collector out of service. */
static void get_ready(struct http_request *req, void *arg)
{
	static bool was_ready;

	if (relaxed_load(was_ready) || collect_collector_ready(arg)) {
		relaxed_store(was_ready, true);
		reply_text(req, 200, "ready\n");
	} else {
		reply_text(req, 503,
			   "not ready: the collector has not yet tried to read all "
			   "hosts\n");
	}
}

int cli_collect_http_check(const struct base_command *self, const struct http_opts *o)
{
	char error[256];
	int local = http_is_local(o->listen, error, sizeof(error));

	if (local < 0)
		return base_usage(self, "--listen '%s' is not ADDR:PORT or unix:/PATH", o->listen);
	if (o->open && o->reader_token_file)
		return base_usage(self, "--open and --reader-token-file are mutually exclusive");
	if (o->open && o->web_config)
		return base_usage(self, "--open and --web-config are mutually exclusive");
	if (o->roles_file && !o->web_config)
		return base_usage(self, "--roles needs --web-config");
	if (!local && !o->open && !o->reader_token_file && !o->web_config)
		return base_usage(
			self,
			"--listen %s is reachable from other hosts: use --web-config, or "
			"--reader-token-file with --insecure-listen, or --open to let anyone who "
			"can reach it read all metrics",
			o->listen);
	if (!local && !o->open && !o->insecure && !o->web_config)
		return base_usage(
			self,
			"--listen %s is reachable from other hosts, and tokens would cross the "
			"network in the clear: use --web-config with a tls_server_config, or "
			"--insecure-listen",
			o->listen);
	return BASE_EXIT_OK;
}

static int add_routes(struct cli_collect_run *r)
{
	static const char *const names[] = {CLI_COLLECT_NAMES NULL};
	struct http *h = r->server.http;
	int err = http_route(h, "GET", "/-/healthy", HTTP_PUBLIC, get_healthy, NULL);

	err = err ?: http_route(h, "GET", "/-/ready", HTTP_PUBLIC, get_ready, r->c);
	err = err ?: export_route(h, "/metrics", &r->server.source) ?: api_register(h, r->c);
	for (size_t i = 0; names[i]; i++)
		api_part_add(names[i]);
	for (size_t i = 0; !err && cli_collect_parts[i]; i++)
		err = cli_collect_parts[i]->routes ? cli_collect_parts[i]->routes(r, h) : 0;
	return err;
}

/*
 * Writes the admin token, which only permits changes to stores, to a file that only this user can
 * read.
 */
static void leave_token(struct cli_collect_server *s, const char *token)
{
	s->token_path = cli_token_leave(http_address(s->http), token);
	if (!s->token_path)
		base_logf(BASE_INFO, "collect",
			  "there is no runtime directory, so stores can only be changed with "
			  "--admin-token-file");
}

bool cli_collect_serve(struct cli_collect_run *r)
{
	struct http_opts o = r->set->h;
	struct cli_collect_server *s = &r->server;
	char error[256], token[CLI_TOKEN_BYTES] = "";
	const bool own = r->stores && !o.admin_token_file && strncmp(o.listen, "unix:", 5) &&
			 cli_token_draw(token);
	int err;

	o.admin_token = own ? token : NULL;
	o.allow_hosts = r->set->allow_hosts.v;
	o.allow_host_count = r->set->allow_hosts.n;
	o.refused = s->refused;
	s->source = collect_collector_source(r->c);
	s->http = http_new(&o, error, sizeof(error));
	err = s->http ? collect_self_http(r->c, s->refused) : 0;
	err = err ?: (s->http ? add_routes(r) : 0);
	if (err)
		snprintf(error, sizeof(error), "routes: %s", strerror(-err));
	if (s->http && !err && !http_start(s->http, error, sizeof(error))) {
		if (own)
			leave_token(s, token);
		if (o.open)
			base_logf(BASE_WARN, "collect",
				  "anyone who can reach the address can read all metrics "
				  "listen=%s: use --reader-token-file instead of --open",
				  http_address(s->http));
		return true;
	}
	base_logf(BASE_ERROR, "collect", "%s", error);
	return false;
}

void cli_collect_serve_end(struct cli_collect_server *s)
{
	if (s->token_path)
		unlink(s->token_path);
	free(s->token_path);
	s->token_path = NULL;
	http_free(s->http);
	s->http = NULL;
}
