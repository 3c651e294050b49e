/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/network.h"
#include "fabric/rdma.h"

#define GIDS_MAX 1024

/*
 * Finds a device, and opens it into *verbs unless NULL. Returns 0, or -errno and one line in error.
 */
static int find_device(const char *name, struct ibv_context **verbs, char *error, size_t bytes)
{
	char names[128] = "";
	int count = 0, err = -ENODEV;
	struct ibv_device **list = ibv_get_device_list(&count);

	for (int i = 0; i < count; i++) {
		const char *have = ibv_get_device_name(list[i]);
		size_t used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", have);
		if (name && strcmp(have, name))
			continue;
		err = 0;
		if (verbs && !*verbs)
			*verbs = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	if (!err && verbs && !*verbs)
		return base_fail(error, bytes, -ENODEV, "%s: cannot open: %s",
				 name ? name : "RDMA device", strerror(errno));
	if (!err)
		return 0;
	if (count)
		return base_fail(error, bytes, err, "no RDMA device '%s' (available: %s)", name,
				 names);
	if (name)
		return base_fail(error, bytes, err,
				 "no RDMA device '%s': this machine has no RDMA device", name);
	return base_fail(error, bytes, err, "this machine has no RDMA device");
}

int fabric_rdma_find(const char *name, char *error, size_t error_bytes)
{
	return find_device(name, NULL, error, error_bytes);
}

static bool is_v4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw);
}

static bool is_link_local(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid->raw);
}

static void gid_to_address(const struct ibv_gid_entry *e, struct sockaddr_storage *address)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

	memset(address, 0, sizeof(*address));
	if (is_v4(&e->gid)) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, e->gid.raw + 12, 4);
		return;
	}
	v6->sin6_family = AF_INET6;
	memcpy(&v6->sin6_addr, e->gid.raw, 16);
	if (is_link_local(&e->gid))
		v6->sin6_scope_id = e->ndev_ifindex;
}

/* Ranks a GID if none was requested; 0 means unusable. */
static int rank_gid(const struct ibv_gid_entry *e, int family)
{
	if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	if (family != AF_UNSPEC && (family == AF_INET) != is_v4(&e->gid))
		return 0;
	return is_v4(&e->gid) ? 3 : is_link_local(&e->gid) ? 1 : 2;
}

int fabric_rdma_gid_address(const char *name, int ib_port, int gid_index, int family,
			    struct sockaddr_storage *address, char *error, size_t error_bytes)
{
	struct ibv_gid_entry *table, *best = NULL;
	struct ibv_context *verbs = NULL;
	const char *device;
	ssize_t count;
	int err = find_device(name, &verbs, error, error_bytes);

	if (err)
		return err;
	device = ibv_get_device_name(verbs->device);
	table = calloc(GIDS_MAX, sizeof(*table));
	count = table ? ibv_query_gid_table(verbs, table, GIDS_MAX, 0) : -ENOMEM;
	for (ssize_t i = 0; i < count; i++) {
		struct ibv_gid_entry *e = &table[i];

		if ((int)e->port_num != ib_port)
			continue;
		if (gid_index >= 0 ? (int)e->gid_index == gid_index
				   : rank_gid(e, family) > (best ? rank_gid(best, family) : 0))
			best = e;
	}
	if (count < 0)
		err = base_fail(error, error_bytes, (int)count, "cannot read the GIDs of %s: %s",
				device, strerror((int)-count));
	else if (!best && gid_index >= 0)
		err = base_fail(error, error_bytes, -ENODEV, "%s has no GID %d on port %d", device,
				gid_index, ib_port);
	else if (!best)
		err = base_fail(
			error, error_bytes, -EADDRNOTAVAIL,
			"%s has no RoCEv2 GID on port %d (does its network device have an address?)",
			device, ib_port);
	else if (best->gid_type == IBV_GID_TYPE_IB)
		err = base_fail(error, error_bytes, -EINVAL,
				"GID %d of %s is an InfiniBand GID, without an IP address",
				gid_index, device);
	else if (family != AF_UNSPEC && (family == AF_INET) != is_v4(&best->gid))
		err = base_fail(error, error_bytes, -EINVAL,
				"GID %d of %s has a different address family", gid_index, device);
	else
		gid_to_address(best, address);
	free(table);
	ibv_close_device(verbs);
	return err;
}

int fabric_rdma_gid_of(struct ibv_context *verbs, int ib_port, const struct sockaddr *address,
		       union ibv_gid *gid)
{
	struct ibv_gid_entry *table = calloc(GIDS_MAX, sizeof(*table));
	ssize_t count = table ? ibv_query_gid_table(verbs, table, GIDS_MAX, 0) : 0;
	uint16_t port;
	const struct in6_addr at = base_mapped_of(address, &port);
	int index = -1;

	for (ssize_t i = 0; i < count && index < 0; i++)
		if ((int)table[i].port_num == ib_port &&
		    table[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !memcmp(table[i].gid.raw, &at, sizeof(at))) {
			index = (int)table[i].gid_index;
			*gid = table[i].gid;
		}
	free(table);
	return index;
}

void fabric_rdma_forget_lost(void)
{
	struct ibv_context **devices = rdma_get_devices(NULL);

	if (devices)
		rdma_free_devices(devices);
}

int fabric_rdma_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}
