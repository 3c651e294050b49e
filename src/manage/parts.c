// SPDX-License-Identifier: Apache-2.0
/* parts.c - starts, finds and stops parts, each by a script on its host. */
#include "manage/manage.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define FILE_MAX (256u << 10) /* bytes of a file that is copied to a host */
#define LOOK_NS	 20000000000ull
/* What a script for a part exits with. */
enum { FINE = 0, ENDED = 3, UP_ALREADY = 4, NOT_READY = 5, NOT_OURS = 6 };

static int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int complain(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("sidelight manage: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return BASE_EXIT_FAILURE;
}

/* The last line that says something; cuts text there. */
static const char *last_line(char *text)
{
	char *at;

	if (!text)
		return "";
	while (*text && text[strlen(text) - 1] == '\n')
		text[strlen(text) - 1] = 0;
	at = strrchr(text, '\n');
	return at ? at + 1 : text;
}

/* Why a script could not do its work, in one line. */
static const char *reason(const struct manage_host *h, struct manage_result *r)
{
	if (r->why[0])
		return r->why;
	if (h->ssh && r->code == 255 && !*last_line(r->err))
		return "ssh has failed";
	return last_line(r->err);
}

/* manage_quote() begins with a blank, which an assignment must not have. */
static void assign(FILE *f, const char *name, const char *value)
{
	struct manage_text t;
	char *quoted;

	if (!manage_text_open(&t))
		return;
	manage_quote(t.f, value);
	quoted = manage_text_close(&t);
	if (quoted)
		fprintf(f, "%s=%s\n", name, quoted + 1);
	free(quoted);
}

/*
 * $D is the directory. alive NAME: that part runs; $p is then its process. A number that was given
 * to another process is told by the time at which that one started; /proc/PID/stat has it as the
 * 20th word behind the command's name, which may hold blanks and parentheses.
 */
static void prelude(const struct manage *m, FILE *f)
{
	assign(f, "D", m->directory);
	fputs("of() { sed 's/.*) //' /proc/$1/stat 2>/dev/null; }\n"
	      "same() { [ $# -ge 21 ] && [ \"$2\" != Z ] && [ \"${21}\" = \"$1\" ]; }\n"
	      "alive() { p= t=; [ -f \"$D/$1.pid\" ] && read -r p t <\"$D/$1.pid\" && [ -n \"$t\" ] && "
	      "same \"$t\" $(of \"$p\"); }\n",
	      f);
}

static void base64(FILE *f, const unsigned char *data, size_t bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < bytes; i += 3) {
		uint32_t v = (uint32_t)data[i] << 16 |
			     (i + 1 < bytes ? (uint32_t)data[i + 1] << 8 : 0) |
			     (i + 2 < bytes ? data[i + 2] : 0);

		fputc(digits[v >> 18], f);
		fputc(digits[v >> 12 & 63], f);
		fputc(i + 1 < bytes ? digits[v >> 6 & 63] : '=', f);
		fputc(i + 2 < bytes ? digits[v & 63] : '=', f);
		if (i % 57 == 54)
			fputc('\n', f);
	}
	fputc('\n', f);
}

/* The script's lines that make the files beside ours appear in the directory. */
static bool copy_files(const struct manage *m, FILE *f, char *error, size_t bytes)
{
	for (size_t i = 0; m->files && m->files[i]; i++) {
		unsigned char *data = malloc(FILE_MAX + 1);
		char path[4096];
		size_t n = 0;
		FILE *from;

		snprintf(path, sizeof(path), "%s/%s", m->folder, m->files[i]);
		from = data ? fopen(path, "re") : NULL;
		if (from)
			n = fread(data, 1, FILE_MAX + 1, from);
		if (!from || ferror(from) || n > FILE_MAX) {
			snprintf(error, bytes, "%.64s: %s", m->files[i],
				 n > FILE_MAX ? "is larger than 256 KiB" : strerror(errno));
			if (from)
				fclose(from);
			free(data);
			return false;
		}
		fclose(from);
		fputs("base64 -d >", f);
		manage_quote(f, m->files[i]);
		fputs(" <<'END' || exit 1\n", f);
		base64(f, data, n);
		fputs("END\n", f);
		free(data);
	}
	return true;
}

