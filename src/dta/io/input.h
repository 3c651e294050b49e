/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input.h - where a translator's packets come from: UDP sockets, the ring of an interface's queue
 * (AF_XDP), a file that was captured. One thread owns an input.
 */
#ifndef SL_DTA_IO_INPUT_H
#define SL_DTA_IO_INPUT_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

/* A UDP datagram's payload, and who sent it. */
struct dta_datagram {
	const uint8_t *data;
	uint32_t bytes;
	uint16_t port;
	struct in6_addr address; /* v4 mapped */
};

struct dta_input;

struct dta_input_ops {
	const char *name;
	/*
	 * Up to max datagrams that are there already: their number, 0 none now, -ENODATA there will
	 * never be any more, -errno. They stay until the next call.
	 */
	int (*receive)(struct dta_input *in, struct dta_datagram *out, uint32_t max);
	/* To a reporter, from where its packets came in; best effort. */
	void (*answer)(struct dta_input *in, const struct in6_addr *address, uint16_t port,
		       const void *packet, size_t bytes);
	int (*fd)(const struct dta_input *in); /* poll for reading; -1: always ready */
	/*
	 * From now on nothing more comes, but for what is counted as a drop; what has come already
	 * can still be received, to its end. Answers still go out. NULL: what comes, comes.
	 */
	void (*stop)(struct dta_input *in);
	/*
	 * Packets that the kernel dropped for want of room (it counts many in one message as one).
	 * To be asked now and then: its counter has 32 bits.
	 */
	uint64_t (*drops)(struct dta_input *in);
	/* What it took and passed over as no report: other packets in a file, fragments. */
	uint64_t (*others)(const struct dta_input *in);
	/* What drops and others are made of, by name; NULL: nothing more is known. */
	void (*detail)(const struct dta_input *in,
		       void (*say)(void *arg, const char *name, uint64_t value), void *arg);
	void (*close)(struct dta_input *in);
};

struct dta_input { /* a provider's structure begins with it */
	const struct dta_input_ops *ops;
};

/*
 * Listens at HOST:PORT, HOST an address or a name, empty for any of both families; port 0 is the
 * default port. share: several inputs listen at the same address, and each reporter's packets come
 * to one of them. receive_bytes: of the socket's buffer, as far as the kernel grants; 0: 16 MiB.
 * NULL with errno and one line in error.
 */
struct dta_input_udp_opts {
	const char *address;
	const struct sockaddr_in6 *as; /* instead of the address: where another input listens */
	int share;
	uint64_t receive_bytes;
};
struct dta_input *dta_input_udp(const struct dta_input_udp_opts *opts, char *error,
				size_t error_bytes);
/* Where it listens: v4 mapped. */
void dta_input_udp_where(const struct dta_input *in, struct sockaddr_in6 *out);

/*
 * Reports inside of captured packets (capture.h: pcap, pcapng); IPv4 and IPv6, UDP to this port.
 * Fragments and packets that were cut short when captured are counted as others.
 */
struct dta_input *dta_input_pcap(const char *path, uint16_t port, char *error, size_t error_bytes);

#endif
