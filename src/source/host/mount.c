// SPDX-License-Identifier: Apache-2.0
/*
 * mount.c - publishes file system metrics. statvfs() blocks forever if a server does not respond,
 * so a separate thread calls it. When that thread has been in one call for too long, the mount is
 * marked, and another thread continues with the remaining mounts. A marked mount is queried again
 * once its thread has returned.
 *
 * A dead server may have many mounts. Once half of the threads are in use, the other mounts of its
 * device are not queried, so that threads are left for those of other devices.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/base.h"
#include "base/grow.h"
#include "source/host/internal.h"

#define SECOND_NS   1000000000ull
#define STUCK_NS    (5 * SECOND_NS)
#define OVERDUE_NS  (30 * SECOND_NS) /* an earlier answer is no longer published */
#define THREADS_MAX 9		     /* one working thread, and eight that are blocked by servers */
#define MOUNTS_MAX  1024u

enum { SIZE, FREE, AVAILABLE, FILES, FILES_FREE, READ_ONLY, DEVICE_ERROR };

#define GAUGE(name, help) HOST_DESC("node_filesystem_" name, help, HOST_GAUGE)

static const struct host_desc descs[] = {
	[SIZE] = GAUGE("size_bytes", "Filesystem size in bytes."),
	[FREE] = GAUGE("free_bytes", "Filesystem free space in bytes."),
	[AVAILABLE] = GAUGE("avail_bytes",
			    "Filesystem space available to non-root users in bytes."),
	[FILES] = GAUGE("files", "Filesystem total file nodes."),
	[FILES_FREE] = GAUGE("files_free", "Filesystem total free file nodes."),
	[READ_ONLY] = GAUGE("readonly", "Filesystem read-only status."),
	[DEVICE_ERROR] = GAUGE("device_error",
			       "Whether an error occurred while getting statistics for the given "
			       "device."),
};

static const char *const keys[] = {"device", "mountpoint", "fstype"};

/* A mount point. A thread in statvfs() holds a reference, and so does the table. */
struct host_mount {
	char *device, *point, *type;
	char *path; /* where this process sees the file system */
	bool read_only;

	/* Protected by the lock. */
	unsigned int refs;
	uint64_t asked_ns; /* start of a thread's current call; 0 if there is none */
	uint64_t due_ns;   /* when the next answer became due; 0 if there is none */
	bool known, failed, marked;
	struct statvfs vfs;
};

/* State shared by the threads; a thread that never returns keeps its reference. */
struct host_mount_shared {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct host_mount **queue; /* mounts to query, in order */
	size_t queued, room;
	/* mount that the working thread queries; other threads are stuck */
	struct host_mount *current;
	unsigned int threads, epoch; /* epoch: number that identifies the working thread */
	bool stop;
	unsigned int refs;
};

struct host_mounts {
	struct host *h;
	struct host_group group;
	struct host_file file, own; /* the host's mounts, and those of this process */
	struct host_mount_shared *shared;
	struct host_mount **v;
	size_t n, room;
};

/* ---- lines of /proc/PID/mountinfo, see proc(5) ---- */

struct mount_line {
	struct host_text id, parent, number, point, options, type, device, super_options;
};

static bool read_line(struct host_text *t, struct mount_line *out)
{
	struct host_text line, word;

	if (!host_line(t, &line))
		return false;
	out->id = host_word(&line);
	out->parent = host_word(&line);
	out->number = host_word(&line); /* "8:1" identifies the file system */
	host_word(&line);
	out->point = host_word(&line);
	out->options = host_word(&line);
	do {
		word = host_word(&line);
	} while (host_length(word) && !host_is(word, "-"));
	out->type = host_word(&line);
	out->device = host_word(&line);
	out->super_options = host_word(&line);
	return true;
}

static bool same_text(struct host_text a, struct host_text b)
{
	return host_length(a) == host_length(b) && !memcmp(a.p, b.p, host_length(a));
}

/* True if something is mounted over this mount. */
static bool is_covered(struct host_text table, const struct mount_line *mount)
{
	struct mount_line l;

	while (read_line(&table, &l))
		/* The root of a table may be its own parent. */
		if (same_text(l.parent, mount->id) && !same_text(l.id, mount->id) &&
		    same_text(l.point, mount->point))
			return true;
	return false;
}

/*
 * Finds a path at which this process sees the file system of a mount of the host, preferably the
 * same path. At the same path, it may see another file system: ProtectHome= of systemd covers
 * /home, and a container has its own root.
 */
