/* SPDX-License-Identifier: Apache-2.0 */
/* collect_serve.h - the HTTP server of 'sidelight collect': its routes and access control. */
#ifndef SL_CLI_COLLECT_SERVE_H
#define SL_CLI_COLLECT_SERVE_H

#include "api/api.h"
#include "base/base.h"
#include "collect/read/collect.h"
#include "export/serve.h"
#include "http/http.h"

struct cli_collect_http {
	const char *listen, *reader_token_file, *actor_token_file, *admin_token_file;
	const char *web_config, *roles_file;
	uint32_t connections, query_concurrency;
	uint64_t query_timeout_ns, query_samples;
	bool open, insecure;
	struct http_front *front;
	struct base_strings allow_hosts;
};

/* A running server. */
struct cli_collect_server {
	struct http *http;
	char *token_path;	     /* file with the token for this user; NULL means none */
	struct export_source source; /* data source of /metrics */
	uint64_t refused[HTTP_REFUSALS];
};

/* Returns BASE_EXIT_OK, or an exit code after printing an error. */
int cli_collect_http_check(const struct base_command *self, const struct cli_collect_http *o);
struct cli_collect_run;

/* Starts r->server. Returns false after printing an error. */
bool cli_collect_serve(struct cli_collect_run *r);
void cli_collect_serve_end(struct cli_collect_server *s);

#endif
