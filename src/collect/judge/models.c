// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/models.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/thread.h"

#define MAGIC	   "SLMODLS1"
#define MAGIC_ANY  7 /* number of leading bytes that are the same in all versions */
#define MODELS_MAX 4096u
#define NAME_MAX_  1024u
#define MODEL_MAX  (64u << 20)
#define FILE_BYTES ((size_t)1 << 30)
#define GATHER_NS  5000000000u /* time for workers to save their pipelines */

struct model {
	char *name;
	void *bytes;
	size_t length;
	uint64_t used; /* collect_models.uses when it was last saved or loaded */
};

struct collect_models {
	pthread_mutex_t lock;
	struct model *model; /* sorted by name */
	uint32_t count, room;
	uint64_t uses;
	struct collect_models_stats stats;

	struct base_thread writer;
	const char *path;
	uint64_t every_ns, asked;
};

struct collect_models *collect_models_new(void)
{
	struct collect_models *m = calloc(1, sizeof(*m));

	if (m)
		pthread_mutex_init(&m->lock, NULL);
	return m;
}

void collect_models_stop(struct collect_models *m)
{
	base_thread_stop(&m->writer);
}

static void clear_models(struct collect_models *m)
{
	while (m->count) {
		free(m->model[--m->count].name);
		free(m->model[m->count].bytes);
	}
}

void collect_models_free(struct collect_models *m)
{
	if (!m)
		return;
	collect_models_stop(m);
	clear_models(m);
	free(m->model);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* Returns the index of the first name that is not less. */
static uint32_t find_place(const struct collect_models *m, const char *name)
{
	size_t i;

	BASE_LOWER_BOUND(i, 0, m->count, strcmp(m->model[i].name, name) < 0);
	return (uint32_t)i;
}

static struct model *find_model(struct collect_models *m, const char *name)
{
	uint32_t i = find_place(m, name);

	return i < m->count && !strcmp(m->model[i].name, name) ? &m->model[i] : NULL;
}

static struct model *find_either(struct collect_models *m, const char *pod, const char *service)
{
	struct model *x = *pod ? find_model(m, pod) : NULL;

	return x || !*service ? x : find_model(m, service);
}

/* Called with the lock held. */
static struct model *insert_model(struct collect_models *m, const char *name)
{
	struct model *x = find_model(m, name);
	char *copy;

	if (x)
		return x;
	if (m->count == MODELS_MAX || !BASE_GROW(m->model, m->count, m->room) ||
	    !(copy = strdup(name)))
		return NULL;
	x = &m->model[find_place(m, name)];
	memmove(x + 1, x, (size_t)(&m->model[m->count++] - x) * sizeof(*x));
	*x = (struct model){.name = copy};
	return x;
}

int collect_models_put(struct collect_models *m, const char *name, const void *bytes, size_t length)
{
	void *copy = malloc(length + 1);
	struct model *x;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, length);
	pthread_mutex_lock(&m->lock);
	x = insert_model(m, name);
	if (x) {
		free(x->bytes);
		x->bytes = copy;
		x->length = length;
		x->used = ++m->uses;
	}
	pthread_mutex_unlock(&m->lock);
	if (!x)
		free(copy);
	return x ? 0 : -ENOMEM;
}

void collect_models_make_room(struct collect_models *m, const char *name)
{
	struct model *oldest = m->model;

	pthread_mutex_lock(&m->lock);
	if (m->count == MODELS_MAX && !find_model(m, name)) {
		for (uint32_t i = 1; i < m->count; i++)
			oldest = m->model[i].used < oldest->used ? &m->model[i] : oldest;
		base_log_limited(BASE_WARN, "analysis",
				 "there are %u models, so a new one replaces the least recently "
				 "used one removed=%s added=%s: give pods the label service to "
				 "share a model",
				 MODELS_MAX, oldest->name, name);
		free(oldest->name);
		free(oldest->bytes);
		memmove(oldest, oldest + 1,
			(size_t)(&m->model[--m->count] - oldest) * sizeof(*oldest));
		m->stats.removed++;
	}
	pthread_mutex_unlock(&m->lock);
}

