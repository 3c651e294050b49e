// SPDX-License-Identifier: Apache-2.0
/*
 * textfile.c - publishes the *.prom files in a directory, like node_exporter's textfile collector:
 * each file as it is, together with its modification time. A file that can't be parsed is omitted
 * completely and counted as an error.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "bridge/source.h"
#include "bridge/text.h"

#define LOG	  "textfile"
#define SECOND_NS 1000000000ull
#define FILES_MAX 1000u
#define FILE_MAX  (16u << 20)

struct textfile {
	const struct bridge_worker *w;
	struct bridge_publisher *publisher;
	struct bridge_text_parser *parser;
	struct sl_counter errors, refused, full;
	struct bridge_publish_counts told;
	char *body;
	size_t room;
};

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_metrics(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return *e->d_name != '.' && n > 5 && !strcmp(e->d_name + n - 5, ".prom");
}

/*
 * Reads a regular file. Returns its size, or -errno. Does not wait for pipes and does not follow
 * links.
 */
static ssize_t read_all(struct textfile *t, int folder, const char *name, struct stat *st)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = 0, got = 1;

	if (fd < 0)
		return -errno;
	if (fstat(fd, st))
		n = -errno;
	else if (!S_ISREG(st->st_mode))
		n = -EINVAL;
	else if (st->st_size > FILE_MAX)
		n = -EFBIG;
	else if (!base_grow(&t->body, &t->room, FILE_MAX + 1, 1))
		n = -ENOMEM;
	while (n >= 0 && n <= FILE_MAX && got > 0) {
		got = read(fd, t->body + n, FILE_MAX + 1 - (size_t)n);
		n = got < 0 ? -errno : n + got;
	}
	close(fd);
	return n > FILE_MAX ? -EFBIG : n;
}

/* Publishes a family with one gauge, as if it came from a file. */
static void publish_gauge(struct textfile *t, const char *name, const char *help, const char *file,
			  double value)
{
	struct bridge_sink *s = bridge_publish_sink(t->publisher);
	const struct bridge_family f = {
		.name = {name, strlen(name)}, .help = {help, strlen(help)}, .type = BRIDGE_GAUGE};
	const struct bridge_label l = {BRIDGE_TEXT("file"), {file, file ? strlen(file) : 0}};
	const struct bridge_point p = {
		.labels = &l, .label_count = file != NULL, .values = &value, .value_count = 1};

	if (s->family(s, &f))
		s->point(s, &p);
}

/* Returns true if the file was published. */
static bool publish_file(struct textfile *t, int folder, const char *name)
{
	struct bridge_error e = {.text = ""};
	struct stat st;
	ssize_t n = read_all(t, folder, name, &st);
	int err = n < 0 ? (int)n : 0;
	char path[PATH_MAX];

	/* The previous body was another file's, so its shape does not apply. */
	bridge_text_forget(t->parser);
	err = err
		      ?: bridge_text_read(t->parser, BRIDGE_TEXT_004, t->body, (size_t)n,
					  bridge_publish_sink(t->publisher), &e);
	if (err) {
		base_log_each(BASE_WARN, LOG, name, "cannot read file=%s/%s line=%u error=%s",
			      t->w->o->textfile, name, e.line, *e.text ? e.text : strerror(-err));
		sl_counter_inc(t->errors);
		return false;
	}
	snprintf(path, sizeof(path), "%s/%s", t->w->o->textfile, name);
	publish_gauge(t, "node_textfile_mtime_seconds",
		      "Unixtime mtime of textfiles successfully read.", path,
		      (double)st.st_mtim.tv_sec);
	return true;
}

static void read_folder(struct textfile *t)
{
	struct dirent **list = NULL;
	int folder = open(t->w->o->textfile, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int n = folder < 0 ? -1 : scandirat(folder, ".", &list, is_metrics, by_name);
	bool good = n >= 0 && n <= (int)FILES_MAX;

	if (n < 0) {
		base_log_limited(BASE_WARN, LOG, "cannot read folder=%s error=%s",
				 t->w->o->textfile, strerror(errno));
		sl_counter_inc(t->errors);
	}
	if (n > (int)FILES_MAX) {
		base_log_limited(BASE_WARN, LOG,
				 "only the first %u files are read: remove some, or let fewer "
				 "files hold their metrics folder=%s files=%d",
				 FILES_MAX, t->w->o->textfile, n);
		sl_counter_add(t->errors, (uint64_t)n - FILES_MAX);
	}
	bridge_publish_begin(t->publisher);
	for (int i = 0; i < n; i++) {
		if (i < (int)FILES_MAX)
			good &= publish_file(t, folder, list[i]->d_name);
		free(list[i]);
	}
	free(list);
	publish_gauge(t, "node_textfile_scrape_error",
		      "1 if there was an error opening or reading a file, 0 otherwise", NULL,
		      !good);
	bridge_publish_end(t->publisher);
	if (folder >= 0)
		close(folder);
}

static void add_counts(struct textfile *t)
{
	struct bridge_publish_counts now = bridge_publish_counts(t->publisher);

	sl_counter_add(t->refused, now.refused - t->told.refused);
	sl_counter_add(t->full, now.full - t->told.full);
	t->told = now;
}

void bridge_textfile_run(const struct bridge_worker *w)
{
	/*
	 * As in node_exporter, a file's mtime says how old it is, and samples must not have
	 * timestamps.
	 */
	static const struct bridge_limits untimed = {.untimed = true};
	struct textfile t = {.w = w, .parser = bridge_text_new(&untimed)};
	const struct sl_label l = {"target", w->o->textfile};

	t.publisher = bridge_publish_open(&(struct bridge_publish_opts){
		.service = "textfile", .pod = "textfile", .socket = w->o->socket});
	t.errors = bridge_counter(w, "sidelight_bridge_textfile_errors_total",
				  "Files, or the folder, that could not be read, and files "
				  "beyond 1000.",
				  NULL, 0);
	t.refused = bridge_counter(w, "sidelight_bridge_refused_total",
				   "Series that cannot be published.", &l, 1);
	t.full = bridge_counter(w, "sidelight_bridge_full_total",
				"Series for which there was no room.", &l, 1);
	if (!t.parser || !t.publisher)
		base_logf(BASE_ERROR, LOG, "cannot start reading text files error=%s",
			  bridge_publish_why(errno));
	else
		do {
			read_folder(&t);
			add_counts(&t);
		} while (bridge_sleep(w, base_now_ns() + w->o->interval_ns));
	bridge_publish_close(t.publisher);
	bridge_text_free(t.parser);
	free(t.body);
}
