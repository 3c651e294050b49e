// SPDX-License-Identifier: Apache-2.0
/*
 * rdma_resource.c - asks the kernel how many queue pairs, memory regions and other objects each
 * RDMA device has, as "rdma resource show" does (rdma-resource(8)). Needs no privileges.
 */
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "source/host/internal.h"

#define RESOURCES    RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET)
#define ANSWER_BYTES 32768u
#define ANSWERS_MAX  1024u

/* ---- parsing ---- */

static void skip(struct host_text *t, size_t n)
{
	t->p += BASE_MIN(n, host_length(*t));
}

/* Gets the next attribute. Returns false at the end, or if it is malformed. */
static bool next_attribute(struct host_text *t, unsigned int *type, struct host_text *value)
{
	struct nlattr a;

	if (host_length(*t) < sizeof(a))
		return false;
	memcpy(&a, t->p, sizeof(a));
	if (a.nla_len < sizeof(a) || a.nla_len > host_length(*t))
		return false;
	*type = (unsigned int)(a.nla_type & NLA_TYPE_MASK);
	*value = host_text(t->p + sizeof(a), a.nla_len - sizeof(a));
	skip(t, NLA_ALIGN(a.nla_len));
	return true;
}

static struct host_text string_of(struct host_text value)
{
	return host_text(value.p, strnlen(value.p, host_length(value)));
}

static void take_entry(struct host_group *g, struct host_text device, struct host_text t)
{
	struct host_text value, kind = host_text(NULL, 0);
	uint64_t count = 0;
	bool has = false;
	unsigned int type;

	while (next_attribute(&t, &type, &value)) {
		if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
			kind = string_of(value);
		if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR &&
		    host_length(value) == sizeof(count)) {
			memcpy(&count, value.p, sizeof(count));
			has = true;
		}
	}
	if (has && host_counter_name(kind))
		host_put(g, host_row(g, (const struct host_text[]){device, kind}), 0,
			 (double)count);
}

static void take_device(struct host_group *g, struct host_text t)
{
	struct host_text value, device = host_text(NULL, 0), summary = device;
	unsigned int type;

	while (next_attribute(&t, &type, &value)) {
		if (type == RDMA_NLDEV_ATTR_DEV_NAME)
			device = string_of(value);
		if (type == RDMA_NLDEV_ATTR_RES_SUMMARY)
			summary = value;
	}
	while (host_length(device) && next_attribute(&summary, &type, &value))
		if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY)
			take_entry(g, device, value);
}

bool host_rdma_resources_parse(struct host_group *g, struct host_text t)
{
	struct nlmsghdr m;

	while (host_length(t) >= sizeof(m)) {
		memcpy(&m, t.p, sizeof(m));
		if (m.nlmsg_type != RESOURCES || m.nlmsg_len < sizeof(m) ||
		    m.nlmsg_len > host_length(t))
			return false;
		take_device(g, host_text(t.p + sizeof(m), m.nlmsg_len - sizeof(m)));
		skip(&t, NLMSG_ALIGN(m.nlmsg_len));
	}
	return true;
}

/* ---- asking ---- */

void host_rdma_resources_read(struct host_group *g)
{
	const struct nlmsghdr ask = {.nlmsg_len = sizeof(ask),
				     .nlmsg_type = RESOURCES,
				     .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};
	/* The kernel answers before send() and recv() return. */
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_RDMA);
	char answer[ANSWER_BYTES];
	bool more = fd >= 0 && send(fd, &ask, sizeof(ask), 0) == sizeof(ask);

	for (size_t i = 0; more && i < ANSWERS_MAX; i++) {
		ssize_t n = recv(fd, answer, sizeof(answer), 0);

		more = n > 0 && host_rdma_resources_parse(g, host_text(answer, (size_t)n));
	}
	if (fd >= 0)
		close(fd);
}
