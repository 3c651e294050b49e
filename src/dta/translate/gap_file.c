// SPDX-License-Identifier: Apache-2.0
/* gap_file.c - the gap file, which counts the reports that collectors missed (gap_file.h) */
#include "dta/translate/gap_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "dta/store/guard.h"
#include "dta/store/hash.h"
#include "dta/translate/hash_ring.h"

#define MAGIC	    0x317061676174646cull /* "ldtagap1" */
#define WORKERS_MAX 64u

struct gap_page {
	uint64_t magic;
	struct dta_translate_gap gap[WORKERS_MAX][DTA_HASH_RING_MEMBERS_MAX];
};

struct dta_gap_file {
	int fd;
	uint32_t workers;
	struct gap_page *page;
	/*
	 * Gaps of workers that no longer exist and of collectors whose position changed; merged by
	 * dta_gap_file_take().
	 */
	struct gap_page before;
};

static struct dta_gap_file *fail_open(struct dta_gap_file *f, const char *path, const char *why,
				      char *error, size_t bytes)
{
	base_fail(error, bytes, -1, "%s: %s", path, why);
	if (f->fd >= 0)
		close(f->fd);
	free(f);
	return NULL;
}

struct dta_gap_file *dta_gap_file_open(const char *path, uint32_t workers, char *error,
				       size_t error_bytes)
{
	struct dta_gap_file *f = calloc(1, sizeof(*f));
	off_t bytes;
	int err;

	if (!f || workers > WORKERS_MAX) {
		base_fail(error, error_bytes, -1, "no memory");
		free(f);
		return NULL;
	}
	f->workers = workers;
	f->fd = base_open_locked(path);
	if (f->fd < 0)
		return fail_open(f, path, base_open_locked_error(f->fd), error, error_bytes);
	bytes = lseek(f->fd, 0, SEEK_END);
	if (bytes && bytes != (off_t)sizeof(*f->page))
		return fail_open(f, path, "is not a gap file", error, error_bytes);
	/*
	 * Allocate the whole file, because a write to the mapping would raise SIGBUS on a full
	 * disk.
	 */
	err = posix_fallocate(f->fd, 0, sizeof(*f->page));
	if (err)
		return fail_open(f, path, strerror(err), error, error_bytes);
	f->page = mmap(NULL, sizeof(*f->page), PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (f->page == MAP_FAILED)
		return fail_open(f, path, strerror(errno), error, error_bytes);
	dta_guard_add(f->page, sizeof(*f->page), f->fd, -1);
	if (bytes && f->page->magic != MAGIC) {
		dta_guard_remove(f->page);
		munmap(f->page, sizeof(*f->page));
		return fail_open(f, path, "is not a gap file", error, error_bytes);
	}
	f->page->magic = MAGIC;
	f->before = *f->page;
	return f;
}

static void merge_gap(struct dta_translate_gap *to, const struct dta_translate_gap *from,
		      uint64_t now)
{
	/*
	 * The clock was set back, or the file is from another machine: a gap can't start in the
	 * future.
	 */
	const uint64_t began = BASE_MIN(from->from_ns, now);

	to->from_ns = to->from_ns ? BASE_MIN(to->from_ns, began) : began;
	to->reports += from->reports;
}

struct dta_translate_gap *dta_gap_file_take(struct dta_gap_file *f, uint32_t worker,
					    const char *const *collectors, uint32_t n)
{
	struct dta_translate_gap *mine = f->page->gap[worker], *old;
	const uint64_t now = base_realtime_ns();
	uint32_t i;

	/* The remaining workers take over the gaps of workers that no longer exist. */
	for (uint32_t w = worker; w < WORKERS_MAX; w += f->workers)
		memset(f->page->gap[w], 0, sizeof(f->page->gap[w]));
	for (i = 0; i < n; i++)
		mine[i].collector = dta_hash(collectors[i], strlen(collectors[i]), 0).lo;
	for (uint32_t w = worker; w < WORKERS_MAX; w += f->workers)
		for (uint32_t k = 0; k < DTA_HASH_RING_MEMBERS_MAX; k++) {
			old = &f->before.gap[w][k];
			for (i = 0; i < n && mine[i].collector != old->collector; i++)
				;
			if (!old->from_ns)
				continue;
			if (i < n)
				merge_gap(&mine[i], old, now);
			else
				base_logf(BASE_WARN, "translate",
					  "a collector missed %llu reports but is no longer "
					  "listed, so it will not be notified",
					  (unsigned long long)old->reports);
		}
	return mine;
}

void dta_gap_file_close(struct dta_gap_file *f)
{
	if (!f)
		return;
	dta_guard_remove(f->page);
	munmap(f->page, sizeof(*f->page));
	close(f->fd);
	free(f);
}
