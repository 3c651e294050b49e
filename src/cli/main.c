// SPDX-License-Identifier: Apache-2.0
/* main.c - picks the subcommand. Each is a cmd_*.c that defines one struct sl_command. */
#include <string.h>

#include "base/base.h"

/* Weak, so that a build without one of them still links. */
#define COMMAND(name) extern const struct sl_command sl_cmd_##name __attribute__((weak))
COMMAND(agent);
COMMAND(collect);
COMMAND(demo);
COMMAND(dump);
COMMAND(generate);

static const struct sl_command *const commands[] = {
	&sl_cmd_agent, &sl_cmd_collect, &sl_cmd_demo, &sl_cmd_dump, &sl_cmd_generate,
};

int main(int argc, char **argv)
{
	if (argc < 2)
		return SL_EXIT_USAGE;
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (commands[i] && !strcmp(argv[1], commands[i]->name))
			return commands[i]->run(commands[i], argc - 1, argv + 1);
	return SL_EXIT_USAGE;
}