/* NULL with a line in error. */
static char *start_script(const struct manage *m, const struct manage_part *p, char *error,
			  size_t bytes)
{
	struct manage_text t;
	bool fine = true;
	char *script;

	if (!manage_text_open(&t)) {
		snprintf(error, bytes, "out of memory");
		return NULL;
	}
	prelude(m, t.f);
	assign(t.f, "N", p->name);
	fprintf(t.f,
		"umask 077\n"
		"mkdir -p \"$D\" || exit %d\n"
		"[ -O \"$D\" ] && [ ! -L \"$D\" ] || { echo \"$D is somebody else's\" >&2; exit %d; }\n"
		"cd \"$D\" || exit %d\n"
		"alive \"$N\" && exit %d\n"
		"rm -f \"$N.pid\" \"$N.out\" \"$N.err\"\n",
		NOT_OURS, NOT_OURS, NOT_OURS, UP_ALREADY);
	fine = copy_files(m, t.f, error, bytes);
	fputs("setsid", t.f);
	manage_quote(t.f, p->host->program);
	for (size_t i = 0; fine && p->run[i]; i++)
		fine = manage_quote_filled(t.f, m, p->run[i], error, bytes);
	fprintf(t.f,
		" </dev/null >\"$N.out\" 2>\"$N.err\" &\n"
		"p=$!\n"
		"started() { shift 19; echo \"$1\"; }\n"
		"s=$(of $p) && echo \"$p $(started $s)\" >\"$N.pid\"\n"
		"n=0\n"
		"until grep -q '^ready' \"$N.out\"; do\n"
		"  alive \"$N\" || { rm -f \"$N.pid\"; wait $p; echo \"exit $?\" >&2; tail -n 3 \"$N.err\" >&2; exit %d; }\n"
		"  n=$((n + 1))\n"
		"  [ $n -le %" PRIu64
		" ] || { kill -KILL $p; rm -f \"$N.pid\"; tail -n 3 \"$N.err\" >&2; exit %d; }\n"
		"  sleep 0.05\n"
		"done\n"
		"grep -m 1 '^ready' \"$N.out\"\n",
		ENDED, p->ready_ns / 50000000 + 1, NOT_READY);
	script = manage_text_close(&t);
	if (!fine || !script) {
		free(script);
		return NULL;
	}
	return script;
}

/* True: it is up. */
static bool start(struct manage *m, struct manage_part *p, int stop_fd)
{
	char error[256] = "out of memory", *script = start_script(m, p, error, sizeof(error));
	struct manage_result r;
	bool up = false;

	if (!script) {
		complain("%s: %s", p->name, error);
		return false;
	}
	p->started = true;
	manage_script(p->host, script, p->ready_ns + LOOK_NS, stop_fd, &r);
	free(script);
	switch (r.code) {
	case FINE:
		p->ready = r.out;
		r.out = NULL;
		p->ready[strcspn(p->ready, "\n")] = 0;
		fprintf(m->say, "%-16s %-12s %s  (%.1f s)\n", p->name, p->host->name, p->ready,
			r.seconds);
		fflush(m->say);
		up = true;
		break;
	case UP_ALREADY:
		p->started = false;
		complain("%s: is up already on %s; see 'sidelight manage status'", p->name,
			 p->host->name);
		break;
	case ENDED:
		complain("%s: ended before it was ready: %s", p->name, reason(p->host, &r));
		break;
	case NOT_READY:
		complain("%s: was not ready in time, and was killed: %s", p->name,
			 reason(p->host, &r));
		break;
	default:
		complain("%s: could not be started on %s: %s", p->name, p->host->name,
			 reason(p->host, &r));
	}
	manage_result_free(&r);
	return up;
}

