/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - picks the subcommand. Each is a cmd_*.c that defines one struct sl_command. */
#include <stdio.h>
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
#define COMMANDS (sizeof(commands) / sizeof(*commands))

static int show_help(void)
{
	puts("Usage: sidelight COMMAND [OPTION]...\n\n"
	     "Telemetry that costs the observed machine no CPU.\n\nCommands:");
	for (size_t i = 0; i < COMMANDS; i++)
		if (commands[i])
			printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
	puts("  help       show the help of a command\n\n"
	     "Options:\n"
	     "  -h, --help     show this\n"
	     "  -V, --version  show the version\n\n"
	     "'sidelight COMMAND --help' lists a command's options; 'man sidelight' is the manual.");
	return fflush(stdout) ? SL_EXIT_FAILURE : SL_EXIT_OK;
}

static int show_version(void)
{
	printf("sidelight %s (fabrics: shm%s)\n", SL_VERSION_STRING, HAVE_VERBS ? ", verbs" : "");
	return fflush(stdout) ? SL_EXIT_FAILURE : SL_EXIT_OK;
}

static const struct sl_command *find(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (commands[i] && !strcmp(name, commands[i]->name))
			return commands[i];
	return NULL;
}

static int unknown(const char *name)
{
	const char *what = *name == '-' ? "option" : "command";
	const char *near = NULL;
	unsigned least = 4;

	for (size_t i = 0; i < COMMANDS; i++) {
		unsigned d;

		if (!commands[i])
			continue;
		d = sl_edit_distance(name, commands[i]->name);
		if (strlen(name) >= 2 && !strncmp(name, commands[i]->name, strlen(name)))
			d = 0;
		if (d < least && d < strlen(name)) {
			least = d;
			near = commands[i]->name;
		}
	}
	if (near)
		fprintf(stderr, "sidelight: unknown %s '%s'; did you mean '%s'?\n", what, name,
			near);
	else
		fprintf(stderr, "sidelight: unknown %s '%s'; see 'sidelight --help'\n", what, name);
	return SL_EXIT_USAGE;
}

int main(int argc, char **argv)
{
	const struct sl_command *cmd;

	if (argc < 2) {
		fputs("sidelight: no command given; see 'sidelight --help'\n", stderr);
		return SL_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return show_help();
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return show_version();
	if (!strcmp(argv[1], "help")) {
		char help_option[] = "--help";
		char *help_argv[] = {argv[2], help_option, NULL};

		if (argc == 2)
			return show_help();
		cmd = find(argv[2]);
		return cmd ? cmd->run(cmd, 2, help_argv) : unknown(argv[2]);
	}
	cmd = find(argv[1]);
	return cmd ? cmd->run(cmd, argc - 1, argv + 1) : unknown(argv[1]);
}
