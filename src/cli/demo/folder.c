// SPDX-License-Identifier: Apache-2.0
/*
 * folder.c - the folder of a demo. A locked file in it shows that the demo is running; the kernel
 * releases the lock however the demo ends.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/common.h"
#include "cli/demo/demo.h"

#define PREFIX "sidelight-demo-"

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	remove(path);
	return 0;
}

static void remove_tree(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Locks the folder of this user's dead demo. Returns the descriptor of the lock, or -1. */
static int lock_of_dead(int tmp, const char *name)
{
	int dir = openat(tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), lock = -1;
	struct stat st;

	if (dir < 0)
		return -1;
	if (!fstat(dir, &st) && st.st_uid == geteuid())
		lock = openat(dir, "lock", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	close(dir);
	if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB)) {
		close(lock);
		lock = -1;
	}
	return lock;
}

static void remove_dead(const char *tmp)
{
	DIR *list = opendir(tmp);
	char path[PATH_MAX];
	struct dirent *e;
	int lock;

	while (list && (e = readdir(list))) {
		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)))
			continue;
		lock = lock_of_dead(dirfd(list), e->d_name);
		if (lock < 0)
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", tmp, e->d_name) < (int)sizeof(path)) {
			remove_tree(path);
			printf("removed %s, left behind by a killed demo\n", path);
		}
		close(lock);
	}
	if (list)
		closedir(list);
}

/* Locks the file before giving it its final name, so that no other demo takes this one for dead. */
static int take_lock(struct cli_demo *d)
{
	char draft[PATH_MAX], path[PATH_MAX];

	snprintf(draft, sizeof(draft), "%s/lock.new", d->dir);
	snprintf(path, sizeof(path), "%s/lock", d->dir);
	d->lock = open(draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (d->lock < 0 || flock(d->lock, LOCK_EX | LOCK_NB) || rename(draft, path))
		return base_failure(&cli_cmd_demo, "%s: %s", path, strerror(errno));
	return BASE_EXIT_OK;
}

int cli_demo_folder_make(struct cli_demo *d)
{
	const char *tmp = getenv("TMPDIR");

	if (!tmp || !*tmp)
		tmp = "/tmp";
	remove_dead(tmp);
	d->lock = -1;
	snprintf(d->dir, sizeof(d->dir), "%s/" PREFIX "XXXXXX", tmp);
	if (!mkdtemp(d->dir)) {
		base_failure(&cli_cmd_demo, "%s: %s", d->dir, strerror(errno));
		d->dir[0] = 0;
		return BASE_EXIT_FAILURE;
	}
	snprintf(d->socket, sizeof(d->socket), "%s/agent.sock", d->dir);
	snprintf(d->script, sizeof(d->script), "%s/load.lua", d->dir);
	if (strlen(d->socket) > 107)
		return base_failure(&cli_cmd_demo,
				    "the path of TMPDIR is too long for a Unix socket");
	return take_lock(d);
}

void cli_demo_folder_remove(struct cli_demo *d)
{
	if (!d->dir[0])
		return;
	remove_tree(d->dir);
	if (d->lock >= 0)
		close(d->lock);
}

int cli_demo_write(const char *path, const char *fmt, ...)
{
	FILE *f = fopen(path, "we");
	va_list ap;

	va_start(ap, fmt);
	if (f)
		vfprintf(f, fmt, ap);
	va_end(ap);
	return !f || fclose(f) ? base_failure(&cli_cmd_demo, "%s: %s", path, strerror(errno))
			       : BASE_EXIT_OK;
}

/*
 * Writes a script with the shop's mix of requests. delay() limits the rate, because wrk has no such
 * option.
 */
int cli_demo_write_script(const struct cli_demo *d, uint32_t rate)
{
	return cli_demo_write(
		d->script,
		"local n = 0\n"
		"function delay() return %u end\n"
		"function request()\n"
		"  n = n + 1\n"
		"  local k = n %% 50\n"
		"  if k == 49 then return wrk.format('GET', '/no-such-page') end\n"
		"  if k %% 10 == 3 then\n"
		"    return wrk.format('POST', '/orders', nil, 'product=' .. (n / 10 %% 4 - n / 10 "
		"%% 1))\n"
		"  end\n"
		"  if k %% 5 == 1 then return wrk.format('GET', '/products/' .. (n %% 4)) end\n"
		"  return wrk.format('GET', '/products')\n"
		"end\n",
		DEMO_CONNECTIONS * 1000 / rate ? DEMO_CONNECTIONS * 1000 / rate : 1);
}
