/* SPDX-License-Identifier: Apache-2.0 */
/* input_pcap.c - reads reports, or datagrams of devices, from a capture file */
#include "dta/io/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "dta/io/capture.h"
#include "dta/wire/endian.h"

#define BATCH 64u

struct pcap {
	struct dta_input in;
	struct dta_capture *capture;
	char *path;
	uint16_t port;
	uint8_t *data[BATCH + 1];
	/* destination port of a UDP packet to another port; 0 means none was seen */
	uint16_t other_port;
	struct dta_datagram rest; /* unread rest of the last packet, in data[BATCH] */
	bool ended, found;
};

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

static void say_end(const struct pcap *p, int err)
{
	if (err == -EINVAL)
		base_log_limited(BASE_WARN, "translate",
				 "damaged capture, skipping the rest: %s; capture it again file=%s",
				 dta_capture_error(p->capture), p->path);
	else if (!p->found && p->other_port)
		base_log_limited(
			BASE_WARN, "translate",
			"the capture has datagrams to UDP port %u, but none to port %u: set "
			"the port of --input or --port file=%s",
			p->other_port, p->port, p->path);
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
		const int err = dta_capture_next(p->capture, *buffer, &captured);

		p->ended = err;
		if (err)
			say_end(p, err);
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

	dta_capture_close(p->capture);
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
		p->data[i] = malloc(DTA_CAPTURE_PACKET_MAX);
		if (!p->data[i])
			goto fail;
	}
	p->capture = dta_capture_open(path, error, error_bytes);
	if (p->capture)
		return &p->in;
fail:
	close_pcap(&p->in);
	return NULL;
}
