/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - networks in CIDR notation (RFC 4632), and addresses of sockets. */
#ifndef SL_BASE_NETWORK_H
#define SL_BASE_NETWORK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * A network, or a single address if prefix is 128. IPv4 is mapped to IPv6, so its prefix is 96
 * longer.
 */
struct base_network {
	struct in6_addr address;
	uint32_t prefix;
};

/* Parses "10.0.0.0/8", "2001:db8::/32" or an address. Returns 0 or -EINVAL. */
int base_network_parse(const char *s, size_t bytes, struct base_network *out);
/*
 * Parses networks separated by commas, and appends them to *list, which the caller frees. Returns
 * 0, -EINVAL or -ENOMEM.
 */
int base_networks_parse(const char *s, struct base_network **list, size_t *n);
/* Returns true if one of n networks contains the address. IPv4 addresses are mapped. */
bool base_networks_have(const struct base_network *list, size_t n, const struct in6_addr *address);

/* Returns an address of 4 or 16 bytes as an IPv6 address; IPv4 is mapped. */
static inline struct in6_addr base_mapped(const void *address, size_t bytes)
{
	struct in6_addr a = {.s6_addr = {[10] = 0xff, 0xff}};

	memcpy(a.s6_addr + 16 - bytes, address, bytes);
	return a;
}

/* Returns the address and the port of an IPv4 or IPv6 socket; IPv4 is mapped. */
static inline struct in6_addr base_mapped_of(const void *socket_address, uint16_t *port)
{
	const struct sockaddr_in *v4 = socket_address;
	const struct sockaddr_in6 *v6 = socket_address;

	*port = ntohs(v4->sin_port); /* sin6_port is at the same offset */
	return v6->sin6_family == AF_INET6 ? v6->sin6_addr : base_mapped(&v4->sin_addr, 4);
}

/* Parses an address, without a prefix. Returns false if it is invalid. */
bool base_address_read(const char *s, struct in6_addr *out);
/* Formats 16 bytes as "192.0.2.1" (mapped) or "2001:db8::1". out has INET6_ADDRSTRLEN bytes. */
const char *base_address_text(const void *address, char *out);

struct addrinfo;
/*
 * Resolves HOST:PORT for sockets of this type. fallback: the host if HOST is empty. Returns NULL
 * with the addresses (freeaddrinfo(3)), or the reason of the failure.
 */
const char *base_resolve(const char *at, const char *fallback, int type, struct addrinfo **found);
struct ifreq;
/*
 * Performs an ioctl on an interface (netdevice(7)). Sets the name in r; the caller sets all other
 * fields. Returns 0 or -errno.
 */
int base_interface_ioctl(const char *name, unsigned long request, struct ifreq *r);
/*
 * Makes the kernel end a TCP connection whose peer is gone: within 20 s, both if it is idle and if
 * there are unacknowledged bytes.
 */
void base_tcp_end_dead(int fd);
/* Returns true if only this host can reach the address (IPv4 or IPv6). */
bool base_is_loopback(const struct sockaddr *a);
/* Formats as "10.0.0.1:7475", "[fe80::1]:7475" or the path of a unix socket. Returns out. */
const char *base_print_address(const struct sockaddr *a, char *out, size_t bytes);

#endif
