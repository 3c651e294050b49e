// SPDX-License-Identifier: Apache-2.0
/* cgroup.c - maps cgroup ids to paths and caches the identities found. */
#include "source/tcp/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* FILEID_KERNFS in include/linux/exportfs.h; the file handle is the 8-byte id */
#define HANDLE_KERNFS 0xfe
#define MAX	      4096u
#define SECOND	      1000000000ull
#define DEAD_NS	      (600 * SECOND) /* how long the identity of a removed cgroup is kept */
#define DEPTH	      32	     /* maximum depth of a walk; container cgroups are less deep */
#define WALK_MOST     65536	     /* maximum number of directories visited per walk */

struct cgroup_known {
	struct tcp_cgroup_identity i;
	uint64_t asked_ns, looked_ns, seen_ns;
};

struct tcp_cgroups {
	struct tcp_cgroup_hierarchy hierarchy;
	int root;	 /* descriptor of the hierarchy's root, or -1 */
	bool no_handles; /* true if open_by_handle_at() is not permitted */
	uint32_t max, n;
	uint64_t fresh_ns, walked_ns;
	struct cgroup_known *known;
	struct cgroup_known unknown;
};

/* ---- ids and paths ---- */

union handle {
	struct file_handle h;
	char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
};

static uint64_t id_at(int dir, const char *name, int flags)
{
	union handle u = {.h.handle_bytes = MAX_HANDLE_SZ};
	uint64_t id;
	int mount;

	if (name_to_handle_at(dir, name, &u.h, &mount, flags))
		return 0;
	if (u.h.handle_type != HANDLE_KERNFS || u.h.handle_bytes != sizeof(id)) {
		errno = EINVAL;
		return 0;
	}
	memcpy(&id, u.h.f_handle, sizeof(id));
	return id;
}

/* Lines of /proc/PID/cgroup are NUMBER:CONTROLLERS:PATH, cgroups(7). */
uint64_t tcp_cgroup_of_process(const struct tcp_cgroup_hierarchy *h, uint32_t pid)
{
	char name[64], line[4096], folder[sizeof(h->root) + sizeof(line)];
	uint64_t id = 0;
	char *path;
	FILE *f;

	errno = ENOENT;
	if (!h->root[0])
		return 0;
	snprintf(name, sizeof(name), "/proc/%u/cgroup", pid);
	f = fopen(name, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		path = strchr(line, ':');
		path = path ? strchr(path + 1, ':') : NULL;
		if (!path || strtoul(line, NULL, 10) != h->number)
			continue;
		path++;
		path[strcspn(path, "\n")] = 0;
		/* A path such as "/../x" lies outside this cgroup namespace. */
		if (strstr(path, "/.."))
			break;
		snprintf(folder, sizeof(folder), "%s%s", h->root, path);
		id = id_at(AT_FDCWD, folder, 0);
		break;
	}
	fclose(f);
	return id;
}

/*
 * Writes the cgroup's path below the root. Returns 0, -ENOENT if the cgroup was removed, -EPERM if
 * the lookup is not permitted, or another -errno.
 */
static int path_of(const struct tcp_cgroups *c, uint64_t id, char *out, size_t bytes)
{
	union handle u = {.h.handle_bytes = sizeof(id), .h.handle_type = HANDLE_KERNFS};
	size_t root = strlen(c->hierarchy.root);
	char link[64], path[4096];
	ssize_t n;
	int fd;

	memcpy(u.h.f_handle, &id, sizeof(id));
	fd = open_by_handle_at(c->root, &u.h, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	if (fd < 0)
		return errno == ESTALE ? -ENOENT : -errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	close(fd);
	if (n < 0)
		return -errno;
	path[n] = 0;
	if (strstr(path, " (deleted)"))
		return -ENOENT;
	/* The kernel prefixes "//" if another mount namespace hides the root. */
	if (!strncmp(path, c->hierarchy.root, root))
		snprintf(out, bytes, "%s", path[root] ? path + root : "/");
	else
		snprintf(out, bytes, "%s", path);
	return 0;
}

/* ---- cache ---- */

static struct cgroup_known *find_known(struct tcp_cgroups *c, uint64_t id)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->known[i].i.id == id)
			return &c->known[i];
	return NULL;
}

/*
 * Returns a new entry, or reuses the entry of a cgroup that was removed long ago or used least
 * recently.
 */
static struct cgroup_known *make_room(struct tcp_cgroups *c, uint64_t now)
{
	struct cgroup_known *oldest = c->known;

	if (c->n < c->max)
		return &c->known[c->n++];
	for (uint32_t i = 0; i < c->n; i++) {
		struct cgroup_known *k = &c->known[i];

		if (k->i.dead && now - k->seen_ns > DEAD_NS)
			return k;
		if (k->asked_ns < oldest->asked_ns)
			oldest = k;
	}
	return oldest;
}

