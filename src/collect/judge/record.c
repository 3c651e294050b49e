// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/relaxed.h"
#include "base/table.h"
#include "collect/judge/models.h"
#include "collect/judge/rows.h"

#define AGAIN_MAX 1000 /* maximum recordings of one pod in one folder */

struct record_pod {
	struct base_node node;
	uint64_t instance;
	char *label;
	char *path; /* path of the file; NULL if there is no file */
	char *head; /* first line, without newline */
	uint32_t columns;
};

struct collect_record {
	char *dir;
	struct collect_rows rows;
	struct base_table pods;
	FILE *events, *verdicts;
	uint64_t lost;
};

uint64_t collect_record_lost(const struct collect_record *r)
{
	return relaxed_load(r->lost);
}

/* ---- the judge ---- */

static bool ends_with(const char *s, size_t n, const char *end)
{
	size_t k = strlen(end);

	return n > k && !memcmp(s + n - k, end, k);
}

bool collect_record_is_counter(const char *name)
{
	size_t base = strcspn(name, "{");

	return ends_with(name, base, "_total") || ends_with(name, base, "_count") ||
	       ends_with(name, base, "_sum") || ends_with(name, base, "_bucket");
}

size_t collect_record_name(char *out, const char *name, bool counter)
{
	size_t base = strcspn(name, "{"), n = 0;
	const char *more = counter == collect_record_is_counter(name) ? ""
			   : counter				      ? "_total"
								      : "_value";

	for (size_t i = 0; name[i] || i == base; i++) {
		if (i == base)
			n += (size_t)sprintf(out + n, "%s", more);
		if (!name[i])
			break;
		out[n++] = name[i] == ',' ? ';' : (unsigned char)name[i] < 32 ? '_' : name[i];
	}
	out[n++] = '\0';
	return n;
}

static void print_name(FILE *f, const char *name)
{
	for (; *name; name++)
		if (strchr(",;:%", *name) || (unsigned char)*name < 32)
			fprintf(f, "%%%02x", (unsigned char)*name);
		else
			putc(*name, f);
}

void collect_record_restore(char *name)
{
	char *to = name;
	unsigned int c;

	for (; *name; name++, to++)
		if (*name == '%' && sscanf(name, "%%%2x", &c) == 1 && strlen(name) > 2) {
			*to = (char)c;
			name += 2;
		} else {
			*to = *name;
		}
	*to = 0;
}

/* Queues the pod's name, service, label and owner, and the columns' names, all NUL-terminated. */
bool collect_record_layout(struct collect_record *r, int64_t moment,
			   const struct collect_judge_pod *pod,
			   const struct analyse_column *columns, uint32_t n)
{
	struct collect_rows_entry e = {.instance = pod->instance,
				       .ns = pod->ns,
				       .moment = moment,
				       .kind = COLLECT_ROWS_LAYOUT,
				       .columns = n};
	const char *label = pod->label ?: pod->name, *owner = pod->owner ?: "";
	char *at;

	e.bytes = strlen(pod->name) + strlen(pod->service) + strlen(label) + strlen(owner) + 4;
	for (uint32_t i = 0; i < n; i++)
		e.bytes += strlen(columns[i].name) + 1;
	at = (char *)collect_rows_put(&r->rows, &e);
	if (!at)
		return false;
	at = stpcpy(at, pod->name) + 1;
	at = stpcpy(at, pod->service) + 1;
	at = stpcpy(at, label) + 1;
	at = stpcpy(at, owner) + 1;
	for (uint32_t i = 0; i < n; i++)
		at = stpcpy(at, columns[i].name) + 1;
	return true;
}

void collect_record_entry(struct collect_record *r, const struct collect_rows_entry *e,
			  const void *bytes)
{
	uint8_t *at = collect_rows_put(&r->rows, e);

	if (!at)
		relaxed_add(r->lost, 1);
	else if (e->bytes)
		memcpy(at, bytes, e->bytes);
}

void collect_record_hand_over(struct collect_record *r)
{
	collect_rows_give(&r->rows, 0, true);
}

/* ---- files ---- */

static struct record_pod *find_pod(const struct collect_record *r, uint64_t instance)
{
	struct record_pod *p = base_table_first(&r->pods, base_hash_u64(instance));

	while (p && p->instance != instance)
		p = base_table_next(p);
	return p;
}

static void free_pod(struct record_pod *p)
{
	free(p->path);
	free(p->head);
	free(p->label);
	free(p);
}

