/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input_pcap.c - reads reports, or datagrams of devices, from a capture file: pcap and pcapng of
 * any byte order and resolution, from Ethernet (with VLAN tags), raw IP or Linux "cooked" links.
 * The content is untrusted and is fully checked.
 */
#include "dta/io/input.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcap/pcap.h>

#include "base/base.h"
#include "dta/io/capture.h"
#include "dta/wire/endian.h"

#define BATCH	   64u
#define PACKET_MAX 262144u /* libpcap's MAXIMUM_SNAPLEN */

struct pcap {
	struct dta_input in;
	pcap_t *file;
	int link;
	char *path;
	uint16_t port;
	uint8_t *data[BATCH + 1];
	/* destination port of a UDP packet to another port; 0 means none was seen */
	uint16_t other_port;
	struct dta_datagram rest; /* unread rest of the last packet, in data[BATCH] */
	bool ended, found;
};

/* Returns the offset of the IP header, or SIZE_MAX. */
static size_t ip_offset(int link, const uint8_t *d, size_t bytes)
{
	size_t at = 12;

	switch (link) {
	case DLT_RAW:
	case DLT_IPV4:
	case DLT_IPV6:
		return 0;
	case DLT_LINUX_SLL2:
		return bytes >= 20 && (dta_get16(d) == 0x0800 || dta_get16(d) == 0x86dd) ? 20
											 : SIZE_MAX;
	case DLT_LINUX_SLL:
		at = 14;
		break;
	default:
		break;
	}
	while (at + 2 <= bytes) {
		const uint16_t type = dta_get16(d + at);

		if (type == 0x0800 || type == 0x86dd)
			return at + 2;
		if (type != 0x8100 && type != 0x88a8 && type != 0x9100)
			break;
		at += 4;
	}
	return SIZE_MAX;
}

static bool is_known(int link)
{
	return link == DLT_EN10MB || link == DLT_RAW || link == DLT_IPV4 || link == DLT_IPV6 ||
	       link == DLT_LINUX_SLL || link == DLT_LINUX_SLL2;
}

/* Whether the packet is a complete UDP datagram to our port. */
static bool find_datagram(struct pcap *p, const struct dta_captured *captured,
			  struct dta_datagram *out)
{
	struct dta_captured_flow f;

	if (!dta_captured_flow(captured, &f))
		return false;
	if (dta_captured_datagram(&f, p->port, out)) {
		p->found = true;
		return true;
	}
	if (f.protocol == IPPROTO_UDP && !f.fragment && f.above_bytes >= 8)
		p->other_port = dta_get16(f.above + 2);
	return false;
}

static int damaged(const struct pcap *p, const char *why)
{
	base_log_limited(BASE_WARN, "translate",
			 "damaged capture, skipping the rest: %s; capture it again file=%s", why,
			 p->path);
	return -EINVAL;
}

/*
 * Reads the next packet into a buffer of PACKET_MAX bytes. Returns 0; -ENODATA at the end; -EINVAL
 * if the file is truncated or invalid.
 */
static int next_packet(const struct pcap *p, uint8_t *buffer, struct dta_captured *out)
{
	struct pcap_pkthdr *head;
	const u_char *data;
	char why[64];
	size_t at;

	switch (pcap_next_ex(p->file, &head, &data)) {
	case 1:
		break;
	case PCAP_ERROR_BREAK:
		if (!p->found && p->other_port)
			base_log_limited(
				BASE_WARN, "translate",
				"the capture has datagrams to UDP port %u, but none to port %u: "
				"set the port of --input or --port file=%s",
				p->other_port, p->port, p->path);
		return -ENODATA;
	default:
		return damaged(p, pcap_geterr(p->file));
	}
	if (head->caplen > PACKET_MAX) {
		snprintf(why, sizeof(why), "a captured packet of %u bytes is too long",
			 head->caplen);
		return damaged(p, why);
	}
	memcpy(buffer, data, head->caplen);
	at = ip_offset(p->link, buffer, head->caplen);
	*out = (struct dta_captured){0};
	if (at < head->caplen)
		*out = (struct dta_captured){.ip = buffer + at, .bytes = head->caplen - at};
	return 0;
}

static int receive_pcap(struct dta_input *in, struct dta_datagram *out, uint32_t max)
{
	struct pcap *p = (struct pcap *)in;
	uint32_t n = 0;

	if (max > BATCH)
		max = BATCH;
	if (p->rest.bytes)
		n = dta_datagrams_cut(&p->rest, out, max);
	while (n < max && !p->ended) {
		struct dta_captured captured;
		uint8_t **buffer = &p->data[n];
		const int err = next_packet(p, *buffer, &captured);

		p->ended = err;
		if (err || !find_datagram(p, &captured, &p->rest)) {
			p->rest.bytes = 0;
			p->in.others += err != -ENODATA;
			continue;
		}
		n += dta_datagrams_cut(&p->rest, &out[n], max - n);
		if (p->rest.bytes) {
			uint8_t *last = p->data[BATCH];

			p->data[BATCH] = *buffer;
			*buffer = last;
		}
	}
	return n ? (int)n : -ENODATA;
}

static void close_pcap(struct dta_input *in)
{
	struct pcap *p = (struct pcap *)in;

	if (p->file)
		pcap_close(p->file);
	for (uint32_t i = 0; i <= BATCH; i++)
		free(p->data[i]);
	free(p->path);
	free(p);
}

static const struct dta_input_ops ops = {
	.name = "pcap", .receive = receive_pcap, .close = close_pcap};

struct dta_input *dta_input_pcap(const char *path, uint16_t port, char *error, size_t error_bytes)
{
	struct pcap *p = calloc(1, sizeof(*p));
	char why[PCAP_ERRBUF_SIZE];
	FILE *file;

	snprintf(error, error_bytes, "no memory");
	if (!p)
		return NULL;
	p->in.ops = &ops;
	p->in.fd = -1;
	p->port = port;
	p->path = strdup(path);
	if (!p->path)
		goto fail;
	for (uint32_t i = 0; i <= BATCH; i++) {
		p->data[i] = malloc(PACKET_MAX);
		if (!p->data[i])
			goto fail;
	}
	file = fopen(path, "re");
	if (!file) {
		snprintf(error, error_bytes, "%s: %s", path, strerror(errno));
		goto fail;
	}
	p->file = pcap_fopen_offline(file, why);
	if (!p->file) {
		fclose(file);
		snprintf(error, error_bytes, "%s: not a capture: %s", path, why);
		goto fail;
	}
	p->link = pcap_datalink(p->file);
	if (is_known(p->link))
		return &p->in;
	snprintf(error, error_bytes, "%s: link type %d is not supported: it must be Ethernet or IP",
		 path, p->link);
fail:
	close_pcap(&p->in);
	return NULL;
}
