// SPDX-License-Identifier: Apache-2.0
/*
 * program.c - the main function of a program with a single command, CLI_COMMAND; executed by
 * main.c.
 */
#include "cli/common/common.h"

int main(int argc, char **argv)
{
	cli_start();
	return CLI_COMMAND.run(&CLI_COMMAND, argc, argv);
}
