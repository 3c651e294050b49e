// SPDX-License-Identifier: Apache-2.0
/*
 * host.c - schedules the reads. Counters of /proc are read in each round; values that change slowly
 * or are expensive are read once per second or every five seconds. Reads whose cost grows with the
 * number of containers or interfaces are delayed so that they do not exceed their share of time.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "source/host/internal.h"

#define SECOND_NS    1000000000ull
#define CGROUPS_MAX  1024u
#define CELLS	     4096u
#define RECORD_BYTES 256u
/*
 * A tier takes at most 1 / share of a processor's time at 10 rounds per second, and ten times that
 * at 100. Including the files read in each round, the total is less than 1 %.
 */
#define SHARE_USAGE 400u /* resource usage of containers, read in each round */
#define SHARE_OTHER 1000u
#define SHARE_NS    100000000ull

/* The files below are read in each round, except those that the kernel updates more slowly. */
static const struct {
	const char *path;
	void (*parse)(struct host *h, struct host_text t);
	bool second; /* once per second is enough; the kernel updates loadavg every 5 s */
} sources[HOST_SOURCES] = {
	[HOST_DISKSTATS] = {"/proc/diskstats", host_disk_parse, false},
	{"/proc/stat", host_stat_parse, false},
	{"/proc/schedstat", host_schedstat_parse, false},
	{"/proc/meminfo", host_meminfo_parse, false},
	{"/proc/vmstat", host_vmstat_parse, false},
	{"/proc/net/dev", host_netdev_parse, false},
	{"/proc/net/snmp6", host_snmp6_parse, false},
	{"/proc/net/sockstat", host_sockstat_parse, false},
	{"/proc/net/sockstat6", host_sockstat_parse, false},
	{"/proc/net/softnet_stat", host_softnet_parse, false},
	{"/proc/loadavg", host_loadavg_parse, true},
	{"/proc/sys/fs/file-nr", host_filefd_parse, true},
	{"/proc/net/stat/nf_conntrack", host_conntrack_parse, true},
	{"/proc/net/arp", host_arp_parse, true},
};
static const char *const pressure_paths[] = {"/proc/pressure/cpu", "/proc/pressure/io",
					     "/proc/pressure/memory"};
static const char *const netstat_paths[] = {"/proc/net/snmp", "/proc/net/netstat"};

/* ---- reading ---- */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static void read_sources(struct host *h, bool second)
{
	for (size_t i = 0; i < HOST_SOURCES; i++)
		if (sources[i].second == second && host_file_read(h, &h->source[i]))
			sources[i].parse(h, host_contents(&h->source[i]));
}

static void read_fast(struct host *h)
{
	host_kernel_time(&h->kernel);
	read_sources(h, false);
	for (size_t i = 0; i < HOST_LEN(pressure_paths); i++)
		if (host_file_read(h, &h->pressure_file[i]))
			host_pressure_put(h, i, host_contents(&h->pressure_file[i]));
	for (size_t i = 0; i < HOST_LEN(netstat_paths); i++)
		if (host_file_read(h, &h->netstat_file[i]))
			host_netstat_parse(h, i, host_contents(&h->netstat_file[i]));
}

static void read_second(struct host *h, uint64_t now_ns)
{
	read_sources(h, true);
	host_kernel_second(h, &h->kernel);
	if (h->mounts)
		host_mounts_second(h->mounts, now_ns);
}

static void read_rdma(struct host *h, uint64_t now_ns)
{
	(void)now_ns;
	host_rdma_second(h, &h->devices);
}

static void read_slow(struct host *h, uint64_t now_ns)
{
	host_kernel_slow(h, &h->kernel);
	host_devices_slow(h, &h->devices);
	if (h->mounts)
		host_mounts_slow(h, h->mounts, now_ns);
}

static void look_for_cgroups(struct host *h, uint64_t now_ns)
{
	(void)now_ns;
	if (h->cgroups)
		host_cgroups_look(h->cgroups);
}

