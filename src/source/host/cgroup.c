// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup.c - follows cgroups as they are created and removed, keeps their files open, and publishes
 * their series.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "source/host/internal.h"
#include "source/tcp/cgroup.h"

#define FILES_MAX		 16u /* maximum number of files kept open per cgroup */
#define BUFFER_BYTES		 65536u
#define OTHERS			 256u /* descriptors reserved for all other purposes */

#define SERIES(name, help, type) HOST_DESC("container_" name, help, type)
#define GAUGE(name, help)	 SERIES(name, help, HOST_GAUGE)
#define COUNTER(name, help)	 SERIES(name, help, HOST_COUNTER)
#define WAITING(name, resource)                                                           \
	COUNTER("pressure_" name "_waiting_seconds_total",                                \
		"Total time duration tasks in the container have waited due to " resource \
		" congestion.")
#define STALLED(name, resource)                                                                      \
	COUNTER("pressure_" name "_stalled_seconds_total",                                           \
		"Total time duration no tasks in the container could make progress due to " resource \
		" congestion.")
#define FAILURE(type, scope)                                                       \
	HOST_DESC("container_memory_failures_total",                               \
		  "Cumulative count of memory allocation failures.", HOST_COUNTER, \
		  .key = {"failure_type", "scope"}, .value = {type, scope})

/* Names and help texts as in cAdvisor's metrics/prometheus.go. */
static const struct host_desc descs[HOST_CONTAINER_SERIES] = {
	[HOST_CPU_USAGE] = HOST_DESC("container_cpu_usage_seconds_total",
				     "Cumulative cpu time consumed in seconds.", HOST_COUNTER,
				     .key = {"cpu"}, .value = {"total"}),
	[HOST_CPU_USER] = COUNTER("cpu_user_seconds_total",
				  "Cumulative user cpu time consumed in seconds."),
	[HOST_CPU_SYSTEM] = COUNTER("cpu_system_seconds_total",
				    "Cumulative system cpu time consumed in seconds."),
	[HOST_CFS_PERIODS] = COUNTER("cpu_cfs_periods_total",
				     "Number of elapsed enforcement period intervals."),
	[HOST_CFS_THROTTLED] = COUNTER("cpu_cfs_throttled_periods_total",
				       "Number of throttled period intervals."),
	[HOST_CFS_THROTTLED_TIME] =
		COUNTER("cpu_cfs_throttled_seconds_total",
			"Total time duration the container has been throttled."),
	[HOST_MEM_USAGE] = GAUGE("memory_usage_bytes",
				 "Current memory usage in bytes, including all memory regardless "
				 "of when it was accessed"),
	[HOST_MEM_WORKING_SET] = GAUGE("memory_working_set_bytes", "Current working set in bytes."),
	[HOST_MEM_RSS] = GAUGE("memory_rss", "Size of RSS in bytes."),
	[HOST_MEM_CACHE] = GAUGE("memory_cache", "Number of bytes of page cache memory."),
	[HOST_MEM_SWAP] = GAUGE("memory_swap", "Container swap usage in bytes."),
	[HOST_MEM_MAPPED] = GAUGE("memory_mapped_file", "Size of memory mapped files in bytes."),
	[HOST_MEM_MAX_USAGE] = GAUGE("memory_max_usage_bytes",
				     "Maximum memory usage recorded in bytes"),
	/* cAdvisor declares a counter, but the name lacks the "_total" that a counter would get. */
	[HOST_MEM_FAILCNT] = SERIES("memory_failcnt", "Number of memory usage hits limits",
				    HOST_UNKNOWN),
	[HOST_MEM_FAULTS] = FAILURE("pgfault", "container"),
	[HOST_MEM_FAULTS_BELOW] = FAILURE("pgfault", "hierarchy"),
	[HOST_MEM_MAJOR] = FAILURE("pgmajfault", "container"),
	[HOST_MEM_MAJOR_BELOW] = FAILURE("pgmajfault", "hierarchy"),
	[HOST_OOM] = COUNTER("oom_events_total",
			     "Count of out of memory events observed for the container"),
	[HOST_PROCESSES] = GAUGE("processes", "Number of processes running inside the container."),
	[HOST_THREADS] = GAUGE("threads", "Number of threads running inside the container"),
	[HOST_THREADS_MAX] = GAUGE("threads_max",
				   "Maximum number of threads allowed inside the container, "
				   "infinity if value is zero"),
	[HOST_STALL_CPU] = WAITING("cpu", "CPU"),
	[HOST_STALL_CPU_FULL] = STALLED("cpu", "CPU"),
	[HOST_STALL_IO] = WAITING("io", "IO"),
	[HOST_STALL_IO_FULL] = STALLED("io", "IO"),
	[HOST_STALL_MEM] = WAITING("memory", "memory"),
	[HOST_STALL_MEM_FULL] = STALLED("memory", "memory"),
	[HOST_SPEC_PERIOD] = GAUGE("spec_cpu_period", "CPU period of the container."),
	[HOST_SPEC_QUOTA] = GAUGE("spec_cpu_quota", "CPU quota of the container."),
	[HOST_SPEC_SHARES] = GAUGE("spec_cpu_shares", "CPU share of the container."),
	[HOST_SPEC_MEMORY] = GAUGE("spec_memory_limit_bytes", "Memory limit for the container."),
	[HOST_SPEC_RESERVATION] = GAUGE("spec_memory_reservation_limit_bytes",
					"Memory reservation limit for the container."),
	[HOST_SPEC_SWAP] = GAUGE("spec_memory_swap_limit_bytes",
				 "Memory swap limit for the container."),
	[HOST_START] = GAUGE("start_time_seconds",
			     "Start time of the container since unix epoch in seconds."),
	[HOST_SEEN] = GAUGE("last_seen", "Last time a container was seen by the exporter"),
};
_Static_assert(HOST_CONTAINER_SERIES <= 64, "a bit for each");

