// SPDX-License-Identifier: Apache-2.0
#include "collect/analysis/record.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/relaxed.h"

#define BUCKETS	   1024u
#define BUFFER_MAX ((size_t)64 << 20) /* per worker, while the disk is slow */

/* An entry of a buffer; the names (NUL-terminated, the pod's first) or the values follow. */
struct record_entry {
	uint64_t instance;
	int64_t ns; /* 0: a layout */
	uint32_t columns, bytes;
};

struct buffer {
	uint8_t *at;
	size_t used, room;
};

struct record_worker {
	struct buffer own; /* the worker's */
	pthread_mutex_t lock;
	struct buffer given; /* under the lock */
};

struct record_pod {
	struct record_pod *next;
	uint64_t instance;
	char *name;
	char *path; /* NULL: none */
	char *head; /* first line, without newline */
	uint32_t columns;
};

struct collect_record {
	char *dir;
	unsigned int workers;
	struct record_worker *worker;
	struct buffer taken; /* the writer's */
	struct record_pod *bucket[BUCKETS];
	uint64_t lost;
};

uint64_t collect_record_lost(const struct collect_record *r)
{
	return relaxed_load(r->lost);
}

/* ---- workers ---- */

static uint8_t *reserve(struct buffer *b, size_t n)
{
	if (b->used + n > BUFFER_MAX || !base_grow(&b->at, &b->room, b->used + n, 1))
		return NULL;
	b->used += n;
	return b->at + b->used - n;
}

static bool ends_with(const char *s, size_t n, const char *end)
{
	size_t k = strlen(end);

	return n > k && !memcmp(s + n - k, end, k);
}

/*
 * Writes a name for replay: without commas, and with the suffix by which it recognizes counters.
 * out has eight bytes more than name.
 */
