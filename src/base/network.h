/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - networks in CIDR notation (RFC 4632), and which addresses reach other hosts. */
#ifndef SL_BASE_NETWORK_H
#define SL_BASE_NETWORK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A network, or with a prefix of 128 a single address. IPv4 is mapped: 96 bits longer. */
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
/* Whether an address, IPv4 mapped, belongs to one of n networks. */
bool base_networks_have(const struct base_network *list, size_t n, const struct in6_addr *address);

/* Whether an IPv4 or IPv6 address is one that only this host reaches. */
bool base_is_loopback(const struct sockaddr *a);

#endif