static const struct host_desc io_descs[HOST_IO_SERIES] = {
	[HOST_IO_READ_BYTES] = COUNTER("fs_reads_bytes_total", "Cumulative count of bytes read"),
	[HOST_IO_WRITE_BYTES] = COUNTER("fs_writes_bytes_total",
					"Cumulative count of bytes written"),
	[HOST_IO_READS] = COUNTER("fs_reads_total", "Cumulative count of reads completed"),
	[HOST_IO_WRITES] = COUNTER("fs_writes_total", "Cumulative count of writes completed"),
};

static const char *const keys[] = {"id", "name", "container_id", "pod_uid", "user", "device"};
#define KEYS 5u /* labels of the cgroup; series of devices have one more */

/* Version 2, and controllers of version 1 in the order in which they are chosen to find cgroups. */
static const char *const controllers[] = {"", "memory", "cpuacct", "cpu", "pids", "blkio"};
#define HIERARCHIES HOST_LEN(controllers)

struct host_cgroup {
	char *path;
	struct tcp_cgroup_identity identity;
	char user[16]; /* number of the user of a job of Slurm, or empty */
	struct host_row *row;
	struct {
		const struct host_cgroup_file *file;
		int fd;
	} files[FILES_MAX];
	size_t file_count;
	bool gone, found, limited; /* limited: the cgroup has a CPU quota */
	uint64_t inactive;
};

struct host_cgroups {
	struct host *h;
	struct host_group group, io;
	int root[HIERARCHIES]; /* the roots of the hierarchies, or -1 */
	size_t primary;	       /* the hierarchy used to find cgroups */
	struct host_cgroup **v;
	size_t n, room;
	struct host_found *found;
	uint32_t max;
	char buffer[BUFFER_BYTES];
	struct host_container_values values;
};