static int stop(const struct manage *m, const struct manage_part *p)
{
	struct manage_result r;
	struct manage_text t;
	int code = BASE_EXIT_OK;
	char *script;

	if (!manage_text_open(&t))
		return complain("out of memory");
	prelude(m, t.f);
	assign(t.f, "N", p->name);
	fprintf(t.f,
		"[ -O \"$D\" ] && [ ! -L \"$D\" ] && cd \"$D\" || exit 0\n"
		"if alive \"$N\"; then\n"
		"  echo stopped; kill -TERM $p; n=0\n"
		"  while alive \"$N\"; do\n"
		"    n=$((n + 1)); [ $n -ne %" PRIu64 " ] || { echo killed; kill -KILL $p; }\n"
		"    sleep 0.05\n"
		"  done\n"
		"elif [ -f \"$N.pid\" ]; then echo 'was dead'\n"
		"fi\n"
		"rm -f \"$N.pid\"\n",
		p->stop_ns / 50000000 + 1);
	script = manage_text_close(&t);
	if (!script)
		return complain("out of memory");
	manage_script(p->host, script, p->stop_ns + LOOK_NS, -1, &r);
	free(script);
	if (r.code)
		code = complain("%s: could not be stopped on %s: %s", p->name, p->host->name,
				reason(p->host, &r));
	else if (*r.out)
		fprintf(m->say, "%-16s %-12s %s\n", p->name, p->host->name, last_line(r.out));
	if (!r.code && strstr(r.out, "killed"))
		complain("%s: did not end when it was asked to, and was killed", p->name);
	manage_result_free(&r);
	return code;
}

/* Removes what the parts left in a host's directory, and the directory if it is then empty. */
static int clean(const struct manage *m, const struct manage_host *h)
{
	struct manage_result r;
	struct manage_text t;
	int code = BASE_EXIT_OK;
	char *script;

	if (!manage_text_open(&t))
		return complain("out of memory");
	prelude(m, t.f);
	fputs("[ -O \"$D\" ] && [ ! -L \"$D\" ] && cd \"$D\" || exit 0\nrm -f --", t.f);
	for (size_t i = 0; i < m->parts; i++)
		if (m->part[i].host == h) {
			static const char *const ends[] = {"out", "err"};

			for (int k = 0; k < 2; k++) {
				char name[80];

				snprintf(name, sizeof(name), "%s.%s", m->part[i].name, ends[k]);
				manage_quote(t.f, name);
			}
		}
	for (size_t i = 0; m->files && m->files[i]; i++)
		manage_quote(t.f, m->files[i]);
	fputs("\ncd /; rmdir \"$D\" 2>/dev/null || :\n", t.f);
	script = manage_text_close(&t);
	if (!script)
		return complain("out of memory");
	manage_script(h, script, LOOK_NS, -1, &r);
	free(script);
	if (r.code)
		code = complain("%s: what was left could not be removed: %s", h->name,
				reason(h, &r));
	manage_result_free(&r);
	return code;
}

static bool used(const struct manage *m, const struct manage_host *h)
{
	for (size_t i = 0; i < m->parts; i++)
		if (m->part[i].host == h)
			return true;
	return false;
}

int manage_down(struct manage *m, bool keep)
{
	int code = BASE_EXIT_OK;

	for (size_t i = m->parts; i--;)
		if (stop(m, &m->part[i]))
			code = BASE_EXIT_FAILURE;
	for (size_t i = 0; !keep && !code && i < m->hosts; i++)
		if (used(m, &m->host[i]) && clean(m, &m->host[i]))
			code = BASE_EXIT_FAILURE;
	return code;
}

int manage_up(struct manage *m, int stop_fd)
{
	for (size_t i = 0; i < m->parts; i++) {
		if (start(m, &m->part[i], stop_fd))
			continue;
		/* All or nothing. What was there before stays. Logs do, to be looked at. */
		for (size_t k = i + 1; k--;)
			if (m->part[k].started)
				stop(m, &m->part[k]);
		return BASE_EXIT_FAILURE;
	}
	return BASE_EXIT_OK;
}

/* ---- what is up ---- */

struct seen {
	bool answered, up, dead; /* dead: it was started, and is gone */
	long pid;
};

