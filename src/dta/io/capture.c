/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - reads packets from a capture file with libpcap */
#include "dta/io/capture.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcap/pcap.h>

#include "base/network.h"
#include "dta/io/input.h"
#include "dta/wire/endian.h"
#include "dta/wire/wire.h"

struct dta_capture {
	pcap_t *file;
	int link;
	char error[PCAP_ERRBUF_SIZE];
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

struct dta_capture *dta_capture_open(const char *path, char *error, size_t error_bytes)
{
	struct dta_capture *c = calloc(1, sizeof(*c));
	FILE *file;

	snprintf(error, error_bytes, "no memory");
	if (!c)
		return NULL;
	file = fopen(path, "re");
	if (!file) {
		snprintf(error, error_bytes, "%s: %s", path, strerror(errno));
		goto fail;
	}
	c->file = pcap_fopen_offline(file, c->error);
	if (!c->file) {
		fclose(file);
		snprintf(error, error_bytes, "%s: not a capture: %s", path, c->error);
		goto fail;
	}
	c->link = pcap_datalink(c->file);
	if (is_known(c->link))
		return c;
	snprintf(error, error_bytes, "%s: link type %d is not supported: it must be Ethernet or IP",
		 path, c->link);
fail:
	dta_capture_close(c);
	return NULL;
}

void dta_capture_close(struct dta_capture *c)
{
	if (!c)
		return;
	if (c->file)
		pcap_close(c->file);
	free(c);
}

const char *dta_capture_error(const struct dta_capture *c)
{
	return c->error;
}

int dta_capture_next(struct dta_capture *c, uint8_t *buffer, struct dta_captured *out)
{
	struct pcap_pkthdr *head;
	const u_char *data;
	size_t at;

	switch (pcap_next_ex(c->file, &head, &data)) {
	case 1:
		break;
	case PCAP_ERROR_BREAK:
		return -ENODATA;
	default:
		snprintf(c->error, sizeof(c->error), "%s", pcap_geterr(c->file));
		return -EINVAL;
	}
	if (head->caplen > DTA_CAPTURE_PACKET_MAX) {
		snprintf(c->error, sizeof(c->error), "a captured packet of %u bytes is too long",
			 head->caplen);
		return -EINVAL;
	}
	memcpy(buffer, data, head->caplen);
	at = ip_offset(c->link, buffer, head->caplen);
	*out = (struct dta_captured){0};
	if (at >= head->caplen)
		return 0;
	out->ip = buffer + at;
	out->bytes = head->caplen - at;
	return 0;
}

bool dta_captured_flow(const struct dta_captured *p, struct dta_captured_flow *out)
{
	const uint8_t *d = p->ip;
	size_t at;

	if (!d || p->bytes < 20)
		return false;
	*out = (struct dta_captured_flow){.version = d[0] >> 4};
	if (out->version == 4) {
		at = (size_t)(d[0] & 15) * 4;
		out->length = dta_get16(d + 2);
		/* a fragment offset, or the more-fragments flag */
		out->fragment = dta_get16(d + 6) & 0x3fff;
		out->protocol = d[9];
		out->from = d + 12;
		out->to = d + 16;
	} else if (out->version == 6 && p->bytes >= 40) {
		at = 40;
		out->length = 40u + dta_get16(d + 4);
		out->protocol = d[6];
		out->from = d + 8;
		out->to = d + 24;
	} else {
		return false;
	}
	if (at < 20 || at > out->length)
		return false;
	out->whole = out->length <= p->bytes;
	out->above = d + at;
	if (at < p->bytes)
		out->above_bytes = (out->whole ? out->length : p->bytes) - at;
	return true;
}

bool dta_captured_datagram(const struct dta_captured_flow *f, uint16_t port,
			   struct dta_datagram *out)
{
	const uint8_t *udp = f->above;

	if (f->fragment || !f->whole || f->protocol != IPPROTO_UDP || f->above_bytes < 8 ||
	    dta_get16(udp + 2) != port || dta_get16(udp + 4) < 8 ||
	    dta_get16(udp + 4) > f->above_bytes)
		return false;
	out->address = base_mapped(f->from, f->version == 4 ? 4 : 16);
	out->to = f->to;
	out->port = dta_get16(udp);
	out->to_port = port;
	out->data = udp + 8;
	out->bytes = dta_get16(udp + 4) - 8u;
	return true;
}

uint32_t dta_datagrams_cut(struct dta_datagram *rest, struct dta_datagram *out, uint32_t max)
{
	uint32_t n = 0;

	do {
		uint32_t whole = 0;

		if (rest->bytes >= DTA_HEADER_BYTES && rest->data[0] == DTA_MAGIC)
			whole = dta_get16(rest->data + 6) +
				(rest->data[2] & DTA_AUTHENTICATED ? DTA_PROOF_BYTES : 0);
		if (whole < DTA_HEADER_BYTES || whole > rest->bytes)
			whole = rest->bytes;
		out[n] = *rest;
		out[n++].bytes = whole;
		rest->data += whole;
		rest->bytes -= whole;
	} while (rest->bytes && n < max);
	return n;
}