static void labels_of(const struct host_cgroup *g, struct host_text out[KEYS])
{
	const struct tcp_cgroup_identity *i = &g->identity;

	out[0] = host_text_of(*g->path ? g->path : "/");
	out[1] = host_text_of(i->container[0] ? i->container : i->container_id);
	out[2] = host_text_of(i->container_id);
	out[3] = host_text_of(i->pod_uid);
	out[4] = host_text_of(g->user);
}

/* ---- files ---- */

#define PATH_BYTES (TCP_CGROUP_PATH_BYTES + 64)

/*
 * Returns the root of the hierarchy that has the file, or -1, and the file's path below the root.
 */
static int root_of(const struct host_cgroups *c, const struct host_cgroup *g,
		   const struct host_cgroup_file *f, char path[PATH_BYTES])
{
	size_t i = 0;

	while (strcmp(controllers[i], f->controller ?: "") != 0)
		i++;
	snprintf(path, PATH_BYTES, ".%s/%s", g->path, f->name);
	return c->root[i];
}

/* If version 1 is used, only pressure files of the unified hierarchy are read. */
static bool is_used(const struct host_cgroups *c, const struct host_cgroup_file *f)
{
	return c->primary ? f->controller || strstr(f->name, ".pressure") : !f->controller;
}

static bool is_open(const struct host_cgroup *g, const struct host_cgroup_file *f)
{
	for (size_t i = 0; i < g->file_count; i++)
		if (g->files[i].file == f)
			return true;
	return false;
}

/*
 * Opens the files that are not open yet. Some may exist only later, when a controller is enabled,
 * or could not be opened for lack of descriptors.
 */
