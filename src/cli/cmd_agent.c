// SPDX-License-Identifier: Apache-2.0
/* cmd_agent.c - sidelight agent: serves, or asks the one that does for its status. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <sidelight/attach.h>

#include "agent/agent.h"
#include "base/base.h"

static int agent_main(const struct sl_command *self, int argc, char **argv);

const struct sl_command sl_cmd_agent = {
	.name = "agent",
	.synopsis = "[OPTION]...",
	.summary = "admit publishers, keep the directory, register memory",
	.run = agent_main,
};

static int agent_main(const struct sl_command *self, int argc, char **argv)
{
	struct sl_agent_opts o = {.grace_ns = 30000000000ull, .grace_zero = true};
	const char *mode = "0666";
	const struct sl_option table[] = {
		{.name = "socket",
		 .type = SL_OPT_STRING,
		 .to = &o.socket,
		 .argument = "PATH",
		 .help = "unix socket for publishers and local collectors"},
		{.name = "socket-mode",
		 .type = SL_OPT_STRING,
		 .to = &mode,
		 .argument = "OCTAL",
		 .help = "permissions of the socket's file (0666)"},
		{.name = "grace",
		 .type = SL_OPT_DURATION,
		 .to = &o.grace_ns,
		 .argument = "DURATION",
		 .help = "keep the last words of the dead for so long (30s)"},
		{.name = "lease",
		 .type = SL_OPT_DURATION,
		 .to = &o.lease_ns,
		 .argument = "DURATION",
		 .help = "readers look at the directory at least this often (1s)"},
		{.name = "max-regions",
		 .type = SL_OPT_U32,
		 .to = &o.max_regions,
		 .argument = "N",
		 .help = "admit at most so many regions (4096)",
		 .min = 1,
		 .max = 1 << 20},
		{.name = "max-region-size",
		 .type = SL_OPT_SIZE,
		 .to = &o.max_region_size,
		 .argument = "BYTES",
		 .help = "of one region (16M)"},
		{.name = "max-memory",
		 .type = SL_OPT_SIZE,
		 .to = &o.max_memory,
		 .argument = "BYTES",
		 .help = "of all regions together (1G)"},
		{.name = "host",
		 .type = SL_OPT_STRING,
		 .to = &o.host,
		 .argument = "NAME",
		 .help = "what collectors call this host (its host name)"},
		{0},
	};
	struct sl_agent *a;
	char error[256], *end;
	int arg = sl_options_parse(self, table, argc, argv), stop, err;

	if (arg == SL_HELP_SHOWN)
		return SL_EXIT_OK;
	if (arg < 0)
		return SL_EXIT_USAGE;
	if (arg < argc)
		return sl_usage(self, "unexpected argument '%s'", argv[arg]);
	o.socket_mode = (uint32_t)strtoul(mode, &end, 8);
	if (!*mode || *end || o.socket_mode > 0777)
		return sl_usage(self, "--socket-mode '%s' is no octal mode such as 0660", mode);

	stop = sl_stop_fd();
	if (stop < 0) {
		sl_logf(SL_ERROR, "agent", "signals: %s", strerror(-stop));
		return SL_EXIT_FAILURE;
	}
	a = sl_agent_new(&o, error, sizeof(error));
	if (!a) {
		sl_logf(SL_ERROR, "agent", "%s", error);
		close(stop);
		return SL_EXIT_FAILURE;
	}
	sl_ready("socket=%s", sl_agent_socket(a));
	err = sl_agent_run(a, stop);
	if (err)
		sl_logf(SL_ERROR, "agent", "loop: %s", strerror(-err));
	sl_agent_free(a);
	close(stop);
	return err ? SL_EXIT_FAILURE : SL_EXIT_OK;
}
