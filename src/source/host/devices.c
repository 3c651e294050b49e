// SPDX-License-Identifier: Apache-2.0
/*
 * devices.c - reads attributes of interfaces, disks, processors and temperature sensors from /sys,
 * one value per file (Linux, Documentation/ABI). They change slowly and are expensive to read, so
 * they are read rarely.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "source/host/internal.h"

#define GAUGE(name, help)   HOST_DESC("node_" name, help, HOST_GAUGE)
#define COUNTER(name, help) HOST_DESC("node_" name, help, HOST_COUNTER)

/* ---- directories ---- */

void host_each_directory(struct host *h, const char *path, const char *prefix,
			 void (*take)(struct host_devices *, int folder, struct host_text name),
			 struct host_devices *d)
{
	int folder = host_folder(h, path);
	DIR *dir = folder < 0 ? NULL : fdopendir(folder);
	struct dirent *e;

	if (!dir && folder >= 0)
		close(folder);
	for (size_t n = 0; dir && n < HOST_ROWS_MAX && (e = readdir(dir)); n++) {
		int sub;

		if (*e->d_name == '.' || strncmp(e->d_name, prefix, strlen(prefix)) != 0)
			continue;
		sub = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (sub < 0)
			continue;
		take(d, sub,
		     host_text(e->d_name + strlen(prefix), strlen(e->d_name) - strlen(prefix)));
		close(sub);
	}
	if (dir)
		closedir(dir);
}

/* Reads a number, decimal or hexadecimal with "0x". Returns false if it cannot be read. */
static bool number_at(int folder, const char *file, double *out)
{
	char text[64];
	struct host_text t = host_value_at(folder, file, text, sizeof(text));
	uint64_t v;

	if (!host_skip(&t, "0x"))
		return host_number(&t, out);
	if (!host_hex(&t, &v))
		return false;
	*out = (double)v;
	return true;
}

/* ---- interfaces ---- */

#define LINK(name, help, type, file_) HOST_DESC("node_network_" name, help, type, .file = (file_))
#define PROPERTY(name, type, file)    LINK(name, "Network device property: " name, type, file)

static const struct host_desc link_descs[] = {
	PROPERTY("address_assign_type", HOST_GAUGE, "addr_assign_type"),
	PROPERTY("carrier", HOST_GAUGE, "carrier"),
	PROPERTY("carrier_changes_total", HOST_COUNTER, "carrier_changes"),
	PROPERTY("carrier_up_changes_total", HOST_COUNTER, "carrier_up_count"),
	PROPERTY("carrier_down_changes_total", HOST_COUNTER, "carrier_down_count"),
	PROPERTY("device_id", HOST_GAUGE, "dev_id"),
	PROPERTY("dormant", HOST_GAUGE, "dormant"),
	PROPERTY("flags", HOST_GAUGE, "flags"),
	PROPERTY("iface_id", HOST_GAUGE, "ifindex"),
	PROPERTY("iface_link", HOST_GAUGE, "iflink"),
	PROPERTY("iface_link_mode", HOST_GAUGE, "link_mode"),
	PROPERTY("mtu_bytes", HOST_GAUGE, "mtu"),
	PROPERTY("name_assign_type", HOST_GAUGE, "name_assign_type"),
	PROPERTY("net_dev_group", HOST_GAUGE, "netdev_group"),
	PROPERTY("speed_bytes", HOST_GAUGE, "speed"),
	PROPERTY("transmit_queue_length", HOST_GAUGE, "tx_queue_len"),
	PROPERTY("protocol_type", HOST_GAUGE, "type"),
	LINK("receive_nohandler_total", "Network device statistic receive_nohandler.", HOST_COUNTER,
	     "statistics/rx_nohandler"),
	LINK("up", "Value is 1 if operstate is 'up', 0 otherwise.", HOST_GAUGE, NULL),
};
enum { LINK_SPEED = 14, LINK_NOHANDLER = 17, LINK_UP = 18 };

static const char *const device_key[] = {"device"};