int collect_models_info(struct collect_models *m, const char *pod, const char *service,
			struct analyse_model_info *info)
{
	struct model *x;
	int err;

	pthread_mutex_lock(&m->lock);
	x = find_either(m, pod, service);
	err = x ? analyse_pipeline_model_info(x->bytes, x->length, info) : -ENOENT;
	pthread_mutex_unlock(&m->lock);
	return err;
}

int collect_models_load(struct collect_models *m, const char *pod, const char *service,
			struct analyse_pipeline *p)
{
	struct model *x;
	int err;

	pthread_mutex_lock(&m->lock);
	x = find_either(m, pod, service);
	err = x ? analyse_pipeline_load(p, x->bytes, x->length) : -ENOENT;
	if (!err)
		x->used = ++m->uses;
	m->stats.refused += err && err != -ENOENT;
	pthread_mutex_unlock(&m->lock);
	return err;
}

void collect_models_each(struct collect_models *m,
			 void (*fn)(void *arg, const char *name, const void *bytes, size_t length),
			 void *arg)
{
	pthread_mutex_lock(&m->lock);
	for (uint32_t i = 0; i < m->count; i++)
		fn(arg, m->model[i].name, m->model[i].bytes, m->model[i].length);
	pthread_mutex_unlock(&m->lock);
}

void collect_models_stats(struct collect_models *m, struct collect_models_stats *out)
{
	pthread_mutex_lock(&m->lock);
	*out = m->stats;
	pthread_mutex_unlock(&m->lock);
}

/* ---- reading ---- */

static int take_file(struct collect_models *m, void *bytes, size_t n)
{
	struct sketch_blob b = {.at = bytes, .bytes = n, .load = true};
	const char *magic = sketch_blob_take(&b, sizeof(MAGIC) - 1);
	uint32_t count, name_bytes, length;
	char name[NAME_MAX_ + 1];
	const void *model;
	int err;

	sketch_blob_u32(&b, &count);
	if (b.failed || memcmp(magic, MAGIC, MAGIC_ANY))
		return -EINVAL;
	if (magic[MAGIC_ANY] != MAGIC[MAGIC_ANY])
		return -EPROTONOSUPPORT;
	if (count > MODELS_MAX)
		return -EINVAL;
	while (count--) {
		sketch_blob_u32(&b, &name_bytes);
		sketch_blob_u32(&b, &length);
		if (name_bytes > NAME_MAX_ || length > MODEL_MAX)
			return -EINVAL;
		sketch_blob_bytes(&b, name, name_bytes);
		name[name_bytes] = '\0';
		model = sketch_blob_take(&b, length);
		if (b.failed)
			return -EINVAL;
		err = collect_models_put(m, name, model, length);
		if (err)
			return err;
	}
	return b.used == b.bytes ? 0 : -EINVAL;
}

static int read_file(const char *path, char **bytes, size_t *n)
{
	struct stat st;

	*bytes = NULL;
	/* A folder is a user's mistake; it must not be renamed like a damaged file. */
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return -EISDIR;
	*bytes = base_read_file(path, FILE_BYTES, n);
	return *bytes ? 0 : errno == EFBIG ? -EINVAL : -errno;
}

int collect_models_read(struct collect_models *m, const char *path, char *error, size_t error_bytes)
{
	char *bytes;
	size_t n;
	int err = read_file(path, &bytes, &n);

	if (!err)
		err = take_file(m, bytes, n);
	free(bytes);
	if (err == -EINVAL || err == -EPROTONOSUPPORT) {
		pthread_mutex_lock(&m->lock);
		/*
		 * Also discard the valid part: a fleet that knows only half its pods is hard to
		 * explain.
		 */
		clear_models(m);
		m->stats.refused++;
		pthread_mutex_unlock(&m->lock);
	}
	if (err)
		snprintf(error, error_bytes, "%s: %s", path,
			 err == -EINVAL ? "not a model file, or damaged or truncated"
			 : err == -EPROTONOSUPPORT
				 ? "this program cannot read this version of model files"
				 : strerror(-err));
	return err;
}

/* ---- writing ---- */

