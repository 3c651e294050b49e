// SPDX-License-Identifier: Apache-2.0
/* cmd_manage.c - 'sidelight manage': parses the options and executes src/manage/manage.py. */
#include "base/base.h"
#include "cli/commands.h"
#include "cli/common/common.h"

static bool json, keep, around;

static const struct base_option table[] = {
	BASE_FLAG("json", 'j', &json, "status, test, bench: print JSON"),
	BASE_FLAG("keep", 'k', &keep, "down: keep the output of the parts"),
	BASE_FLAG("up", 'u', &around,
		  "test, bench: start all parts first, and stop them at the end"),
	{0},
};

static int run(const struct base_command *self, int argc, char **argv)
{
	char flags[8];
	int code, first = base_options_parse(self, table, argc, argv, &code);
	/* A third operand is enough to make the script print a usage error. */
	char *args[] = {flags, NULL, NULL, NULL, NULL};

	if (first < 0)
		return code;
	snprintf(flags, sizeof(flags), "-%s%s%s", json ? "j" : "", keep ? "k" : "",
		 around ? "u" : "");
	for (int i = 0; i < 3 && first + i < argc; i++)
		args[1 + i] = argv[first + i];
	return cli_exec_script(self, "manage.py", args);
}

const struct base_command cli_cmd_manage = {
	.name = "manage",
	.synopsis = "[OPTION]... up|down|status|test|bench FILE",
	.summary = CLI_SUMMARY_MANAGE,
	.run = run,
};