static bool find_path(struct host_text own, const struct mount_line *mount, struct host_text *path)
{
	struct host_text rest = own;
	struct mount_line l;
	bool found = false;

	while (read_line(&rest, &l)) {
		bool same = same_text(l.point, mount->point);

		if ((found && !same) || !same_text(l.number, mount->number) || is_covered(own, &l))
			continue;
		*path = l.point;
		found = true;
		if (same)
			break;
	}
	return found;
}

/* ---- selection ---- */

/* node_exporter's default --collector.filesystem.fs-types-exclude. */
static bool has_no_files(struct host_text type)
{
	static const char *const types[] = {
		"autofs",     "binfmt_misc", "bpf",	  "cgroup",   "cgroup2",   "configfs",
		"debugfs",    "devpts",	     "devtmpfs",  "fusectl",  "hugetlbfs", "iso9660",
		"mqueue",     "nsfs",	     "overlay",	  "proc",     "procfs",	   "pstore",
		"rpc_pipefs", "securityfs",  "selinuxfs", "squashfs", "sysfs",	   "tracefs"};

	return host_among(type, types, HOST_LEN(types));
}

static bool is_below(struct host_text point, const char *folder, bool inside)
{
	size_t n = strlen(folder);

	if (!host_starts(point, folder))
		return false;
	if (inside) /* "FOLDER/" must be followed by something */
		return host_length(point) > n + 1 && point.p[n] == '/';
	return host_length(point) == n || point.p[n] == '/';
}

/* Also applies node_exporter's default --collector.filesystem.mount-points-exclude. */
static bool is_wanted(struct host_text type, struct host_text point)
{
	static const char *const folders[] = {"/dev", "/proc", "/run", "/sys", "/mnt", "/media"};

	if (has_no_files(type) || is_below(point, "/var/lib/docker", true) ||
	    is_below(point, "/var/lib/containers/storage", true))
		return false;
	for (size_t i = 0; i < HOST_LEN(folders); i++)
		if (is_below(point, folders[i], false))
			return false;
	return true;
}

/* Decodes only "\040" and "\011", like node_exporter. */
static char *unescape_field(struct host_text t)
{
	char *out = malloc(host_length(t) + 1), *p = out;

	for (; out && t.p < t.end; t.p++) {
		bool space = host_starts(t, "\\040"), tab = host_starts(t, "\\011");

		*p++ = space ? ' ' : tab ? '\t' : *t.p;
		t.p += space || tab ? 3 : 0;
	}
	if (out)
		*p = 0;
	return out;
}

/* ---- one mount ---- */

static void unref_mount(struct host_mount *m)
{
	if (--m->refs)
		return;
	free(m->device);
	free(m->point);
	free(m->type);
	free(m->path);
	free(m);
}

static struct host_mount *mount_new(const struct mount_line *l, struct host_text path)
{
	struct host_mount *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->refs = 1;
	m->device = unescape_field(l->device);
	m->point = unescape_field(l->point);
	m->type = unescape_field(l->type);
	m->path = unescape_field(path);
	if (m->device && m->point && m->type && m->path)
		return m;
	unref_mount(m);
	return NULL;
}

static bool same_mount(const struct host_mount *a, const struct host_mount *b)
{
	return !strcmp(a->point, b->point) && !strcmp(a->device, b->device) &&
	       !strcmp(a->type, b->type);
}

/* ---- the threads ---- */

static void shared_unref(struct host_mount_shared *s)
{
	unsigned int left = --s->refs;

	pthread_mutex_unlock(&s->lock);
	if (left)
		return;
	for (size_t i = 0; i < s->queued; i++)
		unref_mount(s->queue[i]);
	free(s->queue);
	pthread_cond_destroy(&s->work);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Calls statvfs() without the lock, because it may block forever. */
static void query_mount(struct host_mount_shared *s, struct host_mount *m)
{
	struct statvfs vfs;
	bool failed;

	m->asked_ns = base_now_ns();
	pthread_mutex_unlock(&s->lock);
	failed = statvfs(m->path, &vfs);
	pthread_mutex_lock(&s->lock);
	m->asked_ns = m->due_ns = 0;
	m->known = true;
	m->marked = false;
	m->failed = failed;
	if (!failed)
		m->vfs = vfs;
}

static void *run_thread(void *arg)
{
	struct host_mount_shared *s = arg;
	unsigned int epoch;

	pthread_mutex_lock(&s->lock);
	epoch = s->epoch;
	while (!s->stop && s->epoch == epoch) {
		struct host_mount *m;

		if (!s->queued) {
			pthread_cond_wait(&s->work, &s->lock);
			continue;
		}
		m = s->queue[0];
		memmove(s->queue, s->queue + 1, --s->queued * sizeof(*s->queue));
		s->current = m;
		query_mount(s, m);
		if (s->epoch == epoch)
			s->current = NULL;
		unref_mount(m);
	}
	s->threads--;
	shared_unref(s);
	return NULL;
}

/* ---- devices that hang ---- */

/*
 * True if both file systems have the same device or server: "SERVER:/PATH" of NFS and others,
 * "//SERVER/PATH" of SMB.
 */
static bool same_device(const char *a, const char *b)
{
	const char *path = !strncmp(a, "//", 2) ? strchr(a + 2, '/') : strstr(a, ":/");
	const size_t server = path ? (size_t)(path - a) + 1 : 0;

	return server ? !strncmp(a, b, server) : !strcmp(a, b);
}

static bool is_spared(const struct host_mounts *m, const struct host_mount *one)
{
	if (m->shared->threads <= THREADS_MAX / 2)
		return false;
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i]->marked && same_device(m->v[i]->device, one->device))
			return true;
	return false;
}

