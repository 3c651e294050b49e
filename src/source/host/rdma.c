// SPDX-License-Identifier: Apache-2.0
/*
 * rdma.c - reads RDMA devices and their ports from /sys/class/infiniband (Linux,
 * Documentation/ABI/stable/sysfs-class-infiniband). Devices may ask their firmware for each file.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "source/host/internal.h"

#define NAME_BYTES_MAX	64u
#define DIGITS_MAX	20u  /* of 64 bits */
#define HW_COUNTERS_MAX 256u /* per port */

/* ---- what is published ---- */

static const struct host_desc info_descs[] = {
	HOST_DESC("node_infiniband_info",
		  "Non-numeric data from /sys/class/infiniband/<device>, value is always 1.",
		  HOST_GAUGE),
};
static const char *const info_keys[] = {"device", "board_id", "firmware_version", "hca_type"};
static const char *const info_files[] = {NULL, "board_id", "fw_ver", "hca_type"};

/* Data is counted in units of four bytes. */
#define COUNTER(name, file_, unit_, help)                                                \
	HOST_DESC("node_infiniband_" name "_total", help, HOST_COUNTER, .file = (file_), \
		  .unit = (unit_))

enum { STATE, PHYSICAL_STATE, RATE, WIDTH, COUNTERS };

static const struct host_desc port_descs[] = {
	HOST_DESC("node_infiniband_state_id",
		  "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, "
		  "4: active, 5: act defer)",
		  HOST_GAUGE),
	HOST_DESC("node_infiniband_physical_state_id",
		  "Physical state of the InfiniBand port (0: no change, 1: sleep, 2: polling, "
		  "3: disable, 4: shift, 5: link up, 6: link error recover, 7: phytest)",
		  HOST_GAUGE),
	HOST_DESC("node_infiniband_rate_bytes_per_second", "Maximum signal transfer rate",
		  HOST_GAUGE),
	HOST_DESC("sidelight_rdma_link_width", "Lanes of the port's link.", HOST_GAUGE),
	COUNTER("excessive_buffer_overrun_errors", "counters/excessive_buffer_overrun_errors", 1,
		"Number of times that OverrunErrors consecutive flow control update periods "
		"occurred, each having at least one overrun error."),
	COUNTER("link_downed", "counters/link_downed", 1,
		"Number of times the link failed to recover from an error state and went down"),
	COUNTER("link_error_recovery", "counters/link_error_recovery", 1,
		"Number of times the link successfully recovered from an error state"),
	COUNTER("local_link_integrity_errors", "counters/local_link_integrity_errors", 1,
		"Number of times that the count of local physical errors exceeded the threshold "
		"specified by LocalPhyErrors."),
	COUNTER("multicast_packets_received", "counters/multicast_rcv_packets", 1,
		"Number of multicast packets received (including errors)"),
	COUNTER("multicast_packets_transmitted", "counters/multicast_xmit_packets", 1,
		"Number of multicast packets transmitted (including errors)"),
	COUNTER("port_constraint_errors_received", "counters/port_rcv_constraint_errors", 1,
		"Number of packets received on the switch physical port that are discarded"),
	COUNTER("port_constraint_errors_transmitted", "counters/port_xmit_constraint_errors", 1,
		"Number of packets not transmitted from the switch physical port"),
	COUNTER("port_data_received_bytes", "counters/port_rcv_data", 4,
		"Number of data octets received on all links"),
	COUNTER("port_data_transmitted_bytes", "counters/port_xmit_data", 4,
		"Number of data octets transmitted on all links"),
	COUNTER("port_discards_received", "counters/port_rcv_discards", 1,
		"Number of inbound packets discarded by the port because the port is down or "
		"congested"),
	COUNTER("port_discards_transmitted", "counters/port_xmit_discards", 1,
		"Number of outbound packets discarded by the port because the port is down or "
		"congested"),
	COUNTER("port_errors_received", "counters/port_rcv_errors", 1,
		"Number of packets containing an error that were received on this port"),
	COUNTER("port_packets_received", "counters/port_rcv_packets", 1,
		"Number of packets received on all VLs by this port (including errors)"),
	COUNTER("port_packets_transmitted", "counters/port_xmit_packets", 1,
		"Number of packets transmitted on all VLs from this port (including errors)"),
	COUNTER("port_receive_remote_physical_errors", "counters/port_rcv_remote_physical_errors",
		1,
		"Number of packets marked with the EBP (End of Bad Packet) delimiter received on "
		"the port."),
	COUNTER("port_receive_switch_relay_errors", "counters/port_rcv_switch_relay_errors", 1,
		"Number of packets that could not be forwarded by the switch."),
	COUNTER("port_transmit_wait", "counters/port_xmit_wait", 1,
		"Number of ticks during which the port had data to transmit but no data was sent "
		"during the entire tick"),
	COUNTER("symbol_error", "counters/symbol_error", 1,
		"Number of minor link errors detected on one or more physical lanes."),
	COUNTER("unicast_packets_received", "counters/unicast_rcv_packets", 1,
		"Number of unicast packets received (including errors)"),
	COUNTER("unicast_packets_transmitted", "counters/unicast_xmit_packets", 1,
		"Number of unicast packets transmitted (including errors)"),
	COUNTER("vl15_dropped", "counters/VL15_dropped", 1,
		"Number of incoming VL15 packets dropped due to resource limitations."),
	COUNTER("legacy_multicast_packets_received", "counters_ext/port_multicast_rcv_packets", 1,
		"Number of multicast packets received"),
	COUNTER("legacy_multicast_packets_transmitted", "counters_ext/port_multicast_xmit_packets",
		1, "Number of multicast packets transmitted"),
	COUNTER("legacy_data_received_bytes", "counters_ext/port_rcv_data_64", 4,
		"Number of data octets received on all links"),
	COUNTER("legacy_data_transmitted_bytes", "counters_ext/port_xmit_data_64", 4,
		"Number of data octets transmitted on all links"),
	COUNTER("legacy_packets_received", "counters_ext/port_rcv_packets_64", 1,
		"Number of data packets received on all links"),
	COUNTER("legacy_packets_transmitted", "counters_ext/port_xmit_packets_64", 1,
		"Number of data packets received on all links"),
	COUNTER("legacy_unicast_packets_received", "counters_ext/port_unicast_rcv_packets", 1,
		"Number of unicast packets received"),
	COUNTER("legacy_unicast_packets_transmitted", "counters_ext/port_unicast_xmit_packets", 1,
		"Number of unicast packets transmitted"),
};

