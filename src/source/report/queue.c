// SPDX-License-Identifier: Apache-2.0
#include "source/report/queue.h"

#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

int report_queue_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct timeval patience = {.tv_sec = 1};

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

/* Finds the attribute of this type among n bytes of attributes, or returns NULL. */
static const struct rtattr *find_attribute(const struct rtattr *a, long n, unsigned short type)
{
	for (; RTA_OK(a, n); a = RTA_NEXT(a, n))
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return a;
	return NULL;
}

static void read_stats(const struct nlmsghdr *h, uint64_t *packets, uint64_t *bytes)
{
	const struct tcmsg *t = NLMSG_DATA(h);
	const struct rtattr *a = find_attribute(TCA_RTA(t), (long)TCA_PAYLOAD(h), TCA_STATS2);
	const struct gnet_stats_queue *q;

	a = a ? find_attribute(RTA_DATA(a), (long)RTA_PAYLOAD(a), TCA_STATS_QUEUE) : NULL;
	if (!a || RTA_PAYLOAD(a) < sizeof(*q))
		return;
	q = RTA_DATA(a);
	*packets = q->qlen;
	*bytes = q->backlog;
}

int report_queue_read(int fd, unsigned int interface, uint64_t *packets, uint64_t *bytes)
{
	struct {
		struct nlmsghdr h;
		struct tcmsg t;
	} ask = {.h = {.nlmsg_len = sizeof(ask),
		       .nlmsg_type = RTM_GETQDISC,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		 .t = {.tcm_family = AF_UNSPEC, .tcm_ifindex = (int)interface}};
	static _Thread_local char answer[32768] __attribute__((aligned(8)));
	const struct nlmsghdr *h;
	ssize_t got;

	*packets = *bytes = 0;
	if (send(fd, &ask, sizeof(ask), 0) < 0)
		return -errno;
	for (;;) {
		unsigned int n;

		got = recv(fd, answer, sizeof(answer), 0);
		if (got < 0)
			return -errno;
		n = (unsigned int)got;
		for (h = (const struct nlmsghdr *)answer; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			const struct tcmsg *t = NLMSG_DATA(h);

			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return -EPROTO;
			if (h->nlmsg_type == RTM_NEWQDISC &&
			    h->nlmsg_len >= NLMSG_LENGTH(sizeof(*t)) &&
			    t->tcm_ifindex == (int)interface && t->tcm_parent == TC_H_ROOT)
				read_stats(h, packets, bytes);
		}
	}
}
