// SPDX-License-Identifier: Apache-2.0
#include "collect/models.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

#define MAGIC	   "SLMODLS1"
#define MODELS_MAX 4096u
#define NAME_MAX_  1024u
#define MODEL_MAX  (64u << 20)
#define FILE_BYTES ((size_t)1 << 30)

struct model {
	struct model *next;
	char *service;
	void *bytes;
	size_t length;
	uint64_t learned; /* steps; 0: from a file */
};

struct models {
	pthread_mutex_t lock;
	struct model *first;
	uint32_t count;
	uint64_t loaded, refused;
};

struct models *models_new(void)
{
	struct models *m = calloc(1, sizeof(*m));

	if (m)
		pthread_mutex_init(&m->lock, NULL);
	return m;
}

void models_free(struct models *m)
{
	if (!m)
		return;
	for (struct model *x = m->first, *next; x; x = next) {
		next = x->next;
		free(x->service);
		free(x->bytes);
		free(x);
	}
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static struct model *find(struct models *m, const char *service)
{
	struct model *x = m->first;

	while (x && strcmp(x->service, service))
		x = x->next;
	return x;
}

/* Under the lock. Takes bytes over. */
static int put(struct models *m, const char *service, void *bytes, size_t length, uint64_t learned)
{
	struct model *x = find(m, service);

	if (!x) {
		x = m->count < MODELS_MAX ? calloc(1, sizeof(*x)) : NULL;
		if (x)
			x->service = strdup(service);
		if (!x || !x->service) {
			free(x);
			free(bytes);
			return -ENOMEM;
		}
		x->next = m->first;
		m->first = x;
		m->count++;
	}
	free(x->bytes);
	x->bytes = bytes;
	x->length = length;
	x->learned = learned;
	return 0;
}

bool models_load(struct models *m, const char *service, struct sl_pipeline *p)
{
	struct model *x;
	bool good = false;

	if (pthread_mutex_trylock(&m->lock))
		return false;
	x = find(m, service);
	if (x && !sl_pipeline_load(p, x->bytes, x->length)) {
		m->loaded++;
		good = true;
	} else if (x) {
		/* Of another detector, most likely: it is learned anew. */
		m->refused++;
	}
	pthread_mutex_unlock(&m->lock);
	return good;
}

void models_keep(struct models *m, const char *service, const struct sl_pipeline *p)
{
	struct sl_pipeline_stats s;
	struct model *x;
	int64_t n = -1;
	size_t room;
	void *bytes;

	sl_pipeline_stats(p, &s);
	pthread_mutex_lock(&m->lock);
	x = find(m, service);
	if (s.learned && (!x || s.learned >= x->learned)) {
		room = sl_pipeline_save_bytes(p);
		bytes = malloc(room);
		if (bytes)
			n = sl_pipeline_save(p, bytes, room);
		if (n > 0)
			put(m, service, bytes, (size_t)n, s.learned);
		else
			free(bytes);
	}
	pthread_mutex_unlock(&m->lock);
}

void models_stats(struct models *m, uint64_t *loaded, uint64_t *refused)
{
	pthread_mutex_lock(&m->lock);
	*loaded = m->loaded;
	*refused = m->refused;
	pthread_mutex_unlock(&m->lock);
}

/* ---- the file ----------------------------------------------------------------------------------------- */

static uint32_t get_u32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_u32(FILE *f, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		putc((int)(v >> 8 * i & 255), f);
}

static int take(struct models *m, const uint8_t *p, size_t n)
{
	uint32_t count;

	if (n < 12 || memcmp(p, MAGIC, 8))
		return -EINVAL;
	count = get_u32(p + 8);
	p += 12;
	n -= 12;
	if (count > MODELS_MAX)
		return -EINVAL;
	while (count--) {
		char service[NAME_MAX_ + 1];
		uint32_t name, length;
		void *bytes;

		if (n < 8)
			return -EINVAL;
		name = get_u32(p);
		length = get_u32(p + 4);
		p += 8;
		n -= 8;
		if (name > NAME_MAX_ || length > MODEL_MAX || name > n || length > n - name)
			return -EINVAL;
		memcpy(service, p, name);
		service[name] = '\0';
		bytes = malloc(length + 1);
		if (!bytes)
			return -ENOMEM;
		memcpy(bytes, p + name, length);
		if (put(m, service, bytes, length, 0))
			return -ENOMEM;
		p += name + length;
		n -= name + length;
	}
	return n ? -EINVAL : 0;
}

int models_read(struct models *m, const char *path, char *error, size_t error_bytes)
{
	uint8_t *bytes = NULL;
	struct stat st;
	size_t n = 0;
	int err, fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	err = fd < 0 || fstat(fd, &st) ? -errno : 0;
	if (!err && (!S_ISREG(st.st_mode) || (size_t)st.st_size > FILE_BYTES))
		err = -EINVAL;
	if (!err) {
		bytes = malloc((size_t)st.st_size + 1);
		err = bytes ? 0 : -ENOMEM;
	}
	while (!err && n < (size_t)st.st_size) {
		ssize_t some = read(fd, bytes + n, (size_t)st.st_size - n);

		if (some <= 0) {
			err = some ? -errno : -EINVAL;
			break;
		}
		n += (size_t)some;
	}
	if (!err)
		err = take(m, bytes, n);
	if (err)
		snprintf(error, error_bytes, "%s: %s", path,
			 err == -EINVAL ? "no file of models, or cut short: remove it to start anew"
					: strerror(-err));
	free(bytes);
	if (fd >= 0)
		close(fd);
	return err;
}

int models_write(struct models *m, const char *path)
{
	char *temporary;
	int err = 0;
	FILE *f;

	if (asprintf(&temporary, "%s.%d", path, (int)getpid()) < 0)
		return -ENOMEM;
	f = fopen(temporary, "wxe");
	if (!f) {
		err = -errno;
		free(temporary);
		return err;
	}
	pthread_mutex_lock(&m->lock);
	fwrite(MAGIC, 8, 1, f);
	put_u32(f, m->count);
	for (const struct model *x = m->first; x; x = x->next) {
		put_u32(f, (uint32_t)strlen(x->service));
		put_u32(f, (uint32_t)x->length);
		fwrite(x->service, strlen(x->service), 1, f);
		fwrite(x->bytes, x->length, 1, f);
	}
	pthread_mutex_unlock(&m->lock);
	if (fflush(f) || ferror(f) || fsync(fileno(f)))
		err = errno ? -errno : -EIO;
	if (fclose(f) && !err)
		err = -errno;
	if (!err && rename(temporary, path))
		err = -errno;
	if (err)
		unlink(temporary);
	free(temporary);
	return err;
}