static const struct host_desc link_info_descs[] = {
	GAUGE("network_info", "Non-numeric data from /sys/class/net/<iface>, value is always 1."),
};
static const char *const link_info_keys[] = {"device", "address",   "broadcast",
					     "duplex", "operstate", "ifalias"};

static void take_link(struct host_devices *d, int folder, struct host_text name)
{
	struct host_row *r = host_row(&d->link, &name);
	struct host_text v[HOST_LEN(link_info_keys)] = {name};
	char text[HOST_LEN(link_info_keys)][256];
	double n;

	for (size_t i = 0; r && i < LINK_UP; i++) {
		/* Leave out the loopback device, as for its other statistics. */
		if (i == LINK_NOHANDLER && host_is(name, "lo"))
			continue;
		/* Some files cannot be read while the interface is down. */
		if (!number_at(folder, link_descs[i].file, &n))
			host_unput(&d->link, r, i);
		/* converts Mbit/s to bytes/s */
		else
			host_put(&d->link, r, i, i == LINK_SPEED ? n * 1000 * 1000 / 8 : n);
	}
	for (size_t i = 1; i < HOST_LEN(v); i++)
		v[i] = host_value_at(folder, link_info_keys[i], text[i], sizeof(text[i]));
	host_put(&d->link, r, LINK_UP, host_is(v[4], "up"));
	host_put(&d->link_info, host_row(&d->link_info, v), 0, 1);
}

/* ---- disks ---- */

static const struct host_desc disk_info_descs[] = {
	GAUGE("disk_info", "Info of /sys/block/<block_device>."),
};
static const char *const disk_info_keys[] = {"device", "major", "minor",  "path",
					     "wwn",    "model", "serial", "revision"};
enum { DISK_PATH = 3 };

/* Parses udev's data about a disk, lines of the form "E:KEY=VALUE". */
static void take_udev(struct host_text t, struct host_text v[HOST_LEN(disk_info_keys)])
{
	static const char *const keys[] = {"ID_PATH", "ID_WWN", "ID_MODEL", "ID_SERIAL_SHORT",
					   "ID_REVISION"};
	struct host_text line, key;

	while (host_line(&t, &line)) {
		if (!host_skip(&line, "E:") || !host_until(&line, '=', &key))
			continue;
		for (size_t i = 0; i < HOST_LEN(keys); i++)
			if (host_is(key, keys[i]))
				v[DISK_PATH + i] = line;
	}
}

static void take_disks(struct host *h, struct host_devices *d)
{
	struct host_text t = host_contents(&h->source[HOST_DISKSTATS]), line;
	int udev = host_folder(h, "/run/udev/data");
	char text[16384], file[64];

	while (host_line(&t, &line)) {
		struct host_text v[HOST_LEN(disk_info_keys)];
		ssize_t n;

		for (size_t i = 0; i < HOST_LEN(v); i++)
			v[i] = host_text("", 0);
		v[1] = host_word(&line);
		v[2] = host_word(&line);
		v[0] = host_word(&line);
		if (!host_length(v[0]) || host_disk_ignored(v[0]))
			continue;
		if (host_length(v[1]) > 16 || host_length(v[2]) > 16)
			continue;
		snprintf(file, sizeof(file), "b%.*s:%.*s", (int)host_length(v[1]), v[1].p,
			 (int)host_length(v[2]), v[2].p);
		n = udev < 0 || strchr(file, '/') ? -1
						  : host_read_at(udev, file, text, sizeof(text));
		if (n > 0)
			take_udev(host_text(text, (size_t)n), v);
		host_put(&d->disk_info, host_row(&d->disk_info, v), 0, 1);
	}
	if (udev >= 0)
		close(udev);
	host_group_end(&d->disk_info);
}

/* ---- temperatures, frequencies ---- */

static const struct host_desc thermal_descs[] = {
	GAUGE("thermal_zone_temp", "Zone temperature in Celsius"),
};
static const char *const thermal_keys[] = {"zone", "type"};