/* A pod's name is not trusted: the path must stay inside the folder. */
static char *make_path(struct collect_record *r, const char *pod, uint64_t instance, int again)
{
	char name[201], more[16] = "", *path;
	size_t n = 0;

	for (; pod[n] && n < sizeof(name) - 1; n++)
		name[n] = pod[n] == '/' || (unsigned char)pod[n] < 32 || (!n && pod[n] == '.')
				  ? '_'
				  : pod[n];
	name[n] = '\0';
	if (again > 1)
		snprintf(more, sizeof(more), "-%d", again);
	if (asprintf(&path, again || !n ? "%s/metrics/%s%s%016llx%s.csv" : "%s/metrics/%s.csv",
		     r->dir, name, n ? "-" : "", (unsigned long long)instance, more) < 0)
		return NULL;
	return path;
}

static void log_error(const struct collect_record *r, const struct record_pod *p, int error)
{
	base_log_each(BASE_ERROR, "record", p->label,
		      "cannot write rows folder=%s/metrics pod=%s error=\"%s\"", r->dir, p->label,
		      strerror(error));
}

/* Creates the pod's file with its first line, or tries again with the pod's next row. */
static void create_file(struct collect_record *r, struct record_pod *p)
{
	for (int again = 0; again < AGAIN_MAX; again++) {
		bool good;
		FILE *f;

		p->path = make_path(r, p->label, p->instance, again);
		f = p->path ? fopen(p->path, "wxe") : NULL;
		if (f) {
			good = fprintf(f, "%s\n", p->head) > 0 && !fflush(f);
			if (!good)
				log_error(r, p, errno);
			if (!fclose(f) && good)
				return;
			unlink(p->path); /* a file without a first line cannot be read */
		}
		free(p->path);
		p->path = NULL;
		if (f)
			return;
		if (errno != EEXIST)
			break;
	}
	log_error(r, p, errno);
}

/* Appends empty fields for new columns to the existing rows. */
static bool widen_rows(struct record_pod *p, const char *head, uint32_t columns)
{
	char *temporary = NULL, *line = NULL;
	FILE *from = fopen(p->path, "re"), *to = NULL;
	size_t room = 0;
	bool good = false;
	ssize_t n;

	if (!from || asprintf(&temporary, "%s.new", p->path) < 0)
		goto out;
	unlink(temporary); /* may have been left by a killed process */
	to = fopen(temporary, "wxe");
	if (!to || getline(&line, &room, from) < 0)
		goto out;
	fprintf(to, "%s\n", head);
	while ((n = getline(&line, &room, from)) > 0) {
		fwrite(line, (size_t)n - 1, 1, to);
		for (uint32_t i = p->columns; i < columns; i++)
			putc(',', to);
		putc('\n', to);
	}
	good = !ferror(from) && !fflush(to) && !ferror(to) && !rename(temporary, p->path);
out:
	if (from)
		fclose(from);
	if (to)
		fclose(to);
	if (!good && temporary)
		unlink(temporary);
	free(temporary);
	free(line);
	return good;
}

static char *make_head(const char *names, uint32_t columns, size_t bytes)
{
	char *head = malloc(bytes + columns + 16), *at = head;

	if (!head)
		return NULL;
	at = stpcpy(at, "TimeStamp");
	for (uint32_t i = 0; i < columns; i++) {
		*at++ = ',';
		at = stpcpy(at, names);
		names += strlen(names) + 1;
	}
	return head;
}

/* Writes the line from which replay learns a pod, its columns and its file. */
static void write_layout(struct collect_record *r, const struct collect_rows_entry *e,
			 const struct record_pod *p, const char *name, const char *service,
			 const char *owner)
{
	const char *file = p->path ? strrchr(p->path, '/') + 1 : "";

	fprintf(r->events, "layout,%" PRId64 ",%" PRId64 ",%016" PRIx64 ",%" PRIu32 ",", e->moment,
		e->ns, e->instance, e->columns);
	/* A pod without an owner has no such field, so that earlier versions can replay it. */
	for (const char *const text[] = {file, name, service, p->label, owner}, *const *t = text;
	     t < text + 4 + !!*owner; t++) {
		print_name(r->events, *t);
		putc(t < text + 3 + !!*owner ? ',' : '\n', r->events);
	}
}

