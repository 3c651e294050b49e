// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - the program sidelight: runs the interactive commands itself, and executes the programs
 * of all others.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/program.h"
#include "cli/commands.h"
#include "cli/common/common.h"

struct command {
	/* command of this program; NULL: a separate program in package */
	const struct base_command *own;
	const char *package, *name, *summary;
};

#define PROGRAM(package, name, summary)      \
	{                                    \
		NULL, package, name, summary \
	}

/* The order of --help: commands for observed machines, readers, tools. */
static const struct command commands[] = {
	PROGRAM("sidelight-agent", "agent", CLI_SUMMARY_AGENT),
	{.own = &cli_cmd_tcp},
	PROGRAM("sidelight-reporter", "report", CLI_SUMMARY_REPORT),
	PROGRAM("sidelight-translator", "translate", CLI_SUMMARY_TRANSLATE),
	PROGRAM("sidelight-collector", "collect", CLI_SUMMARY_COLLECT),
	{.own = &cli_cmd_top},
	{.own = &cli_cmd_dump},
	{.own = &cli_cmd_query},
	PROGRAM("sidelight-tools", "generate", CLI_SUMMARY_GENERATE),
	PROGRAM("sidelight-tools", "replay", CLI_SUMMARY_REPLAY),
	{.own = &cli_cmd_model},
	PROGRAM("sidelight-tools", "manage", CLI_SUMMARY_MANAGE),
	PROGRAM("sidelight-tools", "demo", CLI_SUMMARY_DEMO),
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

static const char *command_name(const struct command *c)
{
	return c->own ? c->own->name : c->name;
}

static int show_help(void)
{
	puts("Usage: sidelight COMMAND [OPTION]...\n\n"
	     "Telemetry that costs the observed machine no CPU.\n\nCommands:");
	for (size_t i = 0; i < COMMANDS; i++)
		printf("  %-10s %s\n", command_name(&commands[i]),
		       commands[i].own ? commands[i].own->summary : commands[i].summary);
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

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(name, command_name(&commands[i])))
			return &commands[i];
	return NULL;
}

static int refuse_unknown(const char *name)
{
	static const char *const others[] = {"help", "--help", "--version"};
	const char *what = *name == '-' ? "option" : "command", *near = NULL;
	unsigned least = BASE_NOT_NEAR;

	for (size_t i = 0; i < COMMANDS; i++)
		if (base_nearer(name, command_name(&commands[i]), &least))
			near = command_name(&commands[i]);
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

/* Runs a command; argv[0] is its name. Does not return if the command is a separate program. */
static int run_command(const struct command *c, int argc, char **argv)
{
	char file[32], path[PATH_MAX];

	if (c->own)
		return c->own->run(c->own, argc, argv);
	snprintf(file, sizeof(file), "sidelight-%s", c->name);
	if (base_program_find(file, path)) {
		fprintf(stderr, "sidelight: '%s' is not installed; install the package %s\n",
			c->name, c->package);
		return BASE_EXIT_FAILURE;
	}
	argv[0] = path;
	execv(path, argv);
	fprintf(stderr, "sidelight: %s: %s\n", path, strerror(errno));
	return BASE_EXIT_FAILURE;
}

static bool is_help(const char *option)
{
	return !strcmp(option, "--help") || !strcmp(option, "-h");
}

/* Treats "help generate metrics" as "generate metrics --help". */
static int help_of(int argc, char **argv)
{
	static char help_option[] = "--help";
	const struct command *c = find_command(argv[0]);
	char *args[8];
	int n = 0;

	if (!c)
		return !strcmp(argv[0], "help") || is_help(argv[0]) ? show_help()
								    : refuse_unknown(argv[0]);
	while (n < argc && n < 6) {
		args[n] = argv[n];
		n++;
	}
	args[n++] = help_option;
	args[n] = NULL;
	return run_command(c, n, args);
}

int main(int argc, char **argv)
{
	const struct command *c;

	cli_start();
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
	c = find_command(argv[1]);
	return c ? run_command(c, argc - 1, argv + 1) : refuse_unknown(argv[1]);
}
