/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input_udp.c - reads reports from a UDP socket: many messages per call (recvmmsg), and many
 * packets per message if the kernel coalesces them (UDP_GRO)
 */
#include "dta/io/input.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/network.h"
#include "dta/wire/wire.h"

#define MESSAGES 32u
/*
 * Not a multiple of the page size, because the headers of all messages would then share a few cache
 * sets.
 */
#define ROOM (65536u + 320u)

struct udp {
	struct dta_input in;
	uint8_t *data;
	struct mmsghdr m[MESSAGES];
	struct iovec v[MESSAGES];
	struct sockaddr_in6 from[MESSAGES];
	union {
		char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in6_pktinfo))];
		struct cmsghdr align;
	} control[MESSAGES];
	/* Received messages that have not been handed out completely. */
	uint32_t have, at, offset;
	uint64_t drops;
	struct sockaddr_in6 where; /* local address; IPv4 mapped */
	/* destination of each message; used only when listening on any address */
	struct in6_addr to[MESSAGES];
};

/*
 * Returns the size of each datagram in a message, or 0 if the message is one datagram. Also returns
 * the destination address if the socket requests it.
 */
static uint32_t segment_of(struct msghdr *h, struct in6_addr *sent_to)
{
	int bytes = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			memcpy(&bytes, CMSG_DATA(c), sizeof(bytes));
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo to;

			memcpy(&to, CMSG_DATA(c), sizeof(to));
			*sent_to = to.ipi6_addr;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo to;

			memcpy(&to, CMSG_DATA(c), sizeof(to));
			*sent_to = base_mapped(&to.ipi_addr, 4);
		}
	}
	return bytes > 0 ? (uint32_t)bytes : 0;
}

static int fetch_messages(struct udp *u)
{
	int n;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		u->m[i].msg_hdr.msg_namelen = sizeof(u->from[i]);
		u->m[i].msg_hdr.msg_controllen = sizeof(u->control[i].bytes);
	}
	do
		n = recvmmsg(u->in.fd, u->m, MESSAGES, MSG_DONTWAIT, NULL);
	while (n < 0 && errno == EINTR);
	u->at = u->offset = 0;
	u->have = n > 0 ? (uint32_t)n : 0;
	/* ECONNREFUSED means that a reporter was no longer listening when an answer arrived. */
	return n < 0 && errno != EAGAIN && errno != ECONNREFUSED ? -errno : 0;
}

static int receive_udp(struct dta_input *in, struct dta_datagram *out, uint32_t max)
{
	struct udp *u = (struct udp *)in;
	uint32_t n = 0;
	int err;

	if (u->at == u->have) {
		err = fetch_messages(u);
		if (err)
			return err;
	}
	while (n < max && u->at < u->have) {
		struct mmsghdr *m = &u->m[u->at];
		struct in6_addr *to = &u->to[u->at];
		const uint32_t segment = segment_of(&m->msg_hdr, to);
		struct dta_datagram d = {.to_port = ntohs(u->where.sin6_port)};

		d.address = base_mapped_of(&u->from[u->at], &d.port);
		d.to = IN6_IS_ADDR_V4MAPPED(&d.address) ? to->s6_addr + 12 : to->s6_addr;
		do {
			const uint32_t left = m->msg_len - u->offset;

			d.data = (const uint8_t *)u->v[u->at].iov_base + u->offset;
			d.bytes = segment && segment < left ? segment : left;
			u->offset += d.bytes;
			out[n++] = d;
		} while (n < max && u->offset < m->msg_len);
		if (u->offset < m->msg_len)
			break;
		u->at++;
		u->offset = 0;
	}
	return (int)n;
}

static void answer_udp(struct dta_input *in, const struct in6_addr *address, uint16_t port,
		       const void *packet, size_t bytes)
{
	struct udp *u = (struct udp *)in;
	struct sockaddr_in6 to = {
		.sin6_family = AF_INET6, .sin6_addr = *address, .sin6_port = htons(port)};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};

	memcpy(&v4.sin_addr, &address->s6_addr[12], 4);
	/*
	 * An IPv4 socket accepts only IPv4 addresses; a dual-stack socket accepts mapped addresses.
	 */
	if (u->from[0].sin6_family == AF_INET)
		sendto(u->in.fd, packet, bytes, MSG_DONTWAIT, (struct sockaddr *)&v4, sizeof(v4));
	else
		sendto(u->in.fd, packet, bytes, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
}

/*
 * Attaches a filter that accepts nothing (socket(7), SO_ATTACH_FILTER). Later packets count as
 * drops of the socket; earlier packets stay readable.
 */
static void stop_udp(struct dta_input *in)
{
	struct sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
	const struct sock_fprog program = {1, nothing};

	(void)setsockopt(in->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/* Reads the counter that SO_RXQ_OVFL also reports, but works even after the last packet. */
static uint64_t count_drops(struct dta_input *in)
{
	struct udp *u = (struct udp *)in;
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t bytes = sizeof(info);

	if (!getsockopt(u->in.fd, SOL_SOCKET, SO_MEMINFO, info, &bytes))
		u->drops += info[SK_MEMINFO_DROPS] - (uint32_t)u->drops; /* modulo 2^32 */
	return u->drops;
}

static void close_udp(struct dta_input *in)
{
	struct udp *u = (struct udp *)in;

	if (u->in.fd >= 0)
		close(u->in.fd);
	if (u->data)
		munmap(u->data, (size_t)MESSAGES * ROOM);
	free(u);
}

static const struct dta_input_ops ops = {.name = "udp",
					 .receive = receive_udp,
					 .answer = answer_udp,
					 .stop = stop_udp,
					 .drops = count_drops,
					 .close = close_udp};

static bool is_any(const struct sockaddr *at)
{
	return at->sa_family == AF_INET6
		       ? IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)at)->sin6_addr)
		       : ((const struct sockaddr_in *)at)->sin_addr.s_addr == INADDR_ANY;
}

