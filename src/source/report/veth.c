// SPDX-License-Identifier: Apache-2.0
/*
 * veth.c - creates a veth pair by rtnetlink(7). To do so, the thread temporarily enters the far
 * end's network namespace.
 */
#include "source/report/veth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "source/report/netlink.h"

#define FAR "slr-far" /* no other interface shares its namespace, so the name is fixed */

struct report_veth {
	/*
	 * descriptors of this namespace and of the far end's, which disappears when its descriptor
	 * is closed
	 */
	int home, there;
	int xdp;		/* link of the far end's XDP program */
	unsigned int near, far; /* interface indices of both ends */
};

/* Creates the pair: the far end in the current namespace, the near end in namespace home. */
static int make_pair(const char *near, int home)
{
	struct ifinfomsg link = {.ifi_family = AF_UNSPEC};
	struct rtattr *info, *data, *peer;
	union report_request r;

	report_request_begin(&r, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof(link));
	report_request_put(&r, IFLA_IFNAME, FAR, sizeof(FAR));
	info = report_request_put(&r, IFLA_LINKINFO, NULL, 0);
	report_request_put(&r, IFLA_INFO_KIND, "veth", 4);
	data = report_request_put(&r, IFLA_INFO_DATA, NULL, 0);
	peer = report_request_put(&r, VETH_INFO_PEER, &link, sizeof(link));
	report_request_put(&r, IFLA_IFNAME, near, strlen(near) + 1);
	report_request_put(&r, IFLA_NET_NS_FD, &home, sizeof(home));
	report_request_end(&r, peer);
	report_request_end(&r, data);
	report_request_end(&r, info);
	return report_netlink_ask(-1, &r, NULL, NULL);
}

static int bring_up(unsigned int index)
{
	struct ifinfomsg link = {.ifi_family = AF_UNSPEC,
				 .ifi_index = (int)index,
				 .ifi_flags = IFF_UP,
				 .ifi_change = IFF_UP};
	union report_request r;

	report_request_begin(&r, RTM_NEWLINK, 0, &link, sizeof(link));
	return report_netlink_ask(-1, &r, NULL, NULL);
}

static int add_address(unsigned int index, struct in_addr address, uint8_t prefix)
{
	struct ifaddrmsg a = {.ifa_family = AF_INET,
			      .ifa_prefixlen = prefix,
			      .ifa_scope = RT_SCOPE_LINK,
			      .ifa_index = index};
	union report_request r;

	report_request_begin(&r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &a, sizeof(a));
	report_request_put(&r, IFA_LOCAL, &address, sizeof(address));
	report_request_put(&r, IFA_ADDRESS, &address, sizeof(address));
	return report_netlink_ask(-1, &r, NULL, NULL);
}

static int move_to(int namespace)
{
	return setns(namespace, CLONE_NEWNET) ? -errno : 0;
}

/* Creates the far end's namespace, and the pair inside it. Returns 0 or -errno. */
static int make_far_end(struct report_veth *v, const char *near)
{
	int err, back;

	if (unshare(CLONE_NEWNET))
		return -errno;
	v->there = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	err = v->there < 0 ? -errno : make_pair(near, v->home);
	if (!err) {
		v->far = if_nametoindex(FAR);
		err = bring_up(v->far);
	}
	back = move_to(v->home);
	return err ?: back;
}

struct report_veth *report_veth_open(const char *near)
{
	struct report_veth *v = calloc(1, sizeof(*v));
	int err;

	if (!v)
		return NULL;
	v->there = v->xdp = -1;
	v->home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	err = v->home < 0 ? -errno : make_far_end(v, near);
	if (!err) {
		v->near = if_nametoindex(near);
		err = v->near ? bring_up(v->near) : -errno;
	}
	if (err) {
		report_veth_close(v);
		errno = -err;
		return NULL;
	}
	return v;
}

void report_veth_close(struct report_veth *v)
{
	if (!v)
		return;
	if (v->xdp >= 0)
		close(v->xdp);
	if (v->there >= 0)
		close(v->there);
	if (v->home >= 0)
		close(v->home);
	free(v);
}

unsigned int report_veth_near(const struct report_veth *v)
{
	return v->near;
}

int report_veth_far_xdp(struct report_veth *v, int prog_fd)
{
	int err = move_to(v->there);

	if (err)
		return err;
	v->xdp = bpf_link_create(prog_fd, (int)v->far, BPF_XDP, NULL);
	err = move_to(v->home);
	return v->xdp < 0 ? v->xdp : err;
}

/* Must be called in the far end's namespace: a socket belongs to the namespace of its creation. */
static int far_socket(const struct sockaddr_in *bound, const struct sockaddr_in *peer)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd >= 0 && !bind(fd, (const struct sockaddr *)bound, sizeof(*bound)) &&
	    !connect(fd, (const struct sockaddr *)peer, sizeof(*peer)))
		return fd;
	err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

int report_veth_addresses(struct report_veth *v, struct in_addr near, struct in_addr far,
			  uint8_t prefix, uint16_t bound, uint16_t peer)
{
	const struct sockaddr_in from = {
		.sin_family = AF_INET, .sin_addr = far, .sin_port = htons(bound)};
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_addr = near, .sin_port = htons(peer)};
	int fd, err = add_address(v->near, near, prefix) ?: move_to(v->there);

	if (err)
		return err;
	fd = add_address(v->far, far, prefix) ?: far_socket(&from, &to);
	err = move_to(v->home);
	if (err && fd >= 0)
		close(fd);
	return err ?: fd;
}
