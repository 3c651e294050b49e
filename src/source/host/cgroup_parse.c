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
	if (host_skip(&word, "max")) {
		*t = word;
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
		      const struct host_cgroup_file *f)
{
	struct host_text line, key;
	uint64_t v;

	while (host_line(&t, &line)) {
		key = host_word(&line);
		for (size_t i = 0; i < f->key_count; i++)
			if (host_is(key, f->keys[i].key) && host_u64(&line, &v))
				put_value(c, f->keys[i].series, (double)v / f->keys[i].unit);
	}
}

static void take_value(struct host_container_values *c, struct host_text t,
		       const struct host_cgroup_file *f)
{
	double v;

	if (parse_value(&t, &v))
		put_value(c, f->series, v / (f->unit ?: 1));
}

static void take_limit(struct host_container_values *c, struct host_text t,
		       const struct host_cgroup_file *f)
{
	double v;

	if (parse_value(&t, &v))
		put_value(c, f->series, limit_of(v));
}

static void take_pressure(struct host_container_values *c, struct host_text t,
			  const struct host_cgroup_file *f)
{
	struct host_pressure p = host_pressure_parse(t);

	if (p.has_some)
		put_value(c, f->series, (double)p.some / US);
	if (p.has_full)
		put_value(c, f->series + 1, (double)p.full / US);
}

static void memory_usage(struct host_container_values *c, struct host_text t,
			 const struct host_cgroup_file *f)
{
	if (host_u64(&t, &c->usage))
		put_value(c, f->series, (double)c->usage);
}

static void memory_stat(struct host_container_values *c, struct host_text t,
			const struct host_cgroup_file *f)
{
	take_keys(c, t, f);
	/* Not published as is: see working_set() in cgroup.c. */
	if (c->has >> HOST_MEM_WORKING_SET & 1)
		c->inactive = (uint64_t)c->v[HOST_MEM_WORKING_SET];
	/* In version 2, the counters of a cgroup include the counters of its descendants. */
	if (!f->controller && c->has >> HOST_MEM_FAULTS & 1)
		put_value(c, HOST_MEM_FAULTS_BELOW, c->v[HOST_MEM_FAULTS]);
	if (!f->controller && c->has >> HOST_MEM_MAJOR & 1)
		put_value(c, HOST_MEM_MAJOR_BELOW, c->v[HOST_MEM_MAJOR]);
}

static void processes(struct host_container_values *c, struct host_text t,
		      const struct host_cgroup_file *f)
{
	struct host_text line;
	double n = 0;

	while (host_line(&t, &line))
		n++;
	put_value(c, f->series, n);
}

/* Maps weights, 1 to 10000, linearly to shares, 2 to 262144, as the kernel defines both ranges. */
static void cpu_weight(struct host_container_values *c, struct host_text t,
		       const struct host_cgroup_file *f)
{
	double v;

	if (parse_value(&t, &v))
		put_value(c, f->series, 2 + floor((v - 1) * 262142 / 9999));
}

static void cpu_quota(struct host_container_values *c, struct host_text t,
		      const struct host_cgroup_file *f)
{
	double v;

	if (parse_value(&t, &v) && limit_of(v) > 0)
		put_value(c, f->series, v);
}