/* Removes the mounts of hanging devices from the queue: each would block a thread. */
static void spare_threads(struct host_mounts *m)
{
	struct host_mount_shared *s = m->shared;
	size_t left = 0;

	for (size_t i = 0; i < s->queued; i++)
		if (is_spared(m, s->queue[i]))
			unref_mount(s->queue[i]);
		else
			s->queue[left++] = s->queue[i];
	s->queued = left;
}

/* Call it with the lock held. */
static void start_thread(struct host_mount_shared *s)
{
	pthread_t thread;

	if (s->threads >= THREADS_MAX)
		return;
	/*
	 * The new thread waits for the lock before it reads the epoch. If it cannot be created, the
	 * current thread keeps working.
	 */
	if (!pthread_create(&thread, NULL, run_thread, s)) {
		pthread_detach(thread);
		s->epoch++;
		s->current = NULL;
		s->threads++;
		s->refs++;
	}
}

/* ---- the table ---- */

static void keep_mount(struct host_mounts *m, struct host_mount *new, struct host_mount **old,
		       size_t old_count, bool read_only)
{
	/* If the mount existed before, keep what is known about it. */
	for (size_t i = 0; i < old_count; i++)
		if (old[i] && same_mount(old[i], new) && !strcmp(old[i]->path, new->path)) {
			unref_mount(new);
			new = old[i];
			old[i] = NULL;
			break;
		}
	new->read_only = read_only;
	m->v[m->n++] = new;
}

static bool is_listed(const struct host_mounts *m, const struct host_mount *new)
{
	for (size_t i = 0; i < m->n; i++)
		if (same_mount(m->v[i], new))
			return true;
	return false;
}

void host_mounts_parse(struct host_mounts *m, struct host_text t, struct host_text own)
{
	struct host_mount **old = m->v;
	size_t old_count = m->n;
	struct mount_line l;

	pthread_mutex_lock(&m->shared->lock);
	m->v = NULL;
	m->n = m->room = 0;
	while (read_line(&t, &l)) {
		struct host_mount *new;
		struct host_text path;

		if (!host_length(l.super_options) || !is_wanted(l.type, l.point))
			continue;
		if (m->n == MOUNTS_MAX || !find_path(own, &l, &path)) {
			m->h->counts.mounts_left_out++;
			continue;
		}
		new = mount_new(&l, path);
		if (!new || is_listed(m, new) || !BASE_GROW(m->v, m->n, m->room)) {
			if (new)
				unref_mount(new);
			continue;
		}
		keep_mount(m, new, old, old_count,
			   host_listed(l.options, "ro") || host_listed(l.super_options, "ro"));
	}
	for (size_t i = 0; i < old_count; i++)
		if (old[i])
			unref_mount(old[i]);
	pthread_mutex_unlock(&m->shared->lock);
	free(old);
}

