// SPDX-License-Identifier: Apache-2.0
/*
 * object.c - the memory of stores: a sealed memfd of fixed size, or a file NAME.TENANT.EPOCH.store
 * that survives a restart. A file that does not match the configuration is refused and left
 * unchanged.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dta/store/stores.h"

#include "base/base.h"

#define HUGE_PAGE   ((uint64_t)2 << 20)
#define COLLAPSE    (32 * HUGE_PAGE) /* bytes per call, because each call synchronises all CPUs */
#define COLLAPSE_NS ((uint64_t)10 * 1000000000) /* time limit per object */

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

void dta_store_object_free(struct dta_store_object *o, bool unlink_file)
{
	if (!o)
		return;
	if (o->view.map)
		munmap(o->view.map, o->map_bytes);
	if (o->fd >= 0)
		close(o->fd);
	if (o->path && unlink_file)
		unlink(o->path);
	free(o->path);
	free(o->head);
	free(o);
}

void dta_store_objects_free(struct dta_store_object *newest)
{
	while (newest) {
		struct dta_store_object *older = newest->older;

		dta_store_object_free(newest, false);
		newest = older;
	}
}

static struct dta_store_object *object_new(char *error, size_t bytes)
{
	struct dta_store_object *o = calloc(1, sizeof(*o));

	if (!o) {
		snprintf(error, bytes, "out of memory");
		return NULL;
	}
	o->fd = -1;
	o->pages = "small";
	return o;
}

