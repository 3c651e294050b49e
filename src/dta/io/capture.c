/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - finds UDP datagrams in captured packets */
#include "dta/io/capture.h"

#include <netinet/in.h>
#include <stdbool.h>

#include "base/network.h"
#include "dta/io/input.h"
#include "dta/wire/endian.h"
#include "dta/wire/wire.h"

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
