// SPDX-License-Identifier: Apache-2.0
/* cgroup_mount.c - finds mount points of cgroup hierarchies; mounts the unified one if needed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <mntent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/base.h"
#include "source/tcp/cgroup.h"
#include "source/tcp/util.h"

/* Checks the file system type, because a later mount may hide an earlier one. */
static bool is_cgroup(const char *path, const char *controller)
{
	struct statfs fs;

	return !statfs(path, &fs) &&
	       fs.f_type == (controller ? CGROUP_SUPER_MAGIC : CGROUP2_SUPER_MAGIC);
}

bool tcp_cgroup_mount(const char *mounts, const char *controller, char *root, size_t bytes)
{
	FILE *f = setmntent(mounts ?: "/proc/self/mounts", "re");
	struct mntent *m, one;
	bool found = false;
	char text[4096];

	while (f && !found && (m = getmntent_r(f, &one, text, sizeof(text)))) {
		/* An empty mount source is left out of the line, so all later fields move up. */
		bool bare = !controller && !strcmp(m->mnt_dir, "cgroup2");

		found = controller ? !strcmp(m->mnt_type, "cgroup") && hasmntopt(m, controller)
				   : bare || !strcmp(m->mnt_type, "cgroup2");
		if (found)
			snprintf(root, bytes, "%s", bare ? m->mnt_fsname : m->mnt_dir);
		if (found && !mounts)
			found = is_cgroup(root, controller);
	}
	if (f)
		endmntent(f);
	if (!found)
		*root = 0;
	return found;
}

/*
 * Mounts the unified hierarchy for this process only, without a path; the mount lasts until the
 * process exits. Returns a descriptor or -errno.
 */
static int mount_privately(void)
{
	int fs = (int)syscall(SYS_fsopen, "cgroup2", FSOPEN_CLOEXEC), mount, root;

	if (fs < 0)
		return -errno;
	mount = syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0)
			? -1
			: (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
				       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	root = mount < 0 ? -errno : openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount >= 0 && root < 0)
		root = -errno;
	if (mount >= 0)
		close(mount);
	close(fs);
	return root;
}

static int private_root;

static void mount_once(void)
{
	char missing[64];

	private_root = mount_privately();
	/* If the process may not load eBPF programs at all, another message already says so. */
	if (private_root < 0 && !*tcp_capabilities_missing(missing, sizeof(missing)))
		base_logf(BASE_WARN, "tcp",
			  "cgroup2 is not mounted and cannot be mounted: %s (needs CAP_SYS_ADMIN): "
			  "cgroups have no names, and another hook is needed between IP and TCP",
			  strerror(-private_root));
}

static bool use_private_mount(char *root, size_t bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, mount_once);
	if (private_root >= 0)
		snprintf(root, bytes, "/proc/self/fd/%d", private_root);
	return private_root >= 0;
}

static bool find_unified(struct tcp_cgroup_hierarchy *out, const char *mounts)
{
	return tcp_cgroup_mount(mounts, NULL, out->root, sizeof(out->root)) ||
	       (!mounts && use_private_mount(out->root, sizeof(out->root)));
}

/*
 * Returns the number in a line such as "4:memory:/path", see cgroups(7); 0 if the controller is
 * absent.
 */
static uint32_t number_of(const char *cgroup, const char *controller)
{
	FILE *f = fopen(cgroup, "re");
	uint32_t number = 0;
	char line[4096];

	while (f && !number && fgets(line, sizeof(line), f)) {
		char *rest = strchr(line, ':'), *word;

		if (!rest)
			continue;
		*rest++ = 0;
		rest[strcspn(rest, ":\n")] = 0;
		while ((word = strsep(&rest, ",")))
			if (!strcmp(word, controller))
				number = (uint32_t)strtoul(line, NULL, 10);
	}
	if (f)
		fclose(f);
	return number;
}

static bool find_version_1(struct tcp_cgroup_hierarchy *out, const char *controller,
			   const char *mounts, const char *cgroup)
{
	uint32_t number = number_of(cgroup, controller);

	if (!number || !tcp_cgroup_mount(mounts, controller, out->root, sizeof(out->root)))
		return false;
	out->number = number;
	snprintf(out->controller, sizeof(out->controller), "%s", controller);
	return true;
}

int tcp_cgroup_hierarchy(struct tcp_cgroup_hierarchy *out, const char *forced, const char *mounts,
			 const char *cgroup)
{
	static const char *const controllers[] = {"memory", "cpu", "pids"};

	memset(out, 0, sizeof(*out));
	cgroup = cgroup ?: "/proc/self/cgroup";
	if (forced && strcmp(forced, "unified") != 0)
		return find_version_1(out, forced, mounts, cgroup) ? 0 : -ENOENT;
	for (size_t i = 0; !forced && i < sizeof(controllers) / sizeof(*controllers); i++)
		if (find_version_1(out, controllers[i], mounts, cgroup))
			return 0;
	return find_unified(out, mounts) || !forced ? 0 : -ENOENT;
}

int tcp_cgroup2_open(void)
{
	struct tcp_cgroup_hierarchy h;
	int fd = tcp_cgroup_hierarchy(&h, "unified", NULL, NULL);

	if (fd)
		return fd;
	fd = open(h.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
