/* SPDX-License-Identifier: Apache-2.0 */
/* One table serves the command line, the YAML file and --help; each error gets one clear line. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"

static struct {
	bool json, colour;
	const char *socket, *feathers, *tyres;
	struct base_strings agents;
	uint32_t workers;
	uint16_t port, before;
	uint8_t copies, after;
	uint64_t seed, period, memory;
	int32_t gid;
	double rate;
} v;

static const struct base_option table[] = {
	BASE_FLAG("json", 'j', &v.json, "print JSON"),
	BASE_FLAG("colour", 0, &v.colour, "with colours"),
	BASE_STRING("socket", 's', &v.socket, "PATH", "where the agent listens"),
	BASE_LIST("agent", 'a', &v.agents, "ADDRESS", "an agent; may be repeated"),
	BASE_UINT("workers", 'w', &v.workers, 1, 64, "N", "threads"),
	BASE_UINT("port", 0, &v.port, 0, 0, "N", "bounded by its type alone"),
	BASE_UINT("copies", 0, &v.copies, 0, 0, "N", "bounded by its type alone"),
	BASE_UINT("seed", 0, &v.seed, 0, 0, "N", "of the random numbers"),
	BASE_INT("gid", 0, &v.gid, -1, 255, "N", "index"),
	BASE_F64("rate", 0, &v.rate, 0, 1000, "HZ", "how often"),
	BASE_TIME(
		"period", 0, &v.period, 1000, 1e12, "DURATION",
		"how long between two rounds, which is a text long enough to be broken somewhere"),
	BASE_PART("wings", "wings", 0),
	BASE_STRING("feathers", 'f', &v.feathers, "COLOUR", "an option of a part that is absent"),
	BASE_PART("wheels", "wheels", 1),
	BASE_STRING("tyres", 0, &v.tyres, "MAKE", "an option of a part that is present"),
	BASE_CORE,
	BASE_SIZE("memory", 0, &v.memory, 0, 0, "SIZE", "at most"),
	{0},
};

static const struct base_command cmd = {"test", "[OPTION]... FILE", "Does nothing.", NULL};
enum { HELP_SHOWN = -1, USAGE_ERROR = -2 };

static char said[8192]; /* the output of the last call on stderr and stdout */
static char path[] = "/tmp/sl-options-XXXXXX";

/* Runs the parser with the words of line; its output is stored in said. */
static int run(const char *line)
{
	static char words[1024];
	static char *argv[64];
	char out[] = "/tmp/sl-said-XXXXXX";
	int argc = 0, fd = mkstemp(out), old[2], r, code = -1;
	ssize_t n;

	v = (typeof(v)){.colour = true,
			.socket = "/default",
			.workers = 2,
			.gid = -1,
			.period = 1000000,
			.memory = 16 << 20,
			.rate = 1.5};
	snprintf(words, sizeof(words), "test %s", line);
	for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
		argv[argc++] = w;
	argv[argc] = NULL;
	assert_true(fd >= 0);
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		old[i] = dup(i + 1);
		dup2(fd, i + 1);
	}
	r = base_options_parse(&cmd, table, argc, argv, &code);
	if (r < 0)
		r = code == BASE_EXIT_OK ? HELP_SHOWN : USAGE_ERROR;
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		dup2(old[i], i + 1);
		close(old[i]);
	}
	n = pread(fd, said, sizeof(said) - 1, 0);
	said[n > 0 ? n : 0] = 0;
	close(fd);
	unlink(out);
	return r;
}

