/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input.h - sources of a translator's packets: UDP sockets, the rings of an interface's queues
 * (AF_XDP) or a capture file. One thread owns an input.
 */
#ifndef SL_DTA_IO_INPUT_H
#define SL_DTA_IO_INPUT_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#include "base/network.h"

/* A UDP payload and its sender. */
struct dta_datagram {
	const uint8_t *data;
	uint32_t bytes;
	uint16_t port, to_port;
	struct in6_addr address; /* sender address; IPv4 is mapped */
	/* destination address: 4 bytes if the sender's address is mapped, otherwise 16 */
	const uint8_t *to;
};

static inline struct in6_addr dta_datagram_to(const struct dta_datagram *d)
{
	return base_mapped(d->to, IN6_IS_ADDR_V4MAPPED(&d->address) ? 4 : 16);
}

struct dta_input;

struct dta_input_ops {
	const char *name;
	/*
	 * Receives up to max datagrams without waiting. Returns their number, 0 if there are none
	 * now, -ENODATA if no more will come, or -errno. The datagrams are valid until the next
	 * call.
	 */
	int (*receive)(struct dta_input *in, struct dta_datagram *out, uint32_t max);
	/*
	 * Sends a packet to a reporter from the address to which the reporter sends its packets.
	 * Best effort. May be NULL.
	 */
	void (*answer)(struct dta_input *in, const struct in6_addr *address, uint16_t port,
		       const void *packet, size_t bytes);
	/*
	 * Stops receiving. New packets count as drops, but packets already received can still be
	 * read, and answers can still be sent. May be NULL.
	 */
	void (*stop)(struct dta_input *in);
	/*
	 * Returns the number of packets that the kernel dropped for lack of room (several packets
	 * in one message count as one). Call it regularly, because the kernel's counter has only 32
	 * bits. May be NULL.
	 */
	uint64_t (*drops)(struct dta_input *in);
	/* Reports the components of drops and others, by name. May be NULL. */
	void (*detail)(const struct dta_input *in,
		       void (*say)(void *arg, const char *name, uint64_t value), void *arg);
	void (*close)(struct dta_input *in);
};

struct dta_input { /* first member of each provider's structure */
	const struct dta_input_ops *ops;
	int fd;		 /* poll for reading; -1 means always ready */
	uint64_t others; /* packets without reports: fragments, and unrelated packets in a file */
};

/*
 * Listens on HOST:PORT. An empty HOST means any address of both families, and port 0 the default
 * port. share: several inputs listen on the same address, and each reporter's packets go to one of
 * them. receive_bytes: size of the socket buffer, subject to the kernel's limit; 0 means 16 MiB.
 * Returns NULL with one line in error.
 */
struct dta_input_udp_opts {
	const char *address;
	const struct sockaddr_in6 *as; /* share the address of another input, instead of address */
	int share;
	/* number of inputs that share the address; packets are distributed by source address */
	uint32_t by_sender;
	uint64_t receive_bytes;
};
struct dta_input *dta_input_udp(const struct dta_input_udp_opts *opts, char *error,
				size_t error_bytes);
/* Returns 0 and the local address (with IPv4 mapped), or -errno. */
int dta_input_udp_where(const struct dta_input *in, struct sockaddr_in6 *out);

/*
 * Reads reports, or datagrams of devices, from captured UDP packets to this port. Fragments and
 * truncated packets count as unrelated.
 */
struct dta_input *dta_input_pcap(const char *path, uint16_t port, char *error, size_t error_bytes);

#endif