/* Parses "max 100000" or "50000 100000". */
static void cpu_max(struct host_container_values *c, struct host_text t,
		    const struct host_cgroup_file *f)
{
	struct host_text period = t;
	double v;

	if (!parse_value(&period, &v) || !parse_value(&period, &v))
		return;
	put_value(c, HOST_SPEC_PERIOD, v);
	cpu_quota(c, t, f);
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
static void io_stat(struct host_container_values *c, struct host_text t,
		    const struct host_cgroup_file *f)
{
	static const char *const keys[HOST_IO_SERIES] = {"rbytes=", "wbytes=", "rios=", "wios="};
	struct host_text line, word;

	while (host_line(&t, &line)) {
		struct host_io *io = io_of(c, &line);

		while (io && (word = host_word(&line), host_length(word)))
			for (size_t i = 0; i < HOST_IO_SERIES; i++)
				if (host_skip(&word, keys[i]))
					host_u64(&word, &io->v[f->series + i]);
	}
}

/* Parses version 1: "8:0 Read 1". Skips other words, such as "Sync", which count these again. */
static void throttle(struct host_container_values *c, struct host_text t,
		     const struct host_cgroup_file *f)
{
	struct host_text line, word;

	while (host_line(&t, &line)) {
		struct host_io *io = io_of(c, &line);
		uint64_t v;

		word = host_word(&line);
		if (!io || !host_u64(&line, &v))
			continue;
		if (host_is(word, "Read"))
			io->v[f->series] = v;
		else if (host_is(word, "Write"))
			io->v[f->series + 1] = v;
	}
}

/* ---- the files ---- */

static const struct host_cgroup_key cpu_stat[] = {
	{"usage_usec", HOST_CPU_USAGE, US},	 {"user_usec", HOST_CPU_USER, US},
	{"system_usec", HOST_CPU_SYSTEM, US},	 {"nr_periods", HOST_CFS_PERIODS, 1},
	{"nr_throttled", HOST_CFS_THROTTLED, 1}, {"throttled_usec", HOST_CFS_THROTTLED_TIME, US},
};
static const struct host_cgroup_key cpu_stat_1[] = {
	{"nr_periods", HOST_CFS_PERIODS, 1},
	{"nr_throttled", HOST_CFS_THROTTLED, 1},
	{"throttled_time", HOST_CFS_THROTTLED_TIME, NS},
};
static const struct host_cgroup_key cpuacct_stat[] = {{"user", HOST_CPU_USER, TICKS},
						      {"system", HOST_CPU_SYSTEM, TICKS}};
static const struct host_cgroup_key memory_keys[] = {
	{"anon", HOST_MEM_RSS, 1},	     {"file", HOST_MEM_CACHE, 1},
	{"file_mapped", HOST_MEM_MAPPED, 1}, {"pgfault", HOST_MEM_FAULTS, 1},
	{"pgmajfault", HOST_MEM_MAJOR, 1},   {"inactive_file", HOST_MEM_WORKING_SET, 1},
};
static const struct host_cgroup_key memory_keys_1[] = {
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
static const struct host_cgroup_key oom[] = {{"oom_kill", HOST_OOM, 1}};

#define FAST	   HOST_TIER_FAST
#define SECOND	   HOST_TIER_SECOND
#define SLOW	   HOST_TIER_SLOW
#define ONE(i)	   .series = (i)
#define KEYS(list) .keys = (list), .key_count = HOST_LEN(list)

const struct host_cgroup_file host_cgroup_files[] = {
	{NULL, "cpu.stat", FAST, take_keys, KEYS(cpu_stat)},
	{NULL, "memory.current", FAST, memory_usage, ONE(HOST_MEM_USAGE)},
	{NULL, "memory.stat", SECOND, memory_stat, KEYS(memory_keys)},
	{NULL, "memory.swap.current", SECOND, take_value, ONE(HOST_MEM_SWAP)},
	{NULL, "memory.events", SECOND, take_keys, KEYS(oom)},
	{NULL, "io.stat", SECOND, io_stat, ONE(HOST_IO_READ_BYTES)},
	{NULL, "pids.current", SECOND, take_value, ONE(HOST_THREADS)},
	{NULL, "cgroup.procs", SECOND, processes, ONE(HOST_PROCESSES)},
	{NULL, "cpu.pressure", SECOND, take_pressure, ONE(HOST_STALL_CPU)},
	{NULL, "io.pressure", SECOND, take_pressure, ONE(HOST_STALL_IO)},
	{NULL, "memory.pressure", SECOND, take_pressure, ONE(HOST_STALL_MEM)},
	{NULL, "memory.peak", SLOW, take_value, ONE(HOST_MEM_MAX_USAGE)},
	{NULL, "memory.max", SLOW, take_limit, ONE(HOST_SPEC_MEMORY)},
	{NULL, "memory.high", SLOW, take_limit, ONE(HOST_SPEC_RESERVATION)},
	{NULL, "memory.swap.max", SLOW, take_limit, ONE(HOST_SPEC_SWAP)},
	{NULL, "pids.max", SLOW, take_limit, ONE(HOST_THREADS_MAX)},
	{NULL, "cpu.max", SLOW, cpu_max, ONE(HOST_SPEC_QUOTA)},
	{NULL, "cpu.weight", SLOW, cpu_weight, ONE(HOST_SPEC_SHARES)},
	{"cpuacct", "cpuacct.usage", FAST, take_value, ONE(HOST_CPU_USAGE), .unit = NS},
	{"memory", "memory.usage_in_bytes", FAST, memory_usage, ONE(HOST_MEM_USAGE)},
	{"cpuacct", "cpuacct.stat", SECOND, take_keys, KEYS(cpuacct_stat)},
	{"cpu", "cpu.stat", SECOND, take_keys, KEYS(cpu_stat_1)},
	{"memory", "memory.stat", SECOND, memory_stat, KEYS(memory_keys_1)},
	{"memory", "memory.failcnt", SECOND, take_value, ONE(HOST_MEM_FAILCNT)},
	{"memory", "memory.oom_control", SECOND, take_keys, KEYS(oom)},
	{"blkio", "blkio.throttle.io_service_bytes_recursive", SECOND, throttle,
	 ONE(HOST_IO_READ_BYTES)},
	{"blkio", "blkio.throttle.io_serviced_recursive", SECOND, throttle, ONE(HOST_IO_READS)},
	{"pids", "pids.current", SECOND, take_value, ONE(HOST_THREADS)},
	{"memory", "cgroup.procs", SECOND, processes, ONE(HOST_PROCESSES)},
	{"memory", "memory.max_usage_in_bytes", SLOW, take_value, ONE(HOST_MEM_MAX_USAGE)},
	{"memory", "memory.limit_in_bytes", SLOW, take_limit, ONE(HOST_SPEC_MEMORY)},
	{"memory", "memory.soft_limit_in_bytes", SLOW, take_limit, ONE(HOST_SPEC_RESERVATION)},
	{"memory", "memory.memsw.limit_in_bytes", SLOW, take_limit, ONE(HOST_SPEC_SWAP)},
	{"pids", "pids.max", SLOW, take_limit, ONE(HOST_THREADS_MAX)},
	{"cpu", "cpu.cfs_period_us", SLOW, take_value, ONE(HOST_SPEC_PERIOD)},
	{"cpu", "cpu.cfs_quota_us", SLOW, cpu_quota, ONE(HOST_SPEC_QUOTA)},
	{"cpu", "cpu.shares", SLOW, take_value, ONE(HOST_SPEC_SHARES)},
};
const size_t host_cgroup_file_count = HOST_LEN(host_cgroup_files);
