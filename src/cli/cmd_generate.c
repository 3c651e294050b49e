/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_generate.c - 'sidelight generate WHAT': generates load with a known result. Each kind of load
 * is a subcommand in generate/.
 */
#include "cli/commands.h"
#include "cli/common/common.h"
#include "cli/generate/generate.h"

#include <string.h>

static const struct base_command *const kinds[] = {
	&cli_generate_metrics,
#if HAVE_DTA
	&cli_generate_dta,
#endif
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

int cli_generate_kinds(const struct base_command *cmd, const char *text, const char *const *names,
		       const char *all, uint32_t first, uint32_t list[CLI_GENERATE_KINDS],
		       uint32_t *n)
{
	for (size_t bytes;; text += bytes + 1) {
		uint32_t k = 0;

		bytes = strcspn(text, ",");
		while (names[k] && (strlen(names[k]) != bytes || strncmp(names[k], text, bytes)))
			k++;
		if (!names[k])
			return base_usage(cmd, "--kinds: '%.*s' is not one of %s", (int)bytes, text,
					  all);
		if (*n == CLI_GENERATE_KINDS)
			return base_usage(cmd, "--kinds: at most %u kinds are allowed", *n);
		list[(*n)++] = first + k;
		if (!text[bytes])
			return BASE_EXIT_OK;
	}
}

static int run(const struct base_command *self, int argc, char **argv)
{
	int code = cli_run_kind(self, kinds, KINDS, "metrics or dta", argc, argv);

	if (code < 0 && !HAVE_DTA && !strcmp(argv[1], "dta"))
		return base_usage(self, "dta: this build does not support DTA: rebuild with "
					"-Ddta=enabled");
	return code >= 0 ? code
			 : base_usage(self, "cannot generate '%s'; see 'sidelight generate --help'",
				      argv[1]);
}

const struct base_command cli_cmd_generate = {
	.name = "generate",
	.synopsis = "WHAT [OPTION]...",
	.summary = CLI_SUMMARY_GENERATE,
	.run = run,
};