static void open_files(struct host_cgroups *c, struct host_cgroup *g)
{
	for (size_t i = 0; i < host_cgroup_file_count; i++) {
		const struct host_cgroup_file *f = &host_cgroup_files[i];
		char path[PATH_BYTES];
		int root, fd;

		if (f->tier == HOST_TIER_SLOW || !is_used(c, f) || g->file_count == FILES_MAX ||
		    is_open(g, f))
			continue;
		root = root_of(c, g, f, path);
		fd = root < 0 ? -1 : openat(root, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		c->h->counts.errors += root >= 0 && fd < 0 && errno != ENOENT && errno != ENODEV &&
				       errno != EOPNOTSUPP;
		if (fd < 0)
			continue;
		g->files[g->file_count].file = f;
		g->files[g->file_count++].fd = fd;
	}
}

static void cgroup_free(struct host_cgroup *g)
{
	for (size_t i = 0; i < g->file_count; i++)
		close(g->files[i].fd);
	free(g->path);
	free(g);
}

/* ---- values ---- */

/* Writes "/dev/NAME" for a device, according to /proc/diskstats. */
static void device_name(const struct host *h, const struct host_io *io, char *out, size_t bytes)
{
	struct host_text t = host_contents(&h->source[HOST_DISKSTATS]), line, name;
	uint64_t major, minor;

	while (host_line(&t, &line)) {
		if (!host_u64(&line, &major) || !host_u64(&line, &minor) || major != io->major ||
		    minor != io->minor)
			continue;
		name = host_word(&line);
		snprintf(out, bytes, "/dev/%.*s", (int)host_length(name), name.p);
		return;
	}
	snprintf(out, bytes, "%u:%u", io->major, io->minor);
}

static void put_io(struct host_cgroups *c, const struct host_cgroup *g)
{
	struct host_text labels[KEYS + 1];
	char device[64];

	labels_of(g, labels);
	for (size_t i = 0; i < c->values.io_count; i++) {
		const struct host_io *io = &c->values.io[i];
		struct host_row *r;

		device_name(c->h, io, device, sizeof(device));
		labels[KEYS] = host_text_of(device);
		r = host_row(&c->io, labels);
		for (size_t k = 0; r && k < HOST_IO_SERIES; k++)
			host_put(&c->io, r, k, (double)io->v[k]);
	}
}

/* Memory in use without the inactive page cache, which the kernel reclaims first. */
static void working_set(struct host_container_values *v, struct host_cgroup *g)
{
	if (v->has >> HOST_MEM_WORKING_SET & 1)
		g->inactive = v->inactive;
	v->has &= ~(1ull << HOST_MEM_WORKING_SET);
	if (!(v->has >> HOST_MEM_USAGE & 1))
		return;
	v->v[HOST_MEM_WORKING_SET] = v->usage > g->inactive ? (double)(v->usage - g->inactive) : 0;
	v->has |= 1ull << HOST_MEM_WORKING_SET;
}

static void put_values(struct host_cgroups *c, struct host_cgroup *g, enum host_cgroup_tier tier)
{
	const uint64_t throttling = 1ull << HOST_CFS_PERIODS | 1ull << HOST_CFS_THROTTLED |
				    1ull << HOST_CFS_THROTTLED_TIME;
	struct host_container_values *v = &c->values;

	working_set(v, g);
	/* Without a period, the quota could not be read: keep what is known. */
	if (tier == HOST_TIER_SLOW && v->has >> HOST_SPEC_PERIOD & 1)
		g->limited = v->has >> HOST_SPEC_QUOTA & 1;
	if (!g->limited)
		v->has &= ~throttling;
	for (size_t i = 0; i < HOST_CONTAINER_SERIES; i++)
		if (v->has >> i & 1)
			host_put(&c->group, g->row, i, v->v[i]);
		else if (!g->limited && (throttling | 1ull << HOST_SPEC_QUOTA) >> i & 1)
			host_unput(&c->group, g->row, i); /* the quota was removed */
	if (v->io_count)
		put_io(c, g);
}

static void reset_values(struct host_container_values *v)
{
	v->has = 0;
	v->io_count = 0;
}

static void read_open(struct host_cgroups *c, struct host_cgroup *g, enum host_cgroup_tier tier)
{
	for (size_t i = 0; i < g->file_count && !g->gone; i++) {
		ssize_t n;

		if (g->files[i].file->tier != tier)
			continue;
		n = host_pread(g->files[i].fd, c->buffer, sizeof(c->buffer));
		/* These errors mean that the cgroup was removed. */
		g->gone |= n == -ENODEV || n == -ENOENT;
		if (n >= 0)
			g->files[i].file->parse(&c->values, host_text(c->buffer, (size_t)n),
						g->files[i].file);
		else if (!g->gone && n != -EOPNOTSUPP)
			c->h->counts.errors++;
	}
}

static void read_seldom(struct host_cgroups *c, struct host_cgroup *g)
{
	for (size_t i = 0; i < host_cgroup_file_count; i++) {
		const struct host_cgroup_file *f = &host_cgroup_files[i];
		char path[PATH_BYTES];
		ssize_t n;
		int root;

		if (f->tier != HOST_TIER_SLOW || !is_used(c, f))
			continue;
		root = root_of(c, g, f, path);
		n = host_read_at(root, path, c->buffer, sizeof(c->buffer));
		if (n > 0)
			f->parse(&c->values, host_text(c->buffer, (size_t)n), f);
	}
}

/* ---- coming and going ---- */

/* Keep the rows of the group in the order of v, so that each row is found at once. */
static void remove_gone(struct host_cgroups *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct host_cgroup *g = c->v[i];

		if (!g->gone) {
			c->v[kept++] = g;
			continue;
		}
		host_row_remove(&c->group, g->row);
		cgroup_free(g);
	}
	c->n = kept;
}

void host_cgroups_read(struct host_cgroups *c, enum host_cgroup_tier tier)
{
	double now = (double)base_realtime_ns() / 1e9;
	bool any_gone = false;

	for (size_t i = 0; i < c->n; i++) {
		struct host_cgroup *g = c->v[i];

		reset_values(&c->values);
		if (tier == HOST_TIER_SLOW) {
			open_files(c, g);
			read_seldom(c, g);
		} else {
			read_open(c, g, tier);
		}
		any_gone |= g->gone;
		if (g->gone)
			continue;
		put_values(c, g, tier);
		if (tier == HOST_TIER_SECOND)
			host_put(&c->group, g->row, HOST_SEEN, now);
	}
	if (any_gone)
		remove_gone(c);
	if (tier == HOST_TIER_SECOND)
		host_group_end(&c->io);
}