static void put_mount(struct host_mounts *m, const struct host_mount *one, uint64_t now_ns)
{
	const struct host_text labels[] = {host_text_of(one->device), host_text_of(one->point),
					   host_text_of(one->type)};
	const struct statvfs *s = &one->vfs;
	const double block = (double)s->f_bsize;
	const bool overdue = one->due_ns && now_ns > one->due_ns + OVERDUE_NS;
	bool error = one->failed || one->marked || overdue;
	const double v[] = {
		[SIZE] = (double)s->f_blocks * block,	   [FREE] = (double)s->f_bfree * block,
		[AVAILABLE] = (double)s->f_bavail * block, [FILES] = (double)s->f_files,
		[FILES_FREE] = (double)s->f_ffree,	   [READ_ONLY] = one->read_only,
	};
	struct host_row *r;

	if (!one->known && !one->marked && !overdue)
		return;
	r = host_row(&m->group, labels);
	if (!r)
		return;
	host_put(&m->group, r, DEVICE_ERROR, error);
	for (size_t i = 0; i < HOST_LEN(v); i++)
		if (error)
			host_unput(&m->group, r, i);
		else
			host_put(&m->group, r, i, v[i]);
}

/* Replaces the working thread if it does not return. */
static void watch_thread(struct host_mounts *m, uint64_t now_ns)
{
	struct host_mount_shared *s = m->shared;
	struct host_mount *one = s->current;

	if (!s->threads)
		start_thread(s);
	if (!one || !one->asked_ns || now_ns <= one->asked_ns + STUCK_NS)
		return;
	if (!one->marked)
		base_logf(BASE_WARN, HOST_LOG, "the file system does not respond mountpoint=%s",
			  one->point);
	one->marked = true;
	/* If there is no room for another thread, this is retried every second. */
	start_thread(s);
	spare_threads(m);
}

static void enqueue_mounts(struct host_mounts *m, uint64_t now_ns)
{
	struct host_mount_shared *s = m->shared;
	const bool behind = s->queued; /* some mounts of the previous round still wait */

	for (size_t i = 0; i < m->n; i++) {
		if (!m->v[i]->due_ns)
			m->v[i]->due_ns = now_ns;
		if (behind || m->v[i]->asked_ns || is_spared(m, m->v[i]) ||
		    !BASE_GROW(s->queue, s->queued, s->room))
			continue;
		m->v[i]->refs++;
		s->queue[s->queued++] = m->v[i];
	}
	pthread_cond_signal(&s->work);
}

/* The kernel signals POLLPRI when mounts change. */
static bool mounts_changed(struct host_mounts *m)
{
	struct pollfd p[] = {{m->file.fd, POLLPRI, 0}, {m->own.fd, POLLPRI, 0}};

	return !m->file.bytes || !m->own.bytes || poll(p, 2, 0) != 0;
}

/* Returns false if there is nothing to parse. */
static bool read_tables(struct host *h, struct host_mounts *m)
{
	bool changed = host_file_read(h, &m->file), own_changed = host_file_read(h, &m->own);

	return m->file.bytes && (changed || own_changed);
}

void host_mounts_second(struct host_mounts *m, uint64_t now_ns)
{
	pthread_mutex_lock(&m->shared->lock);
	watch_thread(m, now_ns);
	for (size_t i = 0; i < m->n; i++)
		put_mount(m, m->v[i], now_ns);
	pthread_mutex_unlock(&m->shared->lock);
	host_group_end(&m->group);
}

void host_mounts_slow(struct host *h, struct host_mounts *m, uint64_t now_ns)
{
	if (mounts_changed(m) && read_tables(h, m))
		host_mounts_parse(m, host_contents(&m->file), host_contents(&m->own));
	pthread_mutex_lock(&m->shared->lock);
	enqueue_mounts(m, now_ns);
	pthread_mutex_unlock(&m->shared->lock);
}

struct host_mounts *host_mounts_open(struct host *h)
{
	struct host_mounts *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->h = h;
	m->shared = calloc(1, sizeof(*m->shared));
	if (!m->shared) {
		free(m);
		return NULL;
	}
	pthread_mutex_init(&m->shared->lock, NULL);
	pthread_cond_init(&m->shared->work, NULL);
	m->shared->refs = 1;
	host_group(h, &m->group, descs, HOST_LEN(descs), keys, HOST_LEN(keys));
	/*
	 * Prefer the mounts of PID 1: a systemd unit or a container may see a different set, some
	 * of it read-only.
	 */
	host_file_open(h, &m->file, "/proc/1/mountinfo");
	if (m->file.fd < 0)
		host_file_open(h, &m->file, "/proc/self/mountinfo");
	host_file_open(h, &m->own, "/proc/self/mountinfo");
	return m;
}

void host_mounts_close(struct host_mounts *m)
{
	if (!m)
		return;
	pthread_mutex_lock(&m->shared->lock);
	m->shared->stop = true;
	pthread_cond_broadcast(&m->shared->work);
	for (size_t i = 0; i < m->n; i++)
		unref_mount(m->v[i]);
	shared_unref(m->shared);
	free(m->v);
	free(m);
}