static void write_trace(struct collect_record *r, const struct collect_rows_entry *e,
			const uint8_t *bytes)
{
	fprintf(r->events, "trace,%" PRId64 ",", e->moment);
	for (uint32_t i = 0; i < e->columns; i++) {
		uint32_t parent;

		memcpy(&parent, bytes, sizeof(parent));
		bytes += sizeof(parent);
		print_name(r->events, (const char *)bytes);
		fprintf(r->events, ":%" PRIu32 "%s", parent, i + 1 < e->columns ? ";" : "\n");
		bytes += strlen((const char *)bytes) + 1;
	}
}

static void take_layout(struct collect_record *r, const struct collect_rows_entry *e,
			const char *names)
{
	const char *service = names + strlen(names) + 1, *label = service + strlen(service) + 1,
		   *owner = label + strlen(label) + 1, *columns = owner + strlen(owner) + 1;
	struct record_pod *p = find_pod(r, e->instance);
	char *head = make_head(columns, e->columns, e->bytes);
	bool widened;

	if (!p && head) {
		p = calloc(1, sizeof(*p));
		if (p)
			p->label = strdup(label);
		if (p && p->label) {
			p->instance = e->instance;
			base_table_add(&r->pods, p, base_hash_u64(p->instance));
		} else {
			free(p);
			p = NULL;
		}
	}
	if (!p || !head) {
		free(head);
		return;
	}
	/* A schema only grows, so columns keep their positions. */
	widened = p->path && !strncmp(head, p->head, strlen(p->head)) &&
		  widen_rows(p, head, e->columns);
	free(p->head);
	p->head = head;
	p->columns = e->columns;
	if (!widened) {
		free(p->path);
		create_file(r, p);
	}
	write_layout(r, e, p, names, service, owner);
}

/* Opens a file to append to it, but not through a link. */
static FILE *open_to_append(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "a");

	if (fd >= 0 && !f)
		close(fd);
	if (f)
		fseek(f, 0, SEEK_END); /* unlike fopen(), fdopen() leaves the position at 0 */
	return f;
}

/* Appends a row, whole or not at all. */
static bool append_row(struct collect_record *r, struct record_pod *p,
		       const struct collect_rows_entry *e, const uint8_t *values)
{
	off_t before;
	bool good;
	FILE *f;

	if (!p->path)
		create_file(r, p);
	f = p->path ? open_to_append(p->path) : NULL;
	if (!f) {
		if (p->path)
			log_error(r, p, errno);
		return false;
	}
	before = ftello(f);
	fprintf(f, "%lld.%09lld", (long long)(e->ns / 1000000000), (long long)(e->ns % 1000000000));
	for (uint32_t i = 0; i < e->columns; i++) {
		double v;

		memcpy(&v, values + i * sizeof(v), sizeof(v));
		if (isfinite(v))
			fprintf(f, ",%.17g", v);
		else
			putc(',', f);
	}
	putc('\n', f);
	good = !fflush(f) && !ferror(f);
	if (!good)
		log_error(r, p, errno);
	good &= !fclose(f);
	if (!good && truncate(p->path, before))
		log_error(r, p, errno);
	return good;
}

static void take_row(struct collect_record *r, const struct collect_rows_entry *e,
		     const uint8_t *values)
{
	struct record_pod *p = find_pod(r, e->instance);

	if (!p || p->columns != e->columns || !append_row(r, p, e, values))
		relaxed_add(r->lost, 1);
}

/* If the pod returns, it gets a new file, because replay starts at the first row of a file. */
static void take_gone(struct collect_record *r, const struct collect_rows_entry *e)
{
	struct record_pod *p = find_pod(r, e->instance);

	fprintf(r->events, "gone,%" PRId64 ",%016" PRIx64 "\n", e->moment, e->instance);
	if (!p)
		return;
	base_table_remove(&r->pods, p);
	free_pod(p);
}

static void take_entry(struct collect_record *r, const struct collect_rows_entry *e,
		       const uint8_t *bytes)
{
	switch (e->kind) {
	case COLLECT_ROWS_VALUES:
		take_row(r, e, bytes);
		return;
	case COLLECT_ROWS_LAYOUT:
		take_layout(r, e, (const char *)bytes);
		return;
	case COLLECT_ROWS_GONE:
		take_gone(r, e);
		return;
	case COLLECT_ROWS_ACCEPT:
		fprintf(r->events, "accept,%" PRId64 ",%016" PRIx64 "\n", e->moment, e->instance);
		return;
	case COLLECT_ROWS_TRACE:
		write_trace(r, e, bytes);
		return;
	case COLLECT_ROWS_KEPT:
		fprintf(r->events, "kept,%" PRId64 "\n", e->moment);
		return;
	case COLLECT_ROWS_VERDICT:
		fputs((const char *)bytes, r->verdicts);
		return;
	}
}