static void put_start(struct host_cgroups *c, struct host_cgroup *g)
{
	struct stat st;

	if (!fstatat(c->root[c->primary], *g->path ? g->path + 1 : ".", &st, AT_SYMLINK_NOFOLLOW))
		host_put(&c->group, g->row, HOST_START, (double)st.st_mtim.tv_sec);
}

/*
 * IDs that an ordinary user could have chosen are not published, because they could be the IDs of
 * other containers.
 */
static void identify_cgroup(struct tcp_cgroup_identity *i, const char *path, bool claimed)
{
	tcp_cgroup_parse(path, i);
	if (claimed || i->claimed)
		i->container_id[0] = i->container[0] = 0;
	if (claimed || i->claimed_pod)
		i->pod_uid[0] = 0;
}

/*
 * Finds the user of a job of Slurm. Paths of version 1 have its number. In version 2, only the
 * processes of tasks belong to the user.
 */
static void find_user(const struct host_cgroups *c, struct host_cgroup *g)
{
	const char *at = strstr(g->path, "/uid_");
	char procs[TCP_CGROUP_PATH_BYTES + 16], text[32] = "/proc/";
	struct stat st;
	int fd;

	if (strcmp(g->identity.runtime, "slurm") != 0 || !g->identity.container[0])
		return;
	if (at) {
		at += 5;
		snprintf(g->user, sizeof(g->user), "%.*s", (int)strspn(at, "0123456789"), at);
		return;
	}
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", g->path + 1);
	fd = openat(c->root[c->primary], procs, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text + 6, 10) > 0) {
		close(fd);
		text[6 + strspn(text + 6, "0123456789")] = '\0';
		fd = text[6] ? host_folder(c->h, text) : -1;
		if (fd >= 0 && !fstat(fd, &st))
			snprintf(g->user, sizeof(g->user), "%u", st.st_uid);
	}
	if (fd >= 0)
		close(fd);
}

static void add_cgroup(struct host_cgroups *c, char *path, bool claimed)
{
	struct host_cgroup *g = calloc(1, sizeof(*g));
	struct host_text labels[KEYS];

	if (!g || !BASE_GROW(c->v, c->n, c->room)) {
		free(g);
		free(path);
		return;
	}
	g->path = path;
	g->found = true;
	identify_cgroup(&g->identity, path, claimed);
	find_user(c, g);
	labels_of(g, labels);
	g->row = host_row(&c->group, labels);
	/* Unusual names may produce identical labels; only the first cgroup is then published. */
	for (size_t i = 0; i < c->n && g->row; i++)
		if (c->v[i]->row == g->row) {
			c->h->counts.left_out++;
			g->row = NULL;
		}
	if (!g->row) {
		cgroup_free(g);
		return;
	}
	open_files(c, g);
	put_start(c, g);
	reset_values(&c->values);
	read_seldom(c, g);
	put_values(c, g, HOST_TIER_SLOW);
	c->v[c->n++] = g;
}

static bool is_known(struct host_cgroups *c, const char *path, size_t hint)
{
	for (size_t i = 0; i < c->n; i++) {
		struct host_cgroup *g = c->v[(hint + i) % c->n];

		if (strcmp(g->path, path) != 0)
			continue;
		g->found = true;
		return true;
	}
	return false;
}

