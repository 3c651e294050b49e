// SPDX-License-Identifier: Apache-2.0
#include "source/tcp/netns.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"

struct netns_walk {
	bool (*enter)(void *context, uint64_t inode);
	void (*here)(void *context, uint64_t inode);
	void *context;
	uint64_t *seen;
	size_t n, room;
};

/* Returns 1 if the namespace is new, 0 if it was seen before, or -errno. */
static int first_time(struct netns_walk *w, uint64_t inode)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->seen[i] == inode)
			return 0;
	if (!BASE_GROW(w->seen, w->n, w->room))
		return -ENOMEM;
	w->seen[w->n++] = inode;
	return 1;
}

/*
 * Calls here() in the namespace at path (such as "/proc/1/ns/net"), then returns to namespace own.
 * Returns 0 or -errno.
 */
static int visit_namespace(struct netns_walk *w, const char *path, int own)
{
	struct stat st;
	int fd, err;

	if (stat(path, &st))
		return 0; /* the process has exited in the meantime */
	err = first_time(w, st.st_ino);
	if (err <= 0 || !w->enter(w->context, st.st_ino))
		return err < 0 ? err : 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	/* The pid may have been reused since stat(). */
	if (!fstat(fd, &st) && !setns(fd, CLONE_NEWNET)) {
		w->here(w->context, st.st_ino);
		err = setns(own, CLONE_NEWNET) ? -errno : 0;
	} else {
		err = 0;
	}
	close(fd);
	return err;
}

int tcp_netns_each(bool (*enter)(void *context, uint64_t inode),
		   void (*here)(void *context, uint64_t inode), void *context)
{
	struct netns_walk w = {.enter = enter, .here = here, .context = context};
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), err = 0;
	struct dirent *d;
	struct stat st;
	char path[64];
	DIR *proc;

	if (own < 0)
		return -errno;
	proc = opendir("/proc");
	if (!proc || fstat(own, &st)) {
		err = -errno;
		goto out;
	}
	err = first_time(&w, st.st_ino);
	if (err < 0)
		goto out;
	if (enter(context, st.st_ino))
		here(context, st.st_ino);
	err = 0;
	while (!err && (d = readdir(proc))) {
		if (d->d_name[0] < '0' || d->d_name[0] > '9' || strlen(d->d_name) > 20)
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/ns/net", d->d_name);
		err = visit_namespace(&w, path, own);
	}
out:
	if (proc)
		closedir(proc);
	close(own);
	free(w.seen);
	return err;
}
