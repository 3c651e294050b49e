// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/common.h"
#include "base/confine.h"
#include "base/json_read.h"
#include "base/secret.h"
#include "base/text.h"

void cli_start(void)
{
	struct rlimit core;

	/*
	 * Make writes beyond RLIMIT_FSIZE fail, as on a full disk, instead of killing the process.
	 */
	signal(SIGXFSZ, SIG_IGN);
	/*
	 * Whatever the umask was, other users must not be able to write to new files and folders.
	 */
	umask(umask(077) | 022);
	/*
	 * A core file would contain secrets and tenants' data. The hard limit stays, so that
	 * prlimit(1) can allow a core file of one process.
	 */
	if (!getrlimit(RLIMIT_CORE, &core)) {
		core.rlim_cur = 0;
		setrlimit(RLIMIT_CORE, &core);
	}
	base_json_guard();
}

const char *cli_kind_name(const struct base_command *kind)
{
	return strchr(kind->name, ' ') + 1;
}

int cli_run_kind(const struct base_command *self, const struct base_command *const *kinds, size_t n,
		 const char *names, int argc, char **argv)
{
	if (argc < 2)
		return base_usage(self, "expected %s; see 'sidelight %s --help'", names,
				  self->name);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		printf("Usage: sidelight %s %s\n\n%s\n\nWhat:\n", self->name, self->synopsis,
		       self->summary);
		for (size_t i = 0; i < n; i++)
			printf("  %-10s %s\n", cli_kind_name(kinds[i]), kinds[i]->summary);
		printf("\n'sidelight %s WHAT --help' lists the options.\nFor the manual: man "
		       "sidelight-%s\n",
		       self->name, self->name);
		return cli_output_end(self, BASE_EXIT_OK);
	}
	for (size_t i = 0; i < n; i++)
		if (!strcmp(argv[1], cli_kind_name(kinds[i])))
			return kinds[i]->run(kinds[i], argc - 1, argv + 1);
	return -1;
}

/* Finds the script in the build folder, or where it is installed. */
static int find_script(const char *name, char program[PATH_MAX], char script[PATH_MAX])
{
	static const char *const where[] = {"src/manage", "../libexec/sidelight"};
	int err = base_program_find("sidelight", program);

	if (err)
		return err;
	for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++) {
		int folder = (int)(strrchr(program, '/') - program);

		if (snprintf(script, PATH_MAX, "%.*s/%s/%s", folder, program, where[i], name) <
			    PATH_MAX &&
		    !access(script, R_OK))
			return 0;
	}
	return -ENOENT;
}

int cli_exec_script(const struct base_command *self, const char *name, char *const *args)
{
	char program[PATH_MAX], script[PATH_MAX];
	char *argv[35] = {"python3", "-I", script, program};
	int err = find_script(name, program, script);

	if (err)
		return base_failure(self, "cannot find %s: %s; run make install", name,
				    strerror(-err));
	for (size_t i = 4; i < sizeof(argv) / sizeof(*argv) - 1 && *args; i++)
		argv[i] = *args++;
	execvp(argv[0], argv);
	return base_failure(self, "cannot run python3: %s; install python3 and python3-yaml",
			    strerror(errno));
}

int cli_output_end(const struct base_command *self, int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	return base_failure(self, "standard output: %s", strerror(errno));
}

void cli_print_safe(const char *s, int width)
{
	char *safe = strdup(s ? s : "");

	if (!safe)
		return;
	base_harmless(safe);
	printf("%-*s", width, safe);
	free(safe);
}

int cli_choice(const char *word, const char *const *names)
{
	int i = 0;

	while (names[i] && strcmp(word, names[i]))
		i++;
	return names[i] ? i : -1;
}

int cli_legacy(const char *form)
{
	static const char *const forms[] = {"a", "b", NULL};
	int i = form ? cli_choice(form, forms) : -1;

	return form && i < 0 ? -1 : i + 1;
}

const char *cli_json_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

json_int_t cli_json_integer(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

uint64_t cli_count_of(const void *from, const struct cli_count *c)
{
	uint64_t v;

	memcpy(&v, (const char *)from + c->at, sizeof(v));
	return v;
}

void cli_json_counts(json_t *to, const void *from, const struct cli_count *counts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_object_set_new(to, counts[i].name,
				    json_integer((json_int_t)cli_count_of(from, &counts[i])));
}

double cli_json_number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

bool cli_json_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

bool cli_json_is(const json_t *o, const char *key, const char *text)
{
	return !strcmp(cli_json_text(o, key), text);
}

bool cli_json_print(FILE *out, json_t *j, size_t flags)
{
	bool good = !json_dumpf(j, out, flags);

	fputc('\n', out);
	json_decref(j);
	return good;
}

int cli_confine(const char *component, const struct base_confine_opts *opts)
{
	char why[160];

	if (base_confine(opts, why, sizeof(why)))
		return CLI_FAIL(component, "%s; to skip this, use --unconfined", why);
	return BASE_EXIT_OK;
}

int cli_shared_secret(const struct base_command *self, const char *option, const char *path,
		      const void **secret, size_t *bytes)
{
	static uint8_t text[BASE_SHARED_MAX];
	ssize_t n;

	if (!path)
		return BASE_EXIT_OK;
	n = base_secret_shared(path, text);
	if (n < 0)
		return base_failure(self, "--%s: %s: %s", option, path,
				    n == -EINVAL ? "is not 16 to 4096 bytes long"
						 : strerror((int)-n));
	*secret = text;
	*bytes = (size_t)n;
	return BASE_EXIT_OK;
}
