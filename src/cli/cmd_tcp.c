// SPDX-License-Identifier: Apache-2.0
/* cmd_tcp.c - 'sidelight tcp VERB'. Each verb is a subcommand in tcp/. */

#include "cli/common/common.h"

extern const struct base_command cli_tcp_closed, cli_tcp_cpu, cli_tcp_flows, cli_tcp_layers,
	cli_tcp_net, cli_tcp_probe, cli_tcp_trace, cli_tcp_why;

static const struct base_command *const verbs[] = {&cli_tcp_flows, &cli_tcp_closed, &cli_tcp_layers,
						   &cli_tcp_trace, &cli_tcp_net,    &cli_tcp_cpu,
						   &cli_tcp_why,   &cli_tcp_probe};
#define VERBS (sizeof(verbs) / sizeof(*verbs))

static int run(const struct base_command *self, int argc, char **argv)
{
	int code = cli_run_kind(self, verbs, VERBS, "a verb", argc, argv);
	const char *near = NULL;
	unsigned least = BASE_NOT_NEAR;

	if (code >= 0)
		return code;
	for (size_t i = 0; i < VERBS; i++)
		if (base_nearer(argv[1], cli_kind_name(verbs[i]), &least))
			near = cli_kind_name(verbs[i]);
	if (near)
		return base_usage(self, "unknown subcommand '%s'; did you mean '%s'?", argv[1],
				  near);
	return base_usage(self,
			  "unknown subcommand '%s'; expected closed, cpu, flows, layers, net, "
			  "probe, trace or why",
			  argv[1]);
}

const struct base_command cli_cmd_tcp = {
	.name = "tcp",
	.synopsis = "WHAT [OPTION]...",
	.summary = "Show the kernel's view of TCP connections, by eBPF",
	.run = run,
};
