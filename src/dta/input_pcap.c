/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input_pcap.c - reports out of a captured file. The classic format is 24 bytes and 16 a packet
 * (draft-ietf-opsawg-pcap), so that it is read here, and the program needs no library for it.
 */
#include "dta/input.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_MOST   262144u /* libpcap's MAXIMUM_SNAPLEN */
#define BATCH	      64u
#define LINK_ETHERNET 1u
#define LINK_RAW      101u
#define LINK_COOKED   113u

struct pcap {
	struct sl_input in;
	FILE *file;
	bool swapped;
	uint32_t link;
	uint16_t port;
	uint64_t others;
	uint8_t *data[BATCH];
	bool ended;
};

static uint32_t host32(const struct pcap *p, uint32_t v)
{
	return p->swapped ? __builtin_bswap32(v) : v;
}

static uint16_t be16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* The offset of the IP header, 0: there is none (raw IP: SIZE_MAX stands for none). */
static size_t ip_offset(const struct pcap *p, const uint8_t *d, size_t bytes)
{
	size_t at = 12;
	uint16_t type;

	if (p->link == LINK_RAW)
		return 0;
	if (p->link == LINK_COOKED)
		at = 14;
	while (at + 2 <= bytes) {
		type = be16(d + at);
		if (type == 0x0800 || type == 0x86dd)
			return at + 2;
		if (type != 0x8100 && type != 0x88a8 && type != 0x9100)
			break;
		at += 4;
	}
	return SIZE_MAX;
}

/* A UDP datagram to our port, whole, in these bytes of an IP packet. */
static bool datagram(const struct pcap *p, const uint8_t *d, size_t bytes, struct sl_datagram *out)
{
	size_t at, length;

	if (bytes < 20)
		return false;
	memset(&out->address, 0, sizeof(out->address));
	if (d[0] >> 4 == 4) {
		at = (size_t)(d[0] & 15) * 4;
		length = be16(d + 2);
		/* A fragment, or more to come; not UDP. */
		if (at < 20 || be16(d + 6) & 0x3fff || d[9] != IPPROTO_UDP)
			return false;
		memset(&out->address.s6_addr[10], 0xff, 2);
		memcpy(&out->address.s6_addr[12], d + 12, 4);
	} else if (d[0] >> 4 == 6 && bytes >= 40) {
		at = 40;
		length = 40u + be16(d + 4);
		if (d[6] != IPPROTO_UDP)
			return false;
		memcpy(&out->address, d + 8, 16);
	} else {
		return false;
	}
	if (length > bytes || at + 8 > length || be16(d + at + 2) != p->port)
		return false;
	if (be16(d + at + 4) < 8 || be16(d + at + 4) > length - at)
		return false;
	out->port = be16(d + at);
	out->data = d + at + 8;
	out->bytes = be16(d + at + 4) - 8u;
	return true;
}

static int receive(struct sl_input *in, struct sl_datagram *out, uint32_t max)
{
	struct pcap *p = (struct pcap *)in;
	uint32_t n = 0;

	while (n < max && n < BATCH && !p->ended) {
		uint32_t head[4];
		size_t got = fread(head, 1, sizeof(head), p->file), kept, at;

		if (got != sizeof(head)) {
			p->others += got != 0; /* cut short */
			p->ended = true;
			break;
		}
		kept = host32(p, head[2]);
		if (kept > PACKET_MOST || fread(p->data[n], 1, kept, p->file) != kept) {
			p->others++;
			p->ended = true;
			break;
		}
		at = ip_offset(p, p->data[n], kept);
		if (at <= kept && datagram(p, p->data[n] + at, kept - at, &out[n]))
			n++;
		else
			p->others++;
	}
	return n ? (int)n : -ENODATA;
}

static void answer(struct sl_input *in, const struct in6_addr *address, uint16_t port,
		   const void *packet, size_t bytes)
{
	(void)in;
	(void)address;
	(void)port;
	(void)packet;
	(void)bytes;
}

static int fd_of(const struct sl_input *in)
{
	(void)in;
	return -1;
}

static uint64_t drops(const struct sl_input *in)
{
	(void)in;
	return 0;
}

static uint64_t others(const struct sl_input *in)
{
	return ((const struct pcap *)in)->others;
}

static void close_pcap(struct sl_input *in)
{
	struct pcap *p = (struct pcap *)in;

	if (p->file)
		fclose(p->file);
	for (uint32_t i = 0; i < BATCH; i++)
		free(p->data[i]);
	free(p);
}

static const struct sl_input_ops ops = {.name = "pcap",
					.receive = receive,
					.answer = answer,
					.fd = fd_of,
					.drops = drops,
					.others = others,
					.close = close_pcap};

static int read_head(struct pcap *p, const char *path, char *error, size_t error_bytes)
{
	uint32_t head[6];

	if (fread(head, 1, sizeof(head), p->file) != sizeof(head)) {
		snprintf(error, error_bytes, "%s: no pcap file: shorter than its header", path);
		return -EINVAL;
	}
	p->swapped = head[0] == 0xd4c3b2a1 || head[0] == 0x4d3cb2a1;
	if (!p->swapped && head[0] != 0xa1b2c3d4 && head[0] != 0xa1b23c4d) {
		snprintf(error, error_bytes,
			 head[0] == 0x0a0d0d0a
				 ? "%s: pcapng: convert it, as with tcpdump -r FILE -w NEW"
				 : "%s: no pcap file",
			 path);
		return -EINVAL;
	}
	p->link = host32(p, head[5]) & 0x0fffffff;
	if (p->link != LINK_ETHERNET && p->link != LINK_RAW && p->link != LINK_COOKED) {
		snprintf(error, error_bytes,
			 "%s: captured from a link of type %u: neither Ethernet nor IP", path,
			 p->link);
		return -EINVAL;
	}
	return 0;
}

struct sl_input *sl_input_pcap(const char *path, uint16_t port, char *error, size_t error_bytes)
{
	struct pcap *p = calloc(1, sizeof(*p));
	int err = -ENOMEM;

	snprintf(error, error_bytes, "no memory");
	if (!p)
		return NULL;
	p->in.ops = &ops;
	p->port = port;
	for (uint32_t i = 0; i < BATCH; i++) {
		p->data[i] = malloc(PACKET_MOST);
		if (!p->data[i])
			goto fail;
	}
	p->file = fopen(path, "re");
	if (!p->file) {
		err = -errno;
		snprintf(error, error_bytes, "%s: %s", path, strerror(-err));
		goto fail;
	}
	err = read_head(p, path, error, error_bytes);
	if (!err)
		return &p->in;
fail:
	close_pcap(&p->in);
	errno = -err;
	return NULL;
}
