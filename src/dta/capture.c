/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.c - packets out of a captured file. The classic format is 24 bytes and 16 a packet
 * (draft-ietf-opsawg-pcap), so that it is read here, and the program needs no library for it.
 */
#include "dta/capture.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_ETHERNET 1u
#define LINK_RAW      101u
#define LINK_COOKED   113u

struct sl_capture {
	FILE *file;
	bool swapped;
	uint32_t link;
};

static uint32_t host32(const struct sl_capture *c, uint32_t v)
{
	return c->swapped ? __builtin_bswap32(v) : v;
}

static uint16_t be16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* The offset of the IP header; SIZE_MAX: there is none. */
static size_t ip_offset(const struct sl_capture *c, const uint8_t *d, size_t bytes)
{
	size_t at = c->link == LINK_COOKED ? 14 : 12;

	if (c->link == LINK_RAW)
		return 0;
	while (at + 2 <= bytes) {
		const uint16_t type = be16(d + at);

		if (type == 0x0800 || type == 0x86dd)
			return at + 2;
		if (type != 0x8100 && type != 0x88a8 && type != 0x9100)
			break;
		at += 4;
	}
	return SIZE_MAX;
}

static int read_head(struct sl_capture *c, const char *path, char *error, size_t error_bytes)
{
	uint32_t head[6];

	if (fread(head, 1, sizeof(head), c->file) != sizeof(head)) {
		snprintf(error, error_bytes, "%s: no pcap file: shorter than its header", path);
		return -EINVAL;
	}
	c->swapped = head[0] == 0xd4c3b2a1 || head[0] == 0x4d3cb2a1;
	if (!c->swapped && head[0] != 0xa1b2c3d4 && head[0] != 0xa1b23c4d) {
		snprintf(error, error_bytes,
			 head[0] == 0x0a0d0d0a
				 ? "%s: pcapng: convert it, as with tcpdump -r FILE -w NEW"
				 : "%s: no pcap file",
			 path);
		return -EINVAL;
	}
	c->link = host32(c, head[5]) & 0x0fffffff;
	if (c->link != LINK_ETHERNET && c->link != LINK_RAW && c->link != LINK_COOKED) {
		snprintf(error, error_bytes,
			 "%s: captured from a link of type %u: neither Ethernet nor IP", path,
			 c->link);
		return -EINVAL;
	}
	return 0;
}

struct sl_capture *sl_capture_open(const char *path, char *error, size_t error_bytes)
{
	struct sl_capture *c = calloc(1, sizeof(*c));
	int err = -ENOMEM;

	snprintf(error, error_bytes, "no memory");
	if (!c)
		return NULL;
	c->file = fopen(path, "re");
	if (!c->file) {
		err = -errno;
		snprintf(error, error_bytes, "%s: %s", path, strerror(-err));
		goto fail;
	}
	err = read_head(c, path, error, error_bytes);
	if (!err)
		return c;
fail:
	sl_capture_close(c);
	errno = -err;
	return NULL;
}

void sl_capture_close(struct sl_capture *c)
{
	if (!c)
		return;
	if (c->file)
		fclose(c->file);
	free(c);
}

int sl_capture_next(struct sl_capture *c, uint8_t *buffer, struct sl_captured *out)
{
	uint32_t head[4];
	const size_t got = fread(head, 1, sizeof(head), c->file);
	size_t kept, at;

	if (got != sizeof(head))
		return got ? -EINVAL : -ENODATA;
	kept = host32(c, head[2]);
	if (kept > SL_CAPTURE_PACKET_MAX || fread(buffer, 1, kept, c->file) != kept)
		return -EINVAL;
	at = ip_offset(c, buffer, kept);
	*out = (struct sl_captured){0};
	if (at >= kept)
		return 0;
	out->ip = buffer + at;
	out->bytes = kept - at;
	return 0;
}

bool sl_captured_flow(const struct sl_captured *p, struct sl_captured_flow *out)
{
	const uint8_t *d = p->ip;
	size_t at;

	if (!d || p->bytes < 20)
		return false;
	*out = (struct sl_captured_flow){.version = d[0] >> 4};
	if (out->version == 4) {
		at = (size_t)(d[0] & 15) * 4;
		out->length = be16(d + 2);
		out->fragment = be16(d + 6) & 0x3fff; /* or more to come */
		out->protocol = d[9];
		out->from = d + 12;
		out->to = d + 16;
	} else if (out->version == 6 && p->bytes >= 40) {
		at = 40;
		out->length = 40u + be16(d + 4);
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