void *dta_store_map(int fd, uint64_t bytes, bool writable)
{
	const int may = writable ? PROT_READ | PROT_WRITE : PROT_READ;
	const uint64_t whole = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	const uint64_t pages = (bytes + 4095) & ~(uint64_t)4095;
	uint8_t *room, *at;

	if (bytes < HUGE_PAGE)
		return mmap(NULL, bytes, may, MAP_SHARED, fd, 0);
	room = mmap(NULL, whole + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		return MAP_FAILED;
	at = (uint8_t *)(((uintptr_t)room + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	if (mmap(at, bytes, may, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		const int err = errno;

		munmap(room, whole + HUGE_PAGE);
		errno = err;
		return MAP_FAILED;
	}
	/*
	 * Unmap the excess reserved for alignment. A mapping of reserved huge pages consists of
	 * whole huge pages.
	 */
	if (at > room)
		munmap(room, (size_t)(at - room));
	munmap(at + whole, (size_t)(room + HUGE_PAGE - at));
	if (pages < whole)
		munmap(at + pages, whole - pages);
	return at;
}

/* Maps o->fd into o->view.map. */
static bool map_object(struct dta_store_object *o, bool writable, char *error, size_t bytes)
{
	void *at = dta_store_map(o->fd, o->map_bytes, writable);

	if (at == MAP_FAILED)
		return base_fail(error, bytes, false, "cannot map %llu bytes: %s",
				 (unsigned long long)o->map_bytes, strerror(errno));
	o->view.map = at;
	return true;
}

/* ---- memory ---- */

static int make_memfd(const char *name, uint64_t bytes, bool huge)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0)),
	    err;

	if (fd < 0)
		return -errno;
	/*
	 * Seal the size, so that no translator can truncate memory that other processes have
	 * mapped.
	 */
	if (!ftruncate(fd, (off_t)bytes) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* Whether bytes is at most half of the available memory; the rest is left for other processes. */
static bool leaves_half(uint64_t bytes)
{
	FILE *f = fopen("/proc/meminfo", "re");
	const uint64_t left = dta_limits_left(DTA_LIMIT_MEMORY);
	unsigned long long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return bytes <= (uint64_t)kib * 1024 / 2 && bytes <= left / 2;
}

/*
 * Collapses a memfd, or a file on tmpfs, into huge pages (Linux 6.1), regardless of shmem_enabled
 * ("never" by default). This allocates the whole object. Small pages remain if the kernel does not
 * support this or if memory is fragmented.
 */
void dta_store_object_collapse(struct dta_store_object *o)
{
	uint8_t *map = o->view.map;
	const uint64_t whole = o->map_bytes & ~(HUGE_PAGE - 1), began = base_now_ns();

	if (!whole || !leaves_half(whole))
		return;
	for (uint64_t at = 0, n; at < whole && base_now_ns() - began < COLLAPSE_NS; at += n) {
		n = whole - at < COLLAPSE ? whole - at : COLLAPSE;
		/* The kernel skips ranges without any page, so touch each range. */
		for (uint64_t page = at; page < at + n; page += HUGE_PAGE)
			(void)*(const volatile uint8_t *)(map + page);
		/* Retry once, because a page may have been under migration. */
		if (madvise(map + at, n, MADV_COLLAPSE) && madvise(map + at, n, MADV_COLLAPSE))
			break;
		o->huge_bytes += n;
	}
	o->pages = o->huge_bytes == whole ? "transparent" : o->huge_bytes ? "mixed" : "small";
}

/*
 * Maps o->map_bytes of reserved huge pages. Returns NULL on success, or the reason for failure. The
 * kernel enforces a cgroup limit only when a page is touched, by sending SIGBUS, so all pages are
 * touched now if there is a limit.
 */
static const char *in_reserved(struct dta_store_object *o, const char *name, char *error,
			       size_t bytes)
{
	static const char limited[] = "the hugetlb limit of its cgroup";
	const uint64_t left = dta_limits_left(DTA_LIMIT_HUGETLB);
	int err;

	if (left < o->map_bytes)
		return limited;
	o->fd = make_memfd(name, o->map_bytes, true);
	if (o->fd < 0)
		return strerror(-o->fd);
	if (map_object(o, true, error, bytes)) {
		/* EINVAL means that the kernel is older than 5.14 */
		if (left == UINT64_MAX ||
		    !madvise(o->view.map, o->map_bytes, MADV_POPULATE_WRITE) || errno == EINVAL) {
			o->pages = "huge";
			o->huge_bytes = o->map_bytes;
			return NULL;
		}
		err = errno;
		munmap(o->view.map, o->map_bytes);
	} else {
		err = errno;
	}
	close(o->fd);
	o->fd = -1;
	o->view.map = NULL;
	return err == EFAULT ? limited : strerror(err);
}

static bool in_memory(struct dta_store_object *o, uint64_t need, const char *name,
		      enum dta_stores_hugepages huge, char *error, size_t bytes)
{
	/* mmap() reserves the huge pages, so a shortage fails here and not in a later write. */
	if (huge != DTA_HUGE_NEVER && (huge == DTA_HUGE_ALWAYS || need >= HUGE_PAGE)) {
		const char *why;

		o->map_bytes = (need + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
		why = in_reserved(o, name, error, bytes);
		if (!why)
			return true;
		if (huge == DTA_HUGE_ALWAYS)
			return base_fail(
				error, bytes, false,
				"no huge pages for %llu MiB (%s): raise vm.nr_hugepages or the cgroup's hugetlb limit, or set hugepages: auto",
				(unsigned long long)(o->map_bytes >> 20), why);
	}
	o->map_bytes = need;
	o->fd = make_memfd(name, need, false);
	if (o->fd < 0)
		return base_fail(error, bytes, false, "cannot create a memory file: %s",
				 strerror(-o->fd));
	if (!map_object(o, true, error, bytes))
		return false;
	if (huge == DTA_HUGE_AUTO)
		dta_store_object_collapse(o);
	return true;
}

/* ---- files ---- */

static bool in_file(struct dta_store_object *o, uint64_t need, const char *name,
		    const struct sl_store_config *c, const char *directory,
		    enum dta_stores_hugepages huge, char **temporary, char *error, size_t bytes)
{
	int err;

	if (asprintf(&o->path, "%s/%s.%u.%llu.store", directory, name, c->tenant,
		     (unsigned long long)c->first_epoch) < 0 ||
	    asprintf(temporary, "%s.new", o->path) < 0)
		return base_fail(error, bytes, false, "out of memory");
	if (!access(o->path, F_OK))
		return base_fail(error, bytes, false, "%s exists", o->path);
	unlink(*temporary); /* left behind by a killed process */
	o->fd = open(*temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (o->fd < 0)
		return base_fail(error, bytes, false, "%s: %s", *temporary, strerror(errno));
	/* Allocate now, because otherwise a full disk would raise SIGBUS in a later write. */
	err = posix_fallocate(o->fd, 0, (off_t)need);
	if (err)
		return base_fail(error, bytes, false, "%s: cannot allocate %llu bytes: %s",
				 *temporary, (unsigned long long)need, strerror(err));
	flock(o->fd, LOCK_EX | LOCK_NB);
	o->map_bytes = need;
	if (!map_object(o, true, error, bytes))
		return false;
	if (huge == DTA_HUGE_AUTO)
		dta_store_object_collapse(o);
	return true;
}

struct dta_store_object *dta_store_object_new(const struct sl_store_config *config,
					      const char *name, const char *directory,
					      enum dta_stores_hugepages huge, char *error,
					      size_t error_bytes)
{
	struct dta_store_object *o = object_new(error, error_bytes);
	uint64_t need = dta_store_object_bytes(config);
	char *temporary = NULL;
	char why[160];
	bool ok;

	if (!o)
		return NULL;
	ok = directory ? in_file(o, need, name, config, directory, huge, &temporary, error,
				 error_bytes)
		       : in_memory(o, need, name, huge, error, error_bytes);
	if (ok) {
		dta_store_format(o->view.map, config, name);
		ok = !dta_store_view(o->view.map, o->map_bytes, &o->view, why, sizeof(why));
		if (!ok)
			snprintf(error, error_bytes, "store '%s': %s", name, why);
	}
	/* The file appears under its name only once it is complete. */
	if (ok && temporary && rename(temporary, o->path)) {
		snprintf(error, error_bytes, "%s: %s", o->path, strerror(errno));
		ok = false;
	}
	if (!ok) {
		if (temporary)
			unlink(temporary);
		dta_store_object_free(o, false);
		o = NULL;
	}
	free(temporary);
	return o;
}

/*
 * Opens a store's file at path. If fd >= 0, uses that descriptor, and path is only a name for
 * messages.
 */
static struct dta_store_object *open_file(const char *path, int fd, bool writable, char *error,
					  size_t bytes)
{
	struct dta_store_object *o = object_new(error, bytes);
	struct stat st;
	char why[160];
	bool memory;
	int seals;

	if (!o)
		return NULL;
	o->path = strdup(path);
	o->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0)
			: open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW |
					     O_NONBLOCK);
	if (o->fd < 0 || fstat(o->fd, &st) || !o->path) {
		snprintf(error, bytes, "%s: %s", path, strerror(errno));
		goto fail;
	}
	if (!S_ISREG(st.st_mode)) {
		snprintf(error, bytes, "%s: is not a regular file", path);
		goto fail;
	}
	if (writable && flock(o->fd, LOCK_EX | LOCK_NB)) {
		snprintf(error, bytes, "%s: another collector is using this file", path);
		goto fail;
	}
	/*
	 * A file is as trustworthy as its directory, but unnamed memory may come from any process.
	 */
	memory = !st.st_nlink;
	seals = fcntl(o->fd, F_GET_SEALS); /* -1 means a deleted file, not a memfd */
	if (memory && (seals < 0 || !(seals & F_SEAL_SHRINK))) {
		snprintf(error, bytes,
			 "%s: the file is not sealed, so it could be truncated "
			 "while being read",
			 path);
		goto fail;
	}
	o->map_bytes = (uint64_t)st.st_size;
	if (o->map_bytes < SL_STORE_BANKS_OFFSET) {
		snprintf(error, bytes,
			 "%s: too small for a store (%llu bytes): is the file truncated?", path,
			 (unsigned long long)o->map_bytes);
		goto fail;
	}
	if (!map_object(o, writable, why, sizeof(why)) ||
	    dta_store_view(o->view.map, o->map_bytes, &o->view, why, sizeof(why))) {
		snprintf(error, bytes, "%s: %s", path, why);
		goto fail;
	}
	/* The size of a memfd is rounded up to huge pages. */
	if (o->map_bytes != o->view.bytes && !memory) {
		snprintf(error, bytes,
			 "%s: the file is too long: it has %llu bytes, but its "
			 "store has %llu",
			 path, (unsigned long long)o->map_bytes, (unsigned long long)o->view.bytes);
		goto fail;
	}
	return o;
fail:
	dta_store_object_free(o, false);
	return NULL;
}

struct dta_store_object *dta_store_object_open(const char *path, char *error, size_t error_bytes)
{
	return open_file(path, -1, false, error, error_bytes);
}

struct dta_store_object *dta_store_object_open_fd(int fd, char *error, size_t error_bytes)
{
	char path[32];

	snprintf(path, sizeof(path), "descriptor %d", fd);
	return open_file(path, fd < 0 ? INT_MAX : fd, false, error, error_bytes);
}

struct object_number {
	const char *name;
	uint64_t file, wanted;
};

/* The file must have the configured geometry; otherwise it would be misinterpreted. */
static bool same_geometry(const struct dta_store_object *o, const struct sl_store_config *w,
			  bool seeded, char *error, size_t bytes)
{
	const struct sl_store_config *f = o->view.config;
	const struct object_number numbers[] = {
		{"kind", f->kind, w->kind},
		{"number", f->id, w->id},
		{"slots, columns or blocks", f->slots, w->slots},
		{"rows", f->rows, w->rows},
		{"value", f->value_bytes, w->value_bytes},
		{"batch", f->batch, w->batch},
		{"lists", f->lists, w->lists},
		{"lanes", f->lanes, w->lanes},
		{"hops", f->hops, w->hops},
		{"sketch", f->sketch, w->sketch},
		{"reporters", f->reporters, w->reporters},
		{"epochs", f->banks, w->banks},
		{"copies", f->copies, w->copies},
		{"seed", f->seed, seeded ? w->seed : f->seed},
		/* Translators use the settings in the object, so they must match too. */
		{"number of the key log, plus 1", f->keylog, w->keylog},
		{"list of the key log", f->keylog_list, w->keylog_list},
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i].file != numbers[i].wanted)
			return base_fail(
				error, bytes, false,
				"%s: %s: %llu in this file, but %llu in the configuration; move "
				"the file away, or resize the store while the collector is running",
				o->path, numbers[i].name, (unsigned long long)numbers[i].file,
				(unsigned long long)numbers[i].wanted);
	return true;
}

/* Returns the epoch in NAME.TENANT.EPOCH.store, or -1. */
static int64_t epoch_of(const char *file, const char *name, uint32_t tenant)
{
	char head[96], *end;
	int n = snprintf(head, sizeof(head), "%s.%u.", name, tenant);
	unsigned long long e;

	if (strncmp(file, head, (size_t)n) || file[n] < '0' || file[n] > '9')
		return -1;
	e = strtoull(file + n, &end, 10);
	return strcmp(end, ".store") || e > INT64_MAX ? -1 : (int64_t)e;
}

struct dta_store_object *dta_store_object_find(const struct sl_store_config *config, bool seeded,
					       const char *name, const char *directory, char *error,
					       size_t error_bytes)
{
	struct dta_store_object *newest = NULL, **at, *o;
	struct dirent *e;
	DIR *d;

	*error = 0;
	d = opendir(directory);
	if (!d) {
		snprintf(error, error_bytes, "%s: %s", directory, strerror(errno));
		return NULL;
	}
	while (!*error && (e = readdir(d))) {
		char *path;

		if (epoch_of(e->d_name, name, config->tenant) < 0)
			continue;
		if (asprintf(&path, "%s/%s", directory, e->d_name) < 0) {
			snprintf(error, error_bytes, "out of memory");
			break;
		}
		o = open_file(path, -1, true, error, error_bytes);
		free(path);
		if (!o)
			break;
		if (strcmp(o->view.name, name) || o->view.config->tenant != config->tenant)
			snprintf(error, error_bytes,
				 "%s: the file contains store '%s' of tenant "
				 "%u",
				 o->path, o->view.name, o->view.config->tenant);
		for (at = &newest;
		     *at && (*at)->view.config->first_epoch > o->view.config->first_epoch;
		     at = &(*at)->older)
			;
		o->older = *at;
		*at = o;
	}
	closedir(d);
	if (!*error && newest)
		same_geometry(newest, config, seeded, error, error_bytes);
	if (!*error)
		return newest;
	dta_store_objects_free(newest);
	return NULL;
}
