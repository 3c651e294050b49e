// SPDX-License-Identifier: Apache-2.0
/*
 * The file has a header of 64 bytes, then sets of 16 IDs. The low word of an ID, which W3C
 * recommends to be random, selects its set. The IDs in a set are in order of arrival, starting at
 * the next position to write. That position is not stored; when the file is loaded, it is the first
 * free position, or 0 if the set is full.
 */
#include "export/otlp.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

#define SETS 4096u
#define WAYS 16u
#define HEAD 64u

static const char magic[HEAD] = "sidelight traces sent 1\n";

struct id {
	uint64_t hi, lo;
};

struct export_sent {
	int fd;
	bool old;
	pthread_mutex_t lock;
	uint8_t next[SETS];
	struct id id[SETS][WAYS];
};

_Static_assert(sizeof(struct id) == 16, "the file's layout");

/* Initialises an empty file or reads an existing one. Returns 0 or -errno. */
static int load_file(struct export_sent *s)
{
	const off_t bytes = (off_t)(HEAD + sizeof(s->id));
	char head[HEAD] = "";
	struct stat st;

	if (fstat(s->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) ||
	    (st.st_size && (st.st_size != bytes || pread(s->fd, head, HEAD, 0) != (ssize_t)HEAD)))
		return -EINVAL;
	/* Write the magic last, because a file without it is initialised again. */
	if (!memcmp(head, (char[HEAD]){0}, HEAD)) {
		if (ftruncate(s->fd, bytes) || pwrite(s->fd, magic, HEAD, 0) != (ssize_t)HEAD)
			return errno ? -errno : -ENOSPC;
		return 0;
	}
	if (memcmp(head, magic, HEAD) ||
	    pread(s->fd, s->id, sizeof(s->id), HEAD) != (ssize_t)sizeof(s->id))
		return -EINVAL;
	s->old = true;
	for (uint32_t i = 0; i < SETS; i++) {
		while (s->next[i] < WAYS && (s->id[i][s->next[i]].hi | s->id[i][s->next[i]].lo))
			s->next[i]++;
		s->next[i] %= WAYS;
	}
	return 0;
}

struct export_sent *export_sent_open(const char *path, char *error, size_t error_bytes)
{
	struct export_sent *s = calloc(1, sizeof(*s));
	int err;

	if (!s) {
		errno = base_fail(error, error_bytes, ENOMEM, "out of memory");
		return NULL;
	}
	s->fd = base_open_locked(path);
	err = s->fd < 0 ? s->fd : load_file(s);
	if (!err) {
		pthread_mutex_init(&s->lock, NULL);
		return s;
	}
	snprintf(error, error_bytes, "%s: %s", path,
		 err == -EINVAL ? "the file is not a list of sent traces; move it away"
				: base_open_locked_error(err));
	if (s->fd >= 0)
		close(s->fd);
	free(s);
	errno = -err;
	return NULL;
}

bool export_sent_old(const struct export_sent *s)
{
	return s->old;
}

/* Returns the position of an ID in its set, or WAYS. The caller holds the lock. */
static uint32_t place_of(const struct export_sent *s, uint32_t set, uint64_t hi, uint64_t lo)
{
	uint32_t i = 0;

	while (i < WAYS && (s->id[set][i].hi != hi || s->id[set][i].lo != lo))
		i++;
	return i;
}

bool export_sent_has(struct export_sent *s, uint64_t hi, uint64_t lo)
{
	bool has;

	pthread_mutex_lock(&s->lock);
	has = (hi | lo) && place_of(s, (uint32_t)(lo % SETS), hi, lo) < WAYS;
	pthread_mutex_unlock(&s->lock);
	return has;
}

bool export_sent_add(struct export_sent *s, uint64_t hi, uint64_t lo)
{
	uint32_t set = (uint32_t)(lo % SETS), at;
	bool written = true;

	pthread_mutex_lock(&s->lock);
	if ((hi | lo) && place_of(s, set, hi, lo) == WAYS) {
		at = s->next[set];
		s->next[set] = (uint8_t)((at + 1) % WAYS);
		s->id[set][at] = (struct id){hi, lo};
		written = pwrite(s->fd, &s->id[set][at], sizeof(struct id),
				 (off_t)(HEAD + (set * WAYS + at) * sizeof(struct id))) ==
			  (ssize_t)sizeof(struct id);
	}
	pthread_mutex_unlock(&s->lock);
	return written;
}

void export_sent_close(struct export_sent *s)
{
	if (!s)
		return;
	close(s->fd);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