/*
 * Selects one of n sockets by source address alone. The kernel's own choice includes the source
 * port, which a switch may vary per packet (Telemetry Report 2.0, section 3.1.1); the numbered
 * packets of one device would then be spread over all sockets.
 */
static int steer_by_sender(int fd, uint32_t n)
{
	const uint32_t ip = (uint32_t)SKF_NET_OFF;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ip),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 6, 2, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip + 12),
		BPF_STMT(BPF_JMP | BPF_JA, 10),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip + 8),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip + 12),
		BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip + 16),
		BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip + 20),
		BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
		/* spreads adjacent addresses over the sockets */
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 0x9e3779b1),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 16),
		BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, n),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	const struct sock_fprog p = {.len = sizeof(code) / sizeof(*code), .filter = code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &p, sizeof(p)) ? -errno : 0;
}

static int open_at(struct udp *u, const struct dta_input_udp_opts *opts, const struct sockaddr *at,
		   socklen_t bytes)
{
	const int size = opts->receive_bytes ? (int)opts->receive_bytes : 16 << 20;
	const int one = 1, zero = 0;

	u->in.fd = socket(at->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (u->in.fd < 0)
		return -errno;
	if (at->sa_family == AF_INET6)
		setsockopt(u->in.fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (opts->share && setsockopt(u->in.fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)))
		return -errno;
	/* SO_RCVBUFFORCE can exceed net.core.rmem_max, but requires CAP_NET_ADMIN. */
	if (setsockopt(u->in.fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(u->in.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(u->in.fd, SOL_UDP, UDP_GRO, &one, sizeof(one));
	if (is_any(at))
		setsockopt(u->in.fd, at->sa_family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP,
			   at->sa_family == AF_INET6 ? IPV6_RECVPKTINFO : IP_PKTINFO, &one,
			   sizeof(one));
	if (bind(u->in.fd, at, bytes))
		return -errno;
	return opts->by_sender > 1 ? steer_by_sender(u->in.fd, opts->by_sender) : 0;
}

/* Resolves the address. Returns 0, or -EINVAL with error. */
static int resolve_address(const char *address, struct addrinfo **found, char *error,
			   size_t error_bytes)
{
	const char *why = base_resolve(address, "::", SOCK_DGRAM, found);

	if (why && *address == ':') /* this machine has no IPv6 */
		why = base_resolve(address, "0.0.0.0", SOCK_DGRAM, found);
	if (why)
		return base_fail(error, error_bytes, -EINVAL, "'%s': %s", address, why);
	return 0;
}

/* Converts an IPv4-mapped address to IPv4. */
static socklen_t unmap_address(const struct sockaddr_in6 *as, struct sockaddr_storage *out)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = as->sin6_port};

	if (!IN6_IS_ADDR_V4MAPPED(&as->sin6_addr)) {
		memcpy(out, as, sizeof(*as));
		return sizeof(*as);
	}
	memcpy(&v4.sin_addr, &as->sin6_addr.s6_addr[12], 4);
	memcpy(out, &v4, sizeof(v4));
	return sizeof(v4);
}

struct dta_input *dta_input_udp(const struct dta_input_udp_opts *opts, char *error,
				size_t error_bytes)
{
	struct udp *u = calloc(1, sizeof(*u));
	struct addrinfo *found = NULL;
	struct sockaddr_storage at;
	socklen_t bytes;
	int err;

	if (!u) {
		snprintf(error, error_bytes, "no memory");
		return NULL;
	}
	u->in.ops = &ops;
	u->in.fd = -1;
	/* Use mmap() so that unused parts of the buffers take no memory. */
	u->data = mmap(NULL, (size_t)MESSAGES * ROOM, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (u->data == MAP_FAILED) {
		u->data = NULL;
		snprintf(error, error_bytes, "no memory");
		goto fail;
	}
	for (uint32_t i = 0; i < MESSAGES; i++) {
		u->v[i] = (struct iovec){u->data + (size_t)i * ROOM, 65536};
		u->m[i].msg_hdr = (struct msghdr){.msg_name = &u->from[i],
						  .msg_iov = &u->v[i],
						  .msg_iovlen = 1,
						  .msg_control = &u->control[i]};
	}
	if (opts->as) {
		bytes = unmap_address(opts->as, &at);
	} else {
		if (resolve_address(opts->address, &found, error, error_bytes))
			goto fail;
		memcpy(&at, found->ai_addr, found->ai_addrlen);
		bytes = found->ai_addrlen;
		freeaddrinfo(found);
	}
	err = open_at(u, opts, (struct sockaddr *)&at, bytes);
	if (err) {
		snprintf(error, error_bytes, "cannot listen on %s: %s", opts->address,
			 strerror(-err));
		goto fail;
	}
	u->from[0].sin6_family = at.ss_family;
	dta_input_udp_where(&u->in, &u->where);
	for (uint32_t i = 0; i < MESSAGES; i++)
		u->to[i] = u->where.sin6_addr;
	return &u->in;
fail:
	close_udp(&u->in);
	return NULL;
}

int dta_input_udp_where(const struct dta_input *in, struct sockaddr_in6 *out)
{
	struct sockaddr_in6 at = {0};
	socklen_t bytes = sizeof(at);
	uint16_t port;

	if (getsockname(in->fd, (struct sockaddr *)&at, &bytes))
		return -errno;
	*out = (struct sockaddr_in6){.sin6_family = AF_INET6,
				     .sin6_addr = base_mapped_of(&at, &port)};
	out->sin6_port = htons(port);
	return 0;
}
