// SPDX-License-Identifier: Apache-2.0
/* cmd_manage.c - 'sidelight manage up|down|status|test|bench FILE.yaml'. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "manage/manage.h"

static const char *const verbs[] = {"up", "down", "status", "test", "bench"};
#define VERBS (sizeof(verbs) / sizeof(*verbs))

static bool json, keep, around;

static const struct base_option options[] = {
	{.name = "json",
	 .letter = 'j',
	 .type = BASE_OPT_FLAG,
	 .to = &json,
	 .help = "status, test, bench: print JSON"},
	{.name = "keep",
	 .letter = 'k',
	 .type = BASE_OPT_FLAG,
	 .to = &keep,
	 .help = "down: leave what the parts printed"},
	{.name = "up",
	 .letter = 'u',
	 .type = BASE_OPT_FLAG,
	 .to = &around,
	 .help = "test, bench: start all parts before, and stop them after"},
	{0},
};

static int run_verb(const char *verb, struct manage *m, int stop_fd)
{
	int code;

	if (!strcmp(verb, "up"))
		return manage_up(m, stop_fd);
	if (!strcmp(verb, "down"))
		return manage_down(m, keep);
	if (!strcmp(verb, "status"))
		return manage_status(m, json);
	if (!around)
		return manage_steps(m, verb, stop_fd, json);
	if (json) /* no more than one document on standard output */
		m->say = stderr;
	code = manage_up(m, stop_fd);
	if (code)
		return code;
	code = manage_steps(m, verb, stop_fd, json);
	if (manage_down(m, code != BASE_EXIT_OK))
		code = BASE_EXIT_FAILURE;
	return code;
}

static int run(const struct base_command *self, int argc, char **argv)
{
	char program[4096], error[512];
	int stop_fd, code, first = base_options_parse(self, options, argc, argv, &code);
	struct manage *m;
	ssize_t n;
	size_t i = 0;

	if (first < 0)
		return code;
	if (argc - first != 2)
		return base_usage(self, "expected up, down, status, test or bench, and a file");
	while (i < VERBS && strcmp(verbs[i], argv[first]))
		i++;
	if (i == VERBS)
		return base_usage(self, "'%s' is none of up, down, status, test, bench",
				  argv[first]);
	n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (n < 0) {
		fprintf(stderr, "sidelight manage: /proc/self/exe: %s\n", strerror(errno));
		return BASE_EXIT_FAILURE;
	}
	program[n] = 0;
	m = manage_read(argv[first + 1], program, error, sizeof(error));
	if (!m)
		return base_usage(self, "%s", error);
	stop_fd = base_stop_fd();
	if (stop_fd < 0) {
		fprintf(stderr, "sidelight manage: signals: %s\n", strerror(-stop_fd));
		manage_free(m);
		return BASE_EXIT_FAILURE;
	}
	code = run_verb(verbs[i], m, stop_fd);
	close(stop_fd);
	manage_free(m);
	return code;
}

const struct base_command cli_cmd_manage = {
	.name = "manage",
	.synopsis = "[OPTION]... up|down|status|test|bench FILE",
	.summary = "Start, stop and test the parts on all hosts, from one file",
	.run = run,
};
