// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup_parse.c - parses the files of a cgroup, as documented in Linux' admin-guide/cgroup-v2.rst
 * and cgroup-v1. They are mapped to metrics as in cAdvisor's container/libcontainer.
 */
#include <math.h>

#include "source/host/internal.h"

#define US	  1e6
#define NS	  1e9
#define TICKS	  100.0
#define UNLIMITED 4611686018427387904.0 /* 2^62: a larger value means no limit, published as 0 */

static void put_value(struct host_container_values *c, enum host_container i, double v)
{
	c->v[i] = v;
	c->has |= 1ull << i;
}

/* Parses a number; "max" is the largest one. */
static bool parse_value(struct host_text *t, double *out)
{
	struct host_text word = *t;

	host_blanks(&word);
	if (host_starts(word, "max")) {
		t->p = word.p + 3;
		*out = 1e20;
		return true;
	}
	return host_number(t, out);
}

static double limit_of(double v)
{
	return v > UNLIMITED || v < 0 ? 0 : v;
}

struct host_cgroup_key {
	const char *key;
	enum host_container series;
	double unit;
};

/* Parses lines of the form "KEY VALUE". */
static void take_keys(struct host_container_values *c, struct host_text t,
		      const struct host_cgroup_key *keys, size_t n)
{
	struct host_text line, key;
	uint64_t v;

	while (host_line(&t, &line)) {
		key = host_word(&line);
		for (size_t i = 0; i < n; i++)
			if (host_is(key, keys[i].key) && host_u64(&line, &v))
				put_value(c, keys[i].series, (double)v / keys[i].unit);
	}
}

/* ---- version 2 ---- */

static void cpu_stat(struct host_container_values *c, struct host_text t)
{
	static const struct host_cgroup_key keys[] = {
		{"usage_usec", HOST_CPU_USAGE, US},
		{"user_usec", HOST_CPU_USER, US},
		{"system_usec", HOST_CPU_SYSTEM, US},
		{"nr_periods", HOST_CFS_PERIODS, 1},
		{"nr_throttled", HOST_CFS_THROTTLED, 1},
		{"throttled_usec", HOST_CFS_THROTTLED_TIME, US},
	};

	take_keys(c, t, keys, HOST_LEN(keys));
}

static void memory_usage(struct host_container_values *c, struct host_text t)
{
	if (host_u64(&t, &c->usage))
		put_value(c, HOST_MEM_USAGE, (double)c->usage);
}

static void memory_stat(struct host_container_values *c, struct host_text t)
{
	static const struct host_cgroup_key keys[] = {
		{"anon", HOST_MEM_RSS, 1},
		{"file", HOST_MEM_CACHE, 1},
		{"file_mapped", HOST_MEM_MAPPED, 1},
		{"pgfault", HOST_MEM_FAULTS, 1},
		{"pgmajfault", HOST_MEM_MAJOR, 1},
		/* Not published as is: see working_set() in cgroup.c. */
		{"inactive_file", HOST_MEM_WORKING_SET, 1},
	};

	take_keys(c, t, keys, HOST_LEN(keys));
	if (c->has >> HOST_MEM_WORKING_SET & 1)
		c->inactive = (uint64_t)c->v[HOST_MEM_WORKING_SET];
	/* In version 2, the counters of a cgroup include the counters of its descendants. */
	if (c->has >> HOST_MEM_FAULTS & 1)
		put_value(c, HOST_MEM_FAULTS_BELOW, c->v[HOST_MEM_FAULTS]);
	if (c->has >> HOST_MEM_MAJOR & 1)
		put_value(c, HOST_MEM_MAJOR_BELOW, c->v[HOST_MEM_MAJOR]);
}

#define ONE_VALUE(function, series, expression)                                   \
	static void function(struct host_container_values *c, struct host_text t) \
	{                                                                         \
		double v;                                                         \
                                                                                  \
		if (parse_value(&t, &v))                                          \
			put_value(c, series, expression);                         \
	}

ONE_VALUE(memory_swap, HOST_MEM_SWAP, v)
ONE_VALUE(memory_peak, HOST_MEM_MAX_USAGE, v)
ONE_VALUE(memory_failcnt, HOST_MEM_FAILCNT, v)
ONE_VALUE(pids_current, HOST_THREADS, v)
ONE_VALUE(pids_max, HOST_THREADS_MAX, limit_of(v))
ONE_VALUE(memory_limit, HOST_SPEC_MEMORY, limit_of(v))
ONE_VALUE(memory_reservation, HOST_SPEC_RESERVATION, limit_of(v))
ONE_VALUE(memory_swap_limit, HOST_SPEC_SWAP, limit_of(v))
ONE_VALUE(cpu_shares, HOST_SPEC_SHARES, v)
/* Maps weights, 1 to 10000, linearly to shares, 2 to 262144, as the kernel defines both ranges. */
ONE_VALUE(cpu_weight, HOST_SPEC_SHARES, 2 + floor((v - 1) * 262142 / 9999))
ONE_VALUE(cpu_usage_ns, HOST_CPU_USAGE, v / NS)

