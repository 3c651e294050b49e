// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - the program sidelight: runs the interactive commands itself, and executes the programs
 * of all others.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/common/common.h"

struct command {
	/* NULL if the command is a separate program, in `package`, or missing from this build */
	const struct base_command *own;
	const char *package, *name, *summary;
	struct base_option part; /* the part that the command belongs to */
};

/* A command in this program. have: 1 if this build has it, otherwise 0. */
#define OWN(have, command, its_name, ...) OWN_(have, command, its_name, __VA_ARGS__)
#define OWN_(have, command, its_name, ...)                                          \
	{                                                                           \
		.own = OWN_##have(command), .name = (its_name), .part = __VA_ARGS__ \
	}
#define OWN_0(command) NULL
#define OWN_1(command) &(command)

#define PROGRAM(its_package, its_name, its_summary, ...)                                \
	{                                                                               \
		.package = (its_package), .name = (its_name), .summary = (its_summary), \
		.part = __VA_ARGS__                                                     \
	}

#define DEMO_PART                                                               \
	BASE_PART(HAVE_DTA ? "analysis" : "DTA", HAVE_DTA ? "analysis" : "dta", \
		  HAVE_DTA &&HAVE_ANALYSIS)

/* The order of --help: commands for observed machines, readers, tools. */
static const struct command commands[] = {
	PROGRAM("sidelight-agent", "agent", CLI_SUMMARY_AGENT, BASE_CORE),
	OWN(HAVE_TCP, cli_cmd_tcp, "tcp", CLI_PART_TCP),
	PROGRAM("sidelight-reporter", "report", CLI_SUMMARY_REPORT, CLI_PART_DTA),
	PROGRAM("sidelight-translator", "translate", CLI_SUMMARY_TRANSLATE, CLI_PART_DTA),
	PROGRAM("sidelight-collector", "collect", CLI_SUMMARY_COLLECT, BASE_CORE),
	OWN(HAVE_ANALYSIS, cli_cmd_top, "top", CLI_PART_ANALYSIS),
	OWN(1, cli_cmd_dump, "dump", BASE_CORE),
	OWN(HAVE_DTA, cli_cmd_query, "query", CLI_PART_DTA),
	PROGRAM("sidelight-tools", "generate", CLI_SUMMARY_GENERATE, BASE_CORE),
	PROGRAM("sidelight-tools", "replay", CLI_SUMMARY_REPLAY, CLI_PART_ANALYSIS),
	OWN(HAVE_ANALYSIS, cli_cmd_model, "model", CLI_PART_ANALYSIS),
	PROGRAM("sidelight-tools", "manage", CLI_SUMMARY_MANAGE, CLI_PART_DTA),
	PROGRAM("sidelight-tools", "demo", CLI_SUMMARY_DEMO, DEMO_PART),
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

static int end_output(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return BASE_EXIT_OK;
	fprintf(stderr, "sidelight: standard output: %s\n", strerror(errno));
	return BASE_EXIT_FAILURE;
}

static int show_help(void)
{
	puts("Usage: sidelight COMMAND [OPTION]...\n\n"
	     "Telemetry that costs the observed machine no CPU.\n\nCommands:");
	for (size_t i = 0; i < COMMANDS; i++) {
		const struct command *c = &commands[i];

		if (c->part.max != 0)
			printf("  %-10s %s\n", c->name, c->own ? c->own->summary : c->summary);
	}
	puts("  help       Show the options of a command\n\nOptions:\n  -h, --help     show this\n"
	     "  -V, --version  show the version\n\n'sidelight COMMAND --help' lists a command's "
	     "options.\nFor the manual: man sidelight");
	return end_output();
}

static int show_version(void)
{
	printf("sidelight %s (fabrics: shm%s)\n", SL_VERSION_STRING, HAVE_VERBS ? ", verbs" : "");
	return end_output();
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	return NULL;
}

static int refuse_unknown(const char *name)
{
	static const char *const others[] = {"help", "--help", "--version"};
	const char *what = *name == '-' ? "option" : "command", *near = NULL;
	unsigned least = BASE_NOT_NEAR;

	for (size_t i = 0; i < COMMANDS; i++)
		if (base_nearer(name, commands[i].name, &least))
			near = commands[i].name;
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

	if (!c->part.max) {
		fprintf(stderr, "sidelight: %s: this build has no %s: rebuild with -D%s=enabled\n",
			c->name, c->part.name, c->part.argument);
		return BASE_EXIT_USAGE;
	}
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
