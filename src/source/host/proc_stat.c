// SPDX-License-Identifier: Apache-2.0
/*
 * proc_stat.c - parses /proc/stat, /proc/schedstat and /proc/net/softnet_stat; see proc(5). The
 * kernel prints CPU times in hundredths of seconds (USER_HZ).
 */
#include <stdio.h>

#include "source/host/internal.h"

#define USER_HZ		    100.0
#define BACKWARDS_SECONDS   3.0
#define IDLE		    3u
#define CPU_MODES	    10

#define COUNTER(name, help) HOST_DESC("node_" name, help, HOST_COUNTER)

#define CPU_TIME(mode)                                                                            \
	HOST_DESC("node_cpu_seconds_total", "Seconds the CPUs spent in each mode.", HOST_COUNTER, \
		  .key = {"mode"}, .value = {mode})
#define GUEST_TIME(mode)                                                                 \
	HOST_DESC("node_cpu_guest_seconds_total",                                        \
		  "Seconds the CPUs spent in guests (VMs) for each mode.", HOST_COUNTER, \
		  .key = {"mode"}, .value = {mode})

/* In the order of the columns. */
static const struct host_desc cpu_descs[CPU_MODES] = {
	CPU_TIME("user"),   CPU_TIME("nice"),	CPU_TIME("system"),  CPU_TIME("idle"),
	CPU_TIME("iowait"), CPU_TIME("irq"),	CPU_TIME("softirq"), CPU_TIME("steal"),
	GUEST_TIME("user"), GUEST_TIME("nice"),
};

#define ONE(key, name, help, type) HOST_DESC("node_" name, help, type, .file = (key))

static const struct host_desc one_descs[] = {
	ONE("intr", "intr_total", "Total number of interrupts serviced.", HOST_COUNTER),
	ONE("ctxt", "context_switches_total", "Total number of context switches.", HOST_COUNTER),
	ONE("btime", "boot_time_seconds", "Node boot time, in unixtime.", HOST_GAUGE),
	ONE("processes", "forks_total", "Total number of forks.", HOST_COUNTER),
	ONE("procs_running", "procs_running", "Number of processes in runnable state.", HOST_GAUGE),
	ONE("procs_blocked", "procs_blocked",
	    "Number of processes blocked waiting for I/O to complete.", HOST_GAUGE),
};

static const char *const cpu_key[] = {"cpu"};

/*
 * The kernel's idle time may decrease slightly without a counter reset; such values are ignored. If
 * it decreases by more than three seconds, all modes were reset, as after the processor was
 * offline.
 */
static void put_cpu(struct host_group *g, struct host_row *r, const double *now)
{
	bool anew = now[IDLE] + BACKWARDS_SECONDS < r->cells[IDLE].value;

	for (size_t i = 0; i < CPU_MODES; i++)
		if (anew || !r->cells[i].tried || now[i] > r->cells[i].value)
			host_put(g, r, i, now[i]);
}

static void take_cpu(struct host_group *g, struct host_text name, struct host_text line)
{
	double now[CPU_MODES] = {0};
	struct host_row *r;
	uint64_t v;

	for (size_t i = 0; i < CPU_MODES && host_u64(&line, &v); i++)
		now[i] = (double)v / USER_HZ;
	r = host_row(g, &name);
	if (r)
		put_cpu(g, r, now);
}

void host_stat_parse(struct host *h, struct host_text t)
{
	struct host_group *cpus = host_group(h, &h->cpus, cpu_descs, HOST_LEN(cpu_descs), cpu_key,
					     1);
	struct host_group *g = host_group(h, &h->stat, one_descs, HOST_LEN(one_descs), NULL, 0);
	struct host_row *r = host_row(g, NULL);
	struct host_text line, name;
	uint64_t v;

	while (r && host_line(&t, &line)) {
		name = host_word(&line);
		if (host_skip(&name, "cpu")) {
			if (name.p < name.end)
				take_cpu(cpus, name, line);
			continue;
		}
		for (size_t i = 0; i < HOST_LEN(one_descs); i++)
			if (host_is(name, one_descs[i].file) && host_u64(&line, &v))
				host_put(g, r, i, (double)v);
	}
	host_group_end(cpus);
}

/* ---- schedstat ---- */

static const struct host_desc sched_descs[] = {
	COUNTER("schedstat_running_seconds_total",
		"Number of seconds CPU spent running a process."),
	COUNTER("schedstat_waiting_seconds_total",
		"Number of seconds spent by processing waiting for this CPU."),
	COUNTER("schedstat_timeslices_total", "Number of timeslices executed by CPU."),
};

/* Parses "cpu0" and nine numbers; the last three are used: nanoseconds, nanoseconds, slices. */
void host_schedstat_parse(struct host *h, struct host_text t)
{
	struct host_group *g = host_group(h, &h->schedstat, sched_descs, HOST_LEN(sched_descs),
					  cpu_key, 1);
	struct host_text line, name;
	uint64_t v[9];

	while (host_line(&t, &line)) {
		struct host_row *r;
		size_t n = 0;

		name = host_word(&line);
		if (!host_skip(&name, "cpu"))
			continue;
		while (n < HOST_LEN(v) && host_u64(&line, &v[n]))
			n++;
		r = n == HOST_LEN(v) && name.p < name.end ? host_row(g, &name) : NULL;
		if (!r)
			continue;
		host_put(g, r, 0, (double)v[6] / 1e9);
		host_put(g, r, 1, (double)v[7] / 1e9);
		host_put(g, r, 2, (double)v[8]);
	}
	host_group_end(g);
}

/* ---- softnet ---- */

static const struct host_desc softnet_descs[] = {
	COUNTER("softnet_processed_total", "Number of processed packets"),
	COUNTER("softnet_dropped_total", "Number of dropped packets"),
	COUNTER("softnet_times_squeezed_total",
		"Number of times processing packets ran out of quota"),
};

/* Parses hexadecimal columns; since Linux 5.10, the thirteenth is the processor. */
void host_softnet_parse(struct host *h, struct host_text t)
{
	struct host_group *g = host_group(h, &h->softnet, softnet_descs, HOST_LEN(softnet_descs),
					  cpu_key, 1);
	struct host_text line, cpu;
	uint64_t number = 0;
	char text[24];

	for (; host_line(&t, &line); number++) {
		uint64_t v[13];
		struct host_row *r;
		size_t n = 0;

		while (n < HOST_LEN(v) && host_hex(&line, &v[n]))
			n++;
		if (n < HOST_LEN(softnet_descs))
			continue;
		snprintf(text, sizeof(text), "%llu",
			 (unsigned long long)(n == HOST_LEN(v) ? v[12] : number));
		cpu = host_text(text, strlen(text));
		r = host_row(g, &cpu);
		for (size_t i = 0; i < HOST_LEN(softnet_descs); i++)
			host_put(g, r, i, (double)v[i]);
	}
	host_group_end(g);
}
