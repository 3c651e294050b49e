// SPDX-License-Identifier: Apache-2.0
/* veth.c - by rtnetlink(7), in a thread with its own network namespace */
#include "source/report/veth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>

#define FAR "slr-far" /* alone in its namespace */

struct report_veth {
	char name[IF_NAMESIZE];
	pthread_t thread;
	sem_t wanted, done; /* wanted: `order` is set for the thread */
	enum { ORDER_XDP, ORDER_SOCKET, ORDER_END } order;
	int prog_fd, link_fd, result, home; /* home: our own namespace */
	struct sockaddr_in bound, peer;	    /* of the socket */
	uint8_t prefix;
	unsigned int near;
};

/* A netlink request being built. */
union request {
	struct nlmsghdr h;
	char bytes[1024];
};

static void begin(union request *r, uint16_t type, uint16_t flags, const void *body, size_t bytes)
{
	memset(r, 0, sizeof(*r));
	r->h.nlmsg_len = (uint32_t)NLMSG_LENGTH(bytes);
	r->h.nlmsg_type = type;
	r->h.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	memcpy(NLMSG_DATA(&r->h), body, bytes);
}

static struct rtattr *put(union request *r, uint16_t type, const void *data, size_t bytes)
{
	struct rtattr *a = (struct rtattr *)(r->bytes + NLMSG_ALIGN(r->h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(bytes);
	if (bytes)
		memcpy(RTA_DATA(a), data, bytes);
	r->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->h.nlmsg_len) + RTA_ALIGN(a->rta_len));
	return a;
}

static void end(union request *r, struct rtattr *nest)
{
	nest->rta_len = (uint16_t)(r->bytes + r->h.nlmsg_len - (char *)nest);
}

/* Sends the request. 0 or -errno. */
static int send_request(union request *r)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), err;
	char answer[4096] __attribute__((aligned(8)));
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	const struct nlmsgerr *e;
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (send(fd, r, r->h.nlmsg_len, 0) < 0 || (n = recv(fd, answer, sizeof(answer), 0)) < 0) {
		err = -errno;
	} else if ((size_t)n < NLMSG_LENGTH(sizeof(*e)) || h->nlmsg_type != NLMSG_ERROR) {
		err = -EPROTO;
	} else {
		e = NLMSG_DATA(h);
		err = e->error;
	}
	close(fd);
	return err;
}

/* Makes the pair: far end in this namespace, near end in home. */
static int make_pair(const struct report_veth *v)
{
	struct ifinfomsg link = {.ifi_family = AF_UNSPEC};
	struct rtattr *info, *data, *peer;
	union request r;
	int home = v->home;

	begin(&r, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof(link));
	put(&r, IFLA_IFNAME, FAR, sizeof(FAR));
	info = put(&r, IFLA_LINKINFO, NULL, 0);
	put(&r, IFLA_INFO_KIND, "veth", 4);
	data = put(&r, IFLA_INFO_DATA, NULL, 0);
	peer = put(&r, VETH_INFO_PEER, &link, sizeof(link));
	put(&r, IFLA_IFNAME, v->name, strlen(v->name) + 1);
	put(&r, IFLA_NET_NS_FD, &home, sizeof(home));
	end(&r, peer);
	end(&r, data);
	end(&r, info);
	return send_request(&r);
}

static int bring_up(unsigned int index)
{
	struct ifinfomsg link = {.ifi_family = AF_UNSPEC,
				 .ifi_index = (int)index,
				 .ifi_flags = IFF_UP,
				 .ifi_change = IFF_UP};
	union request r;

	begin(&r, RTM_NEWLINK, 0, &link, sizeof(link));
	return send_request(&r);
}

static int add_address(unsigned int index, struct in_addr address, uint8_t prefix)
{
	struct ifaddrmsg a = {.ifa_family = AF_INET,
			      .ifa_prefixlen = prefix,
			      .ifa_scope = RT_SCOPE_LINK,
			      .ifa_index = index};
	union request r;

	begin(&r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &a, sizeof(a));
	put(&r, IFA_LOCAL, &address, sizeof(address));
	put(&r, IFA_ADDRESS, &address, sizeof(address));
	return send_request(&r);
}

/* A socket belongs to the namespace it was made in. */
static int far_socket(const struct report_veth *v, unsigned int index)
{
	int err = add_address(index, v->bound.sin_addr, v->prefix), fd;

	if (err)
		return err;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (!bind(fd, (const struct sockaddr *)&v->bound, sizeof(v->bound)) &&
	    !connect(fd, (const struct sockaddr *)&v->peer, sizeof(v->peer)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* The thread that keeps the far end's namespace. */
static void *far_end(void *arg)
{
	struct report_veth *v = arg;
	unsigned int index = 0;

	if (unshare(CLONE_NEWNET))
		v->result = -errno;
	else
		v->result = make_pair(v);
	if (!v->result) {
		index = if_nametoindex(FAR);
		v->result = bring_up(index);
	}
	for (;;) {
		sem_post(&v->done);
		while (sem_wait(&v->wanted))
			;
		if (v->order == ORDER_END)
			break;
		if (v->order == ORDER_SOCKET) {
			v->result = far_socket(v, index);
			continue;
		}
		v->link_fd = bpf_link_create(v->prog_fd, (int)index, BPF_XDP, NULL);
		v->result = v->link_fd < 0 ? v->link_fd : 0;
	}
	if (v->link_fd >= 0)
		close(v->link_fd);
	return NULL;
}

static void command(struct report_veth *v, int order)
{
	v->order = order;
	sem_post(&v->wanted);
	while (sem_wait(&v->done))
		;
}

struct report_veth *report_veth_open(const char *near)
{
	struct report_veth *v = calloc(1, sizeof(*v));
	int err;

	if (!v)
		return NULL;
	strncpy(v->name, near, sizeof(v->name) - 1);
	v->link_fd = -1;
	sem_init(&v->wanted, 0, 0);
	sem_init(&v->done, 0, 0);
	v->home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	err = v->home < 0 ? errno : pthread_create(&v->thread, NULL, far_end, v);
	if (err) {
		if (v->home >= 0)
			close(v->home);
		free(v);
		errno = err;
		return NULL;
	}
	while (sem_wait(&v->done))
		;
	err = -v->result;
	if (!err) {
		v->near = if_nametoindex(v->name);
		err = v->near ? -bring_up(v->near) : errno;
	}
	if (err) {
		report_veth_close(v);
		errno = err;
		return NULL;
	}
	return v;
}

void report_veth_close(struct report_veth *v)
{
	if (!v)
		return;
	v->order = ORDER_END;
	sem_post(&v->wanted);
	pthread_join(v->thread, NULL);
	close(v->home);
	sem_destroy(&v->wanted);
	sem_destroy(&v->done);
	free(v);
}

unsigned int report_veth_near(const struct report_veth *v)
{
	return v->near;
}

int report_veth_far_xdp(struct report_veth *v, int prog_fd)
{
	v->prog_fd = prog_fd;
	command(v, ORDER_XDP);
	return v->result;
}

int report_veth_addresses(struct report_veth *v, struct in_addr near, struct in_addr far,
			  uint8_t prefix, uint16_t bound, uint16_t peer)
{
	int err = add_address(v->near, near, prefix);

	if (err)
		return err;
	v->bound = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr = far, .sin_port = htons(bound)};
	v->peer = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr = near, .sin_port = htons(peer)};
	v->prefix = prefix;
	command(v, ORDER_SOCKET);
	return v->result;
}