/* One line for each part of the host: "I STATE PID READY...". */
static bool look(struct manage *m, const struct manage_host *h, struct seen *seen)
{
	struct manage_result r;
	struct manage_text t;
	char *script, *line, *next;

	if (!manage_text_open(&t))
		return complain("out of memory"), false;
	prelude(m, t.f);
	fputs("[ -O \"$D\" ] && [ ! -L \"$D\" ] && cd \"$D\" || exit 0\n", t.f);
	for (size_t i = 0; i < m->parts; i++)
		if (m->part[i].host == h) {
			assign(t.f, "N", m->part[i].name);
			fprintf(t.f,
				"if alive \"$N\"; then echo \"%zu up $p $(grep -m 1 '^ready' \"$N.out\")\"\n"
				"elif [ -f \"$N.pid\" ]; then echo \"%zu dead 0\"; fi\n",
				i, i);
		}
	script = manage_text_close(&t);
	if (!script)
		return complain("out of memory"), false;
	manage_script(h, script, LOOK_NS, -1, &r);
	free(script);
	if (r.code) {
		complain("%s: %s", h->name, reason(h, &r));
		manage_result_free(&r);
		return false;
	}
	for (size_t i = 0; i < m->parts; i++)
		if (m->part[i].host == h)
			seen[i].answered = true;
	for (line = r.out; line && *line; line = next) {
		char state[8];
		size_t i;
		long pid;
		int n = 0;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (sscanf(line, "%zu %7s %ld%n", &i, state, &pid, &n) != 3 || i >= m->parts ||
		    m->part[i].host != h)
			continue;
		seen[i].up = !strcmp(state, "up");
		seen[i].dead = !seen[i].up;
		seen[i].pid = pid;
		free(m->part[i].ready);
		m->part[i].ready = seen[i].up && line[n] ? strdup(line + n + 1) : NULL;
	}
	manage_result_free(&r);
	return true;
}

static bool look_everywhere(struct manage *m, struct seen *seen)
{
	bool all = true;

	for (size_t i = 0; i < m->hosts; i++)
		if (used(m, &m->host[i]) && !look(m, &m->host[i], seen))
			all = false;
	return all;
}

size_t manage_look(struct manage *m, bool *unreachable)
{
	struct seen *seen = calloc(m->parts, sizeof(*seen));
	size_t up = 0;

	*unreachable = !seen || !look_everywhere(m, seen);
	for (size_t i = 0; seen && i < m->parts; i++)
		up += seen[i].up;
	free(seen);
	return up;
}

int manage_status(struct manage *m, bool json)
{
	struct seen *seen = calloc(m->parts, sizeof(*seen));
	json_t *list = json_array();
	bool all = true;

	if (!seen || !list) {
		free(seen);
		json_decref(list);
		return complain("out of memory");
	}
	look_everywhere(m, seen);
	if (!json)
		printf("%-16s %-12s %-11s %8s  %s\n", "PART", "HOST", "STATE", "PID", "SAYS");
	for (size_t i = 0; i < m->parts; i++) {
		const struct manage_part *p = &m->part[i];
		const char *state = !seen[i].answered ? "unreachable"
				    : seen[i].up      ? "up"
				    : seen[i].dead    ? "dead"
						      : "down";

		all = all && seen[i].up;
		if (json) {
			json_array_append_new(
				list,
				json_pack("{s:s,s:s,s:s,s:o,s:o}", "part", p->name, "host",
					  p->host->name, "state", state, "pid",
					  seen[i].up ? json_integer(seen[i].pid) : json_null(),
					  "ready", p->ready ? json_string(p->ready) : json_null()));
		} else {
			char pid[24] = "";

			if (seen[i].up)
				snprintf(pid, sizeof(pid), "%ld", seen[i].pid);
			printf("%-16s %-12s %-11s %8s  %s\n", p->name, p->host->name, state, pid,
			       p->ready ? p->ready : "");
		}
	}
	if (json) {
		json_dumpf(list, stdout, JSON_INDENT(1));
		putchar('\n');
	}
	json_decref(list);
	free(seen);
	return fflush(stdout) || !all ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}