void host_cgroups_look(struct host_cgroups *c)
{
	bool incomplete;
	size_t n = host_cgroups_list(c->root[c->primary], c->found, c->max, &c->h->counts,
				     &incomplete);

	for (size_t i = 0; i < c->n; i++)
		c->v[i]->found = false;
	for (size_t i = 0; i < n; i++)
		if (is_known(c, c->found[i].path, i)) {
			free(c->found[i].path);
			c->found[i].path = NULL;
		}
	/*
	 * First remove the cgroups that no longer exist: one may have been recreated under the same
	 * name.
	 */
	for (size_t i = 0; i < c->n; i++)
		c->v[i]->gone |= !c->v[i]->found && !incomplete;
	remove_gone(c);
	for (size_t i = 0; i < n; i++)
		if (c->found[i].path)
			add_cgroup(c, c->found[i].path, c->found[i].claimed);
}

/* ---- all ---- */

static bool has_controllers(int fd)
{
	char text[512];
	struct host_text t = host_value_at(fd, "cgroup.controllers", text, sizeof(text)), word;

	while (word = host_word(&t), host_length(word))
		if (host_is(word, "memory") || host_is(word, "cpu"))
			return true;
	return false;
}

static void open_roots(struct host_cgroups *c)
{
	char mounts[PATH_MAX], root[PATH_MAX];

	snprintf(mounts, sizeof(mounts), "%s/proc/self/mounts", c->h->root);
	for (size_t i = 0; i < HIERARCHIES; i++)
		c->root[i] = tcp_cgroup_mount(*c->h->root ? mounts : NULL,
					      *controllers[i] ? controllers[i] : NULL, root,
					      sizeof(root))
				     ? host_folder(c->h, root)
				     : -1;
}

/*
 * Chooses version 2 if it has controllers, otherwise the first of the version 1 controllers,
 * otherwise version 2 without controllers.
 */
static bool choose_primary(struct host_cgroups *c)
{
	if (c->root[0] >= 0 && has_controllers(c->root[0]))
		return true;
	for (size_t i = 1; i < HIERARCHIES && !c->primary; i++)
		c->primary = c->root[i] >= 0 ? i : 0;
	return c->root[c->primary] >= 0;
}

/* Limits the number of cgroups, each of which takes up to FILES_MAX descriptors. */
static uint32_t limit_cgroups(uint32_t max)
{
	struct rlimit r;
	rlim_t wanted = (rlim_t)max * FILES_MAX + OTHERS * 2;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return 1;
	wanted = BASE_MIN(r.rlim_max, wanted);
	/* Only raise the limit: other parts of this process may rely on theirs. */
	r.rlim_cur = BASE_MAX(r.rlim_cur, wanted);
	setrlimit(RLIMIT_NOFILE, &r);
	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur < OTHERS + FILES_MAX)
		return 1;
	return (uint32_t)BASE_MIN((rlim_t)max, (r.rlim_cur - OTHERS) / FILES_MAX);
}

struct host_cgroups *host_cgroups_open(struct host *h, uint32_t max)
{
	struct host_cgroups *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->h = h;
	c->max = limit_cgroups(max);
	c->found = calloc(c->max, sizeof(*c->found));
	open_roots(c);
	if (!c->found || !choose_primary(c)) {
		base_logf(BASE_INFO, HOST_LOG,
			  "no cgroup hierarchy is mounted: container metrics are not published");
		host_cgroups_close(c);
		return NULL;
	}
	base_logf(BASE_DEBUG, HOST_LOG, "cgroups version=%d max=%u", c->primary ? 1 : 2, c->max);
	host_group(h, &c->group, descs, HOST_LEN(descs), keys, KEYS);
	host_group(h, &c->io, io_descs, HOST_LEN(io_descs), keys, KEYS + 1);
	c->group.skip_empty = c->io.skip_empty = true;
	return c;
}

void host_cgroups_close(struct host_cgroups *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++)
		cgroup_free(c->v[i]);
	for (size_t i = 0; i < HIERARCHIES; i++)
		if (c->root[i] >= 0)
			close(c->root[i]);
	free(c->v);
	free(c->found);
	free(c);
}
