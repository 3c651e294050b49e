// SPDX-License-Identifier: Apache-2.0
/* cmd_manage.c - 'sidelight manage': parses the options and executes src/manage/manage.py. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/program.h"
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

/* Finds the script in the build folder, or where it is installed. */
static int find_script(char program[PATH_MAX], char script[PATH_MAX])
{
	static const char *const where[] = {"src/manage", "../libexec/sidelight"};
	int err = base_program_find("sidelight", program);

	if (err)
		return err;
	for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++) {
		int folder = (int)(strrchr(program, '/') - program);

		if (snprintf(script, PATH_MAX, "%.*s/%s/manage.py", folder, program, where[i]) <
			    PATH_MAX &&
		    !access(script, R_OK))
			return 0;
	}
	return -ENOENT;
}

static int run(const struct base_command *self, int argc, char **argv)
{
	char program[PATH_MAX], script[PATH_MAX], flags[8];
	int code, first = base_options_parse(self, table, argc, argv, &code);
	/* A third operand is enough to make the script print a usage error. */
	char *args[] = {"python3", "-I", script, program, flags, NULL, NULL, NULL, NULL};

	if (first < 0)
		return code;
	code = find_script(program, script);
	if (code)
		return base_failure(self, "manage.py: %s; run make install", strerror(-code));
	snprintf(flags, sizeof(flags), "-%s%s%s", json ? "j" : "", keep ? "k" : "",
		 around ? "u" : "");
	for (int i = 0; i < 3 && first + i < argc; i++)
		args[5 + i] = argv[first + i];
	execvp(args[0], args);
	return base_failure(self, "python3: %s; install python3 and python3-yaml", strerror(errno));
}

const struct base_command cli_cmd_manage = {
	.name = "manage",
	.synopsis = "[OPTION]... up|down|status|test|bench FILE",
	.summary = CLI_SUMMARY_MANAGE,
	.run = run,
};