static size_t plain_name(char *out, const char *name, bool counter)
{
	size_t base = strcspn(name, "{"), n = 0;
	bool looks = ends_with(name, base, "_total") || ends_with(name, base, "_count") ||
		     ends_with(name, base, "_sum") || ends_with(name, base, "_bucket");
	const char *more = counter == looks ? "" : counter ? "_total" : "_value";

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

bool collect_record_layout(struct collect_record *r, unsigned int worker, uint64_t instance,
			   const char *pod, const struct collect_features *f)
{
	struct buffer *b = &r->worker[worker].own;
	size_t bytes = strlen(pod) + 1, before = b->used;
	struct record_entry e = {.instance = instance, .columns = f->count};
	uint8_t *p;
	char *at;

	for (uint32_t i = 0; i < f->count; i++)
		bytes += strlen(f->name[i]) + 8;
	p = reserve(b, sizeof(e) + bytes);
	if (!p)
		return false;
	at = (char *)p + sizeof(e);
	at = stpcpy(at, pod) + 1;
	for (uint32_t i = 0; i < f->count; i++)
		at += plain_name(at, f->name[i], f->counter[i]);
	e.bytes = (uint32_t)(at - (char *)p - (ptrdiff_t)sizeof(e));
	memcpy(p, &e, sizeof(e));
	b->used = before + sizeof(e) + e.bytes;
	return true;
}

void collect_record_row(struct collect_record *r, unsigned int worker, uint64_t instance,
			int64_t ns, const struct collect_features *f)
{
	struct record_entry e = {.instance = instance,
				 .ns = ns,
				 .columns = f->count,
				 .bytes = (uint32_t)(f->count * sizeof(double))};
	uint8_t *p = reserve(&r->worker[worker].own, sizeof(e) + e.bytes);

	if (!p) {
		relaxed_add(r->lost, 1);
		return;
	}
	memcpy(p, &e, sizeof(e));
	memcpy(p + sizeof(e), f->value, e.bytes);
}

void collect_record_hand_over(struct collect_record *r, unsigned int worker)
{
	struct record_worker *w = &r->worker[worker];
	struct buffer swap;

	if (!w->own.used || pthread_mutex_trylock(&w->lock))
		return;
	if (!w->given.used) {
		swap = w->given;
		w->given = w->own;
		w->own = swap;
	}
	pthread_mutex_unlock(&w->lock);
}

/* ---- files ---- */

/* Where the pod is, or is to be. */
static struct record_pod **place_of(struct collect_record *r, uint64_t instance)
{
	struct record_pod **at = &r->bucket[(instance * 0x9e3779b97f4a7c15ull >> 40) % BUCKETS];

	while (*at && (*at)->instance != instance)
		at = &(*at)->next;
	return at;
}

/* A pod's name is not trusted: it must name a file inside the folder. */
static char *make_path(struct collect_record *r, const char *pod, uint64_t instance, bool again)
{
	char name[201], *path;
	size_t n = 0;

	for (; pod[n] && n < sizeof(name) - 1; n++)
		name[n] = pod[n] == '/' || (unsigned char)pod[n] < 32 || (!n && pod[n] == '.')
				  ? '_'
				  : pod[n];
	name[n] = '\0';
	if (asprintf(&path, again || !n ? "%s/metrics/%s%s%016llx.csv" : "%s/metrics/%s.csv",
		     r->dir, name, n ? "-" : "", (unsigned long long)instance) < 0)
		return NULL;
	return path;
}

static void complain(const struct collect_record *r, const struct record_pod *p, int error)
{
	base_log_limited(BASE_ERROR, "record",
			 "cannot write rows folder=%s/metrics pod=%s error=\"%s\"", r->dir, p->name,
			 strerror(error));
}

/* Makes the pod's file with its first line, or tries so again with its next row. */
static void create(struct collect_record *r, struct record_pod *p)
{
	for (int again = 0; again < 2; again++) {
		bool good;
		FILE *f;

		p->path = make_path(r, p->name, p->instance, again);
		f = p->path ? fopen(p->path, "wxe") : NULL;
		if (f) {
			good = fprintf(f, "%s\n", p->head) > 0 && !fflush(f);
			if (!good)
				complain(r, p, errno);
			if (!fclose(f) && good)
				return;
			unlink(p->path); /* without a first line it is no file of rows */
		}
		free(p->path);
		p->path = NULL;
		if (f)
			return;
		if (errno != EEXIST)
			break;
	}
	complain(r, p, errno);
}

/* Appends empty fields for new columns to the existing rows. */
static bool widen(struct record_pod *p, const char *head, uint32_t columns)
{
	char *temporary = NULL, *line = NULL;
	FILE *from = fopen(p->path, "re"), *to = NULL;
	size_t room = 0;
	bool good = false;
	ssize_t n;

	if (!from || asprintf(&temporary, "%s.new", p->path) < 0)
		goto out;
	to = fopen(temporary, "we");
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

static void take_layout(struct collect_record *r, const struct record_entry *e, const char *names)
{
	struct record_pod **at = place_of(r, e->instance), *p = *at;
	char *head = make_head(names + strlen(names) + 1, e->columns, e->bytes);

	if (!p && head) {
		p = calloc(1, sizeof(*p));
		if (p)
			p->name = strdup(names);
		if (p && p->name) {
			p->instance = e->instance;
			*at = p;
		} else {
			free(p);
			p = NULL;
		}
	}
	if (!p || !head) {
		free(head);
		return;
	}
	/* A schema only grows, so that columns keep their place. */
	if (p->path && !strncmp(head, p->head, strlen(p->head)) && widen(p, head, e->columns)) {
		free(p->head);
		p->head = head;
		p->columns = e->columns;
		return;
	}
	free(p->path);
	free(p->head);
	p->head = head;
	p->columns = e->columns;
	create(r, p);
}

/* Consecutive rows of a pod share an open file. */
struct record_file {
	FILE *f; /* NULL: none */
	struct record_pod *of;
	off_t before; /* size without these rows */
	uint64_t rows;
};

static void open_file(struct collect_record *r, struct record_file *o)
{
	struct stat st;

	if (!o->of->path)
		create(r, o->of);
	o->f = o->of->path ? fopen(o->of->path, "ae") : NULL;
	o->rows = 0;
	if (o->f && !fstat(fileno(o->f), &st)) {
		o->before = st.st_size;
		return;
	}
	if (o->of->path)
		complain(r, o->of, errno);
	if (o->f)
		fclose(o->f);
	o->f = NULL;
}

/* Rows are written whole, or not at all. */
static void close_file(struct collect_record *r, struct record_file *o)
{
	bool bad;

	if (!o->f)
		return;
	bad = fflush(o->f) || ferror(o->f);
	if (bad)
		complain(r, o->of, errno);
	bad |= fclose(o->f) != 0;
	o->f = NULL;
	if (!bad)
		return;
	relaxed_add(r->lost, o->rows);
	if (truncate(o->of->path, o->before))
		complain(r, o->of, errno);
}

static void take_row(struct collect_record *r, const struct record_entry *e, const uint8_t *values,
		     struct record_file *o)
{
	struct record_pod *p = o->of && o->of->instance == e->instance ? o->of
								       : *place_of(r, e->instance);

	if (p != o->of)
		close_file(r, o);
	o->of = p;
	if (p && p->columns == e->columns && !o->f)
		open_file(r, o);
	if (!p || p->columns != e->columns || !o->f) {
		relaxed_add(r->lost, 1);
		return;
	}
	o->rows++;
	fprintf(o->f, "%lld.%06lld", (long long)(e->ns / 1000000000),
		(long long)(e->ns % 1000000000 / 1000));
	for (uint32_t i = 0; i < e->columns; i++) {
		double v;

		memcpy(&v, values + i * sizeof(v), sizeof(v));
		if (isfinite(v))
			fprintf(o->f, ",%.17g", v);
		else
			putc(',', o->f);
	}
	putc('\n', o->f);
}

static void write_buffer(struct collect_record *r, struct buffer *b)
{
	struct record_file o = {0};

	for (size_t at = 0; at < b->used;) {
		struct record_entry e;

		memcpy(&e, b->at + at, sizeof(e));
		at += sizeof(e);
		if (e.ns) {
			take_row(r, &e, b->at + at, &o);
		} else {
			close_file(r, &o);
			take_layout(r, &e, (const char *)b->at + at);
		}
		at += e.bytes;
	}
	close_file(r, &o);
	b->used = 0;
}

void collect_record_write(struct collect_record *r)
{
	for (unsigned int i = 0; i < r->workers; i++) {
		struct record_worker *w = &r->worker[i];
		struct buffer swap;

		pthread_mutex_lock(&w->lock);
		swap = w->given;
		w->given = r->taken;
		r->taken = swap;
		pthread_mutex_unlock(&w->lock);
		write_buffer(r, &r->taken);
	}
}

/* ---- start and end ---- */

static int make_dirs(const char *dir)
{
	char *metrics;
	int err = 0;

	if (asprintf(&metrics, "%s/metrics", dir) < 0)
		return -ENOMEM;
	if ((mkdir(dir, 0777) && errno != EEXIST) || (mkdir(metrics, 0777) && errno != EEXIST))
		err = -errno;
	free(metrics);
	return err;
}

struct collect_record *collect_record_new(const char *dir, unsigned int workers, char *error,
					  size_t error_bytes)
{
	struct collect_record *r = calloc(1, sizeof(*r));
	int err = r ? make_dirs(dir) : -ENOMEM;

	if (!err) {
		r->dir = strdup(dir);
		r->worker = calloc(workers, sizeof(*r->worker));
		err = r->dir && r->worker ? 0 : -ENOMEM;
	}
	if (err) {
		snprintf(error, error_bytes, "%s: %s", dir, strerror(-err));
		collect_record_free(r);
		return NULL;
	}
	r->workers = workers;
	for (unsigned int i = 0; i < workers; i++)
		pthread_mutex_init(&r->worker[i].lock, NULL);
	return r;
}

int collect_record_free(struct collect_record *r)
{
	int err;

	if (!r)
		return 0;
	collect_record_write(r);
	for (unsigned int i = 0; i < r->workers; i++) {
		write_buffer(r, &r->worker[i].own);
		free(r->worker[i].own.at);
		free(r->worker[i].given.at);
		pthread_mutex_destroy(&r->worker[i].lock);
	}
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct record_pod *p = r->bucket[i], *next; p; p = next) {
			next = p->next;
			free(p->path);
			free(p->head);
			free(p->name);
			free(p);
		}
	err = collect_record_lost(r) ? -EIO : 0;
	free(r->taken.at);
	free(r->worker);
	free(r->dir);
	free(r);
	return err;
}