static void config(const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int run_with_config(const char *line, const char *text)
{
	char full[512];

	config(text);
	snprintf(full, sizeof(full), "--config %s %s", path, line);
	return run(full);
}

static void every_type_from_the_command_line(void **state)
{
	(void)state;
	assert_int_equal(run("-j --colour=no -s /x --agent one -a two --workers 64 "
			     "--seed 18446744073709551615 --gid -1 --rate 2.5e2 --period 500us "
			     "--memory=64K file"),
			 20);
	assert_string_equal(said, "");
	assert_true(v.json && !v.colour);
	assert_string_equal(v.socket, "/x");
	assert_int_equal(v.agents.n, 2);
	assert_string_equal(v.agents.v[0], "one");
	assert_string_equal(v.agents.v[1], "two");
	assert_int_equal(v.workers, 64);
	assert_true(v.seed == UINT64_MAX);
	assert_int_equal(v.gid, -1);
	assert_true(v.rate == 250);
	assert_int_equal(v.period, 500000);
	assert_int_equal(v.memory, 65536);
}

static void narrow_numbers_leave_their_neighbours_alone(void **state)
{
	(void)state;
	assert_int_equal(run("--port 65535 --copies 255"), 5);
	assert_int_equal(v.port, 65535);
	assert_int_equal(v.copies, 255);
	assert_true(!v.before && !v.after);
}

static void operands_may_stand_before_options(void **state)
{
	(void)state;
	assert_int_equal(run("metrics --workers 3 more"), 3);
	assert_int_equal(v.workers, 3);
	assert_int_equal(run("-- --workers"), 2);
	assert_int_equal(v.workers, 2);
}

static void bad_command_lines_get_one_clear_line(void **state)
{
	static const struct {
		const char *line, *said;
	} t[] = {
		{"--wrokers 3", "unknown option --wrokers; did you mean --workers?"},
		{"--zzzzzzzzz=3", "unknown option --zzzzzzzzz; see 'sidelight test --help'"},
		{"-x", "unknown option -x; see 'sidelight test --help'"},
		{"-jx", "unknown option -x; see 'sidelight test --help'"},
		{"--workers", "--workers needs a whole number"},
		{"-w", "-w needs a value"},
		{"--workers 0", "--workers: '0' is out of range: expected 1 to 64"},
		{"--workers 65", "--workers: '65' is out of range: expected 1 to 64"},
		{"--workers 99999999999999999999", "--workers: '99999999999999999999' is out of "
						   "range: expected 1 to 64"},
		{"--workers -1", "--workers: '-1' is not a whole number"},
		{"--workers 3x", "--workers: '3x' is not a whole number"},
		{"--seed 18446744073709551616", "--seed: '18446744073709551616' is too large"},
		{"--port 65536", "--port: '65536' is too large"},
		{"--copies 256", "--copies: '256' is too large"},
		{"--gid -2", "--gid: '-2' is out of range: expected -1 to 255"},
		{"--gid --2", "--gid: '--2' is not an integer"},
		{"--rate nan", "--rate: 'nan' is not a number"},
		{"--rate 0x10", "--rate: '0x10' is not a number"},
		{"--rate 1001", "--rate: '1001' is out of range: expected 0 to 1000"},
		{"--period 1", "--period: '1' is not a duration such as 500us, 1ms, 1.5s, 2m"},
		{"--period 1ns", "--period: '1ns' is out of range: expected 1us to 1000s"},
		{"--memory 1.5G", "--memory: '1.5G' is not a size such as 4096, 64K, 16M, 1G"},
		{"--json=perhaps", "--json: 'perhaps' is not true or false"},
		{"--config /nonexistent/x",
		 "/nonexistent/x: can't be opened: No such file or directory"},
		{"--config", "--config needs a value"},
		{"--help=x", "--help does not take a value"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char expect[256];

		snprintf(expect, sizeof(expect), "sidelight test: %s\n", t[i].said);
		assert_int_equal(run(t[i].line), USAGE_ERROR);
		assert_string_equal(said, expect);
	}
}

static void every_type_from_the_file(void **state)
{
	(void)state;
	assert_int_equal(run_with_config("", "# settings\n"
					     "json: true\ncolour: off\nsocket: \"/y\"\n"
					     "agent: [one, two]\nworkers: 7\nseed: 9\n"
					     "gid: 3\nrate: 0.5\nperiod: 2ms\nmemory: 1G\n"),
			 3);
	assert_string_equal(said, "");
	assert_true(v.json && !v.colour);
	assert_string_equal(v.socket, "/y");
	assert_int_equal(v.agents.n, 2);
	assert_string_equal(v.agents.v[1], "two");
	assert_int_equal(v.workers, 7);
	assert_int_equal(v.gid, 3);
	assert_true(v.rate == 0.5);
	assert_int_equal(v.period, 2000000);
	assert_int_equal(v.memory, 1 << 30);
	assert_int_equal(run_with_config("", "agent: one\n"), 3);
	assert_int_equal(v.agents.n, 1);
	assert_int_equal(run_with_config("", "# nothing\n"), 3);
	assert_int_equal(run_with_config("", ""), 3);
	assert_int_equal(v.workers, 2);
}

static void the_command_line_wins_over_the_file(void **state)
{
	(void)state;
	assert_int_equal(run_with_config("--workers 3 --agent cli --json=no",
					 "workers: 7\nagent: [file, file2]\njson: yes\nseed: 5\n"),
			 8);
	assert_int_equal(v.workers, 3);
	assert_int_equal(v.agents.n, 1);
	assert_string_equal(v.agents.v[0], "cli");
	assert_false(v.json);
	assert_int_equal(v.seed, 5);
}

static void bad_files_get_one_line_with_the_place(void **state)
{
	static const struct {
		const char *text, *said;
	} t[] = {
		{"workers: 3\nwrokers: 4\n", ":2: unknown key 'wrokers'; did you mean 'workers'?"},
		{"\n\nzzzzzzzzz: 4\n", ":3: unknown key 'zzzzzzzzz'; see 'sidelight test --help'"},
		{"config: x\n", ":1: unknown key 'config'; see 'sidelight test --help'"},
		{"workers: many\n", ":1: workers: 'many' is not a whole number"},
		{"workers: 65\n", ":1: workers: '65' is out of range: expected 1 to 64"},
		{"workers: [1]\n", ":1: workers: expected a whole number, found a list"},
		{"period: {a: 1}\n", ":1: period: expected a duration such as 500us, 1ms, 1.5s, "
				     "2m, found a mapping"},
		{"agent: [[x]]\n", ":1: agent: expected text, found a list"},
		{"socket:\n", ":1: socket: the value is missing"},
		{"socket: ~\n", ":1: socket: the value is missing"},
		{"workers: 1\nworkers: 2\n", ":2: 'workers' is given twice"},
		{"- a\n- b\n", ":1: expected lines of the form 'key: value', but found a list"},
		{"just text\n",
		 ":1: expected lines of the form 'key: value', but found a single value"},
		{"[a]: b\n", ":1: a key must be a plain name, not a list"},
		{"workers: 1\n---\nworkers: 2\n",
		 ": contains a second document; only one is allowed"},
		{"workers: &a 1\nagent: *a\n", ":2: aliases (*name) are not supported"},
		{"socket: \"a\\0b\"\n", ":1: socket: contains a NUL character"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char expect[256];

		snprintf(expect, sizeof(expect), "sidelight test: %s%s\n", path, t[i].said);
		assert_int_equal(run_with_config("", t[i].text), USAGE_ERROR);
		assert_string_equal(said, expect);
	}
	assert_int_equal(run_with_config("", "a: [1\nb: 2\n"), USAGE_ERROR);
	assert_non_null(strstr(said, ":2: not YAML: "));
	assert_int_equal(run_with_config("", "a: \xff\xfe\n"), USAGE_ERROR);
	assert_non_null(strstr(said, "is not valid YAML"));
}

static void a_table_prints_as_its_command_line(void **state)
{
	typeof(v) first;
	char line[1024] = "";

	(void)state;
	run("--json --agent a:1 --agent b --workers 3 --gid -1 --rate 0.25 --period 1500us --memory 3M "
	    "--seed 9007199254740992");
	first = v;
	for (char **argv = base_options_print(table) + 1; *argv; argv++)
		sprintf(line + strlen(line), "%s ", *argv);
	assert_non_null(
		strstr(line, "--json=yes --colour=yes --socket=/default --agent=a:1 --agent=b "));
	assert_int_equal(run(line), 14);
	assert_int_equal(v.agents.n, 2);
	assert_string_equal(v.socket, "/default");
	v.agents = first.agents;
	v.socket = first.socket;
	assert_memory_equal(&v, &first, sizeof(v));
}

static void help_is_aligned_and_names_the_defaults(void **state)
{
	static const char expect[] =
		"Usage: sidelight test [OPTION]... FILE\n\n"
		"Does nothing.\n\n"
		"Options:\n"
		"  -j, --json             print JSON\n"
		"      --colour           with colours (default on; --colour=no)\n"
		"  -s, --socket PATH      where the agent listens (default /default)\n"
		"  -a, --agent ADDRESS    an agent; may be repeated\n"
		"  -w, --workers N        threads (default 2)\n"
		"      --port N           bounded by its type alone\n"
		"      --copies N         bounded by its type alone\n"
		"      --seed N           of the random numbers\n"
		"      --gid N            index (default -1)\n"
		"      --rate HZ          how often (default 1.5)\n"
		"      --period DURATION  how long between two rounds, which is a text long\n"
		"                         enough to be broken somewhere (default 1ms)\n"
		"      --tyres MAKE       an option of a part that is present\n"
		"      --memory SIZE      at most (default 16M)\n"
		"      --config FILE      read settings from this YAML file, with the option\n"
		"                         names above as keys; the command line takes precedence\n"
		"  -h, --help             show this\n"
		"\nFor the manual: man sidelight-test\n";

	(void)state;
	assert_int_equal(run("--help"), HELP_SHOWN);
	assert_string_equal(said, expect);
}

static void options_of_absent_parts_are_refused_and_hidden(void **state)
{
	static const char why[] =
		"feathers: this build has no wings: rebuild with -Dwings=enabled\n";
	char expect[256];

	(void)state;
	snprintf(expect, sizeof(expect), "sidelight test: --%s", why);
	assert_int_equal(run("--feathers red"), USAGE_ERROR);
	assert_string_equal(said, expect);
	assert_int_equal(run("-f red"), USAGE_ERROR);
	assert_string_equal(said, expect);
	assert_null(v.feathers);
	snprintf(expect, sizeof(expect), "sidelight test: %s:1: %s", path, why);
	assert_int_equal(run_with_config("", "feathers: red\n"), USAGE_ERROR);
	assert_string_equal(said, expect);
	/* The part's options are not suggested, either. */
	assert_int_equal(run("--feather red"), USAGE_ERROR);
	assert_null(strstr(said, "did you mean"));
	assert_int_equal(run_with_config("--tyres round", "memory: 1M\n"), 5);
	assert_string_equal(v.tyres, "round");
	assert_int_equal(v.memory, 1 << 20);
}

static int remove_config(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_from_the_command_line),
		cmocka_unit_test(narrow_numbers_leave_their_neighbours_alone),
		cmocka_unit_test(operands_may_stand_before_options),
		cmocka_unit_test(bad_command_lines_get_one_clear_line),
		cmocka_unit_test(every_type_from_the_file),
		cmocka_unit_test(the_command_line_wins_over_the_file),
		cmocka_unit_test(bad_files_get_one_line_with_the_place),
		cmocka_unit_test(a_table_prints_as_its_command_line),
		cmocka_unit_test(help_is_aligned_and_names_the_defaults),
		cmocka_unit_test(options_of_absent_parts_are_refused_and_hidden),
	};
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	return cmocka_run_group_tests(tests, NULL, remove_config);
}
