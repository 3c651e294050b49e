// SPDX-License-Identifier: Apache-2.0
/* cmd_bridge.c - sidelight-bridge, the program of the bridges: the agent starts it. */
#include "base/child.h"
#include "cli/bridge_options.h"

static struct bridge_opts set;

static const struct base_option table[] = {
	CLI_OPTIONS_BRIDGE(&set),
	CLI_OPTIONS_BRIDGE_OF_AGENT(&set),
	{0},
};

static int bridge_main(const struct base_command *self, int argc, char **argv)
{
	/* Users give these options to the agent. */
	static const struct base_command agent = {.name = "agent"};
	char error[256];
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	if (bridge_check(&set, error, sizeof(error)))
		return base_usage(&agent, "%s", error);
	if (!base_child_started())
		return base_failure(self, "it is 'sidelight agent' that starts the bridges");
	bridge_supervise(&set, BASE_CHILD_SOCK);
	return BASE_EXIT_OK;
}

const struct base_command cli_cmd_bridge = {
	.name = "bridge",
	.synopsis = "[OPTION]...",
	.summary = "Publish what programs without the library say",
	.run = bridge_main,
};
