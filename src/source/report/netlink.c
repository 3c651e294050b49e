// SPDX-License-Identifier: Apache-2.0
#include "source/report/netlink.h"

#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* ---- requests ---- */

void report_request_begin(union report_request *r, uint16_t type, uint16_t flags, const void *body,
			  size_t bytes)
{
	memset(r, 0, sizeof(*r));
	r->h.nlmsg_len = (uint32_t)NLMSG_LENGTH(bytes);
	r->h.nlmsg_type = type;
	r->h.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	memcpy(NLMSG_DATA(&r->h), body, bytes);
}

struct rtattr *report_request_put(union report_request *r, uint16_t type, const void *data,
				  size_t bytes)
{
	struct rtattr *a = (struct rtattr *)(r->bytes + NLMSG_ALIGN(r->h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(bytes);
	if (bytes)
		memcpy(RTA_DATA(a), data, bytes);
	r->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->h.nlmsg_len) + RTA_ALIGN(a->rta_len));
	return a;
}

void report_request_end(union report_request *r, struct rtattr *nest)
{
	nest->rta_len = (uint16_t)(r->bytes + r->h.nlmsg_len - (char *)nest);
}

int report_netlink_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct timeval patience = {.tv_sec = 1};

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

/* Receives the answer, which ends with an acknowledgement, an error, or the end of a list. */
static int receive_answer(int fd, void (*each)(void *context, const struct nlmsghdr *h),
			  void *context)
{
	static _Thread_local char answer[32768] __attribute__((aligned(8)));

	for (;;) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
		ssize_t got = recv(fd, answer, sizeof(answer), 0);
		const struct nlmsgerr *e;

		if (got < 0)
			return -errno;
		for (unsigned int n = (unsigned int)got; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR) {
				e = NLMSG_DATA(h);
				return h->nlmsg_len < NLMSG_LENGTH(sizeof(*e)) ? -EPROTO : e->error;
			}
			if (each)
				each(context, h);
		}
	}
}

int report_netlink_ask(int fd, const union report_request *r,
		       void (*each)(void *context, const struct nlmsghdr *h), void *context)
{
	int own = fd < 0 ? report_netlink_open() : -1, err;

	fd = fd < 0 ? own : fd;
	if (fd < 0)
		return fd;
	err = send(fd, r, r->h.nlmsg_len, 0) < 0 ? -errno : receive_answer(fd, each, context);
	if (own >= 0)
		close(own);
	return err;
}

/* Finds the attribute of this type among n bytes of attributes, or returns NULL. */
static const void *find_attribute(const struct rtattr *a, long n, unsigned short type,
				  size_t *bytes)
{
	for (; RTA_OK(a, n); a = RTA_NEXT(a, n))
		if ((a->rta_type & NLA_TYPE_MASK) == type) {
			*bytes = RTA_PAYLOAD(a);
			return RTA_DATA(a);
		}
	return NULL;
}

/* ---- routes ---- */

static void take_route(void *context, const struct nlmsghdr *h)
{
	const void *index;
	size_t bytes;

	if (h->nlmsg_type != RTM_NEWROUTE || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct rtmsg)))
		return;
	index = find_attribute(RTM_RTA(NLMSG_DATA(h)), (long)RTM_PAYLOAD(h), RTA_OIF, &bytes);
	if (index && bytes >= sizeof(uint32_t))
		memcpy(context, index, sizeof(uint32_t));
}

int report_route_interface(int fd, bool v6, const void *from, const void *to, uint32_t *index)
{
	const unsigned char bytes = v6 ? 16 : 4;
	const struct rtmsg body = {.rtm_family = v6 ? AF_INET6 : AF_INET,
				   .rtm_dst_len = (unsigned char)(8 * bytes),
				   .rtm_src_len = (unsigned char)(8 * bytes)};
	union report_request r;
	int err;

	*index = 0;
	report_request_begin(&r, RTM_GETROUTE, 0, &body, sizeof(body));
	report_request_put(&r, RTA_DST, to, bytes);
	report_request_put(&r, RTA_SRC, from, bytes);
	err = report_netlink_ask(fd, &r, take_route, index);
	return err || *index ? err : -ENETUNREACH;
}

/* ---- queues ---- */

struct backlog {
	int interface;
	uint64_t *packets, *bytes;
};

static void take_backlog(void *context, const struct nlmsghdr *h)
{
	const struct tcmsg *t = NLMSG_DATA(h);
	struct backlog *b = context;
	const struct gnet_stats_queue *q;
	size_t bytes;

	if (h->nlmsg_type != RTM_NEWQDISC || h->nlmsg_len < NLMSG_LENGTH(sizeof(*t)) ||
	    t->tcm_ifindex != b->interface || t->tcm_parent != TC_H_ROOT)
		return;
	q = find_attribute(TCA_RTA(t), (long)TCA_PAYLOAD(h), TCA_STATS2, &bytes);
	q = q ? find_attribute((const void *)q, (long)bytes, TCA_STATS_QUEUE, &bytes) : NULL;
	if (!q || bytes < sizeof(*q))
		return;
	*b->packets = q->qlen;
	*b->bytes = q->backlog;
}

int report_queue_read(int fd, unsigned int interface, uint64_t *packets, uint64_t *bytes)
{
	const struct tcmsg body = {.tcm_family = AF_UNSPEC, .tcm_ifindex = (int)interface};
	struct backlog b = {(int)interface, packets, bytes};
	union report_request r;

	*packets = *bytes = 0;
	report_request_begin(&r, RTM_GETQDISC, NLM_F_DUMP, &body, sizeof(body));
	return report_netlink_ask(fd, &r, take_backlog, &b);
}
