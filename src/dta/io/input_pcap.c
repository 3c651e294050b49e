/* SPDX-License-Identifier: Apache-2.0 */
/* input_pcap.c - reads reports from a capture file */
#include "dta/io/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "dta/io/capture.h"

#define BATCH 64u

struct pcap {
	struct dta_input in;
	struct dta_capture *capture;
	char *path;
	uint16_t port;
	uint8_t *data[BATCH + 1];
	struct dta_datagram rest; /* unread rest of the last packet, in data[BATCH] */
	bool ended;
};

/* Whether the packet is a complete UDP datagram to our port. */
static bool find_datagram(const struct pcap *p, const struct dta_captured *captured,
			  struct dta_datagram *out)
{
	struct dta_captured_flow f;

	return dta_captured_flow(captured, &f) && dta_captured_datagram(&f, p->port, out);
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
		if (err == -EINVAL)
			base_log_limited(
				BASE_WARN, "translate",
				"damaged capture, skipping the rest: %s; capture it again file=%s",
				dta_capture_error(p->capture), p->path);
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
	int err = -ENOMEM;

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
	err = -errno;
fail:
	close_pcap(&p->in);
	errno = -err;
	return NULL;
}
