// SPDX-License-Identifier: Apache-2.0
/* file.c - the file of sidelight manage: hosts, parts, steps. */
#include "manage/manage.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/yaml.h"

#define HOSTS_MAX 1024u
#define PARTS_MAX 4096u
#define WORDS_MAX 1024u
#define TIMES_MAX 1000u

struct file_kept {
	struct file_kept *next;
	char bytes[];
};

/* Zeroed memory that lives as long as m. */
static void *keep(struct manage *m, size_t bytes)
{
	struct file_kept *k = calloc(1, sizeof(*k) + bytes);

	if (!k) {
		base_yaml_wrong(m->yaml, 0, "out of memory");
		return NULL;
	}
	k->next = m->kept;
	m->kept = k;
	return k->bytes;
}

static char *keep_string(struct manage *m, const char *s)
{
	char *copy = keep(m, strlen(s) + 1);

	return copy ? strcpy(copy, s) : NULL;
}

/* Names become files' names and words of scripts. */
static void name_of(struct manage *m, base_yaml_node node, const char *what, const char **out)
{
	base_yaml_string(m->yaml, node, what, out);
	if (*out &&
	    (!**out || strlen(*out) > 63 || **out == '-' || **out == '.' ||
	     (*out)[strspn(*out,
			   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")]))
		base_yaml_wrong(m->yaml, node,
				"%s: expected up to 63 letters, digits, '-', '_', '.', not '%.64s'",
				what, *out);
}

/* A list of words, NULL-terminated; a single value is a list of one. */
static const char *const *words(struct manage *m, base_yaml_node node, const char *what,
				size_t least)
{
	size_t n = base_yaml_count(m->yaml, node);
	const char **w;

	if (n < least || n > WORDS_MAX) {
		base_yaml_wrong(m->yaml, node, "%s: expected a list of %zu to %u words", what,
				least, WORDS_MAX);
		return NULL;
	}
	w = keep(m, (n + 1) * sizeof(*w));
	for (size_t i = 0; w && i < n; i++) {
		w[i] = "";
		base_yaml_string(m->yaml, base_yaml_at(m->yaml, node, i), what, &w[i]);
	}
	return w;
}

static void read_hosts(struct manage *m, base_yaml_node node, const char *program)
{
	static const char *const keys[] = {"ssh", "program", NULL};
	struct base_yaml *y = m->yaml;
	base_yaml_node where, value;
	const char *name;
	size_t n = 0;

	while (base_yaml_pair(y, node, n, &name, &where, &value))
		n++;
	if (node && !base_yaml_is_mapping(y, node))
		base_yaml_wrong(y, node, "hosts: expected names with their settings");
	if (n > HOSTS_MAX) {
		base_yaml_wrong(y, node, "hosts: more than %u", HOSTS_MAX);
		return;
	}
	m->host = keep(m, (n + 1) * sizeof(*m->host));
	if (!m->host)
		return;
	m->host[m->hosts++] = (struct manage_host){.name = "local", .program = program};
	for (size_t i = 0; base_yaml_pair(y, node, i, &name, &where, &value); i++) {
		struct manage_host *h = &m->host[m->hosts++];
		base_yaml_node ssh;

		h->program = "sidelight";
		name_of(m, where, "a host's name", &h->name);
		for (size_t k = 0; k + 1 < m->hosts; k++)
			if (!strcmp(m->host[k].name, name))
				base_yaml_wrong(y, where, "host '%s' is there already", name);
		if (!value)
			base_yaml_wrong(y, where, "host '%s': nothing is said of it", name);
		if (!base_yaml_mapping(y, value, keys))
			return;
		ssh = base_yaml_need(y, value, "ssh");
		h->ssh = words(m, ssh, "ssh", 1);
		base_yaml_string(y, base_yaml_get(y, value, "program"), "program", &h->program);
	}
}

static const struct manage_host *host_of(struct manage *m, base_yaml_node node)
{
	const char *name = "local";

	base_yaml_string(m->yaml, node, "host", &name);
	for (size_t i = 0; i < m->hosts; i++)
		if (!strcmp(m->host[i].name, name))
			return &m->host[i];
	base_yaml_wrong(m->yaml, node, "there is no host '%.64s' under hosts", name);
	return NULL;
}

static void read_parts(struct manage *m, base_yaml_node node)
{
	static const char *const keys[] = {"name", "host", "run", "ready", "stop", NULL};
	struct base_yaml *y = m->yaml;
	size_t n = base_yaml_count(y, node);

	if (!n || n > PARTS_MAX) {
		base_yaml_wrong(y, node, "parts: expected 1 to %u", PARTS_MAX);
		return;
	}
	m->part = keep(m, n * sizeof(*m->part));
	for (size_t i = 0; m->part && i < n; i++) {
		base_yaml_node at = base_yaml_at(y, node, i);
		struct manage_part *p = &m->part[i];

		if (!base_yaml_mapping(y, at, keys))
			return;
		p->ready_ns = 30000000000ull;
		p->stop_ns = 10000000000ull;
		name_of(m, base_yaml_need(y, at, "name"), "name", &p->name);
		p->host = host_of(m, base_yaml_get(y, at, "host"));
		p->run = words(m, base_yaml_need(y, at, "run"), "run", 1);
		base_yaml_duration(y, base_yaml_get(y, at, "ready"), "ready", &p->ready_ns);
		base_yaml_duration(y, base_yaml_get(y, at, "stop"), "stop", &p->stop_ns);
		for (size_t k = 0; p->name && k < i; k++)
			if (m->part[k].name && !strcmp(m->part[k].name, p->name))
				base_yaml_wrong(y, at, "part '%s' is there already", p->name);
		m->parts++;
	}
}

static size_t read_steps(struct manage *m, base_yaml_node node, struct manage_step **out)
{
	static const char *const keys[] = {"name",  "host",   "run",   "shell", "within",
					   "exits", "prints", "times", NULL};
	struct base_yaml *y = m->yaml;
	size_t n = base_yaml_count(y, node);
	regex_t regex;

	if (n > PARTS_MAX)
		base_yaml_wrong(y, node, "more than %u steps", PARTS_MAX);
	*out = n && !base_yaml_error(y) ? keep(m, n * sizeof(**out)) : NULL;
	for (size_t i = 0; *out && i < n; i++) {
		base_yaml_node at = base_yaml_at(y, node, i), run, shell;
		struct manage_step *s = *out + i;

		if (!base_yaml_mapping(y, at, keys))
			return 0;
		s->within_ns = 60000000000ull;
		s->times = 1;
		base_yaml_string(y, base_yaml_need(y, at, "name"), "name", &s->name);
		s->host = host_of(m, base_yaml_get(y, at, "host"));
		run = base_yaml_get(y, at, "run");
		shell = base_yaml_get(y, at, "shell");
		if (!run == !shell)
			base_yaml_wrong(y, at, "a step has either 'run' or 'shell'");
		if (run)
			s->run = words(m, run, "run", 1);
		base_yaml_string(y, shell, "shell", &s->shell);
		base_yaml_duration(y, base_yaml_get(y, at, "within"), "within", &s->within_ns);
		base_yaml_u64(y, base_yaml_get(y, at, "exits"), "exits", 0, 255, &s->exits);
		base_yaml_u64(y, base_yaml_get(y, at, "times"), "times", 1, TIMES_MAX, &s->times);
		base_yaml_string(y, base_yaml_get(y, at, "prints"), "prints", &s->prints);
		if (s->prints && regcomp(&regex, s->prints, REG_EXTENDED | REG_NOSUB))
			base_yaml_wrong(y, base_yaml_get(y, at, "prints"),
					"prints: is no regular expression");
		else if (s->prints)
			regfree(&regex);
	}
	return base_yaml_error(y) ? 0 : n;
}

/* Where a host keeps what runs: per user, and gone with the machine's memory. */
static const char *default_directory(struct manage *m)
{
	char path[512];

	snprintf(path, sizeof(path), "/tmp/sidelight-%s", m->name);
	return keep_string(m, path);
}

struct manage *manage_read(const char *path, const char *program, char *error, size_t error_bytes)
{
	static const char *const keys[] = {"name",  "directory", "files", "hosts",
					   "parts", "test",	 "bench", NULL};
	struct manage *m = calloc(1, sizeof(*m));
	base_yaml_node root;
	char *slash;

	if (!m || !(m->yaml = base_yaml_open(path)) || !(m->path = strdup(path)) ||
	    !(m->folder = strdup(path))) {
		snprintf(error, error_bytes, "out of memory");
		manage_free(m);
		return NULL;
	}
	m->say = stdout;
	slash = strrchr(m->folder, '/');
	if (slash)
		*slash = 0;
	else
		strcpy(m->folder, *path ? "." : "");
	root = base_yaml_root(m->yaml);
	if (!root)
		base_yaml_wrong(m->yaml, 0, "says nothing");
	if (base_yaml_mapping(m->yaml, root, keys)) {
		name_of(m, base_yaml_need(m->yaml, root, "name"), "name", &m->name);
		if (m->name)
			m->directory = default_directory(m);
		base_yaml_string(m->yaml, base_yaml_get(m->yaml, root, "directory"), "directory",
				 &m->directory);
		if (m->directory && (*m->directory != '/' || !m->directory[1]))
			base_yaml_wrong(m->yaml, base_yaml_get(m->yaml, root, "directory"),
					"directory: expected a path from / on, of its own");
		m->files = words(m, base_yaml_get(m->yaml, root, "files"), "files", 0);
		for (size_t i = 0; m->files && m->files[i]; i++)
			if (!*m->files[i] || strchr(m->files[i], '/') || *m->files[i] == '.')
				base_yaml_wrong(
					m->yaml, base_yaml_get(m->yaml, root, "files"),
					"files: expected names of files beside this one, not '%.64s'",
					m->files[i]);
		read_hosts(m, base_yaml_get(m->yaml, root, "hosts"), program);
		read_parts(m, base_yaml_need(m->yaml, root, "parts"));
		m->tests = read_steps(m, base_yaml_get(m->yaml, root, "test"), &m->test);
		m->benches = read_steps(m, base_yaml_get(m->yaml, root, "bench"), &m->bench);
	}
	if (base_yaml_error(m->yaml)) {
		snprintf(error, error_bytes, "%s", base_yaml_error(m->yaml));
		manage_free(m);
		return NULL;
	}
	return m;
}

void manage_free(struct manage *m)
{
	struct file_kept *next;

	if (!m)
		return;
	for (size_t i = 0; i < m->parts; i++)
		free(m->part[i].ready);
	for (struct file_kept *k = m->kept; k; k = next) {
		next = k->next;
		free(k);
	}
	if (m->yaml)
		base_yaml_close(m->yaml);
	free(m->folder);
	free(m->path);
	free(m);
}