/* Called with the lock held. Without a buffer, only counts the bytes. */
static void save_models(const struct collect_models *m, struct sketch_blob *b)
{
	uint32_t count = m->count;

	sketch_blob_bytes(b, (char[]){MAGIC}, sizeof(MAGIC) - 1);
	sketch_blob_u32(b, &count);
	for (uint32_t i = 0; i < m->count; i++) {
		const struct model *x = &m->model[i];
		uint32_t name_bytes = (uint32_t)strlen(x->name), length = (uint32_t)x->length;

		sketch_blob_u32(b, &name_bytes);
		sketch_blob_u32(b, &length);
		sketch_blob_bytes(b, x->name, name_bytes);
		sketch_blob_bytes(b, x->bytes, length);
	}
}

/* Makes the rename durable. */
static int sync_folder(const char *path)
{
	char *copy = strdup(path);
	int fd, err = 0;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (fsync(fd) && errno != EINVAL)) /* EINVAL: not supported by the file system */
		err = -errno;
	if (fd >= 0)
		close(fd);
	free(copy);
	return err;
}

int collect_models_write(struct collect_models *m, const char *path)
{
	struct sketch_blob b = {.bytes = SIZE_MAX};
	char *temporary;
	int err = 0;
	FILE *f;

	/* Write to memory first, so that workers do not wait for the disk. */
	pthread_mutex_lock(&m->lock);
	save_models(m, &b);
	b = (struct sketch_blob){.at = malloc(b.used), .bytes = b.used};
	if (b.at)
		save_models(m, &b);
	pthread_mutex_unlock(&m->lock);
	if (!b.at || asprintf(&temporary, "%s.%d", path, (int)getpid()) < 0) {
		free(b.at);
		return -ENOMEM;
	}
	f = base_create_file(temporary);
	if (!f) {
		err = -errno;
		goto out;
	}
	errno = 0;
	if (fwrite(b.at, b.bytes, 1, f) != 1 || fflush(f) || fsync(fileno(f)))
		err = errno ? -errno : -EIO;
	if (fclose(f) && !err)
		err = -errno;
	if (!err && rename(temporary, path))
		err = -errno;
	if (err)
		unlink(temporary);
	else
		err = sync_folder(path);
out:
	free(temporary);
	free(b.at);
	return err;
}

/* ---- periodic writing ---- */

/* Returns false if the thread must stop. */
static bool wait_until(struct collect_models *m, uint64_t ns)
{
	uint64_t now, ms;

	while ((now = base_now_ns()) < ns) {
		ms = BASE_MIN((ns - now) / 1000000 + 1, (uint64_t)INT_MAX);
		if (base_stop_wait(m->writer.stop, (int)ms))
			return false;
	}
	return !base_stop_wait(m->writer.stop, 0);
}

static void *writer_main(void *arg)
{
	struct collect_models *m = arg;
	uint64_t next = base_now_ns() + m->every_ns;
	uint64_t gather = BASE_MIN(m->every_ns / 2, GATHER_NS);

	pthread_setname_np(pthread_self(), "models");
	while (wait_until(m, next - gather)) {
		int err;

		/* Pairs with the load in collect_models_asked(). */
		__atomic_fetch_add(&m->asked, 1, __ATOMIC_RELAXED);
		if (!wait_until(m, next))
			break;
		err = collect_models_write(m, m->path);
		if (err)
			base_log_limited(BASE_ERROR, "analysis",
					 "cannot save the models, will retry file=%s error=\"%s\"",
					 m->path, strerror(-err));
		pthread_mutex_lock(&m->lock);
		m->stats.failed += err != 0;
		pthread_mutex_unlock(&m->lock);
		next = base_now_ns() + m->every_ns;
	}
	return NULL;
}

int collect_models_start(struct collect_models *m, const char *path, uint64_t every_ns)
{
	m->every_ns = every_ns;
	m->path = path;
	return base_thread_start(&m->writer, writer_main, m);
}

uint64_t collect_models_asked(const struct collect_models *m)
{
	return __atomic_load_n(&m->asked, __ATOMIC_RELAXED);
}
