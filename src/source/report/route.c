// SPDX-License-Identifier: Apache-2.0
#include "source/report/route.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct route_ask {
	struct nlmsghdr h;
	struct rtmsg r;
	char attributes[2 * RTA_SPACE(16)];
};

static void put_address(struct route_ask *q, unsigned short type, const void *address, size_t bytes)
{
	struct rtattr *a = (struct rtattr *)((char *)q + q->h.nlmsg_len);

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(bytes);
	memcpy(RTA_DATA(a), address, bytes);
	q->h.nlmsg_len += a->rta_len; /* a multiple of 4 */
}

/* Returns 0 or -errno. */
static int parse_answer(const struct nlmsghdr *h, unsigned int bytes, uint32_t *index)
{
	const struct nlmsgerr *e = NLMSG_DATA(h);
	const struct rtattr *a;
	long n;

	if (!NLMSG_OK(h, bytes))
		return -EPROTO;
	if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(*e)))
		return e->error ?: -EPROTO;
	if (h->nlmsg_type != RTM_NEWROUTE || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct rtmsg)))
		return -EPROTO;
	n = (long)RTM_PAYLOAD(h);
	for (a = RTM_RTA(NLMSG_DATA(h)); RTA_OK(a, n); a = RTA_NEXT(a, n))
		if (a->rta_type == RTA_OIF && RTA_PAYLOAD(a) >= sizeof(*index)) {
			memcpy(index, RTA_DATA(a), sizeof(*index));
			return 0;
		}
	return -ENETUNREACH;
}

int report_route_interface(bool v6, const void *from, const void *to, uint32_t *index)
{
	const unsigned char bytes = v6 ? 16 : 4;
	struct route_ask ask = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(ask.r)),
				      .nlmsg_type = RTM_GETROUTE,
				      .nlmsg_flags = NLM_F_REQUEST},
				.r = {.rtm_family = v6 ? AF_INET6 : AF_INET,
				      .rtm_dst_len = (unsigned char)(8 * bytes),
				      .rtm_src_len = (unsigned char)(8 * bytes)}};
	char answer[4096] __attribute__((aligned(8)));
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), err;
	ssize_t n;

	if (fd < 0)
		return -errno;
	put_address(&ask, RTA_DST, to, bytes);
	put_address(&ask, RTA_SRC, from, bytes);
	if (send(fd, &ask, ask.h.nlmsg_len, 0) < 0 || (n = recv(fd, answer, sizeof(answer), 0)) < 0)
		err = -errno;
	else
		err = parse_answer((const struct nlmsghdr *)answer, (unsigned int)n, index);
	close(fd);
	return err;
}
