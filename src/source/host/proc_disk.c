// SPDX-License-Identifier: Apache-2.0
/* proc_disk.c - parses /proc/diskstats; see Linux' admin-guide/iostats.rst. */
#include "source/host/internal.h"

#define SECTOR			      512.0
#define MS			      0.001

#define DISK(name, unit_, help, type) HOST_DESC("node_disk_" name, help, type, .unit = (unit_))
#define COUNTER(name, unit, help)     DISK(name, unit, help, HOST_COUNTER)

/* In the order of the columns after the name. */
static const struct host_desc descs[] = {
	COUNTER("reads_completed_total", 1, "The total number of reads completed successfully."),
	COUNTER("reads_merged_total", 1, "The total number of reads merged."),
	COUNTER("read_bytes_total", SECTOR, "The total number of bytes read successfully."),
	COUNTER("read_time_seconds_total", MS, "The total number of seconds spent by all reads."),
	COUNTER("writes_completed_total", 1, "The total number of writes completed successfully."),
	COUNTER("writes_merged_total", 1, "The number of writes merged."),
	COUNTER("written_bytes_total", SECTOR, "The total number of bytes written successfully."),
	COUNTER("write_time_seconds_total", MS,
		"This is the total number of seconds spent by all writes."),
	DISK("io_now", 1, "The number of I/Os currently in progress.", HOST_GAUGE),
	COUNTER("io_time_seconds_total", MS, "Total seconds spent doing I/Os."),
	COUNTER("io_time_weighted_seconds_total", MS,
		"The weighted # of seconds spent doing I/Os."),
	COUNTER("discards_completed_total", 1,
		"The total number of discards completed successfully."),
	COUNTER("discards_merged_total", 1, "The total number of discards merged."),
	COUNTER("discarded_sectors_total", 1,
		"The total number of sectors discarded successfully."),
	COUNTER("discard_time_seconds_total", MS,
		"This is the total number of seconds spent by all discards."),
	COUNTER("flush_requests_total", 1,
		"The total number of flush requests completed successfully"),
	COUNTER("flush_requests_time_seconds_total", MS,
		"This is the total number of seconds spent by all flush requests."),
};

static const char *const key[] = {"device"};

static bool all_digits(struct host_text t)
{
	if (t.p == t.end)
		return false;
	for (; t.p < t.end; t.p++)
		if (*t.p < '0' || *t.p > '9')
			return false;
	return true;
}

/* node_exporter's ^(ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$: partitions, virtual disks. */
bool host_disk_ignored(struct host_text device)
{
	static const char *const whole[] = {"ram", "loop", "fd"};
	static const char *const lettered[] = {"hd", "sd", "vd", "xvd"};
	struct host_text rest, part;
	uint64_t v;

	for (size_t i = 0; i < HOST_LEN(whole); i++)
		if (rest = device, host_skip(&rest, whole[i]) && all_digits(rest))
			return true;
	for (size_t i = 0; i < HOST_LEN(lettered); i++)
		if (rest = device, host_skip(&rest, lettered[i]) && rest.p < rest.end &&
					   *rest.p >= 'a' && *rest.p++ <= 'z' && all_digits(rest))
			return true;
	rest = device;
	return host_skip(&rest, "nvme") && host_until(&rest, 'n', &part) && all_digits(part) &&
	       host_until(&rest, 'p', &part) && all_digits(part) && host_u64(&rest, &v) &&
	       rest.p == rest.end;
}

void host_disk_parse(struct host *h, struct host_text t)
{
	struct host_group *g = host_group(h, &h->disk, descs, HOST_LEN(descs), key, 1);
	struct host_text line, name;
	uint64_t v;

	while (host_line(&t, &line)) {
		struct host_row *r;

		if (!host_u64(&line, &v) || !host_u64(&line, &v))
			continue;
		name = host_word(&line);
		r = !host_length(name) || host_disk_ignored(name) ? NULL : host_row(g, &name);
		/* Older kernels have fewer columns. */
		for (size_t i = 0; r && i < HOST_LEN(descs) && host_u64(&line, &v); i++)
			host_put(g, r, i, (double)v * descs[i].unit);
	}
	host_group_end(g);
}
