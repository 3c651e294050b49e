// SPDX-License-Identifier: Apache-2.0
/* main.c - runs the subcommand. Each subcommand is a struct base_command defined in a cmd_*.c. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/json_read.h"
#include "cli/common/common.h"

/* The order of --help: commands for observed machines, readers, tools. */
static const struct base_command *const commands[] = {
	&cli_cmd_agent, &cli_cmd_tcp,	 &cli_cmd_report, &cli_cmd_translate, &cli_cmd_collect,
	&cli_cmd_top,	&cli_cmd_dump,	 &cli_cmd_query,  &cli_cmd_generate,  &cli_cmd_replay,
	&cli_cmd_model, &cli_cmd_manage, &cli_cmd_demo,
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

static int show_help(void)
{
	puts("Usage: sidelight COMMAND [OPTION]...\n\n"
	     "Telemetry that costs the observed machine no CPU.\n\nCommands:");
	for (size_t i = 0; i < COMMANDS; i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
	puts("  help       Show the options of a command\n\n"
	     "Options:\n"
	     "  -h, --help     show this\n"
	     "  -V, --version  show the version\n\n"
	     "'sidelight COMMAND --help' lists a command's options.\n"
	     "The manual: man sidelight");
	return fflush(stdout) ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

static int show_version(void)
{
	printf("sidelight %s (fabrics: shm%s)\n", SL_VERSION_STRING, HAVE_VERBS ? ", verbs" : "");
	return fflush(stdout) ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

static const struct base_command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(name, commands[i]->name))
			return commands[i];
	return NULL;
}

static int report_unknown(const char *name)
{
	static const char *const others[] = {"help", "--help", "--version"};
	const char *what = *name == '-' ? "option" : "command", *near = NULL;
	unsigned least = BASE_NOT_NEAR;

	for (size_t i = 0; i < COMMANDS; i++)
		if (base_nearer(name, commands[i]->name, &least))
			near = commands[i]->name;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (base_nearer(name, others[i], &least))
			near = others[i];
	fprintf(stderr, "sidelight: unknown %s '%s'; ", what, name);
	if (near)
		fprintf(stderr, "did you mean '%s'?\n", near);
	else
		fputs("see 'sidelight --help'\n", stderr);
	return BASE_EXIT_USAGE;
}

static bool is_help(const char *option)
{
	return !strcmp(option, "--help") || !strcmp(option, "-h");
}

/* Treats "help generate metrics" as "generate metrics --help". */
static int help_of(int argc, char **argv)
{
	static char help_option[] = "--help";
	const struct base_command *cmd = find_command(argv[0]);
	char *args[8];
	int n = 0;

	if (!cmd)
		return !strcmp(argv[0], "help") || is_help(argv[0]) ? show_help()
								    : report_unknown(argv[0]);
	while (n < argc && n < 6) {
		args[n] = argv[n];
		n++;
	}
	args[n++] = help_option;
	args[n] = NULL;
	return cmd->run(cmd, n, args);
}

int main(int argc, char **argv)
{
	const struct base_command *cmd;

	/*
	 * Make writes beyond RLIMIT_FSIZE fail, as on a full disk, instead of killing the process.
	 */
	signal(SIGXFSZ, SIG_IGN);
	base_json_guard();
	if (argc < 2) {
		fputs("sidelight: no command given; see 'sidelight --help'\n", stderr);
		return BASE_EXIT_USAGE;
	}
	if (is_help(argv[1]))
		return show_help();
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return show_version();
	if (!strcmp(argv[1], "help"))
		return argc == 2 ? show_help() : help_of(argc - 2, argv + 2);
	cmd = find_command(argv[1]);
	return cmd ? cmd->run(cmd, argc - 1, argv + 1) : report_unknown(argv[1]);
}
