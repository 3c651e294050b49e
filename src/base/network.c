// SPDX-License-Identifier: Apache-2.0
#include "base/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"

bool base_address_read(const char *s, struct in6_addr *out)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, s, &v4) != 1)
		return inet_pton(AF_INET6, s, out) == 1;
	*out = base_mapped(&v4, sizeof(v4));
	return true;
}

const char *base_address_text(const void *address, char *out)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (!memcmp(address, mapped, sizeof(mapped)))
		return inet_ntop(AF_INET, (const uint8_t *)address + 12, out, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, address, out, INET6_ADDRSTRLEN);
}

int base_network_parse(const char *s, size_t bytes, struct base_network *out)
{
	const char *slash = memchr(s, '/', bytes);
	const size_t length = slash ? (size_t)(slash - s) : bytes;
	char address[INET6_ADDRSTRLEN], digits[4] = "";
	uint64_t prefix;
	bool v4;

	if (length >= sizeof(address) || (slash && bytes - length - 1 >= sizeof(digits)))
		return -EINVAL;
	memcpy(address, s, length);
	address[length] = 0;
	if (!base_address_read(address, &out->address))
		return -EINVAL;
	v4 = !strchr(address, ':');
	prefix = v4 ? 32 : 128;
	if (slash) {
		memcpy(digits, slash + 1, bytes - length - 1);
		if (base_parse_u64(digits, 0, prefix, &prefix))
			return -EINVAL;
	}
	out->prefix = (uint32_t)prefix + (v4 ? 96 : 0);
	return 0;
}

int base_networks_parse(const char *s, struct base_network **list, size_t *n)
{
	struct base_network one;
	size_t room = *n;

	for (;; s++) {
		const size_t bytes = strcspn(s, ",");

		if (base_network_parse(s, bytes, &one))
			return -EINVAL;
		if (!BASE_GROW(*list, *n, room))
			return -ENOMEM;
		(*list)[(*n)++] = one;
		s += bytes;
		if (!*s)
			return 0;
	}
}

static bool has_prefix(const struct base_network *of, const struct in6_addr *address)
{
	const uint32_t whole = of->prefix / 8, rest = of->prefix % 8;

	return !memcmp(&of->address, address, whole) &&
	       (!rest || !((of->address.s6_addr[whole] ^ address->s6_addr[whole]) >> (8 - rest)));
}

bool base_networks_have(const struct base_network *list, size_t n, const struct in6_addr *address)
{
	for (size_t i = 0; i < n; i++)
		if (has_prefix(&list[i], address))
			return true;
	return false;
}

const char *base_resolve(const char *at, const char *fallback, int type, struct addrinfo **found)
{
	const struct addrinfo hints = {.ai_socktype = type, .ai_flags = AI_NUMERICSERV};
	char host[256], service[8];
	uint16_t port;
	int err;

	if (base_parse_address(at, host, sizeof(host), &port))
		return "must be HOST:PORT";
	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(*host ? host : fallback, service, &hints, found);
	return err ? gai_strerror(err) : NULL;
}

bool base_is_loopback(const struct sockaddr *a)
{
	uint16_t port;
	const struct in6_addr at = base_mapped_of(a, &port);

	return IN6_IS_ADDR_LOOPBACK(&at) || (IN6_IS_ADDR_V4MAPPED(&at) && at.s6_addr[12] == 127);
}

const char *base_print_address(const struct sockaddr *a, char *out, size_t bytes)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
	const struct sockaddr_un *un = (const struct sockaddr_un *)a;
	char host[INET6_ADDRSTRLEN];

	if (a->sa_family == AF_INET)
		snprintf(out, bytes, "%s:%u", inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host)),
			 ntohs(v4->sin_port));
	else if (a->sa_family == AF_INET6)
		snprintf(out, bytes, "[%s]:%u",
			 inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host)),
			 ntohs(v6->sin6_port));
	else if (a->sa_family == AF_UNIX)
		snprintf(out, bytes, "%.*s", (int)sizeof(un->sun_path), un->sun_path);
	else
		snprintf(out, bytes, "?");
	return out;
}

int base_interface_ioctl(const char *name, unsigned long request, struct ifreq *r)
{
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	snprintf(r->ifr_name, sizeof(r->ifr_name), "%s", name);
	err = ioctl(fd, request, r) ? -errno : 0;
	close(fd);
	return err;
}

#define KEEPALIVE_S 5
#define LOST_MS	    20000 /* time limit for unacknowledged bytes */

void base_tcp_end_dead(int fd)
{
	const int yes = 1, seconds = KEEPALIVE_S, times = 3, lost = LOST_MS;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost, sizeof(lost));
}
