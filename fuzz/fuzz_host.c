// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_host.c - files of the kernel with any content, published. The first byte chooses the parser;
 * each reads the rest, then the first half of it, then the rest again.
 */
#include <linux/ethtool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "source/host/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct fuzz_scene {
	struct host h;
	struct host_container_values values;
};

static struct host_mounts *open_mounts(struct host *h)
{
	struct host_mounts *m = host_mounts_open(h);

	if (!m)
		abort();
	return m;
}

/* Takes the input as names of a driver's counters. */
static void parse_counters(struct host_group *g, struct host_text t)
{
	size_t n = host_length(t) / ETH_GSTRING_LEN;
	uint64_t *values = calloc(n ? n : 1, sizeof(*values));

	if (!values)
		abort();
	host_nic_parse(g, host_text_of("eth0"), t.p, values, n);
	free(values);
}

/* False: there is no such parser. */
static bool parse(struct fuzz_scene *s, uint8_t which, struct host_text t)
{
	struct host *h = &s->h;

	switch (which) {
	case 0:
		host_stat_parse(h, t);
		break;
	case 1:
		host_schedstat_parse(h, t);
		break;
	case 2:
		host_softnet_parse(h, t);
		break;
	case 3:
		host_meminfo_parse(h, t);
		break;
	case 4:
		host_vmstat_parse(h, t);
		break;
	case 5:
		host_loadavg_parse(h, t);
		break;
	case 6:
		host_pressure_put(h, 1, t);
		break;
	case 7:
		host_disk_parse(h, t);
		break;
	case 8:
		host_netdev_parse(h, t);
		break;
	case 9:
		host_netstat_parse(h, 0, t);
		break;
	case 10:
		host_snmp6_parse(h, t);
		break;
	case 11:
		host_sockstat_parse(h, t);
		break;
	case 12:
		host_filefd_parse(h, t);
		host_conntrack_parse(h, t);
		break;
	case 13:
		host_arp_parse(h, t);
		break;
	case 14:
		host_udp_parse(&h->kernel.udp, true, t);
		break;
	case 15:
		host_os_parse(&h->kernel, t);
		break;
	case 16:
		host_mounts_parse(h->mounts, t, t);
		break;
	case 254:
		parse_counters(&h->devices.rdma.nic, t);
		break;
	case 255:
		host_rdma_resources_parse(&h->devices.rdma.resources, t);
		break;
	default:
		if (which - 17u >= host_cgroup_file_count)
			return false;
		s->values.has = 0;
		s->values.io_count = 0;
		host_cgroup_files[which - 17u].parse(&s->values, t,
						     &host_cgroup_files[which - 17u]);
		if (s->values.io_count > HOST_IO_DEVICES)
			abort();
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_scene *s = calloc(1, sizeof(*s));
	struct host *h;
	char *text = malloc(bytes ? bytes : 1);

	if (!s || !text)
		abort();
	if (!bytes)
		goto out;
	h = &s->h;
	/* No path below it exists. */
	h->root = "/proc/self/fd/-1";
	h->publisher = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "fuzz",
						  .pod = "fuzz", .flags = SL_PUBLISHER_DETACHED,
						  .max_cells = 2048, .max_threads = 1));
	if (!h->publisher)
		abort();
	host_kernel_open(h, &h->kernel);
	host_rdma_open(h, &h->devices.rdma);
	h->mounts = open_mounts(h);
	/* A copy of exactly this size, so that reading beyond it is seen. */
	memcpy(text, data + 1, bytes - 1);
	if (parse(s, data[0], host_text(text, bytes - 1))) {
		char *half = malloc(bytes / 2 + 1);

		if (!half)
			abort();
		memcpy(half, text, (bytes - 1) / 2);
		parse(s, data[0], host_text(half, (bytes - 1) / 2));
		free(half);
		parse(s, data[0], host_text(text, bytes - 1));
	}
	host_parsers_free(h);
	host_mounts_close(h->mounts);
	sl_publisher_close(h->publisher);
out:
	free(text);
	free(s);
	return 0;
}