static void memory_events(struct host_container_values *c, struct host_text t)
{
	static const struct host_cgroup_key keys[] = {{"oom_kill", HOST_OOM, 1}};

	take_keys(c, t, keys, HOST_LEN(keys));
}

static void processes(struct host_container_values *c, struct host_text t)
{
	struct host_text line;
	double n = 0;

	while (host_line(&t, &line))
		n++;
	put_value(c, HOST_PROCESSES, n);
}

static void pressure(struct host_container_values *c, struct host_text t, enum host_container some)
{
	struct host_pressure p = host_pressure_parse(t);

	if (p.has_some)
		put_value(c, some, (double)p.some / US);
	if (p.has_full)
		put_value(c, some + 1, (double)p.full / US);
}

static void cpu_pressure(struct host_container_values *c, struct host_text t)
{
	pressure(c, t, HOST_STALL_CPU);
}

static void io_pressure(struct host_container_values *c, struct host_text t)
{
	pressure(c, t, HOST_STALL_IO);
}

static void memory_pressure(struct host_container_values *c, struct host_text t)
{
	pressure(c, t, HOST_STALL_MEM);
}

/* Parses "max 100000" or "50000 100000". */
static void cpu_max(struct host_container_values *c, struct host_text t)
{
	double quota, period;

	if (!parse_value(&t, &quota) || !parse_value(&t, &period))
		return;
	put_value(c, HOST_SPEC_PERIOD, period);
	if (limit_of(quota) > 0)
		put_value(c, HOST_SPEC_QUOTA, quota);
}

/*
 * Parses "8:0" and finds or adds the device's element. Returns NULL if there is no device, or no
 * room.
 */
static struct host_io *io_of(struct host_container_values *c, struct host_text *line)
{
	uint64_t major, minor;

	if (!host_u64(line, &major) || line->p == line->end || *line->p++ != ':' ||
	    !host_u64(line, &minor) || major > UINT32_MAX || minor > UINT32_MAX)
		return NULL;
	for (size_t i = 0; i < c->io_count; i++)
		if (c->io[i].major == major && c->io[i].minor == minor)
			return &c->io[i];
	if (c->io_count == HOST_IO_DEVICES)
		return NULL;
	c->io[c->io_count] = (struct host_io){(uint32_t)major, (uint32_t)minor, {0}};
	return &c->io[c->io_count++];
}

/* Parses "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0". */
static void io_stat(struct host_container_values *c, struct host_text t)
{
	static const char *const keys[HOST_IO_SERIES] = {"rbytes=", "wbytes=", "rios=", "wios="};
	struct host_text line, word;

	while (host_line(&t, &line)) {
		struct host_io *io = io_of(c, &line);

		while (io && (word = host_word(&line), host_length(word)))
			for (size_t i = 0; i < HOST_IO_SERIES; i++)
				if (host_starts(word, keys[i])) {
					struct host_text v = word;

					v.p += strlen(keys[i]);
					host_u64(&v, &io->v[i]);
				}
	}
}

/* ---- version 1 ---- */

static void cpuacct_stat(struct host_container_values *c, struct host_text t)
{
	static const struct host_cgroup_key keys[] = {{"user", HOST_CPU_USER, TICKS},
						      {"system", HOST_CPU_SYSTEM, TICKS}};

	take_keys(c, t, keys, HOST_LEN(keys));
}

static void cpu_stat_1(struct host_container_values *c, struct host_text t)
{
	static const struct host_cgroup_key keys[] = {
		{"nr_periods", HOST_CFS_PERIODS, 1},
		{"nr_throttled", HOST_CFS_THROTTLED, 1},
		{"throttled_time", HOST_CFS_THROTTLED_TIME, NS},
	};

	take_keys(c, t, keys, HOST_LEN(keys));
}

static void memory_stat_1(struct host_container_values *c, struct host_text t)
{
	static const struct host_cgroup_key keys[] = {
		{"total_rss", HOST_MEM_RSS, 1},
		{"total_cache", HOST_MEM_CACHE, 1},
		{"total_swap", HOST_MEM_SWAP, 1},
		{"total_mapped_file", HOST_MEM_MAPPED, 1},
		{"pgfault", HOST_MEM_FAULTS, 1},
		{"total_pgfault", HOST_MEM_FAULTS_BELOW, 1},
		{"pgmajfault", HOST_MEM_MAJOR, 1},
		{"total_pgmajfault", HOST_MEM_MAJOR_BELOW, 1},
		{"total_inactive_file", HOST_MEM_WORKING_SET, 1},
	};

	take_keys(c, t, keys, HOST_LEN(keys));
	if (c->has >> HOST_MEM_WORKING_SET & 1)
		c->inactive = (uint64_t)c->v[HOST_MEM_WORKING_SET];
}

