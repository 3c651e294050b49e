// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup_list.c - lists cgroups: containers, pods, and systemd units. Cgroups inside a container
 * are not listed. Directories that ordinary users may create, below user@.service or in a directory
 * they own, come last, so that they take no room from the system's directories.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "source/host/internal.h"
#include "source/tcp/cgroup.h"

#define ENTRIES_MAX 16384 /* maximum number of directories visited */
#define DEPTH_MAX   16u
#define PATH_BYTES  TCP_CGROUP_PATH_BYTES

static bool is_container(const struct tcp_cgroup_identity *i)
{
	return i->container_id[0] || i->container[0];
}

/* Slurm's jobs contain steps, and those contain tasks; nothing else is published in a container. */
static bool may_contain_containers(const struct tcp_cgroup_identity *i)
{
	return !is_container(i) || !strcmp(i->runtime, "slurm");
}

/* i: identity of the path; above: identity of its parent directory. */
static bool is_published(const char *path, const struct tcp_cgroup_identity *i,
			 const struct tcp_cgroup_identity *above)
{
	const struct host_text t = host_text_of(path);

	return !*path || i->container_id[0] || strcmp(i->container, above->container) != 0 ||
	       (i->pod_uid[0] && !above->pod_uid[0]) || host_ends(t, ".slice") ||
	       host_ends(t, ".service") || host_ends(t, ".scope");
}

struct host_walk {
	/* directories to be visited; [1]: those that unprivileged users control, visited last */
	struct {
		struct host_found *v;
		size_t n, room;
	} queue[2];
	struct host_found *out;
	size_t n, max, claimed_out;
	struct host_counts *counts;
	bool incomplete;
	int entries;
};

static void push_directory(struct host_walk *w, char *path, bool claimed)
{
	typeof(&w->queue[0]) q = &w->queue[claimed];

	if (!path || !BASE_GROW(q->v, q->n, q->room)) {
		w->counts->left_out++;
		free(path);
		return;
	}
	q->v[q->n++] = (struct host_found){path, claimed};
}

/* task: see is_task() */
static void publish_cgroup(struct host_walk *w, const char *path, bool claimed, bool task)
{
	/*
	 * Users' cgroups get at most a quarter of the room, so that they do not crowd out the
	 * others.
	 */
	bool room = w->n < w->max && (!claimed || w->claimed_out < w->max / 4);
	char *copy = room ? strdup(path) : NULL;

	if (!copy) {
		w->counts->left_out++;
		return;
	}
	w->claimed_out += claimed;
	w->out[w->n++] = (struct host_found){copy, claimed && !task};
}

/*
 * Slurm's version 1 gives the directory of a step to the user of the job. The user can name only
 * tasks of this step there.
 */
static bool is_task(const struct tcp_cgroup_identity *i, const struct tcp_cgroup_identity *above)
{
	return above->container[0] && !strcmp(above->runtime, "slurm") && !i->claimed &&
	       !i->container_id[0] && !i->pod_uid[0];
}

/*
 * Handles the directory `name` inside the one at f->path. above: the identity of f->path. owned: an
 * ordinary user can write to f->path.
 */
static void visit_entry(struct host_walk *w, const struct host_found *f, const char *name,
			bool owned, unsigned int depth, const struct tcp_cgroup_identity *above)
{
	bool claimed = f->claimed || owned, task;
	struct tcp_cgroup_identity i;
	char full[PATH_BYTES];

	/* Longer paths would be truncated, and their labels could be identical. */
	if (snprintf(full, sizeof(full), "%s/%s", f->path, name) >= (int)sizeof(full)) {
		w->counts->left_out++;
		return;
	}
	tcp_cgroup_parse(full, &i);
	task = owned && !f->claimed && is_task(&i, above);
	claimed |= i.claimed;
	if (is_published(full, &i, above))
		publish_cgroup(w, full, claimed, task);
	if (depth < DEPTH_MAX && may_contain_containers(&i))
		push_directory(w, strdup(full), claimed);
}

/*
 * Counts an error from opening a directory, unless the entry was removed or is not a directory.
 * Without descriptors or memory, the list may be incomplete.
 */
static void cannot_look(struct host_walk *w)
{
	if (errno == ENOENT || errno == ENODEV || errno == ENOTDIR || errno == ELOOP)
		return;
	w->counts->errors++;
	w->incomplete |= errno == EMFILE || errno == ENFILE || errno == ENOMEM;
}

static void look_into(struct host_walk *w, int root, const struct host_found *f)
{
	struct tcp_cgroup_identity above;
	unsigned int depth = 0;
	struct dirent *e;
	DIR *dir;
	struct stat st;
	bool owned;
	int fd = openat(root, *f->path ? f->path + 1 : ".",
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		cannot_look(w);
		return;
	}
	/* A user who can write to a directory chooses the names inside it. */
	owned = fstat(fd, &st) || (st.st_uid && st.st_uid != geteuid()) ||
		st.st_mode & (S_IWGRP | S_IWOTH);
	dir = fdopendir(fd);
	if (!dir) {
		cannot_look(w);
		close(fd);
		return;
	}
	for (const char *p = f->path; *p; p++)
		depth += *p == '/';
	tcp_cgroup_parse(f->path, &above);
	while ((e = readdir(dir))) {
		if (*e->d_name == '.' || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
			continue;
		if (--w->entries < 0) {
			w->counts->left_out++;
			break;
		}
		visit_entry(w, f, e->d_name, owned, depth, &above);
	}
	closedir(dir);
}

size_t host_cgroups_list(int root, struct host_found *out, size_t max, struct host_counts *counts,
			 bool *incomplete)
{
	struct host_walk w = {.out = out, .max = max, .counts = counts, .entries = ENTRIES_MAX};

	publish_cgroup(&w, "", false, false);
	push_directory(&w, strdup(""), false);
	/*
	 * Breadth first, so that many directories in one place take no room from the directories
	 * above them. All directories below a claimed one are claimed, too.
	 */
	for (int claimed = 0; claimed < 2; claimed++) {
		for (size_t i = 0; i < w.queue[claimed].n; i++) {
			struct host_found f =
				w.queue[claimed].v[i]; /* a copy: the queue may move */

			look_into(&w, root, &f);
			free(f.path);
		}
		free(w.queue[claimed].v);
	}
	*incomplete = w.incomplete;
	return w.n;
}