/* every_ns: minimum time between two reads; 0 means that each round may read. */
static const struct {
	uint64_t every_ns, share;
	void (*read)(struct host *h, uint64_t now_ns); /* NULL means this tier of cgroups */
	enum host_cgroup_tier cgroups;
} tiers[HOST_TIERS] = {
	{SECOND_NS, SHARE_OTHER, read_second, 0},
	{SECOND_NS, SHARE_OTHER, read_rdma, 0},
	{5 * SECOND_NS, SHARE_OTHER, read_slow, 0},
	{SECOND_NS, SHARE_OTHER, look_for_cgroups, 0},
	{5 * SECOND_NS, SHARE_OTHER, NULL, HOST_TIER_SLOW},
	{SECOND_NS, SHARE_OTHER, NULL, HOST_TIER_SECOND},
	{0, SHARE_USAGE, NULL, HOST_TIER_FAST},
};

void host_round(struct host *h, uint64_t now_ns, bool all)
{
	const uint64_t part = BASE_MIN(h->interval_ns, SHARE_NS);

	read_fast(h);
	for (size_t i = 0; i < HOST_TIERS; i++) {
		const uint64_t every = BASE_MAX(h->interval_ns, tiers[i].every_ns);
		const uint64_t share = part * tiers[i].share / SHARE_NS;
		uint64_t start;

		if (!all && now_ns < h->next_ns[i])
			continue;
		start = cpu_ns();
		if (tiers[i].read)
			tiers[i].read(h, now_ns);
		else if (h->cgroups)
			host_cgroups_read(h->cgroups, tiers[i].cgroups);
		h->next_ns[i] = now_ns + BASE_MAX(every, (cpu_ns() - start) * share);
	}
}

/* ---- all ---- */

static void open_files(struct host *h)
{
	for (size_t i = 0; i < HOST_SOURCES; i++)
		host_file_open(h, &h->source[i], sources[i].path);
	for (size_t i = 0; i < HOST_LEN(pressure_paths); i++)
		host_file_open(h, &h->pressure_file[i], pressure_paths[i]);
	for (size_t i = 0; i < HOST_LEN(netstat_paths); i++)
		host_file_open(h, &h->netstat_file[i], netstat_paths[i]);
}

void host_parsers_free(struct host *h)
{
	for (struct host_group *g = h->groups; g; g = g->after)
		host_group_free(g);
	for (struct host_file *f = h->files, *next; f; f = next) {
		next = f->next;
		host_file_close(f);
	}
	host_fields_free(&h->meminfo);
	host_fields_free(&h->vmstat);
	host_fields_free(&h->sockstat);
	host_netstat_free(&h->netstat);
}

struct host *host_open(const struct host_opts *o)
{
	struct host *h = calloc(1, sizeof(*h));
	char name[HOST_NAME_MAX + 1] = "host";
	int err;

	if (!h)
		return NULL;
	h->root = o->root ?: "";
	h->interval_ns = o->interval_ns ?: SHARE_NS;
	gethostname(name, HOST_NAME_MAX);
	h->publisher = sl_publisher_open(
		&SL_OPTS(sl_publisher_opts, .service = "host", .pod = name, .socket = o->socket,
			 .max_cells = CELLS, .max_threads = 1, .schema_bytes = CELLS * RECORD_BYTES,
			 .flags = o->detached ? SL_PUBLISHER_DETACHED : 0));
	if (!h->publisher) {
		err = errno;
		free(h);
		errno = err;
		return NULL;
	}
	open_files(h);
	host_kernel_open(h, &h->kernel);
	host_devices_open(h, &h->devices);
	h->mounts = host_mounts_open(h);
	h->cgroups = host_cgroups_open(h, o->cgroups_max ?: CGROUPS_MAX);
	return h;
}

void host_close(struct host *h)
{
	if (!h)
		return;
	host_parsers_free(h);
	host_cgroups_close(h->cgroups);
	host_mounts_close(h->mounts);
	sl_publisher_close(h->publisher);
	free(h);
}

struct host_counts host_counts(const struct host *h)
{
	return h->counts;
}