static const struct host_desc port_info_descs[] = {
	HOST_DESC("sidelight_rdma_port_info",
		  "Link layer, speed and network interface of a port; the value is always 1.",
		  HOST_GAUGE),
};
static const char *const port_info_keys[] = {"device", "port", "link_layer", "speed", "interface"};
enum { LINK_LAYER = 2, SPEED, INTERFACE };

static const struct host_desc hw_descs[] = {
	HOST_DESC("sidelight_rdma_hw_counter_total",
		  "Counters of the driver: the files of hw_counters.", HOST_COUNTER),
};
static const struct host_desc resource_descs[] = {
	HOST_DESC("sidelight_rdma_resources",
		  "RDMA objects in use by all processes and by the kernel.", HOST_GAUGE),
};
static const struct host_desc nic_descs[] = {
	HOST_DESC("sidelight_nic_counter_total",
		  "Counters of the driver for pause frames, priorities, drops and ECN.",
		  HOST_COUNTER),
};
static const char *const counter_keys[] = {"device", "port", "counter"};
static const char *const resource_keys[] = {"device", "kind"};
static const char *const nic_keys[] = {"device", "counter"};

/* ---- files ---- */

bool host_counter_name(struct host_text name)
{
	if (!host_length(name) || host_length(name) > NAME_BYTES_MAX)
		return false;
	for (; name.p < name.end; name.p++)
		if (!(*name.p >= 'a' && *name.p <= 'z') && !(*name.p >= 'A' && *name.p <= 'Z') &&
		    !(*name.p >= '0' && *name.p <= '9') && *name.p != '_')
			return false;
	return true;
}

/* Reads a file that consists of a number. Drivers without a counter write "N/A (no PMA)". */
static bool count_at(int folder, const char *file, double *out)
{
	char text[64];
	struct host_text t = host_value_at(folder, file, text, sizeof(text));
	uint64_t v;

	if (host_length(t) > DIGITS_MAX || !host_u64(&t, &v) || t.p != t.end)
		return false;
	*out = (double)v;
	return true;
}

static void put_or_remove(struct host_group *g, struct host_row *r, size_t i, bool has, double v)
{
	if (has)
		host_put(g, r, i, v);
	else
		host_unput(g, r, i);
}

/* Puts the number of a state such as "4: ACTIVE". */
static void put_state(struct host_group *g, struct host_row *r, size_t i, int folder,
		      const char *file)
{
	char text[64];
	struct host_text t = host_value_at(folder, file, text, sizeof(text)), id;
	uint64_t v = 0;
	bool has = host_until(&t, ':', &id) && host_u64(&id, &v) && id.p == id.end;

	put_or_remove(g, r, i, has, (double)v);
}

/* Parses a rate such as "100 Gb/sec (4X EDR)". Returns the speed, "EDR". */
static struct host_text put_rate(struct host_group *g, struct host_row *r, struct host_text t)
{
	struct host_text rest, speed = host_text(NULL, 0);
	double rate = 0;
	uint64_t width = 0;
	bool has = host_number(&t, &rate) && host_starts(t, " Gb/sec");