static void cfs_quota(struct host_container_values *c, struct host_text t)
{
	double v;

	if (parse_value(&t, &v) && limit_of(v) > 0)
		put_value(c, HOST_SPEC_QUOTA, v);
}

ONE_VALUE(cfs_period, HOST_SPEC_PERIOD, v)

static void throttle(struct host_container_values *c, struct host_text t, size_t first)
{
	struct host_text line, word;

	while (host_line(&t, &line)) {
		struct host_io *io = io_of(c, &line);
		uint64_t v;

		word = host_word(&line);
		if (!io || !host_u64(&line, &v))
			continue;
		if (host_is(word, "Read"))
			io->v[first] = v;
		else if (host_is(word, "Write"))
			io->v[first + 1] = v;
	}
}

static void io_bytes(struct host_container_values *c, struct host_text t)
{
	throttle(c, t, HOST_IO_READ_BYTES);
}

static void io_count(struct host_container_values *c, struct host_text t)
{
	throttle(c, t, HOST_IO_READS);
}

const struct host_cgroup_file host_cgroup_files[] = {
	{NULL, "cpu.stat", HOST_TIER_FAST, cpu_stat},
	{NULL, "memory.current", HOST_TIER_FAST, memory_usage},
	{NULL, "memory.stat", HOST_TIER_SECOND, memory_stat},
	{NULL, "memory.swap.current", HOST_TIER_SECOND, memory_swap},
	{NULL, "memory.events", HOST_TIER_SECOND, memory_events},
	{NULL, "io.stat", HOST_TIER_SECOND, io_stat},
	{NULL, "pids.current", HOST_TIER_SECOND, pids_current},
	{NULL, "cgroup.procs", HOST_TIER_SECOND, processes},
	{NULL, "cpu.pressure", HOST_TIER_SECOND, cpu_pressure},
	{NULL, "io.pressure", HOST_TIER_SECOND, io_pressure},
	{NULL, "memory.pressure", HOST_TIER_SECOND, memory_pressure},
	{NULL, "memory.peak", HOST_TIER_SLOW, memory_peak},
	{NULL, "memory.max", HOST_TIER_SLOW, memory_limit},
	{NULL, "memory.high", HOST_TIER_SLOW, memory_reservation},
	{NULL, "memory.swap.max", HOST_TIER_SLOW, memory_swap_limit},
	{NULL, "pids.max", HOST_TIER_SLOW, pids_max},
	{NULL, "cpu.max", HOST_TIER_SLOW, cpu_max},
	{NULL, "cpu.weight", HOST_TIER_SLOW, cpu_weight},
	{"cpuacct", "cpuacct.usage", HOST_TIER_FAST, cpu_usage_ns},
	{"memory", "memory.usage_in_bytes", HOST_TIER_FAST, memory_usage},
	{"cpuacct", "cpuacct.stat", HOST_TIER_SECOND, cpuacct_stat},
	{"cpu", "cpu.stat", HOST_TIER_SECOND, cpu_stat_1},
	{"memory", "memory.stat", HOST_TIER_SECOND, memory_stat_1},
	{"memory", "memory.failcnt", HOST_TIER_SECOND, memory_failcnt},
	{"memory", "memory.oom_control", HOST_TIER_SECOND, memory_events},
	{"blkio", "blkio.throttle.io_service_bytes_recursive", HOST_TIER_SECOND, io_bytes},
	{"blkio", "blkio.throttle.io_serviced_recursive", HOST_TIER_SECOND, io_count},
	{"pids", "pids.current", HOST_TIER_SECOND, pids_current},
	{"memory", "cgroup.procs", HOST_TIER_SECOND, processes},
	{"memory", "memory.max_usage_in_bytes", HOST_TIER_SLOW, memory_peak},
	{"memory", "memory.limit_in_bytes", HOST_TIER_SLOW, memory_limit},
	{"memory", "memory.soft_limit_in_bytes", HOST_TIER_SLOW, memory_reservation},
	{"memory", "memory.memsw.limit_in_bytes", HOST_TIER_SLOW, memory_swap_limit},
	{"pids", "pids.max", HOST_TIER_SLOW, pids_max},
	{"cpu", "cpu.cfs_period_us", HOST_TIER_SLOW, cfs_period},
	{"cpu", "cpu.cfs_quota_us", HOST_TIER_SLOW, cfs_quota},
	{"cpu", "cpu.shares", HOST_TIER_SLOW, cpu_shares},
};
const size_t host_cgroup_file_count = HOST_LEN(host_cgroup_files);