static void learn_cgroup(struct tcp_cgroups *c, uint64_t id, const char *path, uint64_t now)
{
	struct cgroup_known *k = find_known(c, id);

	if (!k) {
		k = make_room(c, now);
		memset(k, 0, sizeof(*k));
		k->asked_ns = now;
	}
	/*
	 * Read only missing names again: runtimes write some files after the container has started.
	 */
	tcp_cgroup_parse(path, &k->i);
	k->i.id = id;
	tcp_cgroup_runtime_names("", &k->i);
	k->looked_ns = k->seen_ns = now;
}

/*
 * Used when open_by_handle_at() is not permitted: learns the id and path of every cgroup. A cgroup
 * that the walk does not find was removed.
 */
static void walk_directory(struct tcp_cgroups *c, int dir, char *path, size_t n, int depth,
			   int *left, uint64_t now)
{
	uint64_t id = id_at(dir, "", AT_EMPTY_PATH);
	DIR *d = fdopendir(dir);
	struct dirent *e;

	if (!d) {
		close(dir);
		return;
	}
	if (id)
		learn_cgroup(c, id, n ? path : "/", now);
	while (depth < DEPTH && (e = readdir(d))) {
		size_t bytes = strlen(e->d_name);
		int sub;

		if (e->d_type != DT_DIR || e->d_name[0] == '.' ||
		    n + bytes + 2 > TCP_CGROUP_PATH_BYTES || --*left < 0)
			continue;
		sub = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub < 0)
			continue;
		snprintf(path + n, TCP_CGROUP_PATH_BYTES - n, "/%s", e->d_name);
		walk_directory(c, sub, path, n + bytes + 1, depth + 1, left, now);
		path[n] = 0;
	}
	closedir(d);
}

static void walk_all(struct tcp_cgroups *c, uint64_t now)
{
	char path[TCP_CGROUP_PATH_BYTES] = "";
	int left = WALK_MOST, dir;

	if (c->walked_ns && now - c->walked_ns < SECOND)
		return;
	c->walked_ns = now;
	dir = openat(c->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		walk_directory(c, dir, path, 0, 0, &left, now);
}

static void look_up(struct tcp_cgroups *c, uint64_t id, uint64_t now)
{
	struct cgroup_known *k = find_known(c, id);
	char path[4096];
	int e = -ENOENT;

	if (c->root >= 0 && !c->no_handles) {
		e = path_of(c, id, path, sizeof(path));
		if (e == -EPERM || e == -EOPNOTSUPP || e == -EINVAL)
			c->no_handles = true;
		else if (!e)
			learn_cgroup(c, id, path, now);
	}
	if (c->root >= 0 && c->no_handles) {
		walk_all(c, now);
		k = find_known(c, id);
		e = k && k->seen_ns == c->walked_ns ? 0 : -ENOENT;
	}
	if (e == -ENOENT && k) {
		k->i.dead = true;
		k->looked_ns = now;
	}
}

const struct tcp_cgroup_identity *tcp_cgroups_find(struct tcp_cgroups *c, uint64_t id, uint64_t now)
{
	struct cgroup_known *k = find_known(c, id);

	if (k && k->i.dead && now - k->seen_ns > DEAD_NS) {
		*k = c->known[--c->n];
		k = NULL;
	}
	if (id && (!k || (!k->i.dead && now - k->looked_ns >= c->fresh_ns)))
		look_up(c, id, now);
	k = find_known(c, id);
	if (!k) {
		memset(&c->unknown, 0, sizeof(c->unknown));
		c->unknown.i.id = id;
		return &c->unknown.i;
	}
	k->asked_ns = now;
	return &k->i;
}

struct tcp_cgroups *tcp_cgroups_open(const struct tcp_cgroups_opts *opts)
{
	struct tcp_cgroups *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->root = -1;
	c->max = opts->max ? opts->max : MAX;
	c->fresh_ns = opts->fresh_ns ? opts->fresh_ns : 10 * SECOND;
	c->known = calloc(c->max, sizeof(*c->known));
	if (!c->known) {
		tcp_cgroups_close(c);
		errno = ENOMEM;
		return NULL;
	}
	if (opts->hierarchy)
		c->hierarchy = *opts->hierarchy;
	else
		tcp_cgroup_hierarchy(&c->hierarchy, NULL, NULL, NULL);
	/* If no hierarchy is mounted, ids cannot be resolved to names. */
	if (c->hierarchy.root[0])
		c->root = open(c->hierarchy.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return c;
}

void tcp_cgroups_close(struct tcp_cgroups *c)
{
	if (!c)
		return;
	if (c->root >= 0)
		close(c->root);
	free(c->known);
	free(c);
}

const struct tcp_cgroup_hierarchy *tcp_cgroups_hierarchy(const struct tcp_cgroups *c)
{
	return &c->hierarchy;
}
