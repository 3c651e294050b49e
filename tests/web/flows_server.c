// SPDX-License-Identifier: Apache-2.0
/* flows_server.c - serves the page over made-up connections until its standard input ends. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "fake_flows.h"
#include "http/http.h"

int main(void)
{
	static struct sl_host_view host = {.target = "/run/a.sock",
					   .fabric = "shm",
					   .hostname = "node-1",
					   .condition = SL_HOST_UP};
	static struct sl_collector c = {
		.ready = true,
		.hosts = &host,
		.host_count = 1,
		.totals = {.hosts = 1, .hosts_up = 1},
	};
	char error[256], byte;
	struct sl_http *h;

	fake_flows(&c, 300);
	h = sl_http_new(&(struct sl_http_opts){.listen = "127.0.0.1:0"}, error, sizeof(error));
	if (!h || sl_api_register(h, &c) || sl_http_start(h, error, sizeof(error)))
		return 1;
	printf("%s\n", sl_http_address(h));
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	sl_http_free(h);
	return 0;
}