/* Without a line of events or verdicts, replay refuses the recording. */
static void flush_line(struct collect_record *r, FILE *f, const char *name)
{
	if (!fflush(f) && !ferror(f))
		return;
	clearerr(f);
	relaxed_add(r->lost, 1);
	base_log_each(BASE_ERROR, "record", name, "cannot write file=%s/%s error=\"%s\"", r->dir,
		      name, strerror(errno));
}

void collect_record_write(struct collect_record *r)
{
	struct collect_rows_entry e;
	const uint8_t *bytes;

	collect_rows_take(&r->rows);
	while (collect_rows_peek(&r->rows, &e, &bytes)) {
		take_entry(r, &e, bytes);
		collect_rows_next(&r->rows);
	}
	flush_line(r, r->events, "events.csv");
	flush_line(r, r->verdicts, "verdicts.csv");
}

/* ---- start and end ---- */

static int make_dirs(const char *dir)
{
	struct stat st;
	char *metrics;
	int err = 0;

	if (asprintf(&metrics, "%s/metrics", dir) < 0)
		return -ENOMEM;
	if ((mkdir(dir, 0755) && errno != EEXIST) || (mkdir(metrics, 0755) && errno != EEXIST) ||
	    lstat(metrics, &st))
		err = -errno;
	else if (!S_ISDIR(st.st_mode)) /* a link could lead anywhere */
		err = -ENOTDIR;
	free(metrics);
	return err;
}

static FILE *open_in(const char *dir, const char *name)
{
	char *path;
	FILE *f;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		return NULL;
	f = open_to_append(path);
	free(path);
	return f;
}

static void count_model(void *arg, const char *name, const void *bytes, size_t length)
{
	(void)name, (void)bytes, (void)length;
	++*(size_t *)arg;
}

/* Each start has its own models file, because one recording may span several starts. */
static int write_models(struct collect_record *r, struct collect_models *models)
{
	unsigned long long now = base_realtime_ns();
	size_t n = 0;
	char *path;
	int err;

	if (models)
		collect_models_each(models, count_model, &n);
	if (!n)
		return 0;
	if (asprintf(&path, "%s/models-%llu", r->dir, now) < 0)
		return -ENOMEM;
	err = collect_models_write(models, path);
	free(path);
	fprintf(r->events, "models,models-%llu\n", now);
	return err;
}

struct collect_record *collect_record_new(const char *dir, const char *options,
					  struct collect_models *models, char *error,
					  size_t error_bytes)
{
	struct collect_record *r = calloc(1, sizeof(*r));
	int err = r ? make_dirs(dir) : -ENOMEM;

	if (r)
		collect_rows_init(&r->rows);
	if (!err) {
		r->dir = strdup(dir);
		r->events = open_in(dir, "events.csv");
		r->verdicts = r->events ? open_in(dir, "verdicts.csv") : NULL;
		err = !r->dir ? -ENOMEM : !r->verdicts ? -errno : 0;
		err = err ?: base_table_init(&r->pods) ? 0 : -ENOMEM;
	}
	if (!err) {
		fprintf(r->events, "start,%s\n", options);
		err = write_models(r, models);
	}
	if (err) {
		snprintf(error, error_bytes, "%s: %s", dir, strerror(-err));
		collect_record_free(r);
		return NULL;
	}
	if (!ftell(r->verdicts))
		fputs(COLLECT_JUDGE_HEAD, r->verdicts);
	return r;
}

int collect_record_free(struct collect_record *r)
{
	int err;

	if (!r)
		return 0;
	if (r->verdicts) {
		collect_record_write(r);
		collect_record_hand_over(r);
		collect_record_write(r);
	}
	BASE_TABLE_EACH(&r->pods, n)
		free_pod((struct record_pod *)n);
	base_table_free(&r->pods);
	if (r->events)
		fclose(r->events);
	if (r->verdicts)
		fclose(r->verdicts);
	err = collect_record_lost(r) ? -EIO : 0;
	collect_rows_fini(&r->rows);
	free(r->dir);
	free(r);
	return err;
}
