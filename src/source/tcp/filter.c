// SPDX-License-Identifier: Apache-2.0
/* filter.c - resolves the ports, prefixes, cgroups and namespaces of a filter. */
#include "source/tcp/filter.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/tcp/cgroup.h"
#include "source/tcp/util.h"
#include "base/base.h"
#include "base/network.h"

#define SAMPLE_MAX 20

static int report_invalid(char *why, size_t bytes, const char *what, const char *value)
{
	return base_fail(why, bytes, -EINVAL, "'%s' is not a valid %s", value, what);
}

static int add_ports(struct tcp_kernel_filter *f, const char *s)
{
	const char *dash = strchr(s, '-');
	uint64_t from, to;
	char first[8];

	if (dash) {
		snprintf(first, sizeof(first), "%.*s", (int)(dash - s), s);
		if (dash - s > 5 || base_parse_u64(first, 1, 65535, &from) ||
		    base_parse_u64(dash + 1, from, 65535, &to))
			return -EINVAL;
	} else {
		if (base_parse_u64(s, 1, 65535, &from))
			return -EINVAL;
		to = from;
	}
	for (uint64_t p = from; p <= to; p++)
		f->ports[p >> 6] |= 1ull << (p & 63);
	return 0;
}

static int parse_cidr(const char *s, struct tcp_cidr_key *key)
{
	struct base_network n = {.prefix = 0};
	int err = base_network_parse(s, strlen(s), &n);

	memset(key, 0, sizeof(*key));
	memcpy(key->address, &n.address, sizeof(key->address));
	key->prefix = n.prefix;
	return err;
}

/* A cgroup's id is the inode number of its directory. */
static int parse_cgroup(const char *s, uint64_t *id)
{
	struct stat st;
	int root, err;

	if (!base_parse_u64(s, 1, UINT64_MAX, id))
		return 0;
	root = tcp_cgroup2_open();
	if (root < 0)
		return root;
	while (*s == '/')
		s++;
	err = fstatat(root, *s ? s : ".", &st, 0) ? -errno : 0;
	close(root);
	if (!err && !S_ISDIR(st.st_mode))
		err = -ENOTDIR;
	if (!err)
		*id = st.st_ino;
	return err;
}

static int parse_netns(const char *s, uint32_t *inode)
{
	uint64_t number;
	struct stat st;

	if (!base_parse_u64(s, 1, UINT32_MAX, &number)) {
		*inode = (uint32_t)number;
		return 0;
	}
	if (stat(s, &st))
		return -errno;
	*inode = (uint32_t)st.st_ino;
	return 0;
}

static void empty_map(int fd, void *next)
{
	while (!bpf_map_get_next_key(fd, NULL, next) && !bpf_map_delete_elem(fd, next))
		;
}

/* Fills in f except .generation; updates no map. Returns 0, or -EINVAL with a line in why[]. */
static int parse_filter(const struct tcp_filter *w, struct tcp_kernel_filter *f, char *why,
			size_t bytes)
{
	struct tcp_cidr_key cidr;
	uint64_t cgroup;

	if (w->sample > SAMPLE_MAX)
		return base_fail(why, bytes, -EINVAL,
				 "cannot sample one flow in 2^%u: the limit is 2^%u", w->sample,
				 SAMPLE_MAX);
	memset(f, 0, sizeof(*f));
	f->sample_mask = (1u << w->sample) - 1;
	f->pid = w->pid;
	for (size_t i = 0; i < w->ports.n; i++)
		if (add_ports(f, w->ports.v[i]))
			return report_invalid(why, bytes, "port or port range", w->ports.v[i]);
	for (size_t i = 0; i < w->cidrs.n; i++)
		if (parse_cidr(w->cidrs.v[i], &cidr))
			return report_invalid(why, bytes, "address or prefix", w->cidrs.v[i]);
	for (size_t i = 0; i < w->cgroups.n; i++)
		if (parse_cgroup(w->cgroups.v[i], &cgroup))
			return report_invalid(why, bytes, "cgroup here", w->cgroups.v[i]);
	if (w->netns && parse_netns(w->netns, &f->netns))
		return report_invalid(why, bytes, "network namespace", w->netns);
	f->by_port = w->ports.n > 0;
	f->by_cidr = w->cidrs.n > 0;
	f->by_cgroup = w->cgroups.n > 0;
	return 0;
}

int tcp_filter_check(const struct tcp_filter *filter, char *why, size_t bytes)
{
	struct tcp_kernel_filter f;

	return parse_filter(filter, &f, why, bytes);
}

static int fill_maps(const struct tcp_filter *w, int cidrs_fd, int cgroups_fd, char *why,
		     size_t bytes)
{
	const uint8_t one = 1;
	struct tcp_cidr_key cidr;
	uint64_t cgroup;

	empty_map(cidrs_fd, &cidr);
	empty_map(cgroups_fd, &cgroup);
	for (size_t i = 0; i < w->cidrs.n; i++)
		if (parse_cidr(w->cidrs.v[i], &cidr) ||
		    bpf_map_update_elem(cidrs_fd, &cidr, &one, BPF_ANY))
			return report_invalid(why, bytes, "prefix, or there are too many",
					      w->cidrs.v[i]);
	for (size_t i = 0; i < w->cgroups.n; i++)
		if (parse_cgroup(w->cgroups.v[i], &cgroup) ||
		    bpf_map_update_elem(cgroups_fd, &cgroup, &one, BPF_ANY))
			return report_invalid(why, bytes, "cgroup, or there are too many",
					      w->cgroups.v[i]);
	return 0;
}

int tcp_filter_map(int map_fd, struct tcp_kernel_filter **out)
{
	void *map = mmap(NULL, sizeof(**out), PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	*out = map;
	return 0;
}

void tcp_filter_unmap(struct tcp_kernel_filter *mapped)
{
	if (mapped)
		munmap(mapped, sizeof(*mapped));
}

int tcp_filter_set(struct tcp_kernel_filter *mapped, const struct tcp_filter *w, int cidrs_fd,
		   int cgroups_fd, char *why, size_t bytes)
{
	struct tcp_kernel_filter f;
	/* Validate the whole filter before changing anything. */
	int err = parse_filter(w, &f, why, bytes) ?: fill_maps(w, cidrs_fd, cgroups_fd, why, bytes);

	if (err)
		return err;
	f.generation = mapped->generation;
	memcpy(mapped, &f, sizeof(f));
	/* Update the generation last: a program that sees the new one applies the new filter. */
	__atomic_store_n(&mapped->generation, f.generation + 1, __ATOMIC_RELEASE);
	return 0;
}
