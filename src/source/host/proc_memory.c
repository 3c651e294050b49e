// SPDX-License-Identifier: Apache-2.0
/* proc_memory.c - parses meminfo, vmstat, loadavg and pressure in /proc; see proc(5). */
#include <stdio.h>

#include "base/base.h"
#include "source/host/internal.h"

#define GAUGE(name, help)   HOST_DESC("node_" name, help, HOST_GAUGE)
#define COUNTER(name, help) HOST_DESC("node_" name, help, HOST_COUNTER)

/* ---- meminfo: "Active(anon):   1234 kB", "HugePages_Total:  0" ---- */

/* The key includes the unit, if there is one: "MemTotal kB". */
static void describe_meminfo(const char *key, size_t n, char name[128], char help[192])
{
	struct host_text t = host_text(key, n), base;
	char field[HOST_KEY_MAX + 8];
	bool bytes = host_until(&t, ' ', &base);

	if (!bytes)
		base = host_text(key, n);
	if (base.end > base.p && base.end[-1] == ')')
		base.end--;
	snprintf(field, sizeof(field), "%.*s%s", (int)host_length(base), base.p,
		 bytes ? "_bytes" : "");
	host_name_clean(field);
	snprintf(name, 128, "node_memory_%s", field);
	snprintf(help, 192, "Memory information field %s.", field);
}

void host_meminfo_parse(struct host *h, struct host_text t)
{
	struct host_fields *f = host_fields(h, &h->meminfo, HOST_GAUGE, describe_meminfo);
	char key[HOST_KEY_MAX + 4];
	struct host_text line, name;
	uint64_t v;

	while (host_line(&t, &line)) {
		size_t n;
		bool bytes;

		if (!host_until(&line, ':', &name) || !host_u64(&line, &v))
			continue;
		n = host_length(name);
		if (!n || n > HOST_KEY_MAX - 3)
			continue;
		bytes = host_is(host_word(&line), "kB");
		memcpy(key, name.p, n);
		memcpy(key + n, " kB", 3);
		host_field_set(f, host_field(f, key, n + (bytes ? 3 : 0)),
			       (double)v * (bytes ? 1024 : 1));
	}
}

/* ---- vmstat: keys that match ^(oom_kill|pgpg|pswp|pg.*fault).* ---- */

static bool wanted_vmstat(struct host_text key)
{
	return host_starts(key, "oom_kill") || host_starts(key, "pgpg") ||
	       host_starts(key, "pswp") ||
	       (host_starts(key, "pg") && memmem(key.p, host_length(key), "fault", 5));
}

static void describe_vmstat(const char *key, size_t n, char name[128], char help[192])
{
	(void)n;
	snprintf(name, 128, "node_vmstat_%s", key);
	snprintf(help, 192, "/proc/vmstat information field %s.", key);
	host_name_clean(name);
}

void host_vmstat_parse(struct host *h, struct host_text t)
{
	struct host_fields *f = host_fields(h, &h->vmstat, HOST_UNKNOWN, describe_vmstat);
	struct host_text line, key;
	uint64_t v;

	while (host_line(&t, &line)) {
		if (line.p == line.end || (*line.p != 'p' && *line.p != 'o'))
			continue;
		key = host_word(&line);
		if (wanted_vmstat(key) && host_u64(&line, &v))
			host_field_set(f, host_field(f, key.p, host_length(key)), (double)v);
	}
}

/* ---- loadavg ---- */

static const struct host_desc load_descs[] = {
	GAUGE("load1", "1m load average."),
	GAUGE("load5", "5m load average."),
	GAUGE("load15", "15m load average."),
};

void host_loadavg_parse(struct host *h, struct host_text t)
{
	struct host_group *g = host_group(h, &h->loadavg, load_descs, HOST_LEN(load_descs), NULL,
					  0);
	struct host_row *r = host_row(g, NULL);
	double v;

	for (size_t i = 0; i < HOST_LEN(load_descs) && host_number(&t, &v); i++)
		host_put(g, r, i, v);
}

/* ---- pressure: "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234" ---- */

struct host_pressure host_pressure_parse(struct host_text t)
{
	struct host_pressure p = {.has_some = false};
	struct host_text line, kind, word;
	uint64_t v;

	while (host_line(&t, &line)) {
		kind = host_word(&line);
		while (word = host_word(&line), host_length(word)) {
			if (!host_skip(&word, "total=") || !host_u64(&word, &v))
				continue;
			if (host_is(kind, "some")) {
				p.some = v;
				p.has_some = true;
			} else if (host_is(kind, "full")) {
				p.full = v;
				p.has_full = true;
			}
		}
	}
	return p;
}

/* For each resource: waiting, stalled. Like node_exporter, omits the stalled time of the CPU. */
static const struct host_desc pressure_descs[] = {
	COUNTER("pressure_cpu_waiting_seconds_total",
		"Total time in seconds that processes have waited for CPU time"),
	HOST_DESC(NULL, NULL, HOST_COUNTER),
	COUNTER("pressure_io_waiting_seconds_total",
		"Total time in seconds that processes have waited due to IO congestion"),
	COUNTER("pressure_io_stalled_seconds_total",
		"Total time in seconds no process could make progress due to IO congestion"),
	COUNTER("pressure_memory_waiting_seconds_total",
		"Total time in seconds that processes have waited for memory"),
	COUNTER("pressure_memory_stalled_seconds_total",
		"Total time in seconds no process could make progress due to memory congestion"),
};

void host_pressure_put(struct host *h, size_t resource, struct host_text t)
{
	struct host_group *g = host_group(h, &h->pressure, pressure_descs, HOST_LEN(pressure_descs),
					  NULL, 0);
	struct host_pressure p = host_pressure_parse(t);
	struct host_row *r = host_row(g, NULL);

	if (p.has_some)
		host_put(g, r, resource * 2, (double)p.some / 1000 / 1000);
	if (p.has_full && resource)
		host_put(g, r, resource * 2 + 1, (double)p.full / 1000 / 1000);
}
