// SPDX-License-Identifier: Apache-2.0
/* cmd_bridge.c - sidelight-bridge: runs the bridges. The agent starts this program. */
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
	/* For error messages: users give these options to the agent. */
	static const struct base_command agent = {.name = "agent"};
	char error[256];
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	/* An invalid file keeps the agent from starting, but does not stop a running one. */
	if (!set.restarted && bridge_check(&set, error, sizeof(error)))
		return base_usage(&agent, "%s", error);
	if (!base_child_started())
		return base_failure(self, "only 'sidelight agent' can start the bridges");
	return bridge_run(&set, BASE_CHILD_SOCK);
}

const struct base_command cli_cmd_bridge = {
	.name = "bridge",
	.synopsis = "[OPTION]...",
	.summary = "Publish the metrics of programs that do not use the library",
	.run = bridge_main,
};
