/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_generate.c - 'sidelight generate WHAT': load with a known result. Each kind is a command of
 * its own in generate/.
 */
#include "cli/generate/generate.h"

#include <string.h>

static const struct base_command *const kinds[] = {&cli_generate_metrics, &cli_generate_dta};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

/* "metrics" of "generate metrics" */
static const char *what(const struct base_command *kind)
{
	return strchr(kind->name, ' ') + 1;
}

static int run(const struct base_command *self, int argc, char **argv)
{
	if (argc < 2)
		return base_usage(self,
				  "what? One of: metrics, dta; see 'sidelight generate --help'");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		printf("Usage: sidelight generate %s\n\n%s\n\nWhat:\n", self->synopsis,
		       self->summary);
		for (size_t i = 0; i < KINDS; i++)
			printf("  %-10s %s\n", what(kinds[i]), kinds[i]->summary);
		puts("\n'sidelight generate WHAT --help' lists the options.\n"
		     "The manual: man sidelight-generate");
		return fflush(stdout) ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
	}
	for (size_t i = 0; i < KINDS; i++)
		if (!strcmp(argv[1], what(kinds[i])))
			return kinds[i]->run(kinds[i], argc - 1, argv + 1);
	return base_usage(self, "can't generate '%s'; see 'sidelight generate --help'", argv[1]);
}

const struct base_command cli_cmd_generate = {
	.name = "generate",
	.synopsis = "WHAT [OPTION]...",
	.summary = "Make load whose totals are known, and print what a collector must show",
	.run = run,
};
