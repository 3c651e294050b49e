// SPDX-License-Identifier: Apache-2.0
/* steps.c - the end-to-end test and the benchmark: commands on hosts, and what they must answer. */
#include "manage/manage.h"

#include <jansson.h>
#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* NULL with a line in error. */
static char *script_of(const struct manage *m, const struct manage_step *s, char *error,
		       size_t bytes)
{
	struct manage_text t;
	bool fine = true;
	char *script;

	if (!manage_text_open(&t)) {
		snprintf(error, bytes, "out of memory");
		return NULL;
	}
	fputs("cd", t.f);
	manage_quote(t.f, m->directory);
	fputs(" || exit 1\nSIDELIGHT=$(printf %s", t.f);
	manage_quote(t.f, s->host->program);
	fputs(")\nexport SIDELIGHT\n", t.f);
	if (s->run) {
		fputs("exec", t.f);
		manage_quote(t.f, s->host->program);
		for (size_t i = 0; fine && s->run[i]; i++)
			fine = manage_quote_filled(t.f, m, s->run[i], error, bytes);
		fputs(" </dev/null\n", t.f);
	} else {
		/* In a shell of its own, as what it reads must not be the rest of this script. */
		fputs("exec sh -c", t.f);
		fine = manage_quote_filled(t.f, m, s->shell, error, bytes);
		fputs(" </dev/null\n", t.f);
	}
	script = manage_text_close(&t);
	if (!fine || !script) {
		free(script);
		return NULL;
	}
	return script;
}

static bool some_line_matches(const char *text, const char *pattern)
{
	regex_t regex;
	bool found;

	/* It was compiled when the file was read. */
	if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB | REG_NEWLINE))
		return false;
	found = !regexec(&regex, text, 0, NULL, 0);
	regfree(&regex);
	return found;
}

/* Why the step failed; "" if it did not. */
static void judge(const struct manage_step *s, const struct manage_result *r, char *why,
		  size_t bytes)
{
	*why = 0;
	if (r->why[0])
		snprintf(why, bytes, "%s", r->why);
	else if (r->code != (int)s->exits)
		snprintf(why, bytes, "exit %d, not %d", r->code, (int)s->exits);
	else if (s->prints && !some_line_matches(r->out, s->prints))
		snprintf(why, bytes, "printed no line like '%.100s'%s", s->prints,
			 r->cut ? " in its first MiB" : "");
}

static void show_output(const char *text)
{
	size_t n = text ? strlen(text) : 0;
	const char *from = text;

	/* The end says most. */
	for (size_t lines = 0, i = n; i-- > 0;)
		if (text[i] == '\n' && i + 1 < n && ++lines == 20) {
			from = text + i + 1;
			break;
		}
	while (from && *from) {
		int line = (int)strcspn(from, "\n");

		printf("    | %.*s\n", line, from);
		from += line + (from[line] == '\n');
	}
}

/* What a run printed last, as JSON if that is what it is. */
static json_t *last_of(const char *out)
{
	size_t n = strlen(out), begin;
	json_t *j;

	while (n && out[n - 1] == '\n')
		n--;
	for (begin = n; begin && out[begin - 1] != '\n'; begin--)
		;
	j = json_loadb(out + begin, n - begin, JSON_DECODE_ANY, NULL);
	return j ? j : json_stringn(out + begin, n - begin);
}

/* Adds the step's runs to list, or prints them; true if all passed. */
static bool run_step(struct manage *m, const struct manage_step *s, int stop_fd, json_t *list,
		     bool figures)
{
	double least = INFINITY, most = 0, sum = 0;
	char why[256] = "", error[256];
	json_t *printed = json_array();
	struct manage_result r = {0};
	uint64_t ran = 0;

	while (ran < s->times && !why[0]) {
		char *script = script_of(m, s, error, sizeof(error));

		if (!script) {
			snprintf(why, sizeof(why), "%s", error);
			break;
		}
		manage_result_free(&r);
		manage_script(s->host, script, s->within_ns, stop_fd, &r);
		free(script);
		ran++;
		judge(s, &r, why, sizeof(why));
		least = fmin(least, r.seconds);
		most = fmax(most, r.seconds);
		sum += r.seconds;
		if (r.out && figures)
			json_array_append_new(printed, last_of(r.out));
	}
	if (list) {
		json_t *j = json_pack("{s:s,s:s,s:b,s:I,s:f}", "step", s->name, "host",
				      s->host->name, "passed", !why[0], "runs", (json_int_t)ran,
				      "seconds", ran ? sum / (double)ran : 0);

		if (why[0])
			json_object_set_new(j, "why", json_string(why));
		if (figures)
			json_object_set(j, "printed", printed);
		json_array_append_new(list, j);
	} else if (why[0]) {
		printf("FAILED %s: %s\n", s->name, why);
		show_output(r.out);
		show_output(r.err);
	} else if (s->times > 1) {
		printf("ok     %s (%" PRIu64 " times, %.2f to %.2f s, mean %.2f)\n", s->name, ran,
		       least, most, sum / (double)ran);
	} else {
		printf("ok     %s (%.1f s)\n", s->name, r.seconds);
	}
	if (!list && figures)
		show_output(r.out);
	fflush(stdout);
	json_decref(printed);
	manage_result_free(&r);
	return !why[0];
}

int manage_steps(struct manage *m, const char *what, int stop_fd, bool json)
{
	bool bench = !strcmp(what, "bench"), unreachable;
	const struct manage_step *steps = bench ? m->bench : m->test;
	size_t n = bench ? m->benches : m->tests, passed = 0, up, still, ran = 0;
	json_t *list = json ? json_array() : NULL;

	if (!n) {
		fprintf(stderr, "sidelight manage: %s: has no steps under '%s'\n", m->path, what);
		return BASE_EXIT_FAILURE;
	}
	up = manage_look(m, &unreachable);
	if (unreachable || up < m->parts) {
		fprintf(stderr,
			"sidelight manage: %zu of %zu parts are up; see 'sidelight manage up'\n",
			up, m->parts);
		return BASE_EXIT_FAILURE;
	}
	while (ran < n && !base_stop_wait(stop_fd, 0))
		passed += run_step(m, &steps[ran++], stop_fd, list, bench);
	/* A part that died while it was tested has not passed. */
	still = manage_look(m, &unreachable);
	if (json) {
		json_t *j = json_pack("{s:o,s:I,s:I,s:I,s:I,s:b}", what, list, "passed",
				      (json_int_t)passed, "failed", (json_int_t)(ran - passed),
				      "not_run", (json_int_t)(n - ran), "parts_died",
				      (json_int_t)(up - still), "ok", passed == n && still == up);

		json_dumpf(j, stdout, JSON_INDENT(1));
		putchar('\n');
		json_decref(j);
	} else {
		if (still < up)
			printf("FAILED parts: %zu of %zu are no longer up\n", up - still, up);
		printf("%s: %zu passed, %zu failed%s\n", what, passed, ran - passed,
		       ran < n ? ", interrupted" : "");
	}
	return fflush(stdout) || passed < n || still < up ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}
