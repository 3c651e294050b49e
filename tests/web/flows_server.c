// SPDX-License-Identifier: Apache-2.0
/* flows_server.c - serves the page over simulated connections until its standard input ends. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "fake_flows.h"
#include "http/http.h"

int main(void)
{
	static struct collect_host_view host = {.target = "/run/a.sock",
						.fabric = "shm",
						.hostname = "node-1",
						.condition = COLLECT_HOST_UP};
	static struct collect_collector c = {
		.ready = true,
		.hosts = &host,
		.host_count = 1,
		.totals = {.hosts = 1, .hosts_up = 1},
	};
	char error[256], byte;
	struct http *h;

	fake_flows(&c, 300);
	h = http_new(&(struct http_opts){.listen = "127.0.0.1:0"}, error, sizeof(error));
	if (!h || api_register(h, &c) || http_start(h, error, sizeof(error)))
		return 1;
	printf("%s\n", http_address(h));
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	http_free(h);
	return 0;
}