static void take_thermal(struct host_devices *d, int folder, struct host_text name)
{
	char text[128];
	struct host_text type = host_value_at(folder, "type", text, sizeof(text));
	double v;

	if (number_at(folder, "temp", &v))
		host_put(&d->thermal, host_row(&d->thermal, (const struct host_text[]){name, type}),
			 0, v / 1000);
}

static const struct host_desc cooling_descs[] = {
	GAUGE("cooling_device_cur_state", "Current throttle state of the cooling device"),
	GAUGE("cooling_device_max_state", "Maximum throttle state of the cooling device"),
};
static const char *const cooling_keys[] = {"name", "type"};

static void take_cooling(struct host_devices *d, int folder, struct host_text name)
{
	char text[128];
	struct host_text type = host_value_at(folder, "type", text, sizeof(text));
	struct host_row *r;
	double now, max;

	if (!number_at(folder, "cur_state", &now) || !number_at(folder, "max_state", &max))
		return;
	r = host_row(&d->cooling, (const struct host_text[]){name, type});
	host_put(&d->cooling, r, 0, now);
	host_put(&d->cooling, r, 1, max);
}

#define FREQUENCY(name, which, file_)                                                             \
	HOST_DESC("node_cpu_" name "_hertz", which " CPU thread frequency in hertz.", HOST_GAUGE, \
		  .file = "cpufreq/" file_)

static const struct host_desc frequency_descs[] = {
	FREQUENCY("frequency", "Current", "cpuinfo_cur_freq"),
	FREQUENCY("frequency_min", "Minimum", "cpuinfo_min_freq"),
	FREQUENCY("frequency_max", "Maximum", "cpuinfo_max_freq"),
	FREQUENCY("scaling_frequency", "Current scaled", "scaling_cur_freq"),
	FREQUENCY("scaling_frequency_min", "Minimum scaled", "scaling_min_freq"),
	FREQUENCY("scaling_frequency_max", "Maximum scaled", "scaling_max_freq"),
};
static const char *const cpu_key[] = {"cpu"};

static void take_frequency(struct host_devices *d, int folder, struct host_text name)
{
	struct host_row *r = NULL;
	double v;

	if (name.p == name.end || *name.p < '0' || *name.p > '9')
		return; /* skips "cpufreq" and "cpuidle" */
	for (size_t i = 0; i < HOST_LEN(frequency_descs); i++) {
		if (!number_at(folder, frequency_descs[i].file, &v))
			continue;
		r = r ?: host_row(&d->frequency, &name);
		host_put(&d->frequency, r, i, v * 1000);
	}
}

/* ---- all ---- */

void host_devices_open(struct host *h, struct host_devices *d)
{
	host_group(h, &d->link, link_descs, HOST_LEN(link_descs), device_key, 1);
	host_group(h, &d->link_info, link_info_descs, 1, link_info_keys, HOST_LEN(link_info_keys));
	host_group(h, &d->disk_info, disk_info_descs, 1, disk_info_keys, HOST_LEN(disk_info_keys));
	host_group(h, &d->thermal, thermal_descs, 1, thermal_keys, 2);
	host_group(h, &d->cooling, cooling_descs, HOST_LEN(cooling_descs), cooling_keys, 2);
	host_group(h, &d->frequency, frequency_descs, HOST_LEN(frequency_descs), cpu_key, 1);
	host_rdma_open(h, &d->rdma);
}

void host_devices_slow(struct host *h, struct host_devices *d)
{
	struct host_group *const groups[] = {&d->link, &d->link_info, &d->thermal, &d->cooling,
					     &d->frequency};

	host_each_directory(h, "/sys/class/net", "", take_link, d);
	host_each_directory(h, "/sys/class/thermal", "thermal_zone", take_thermal, d);
	host_each_directory(h, "/sys/class/thermal", "cooling_device", take_cooling, d);
	host_each_directory(h, "/sys/devices/system/cpu", "cpu", take_frequency, d);
	take_disks(h, d);
	for (size_t i = 0; i < HOST_LEN(groups); i++)
		host_group_end(groups[i]);
}
