// SPDX-License-Identifier: Apache-2.0
/* program.c - the program of one command, CLI_COMMAND; main.c executes it in its own place. */
#include "cli/common/common.h"

int main(int argc, char **argv)
{
	cli_start();
	return CLI_COMMAND.run(&CLI_COMMAND, argc, argv);
}