	put_or_remove(g, r, RATE, has, rate * 125e6);
	has = has && host_until(&t, '(', &rest) && host_u64(&t, &width) && host_skip(&t, "X ");
	put_or_remove(g, r, WIDTH, has, (double)width);
	if (has)
		host_until(&t, ')', &speed);
	return speed;
}

/* ---- ports ---- */

/* The port is empty for counters of the device. */
static void take_hw_counters(struct host_rdma *d, int folder, struct host_text port)
{
	int sub = openat(folder, "hw_counters", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = sub < 0 ? NULL : fdopendir(sub);
	struct dirent *e;
	double v;

	if (!dir && sub >= 0)
		close(sub);
	for (size_t n = 0; dir && n < HW_COUNTERS_MAX && (e = readdir(dir)); n++) {
		struct host_text name = host_text_of(e->d_name);

		/* "lifespan" is for how long the driver caches its counters. */
		if (!host_counter_name(name) || host_is(name, "lifespan") ||
		    !count_at(sub, e->d_name, &v))
			continue;
		host_put(&d->hw,
			 host_row(&d->hw, (const struct host_text[]){d->device, port, name}), 0, v);
	}
	if (dir)
		closedir(dir);
}

static void take_port(struct host_devices *all, int folder, struct host_text name)
{
	struct host_rdma *d = &all->rdma;
	struct host_text v[HOST_LEN(port_info_keys)] = {d->device, name}, number = name;
	char rate[64], layer[64], interface[64];
	struct host_row *r;
	uint64_t port;
	double n = 0;

	if (!host_u64(&number, &port) || number.p != number.end)
		return;
	r = host_row(&d->port, v);
	if (!r)
		return;
	put_state(&d->port, r, STATE, folder, "state");
	put_state(&d->port, r, PHYSICAL_STATE, folder, "phys_state");
	v[SPEED] = put_rate(&d->port, r, host_value_at(folder, "rate", rate, sizeof(rate)));
	for (size_t i = COUNTERS; i < HOST_LEN(port_descs); i++) {
		bool has = count_at(folder, port_descs[i].file, &n);

		put_or_remove(&d->port, r, i, has, n * port_descs[i].unit);
	}
	take_hw_counters(d, folder, name);
	v[LINK_LAYER] = host_value_at(folder, "link_layer", layer, sizeof(layer));
	/* The interface of the first GID is the port's; those of others may be VLANs. */
	v[INTERFACE] = host_value_at(folder, "gid_attrs/ndevs/0", interface, sizeof(interface));
	host_put(&d->port_info, host_row(&d->port_info, v), 0, 1);
	host_nic_read(&d->nic, v[INTERFACE]);
}

static void take_device(struct host_devices *all, int folder, struct host_text name)
{
	struct host_rdma *d = &all->rdma;
	struct host_text v[HOST_LEN(info_keys)] = {name};
	char text[HOST_LEN(info_keys)][128], path[512];

	for (size_t i = 1; i < HOST_LEN(v); i++)
		v[i] = host_value_at(folder, info_files[i], text[i], sizeof(text[i]));
	host_put(&d->info, host_row(&d->info, v), 0, 1);
	d->device = name;
	take_hw_counters(d, folder, host_text(NULL, 0));
	snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/ports", (int)host_length(name),
		 name.p);
	host_each_directory(d->info.h, path, "", take_port, all);
}

/* ---- all ---- */

void host_rdma_open(struct host *h, struct host_rdma *d)
{
	host_group(h, &d->info, info_descs, 1, info_keys, HOST_LEN(info_keys));
	host_group(h, &d->port, port_descs, HOST_LEN(port_descs), port_info_keys, 2);
	host_group(h, &d->port_info, port_info_descs, 1, port_info_keys, HOST_LEN(port_info_keys));
	host_group(h, &d->hw, hw_descs, 1, counter_keys, HOST_LEN(counter_keys));
	d->hw.skip_empty = true;
	host_group(h, &d->resources, resource_descs, 1, resource_keys, HOST_LEN(resource_keys));
	host_group(h, &d->nic, nic_descs, 1, nic_keys, HOST_LEN(nic_keys));
}

void host_rdma_second(struct host *h, struct host_devices *all)
{
	struct host_rdma *d = &all->rdma;
	struct host_group *const groups[] = {&d->info, &d->port,      &d->port_info,
					     &d->hw,   &d->resources, &d->nic};

	host_each_directory(h, "/sys/class/infiniband", "", take_device, all);
	/* Without devices, opening the socket could make the kernel load modules. */
	if (d->info.count)
		host_rdma_resources_read(&d->resources);
	for (size_t i = 0; i < HOST_LEN(groups); i++)
		host_group_end(groups[i]);
}
