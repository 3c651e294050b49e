/* SPDX-License-Identifier: Apache-2.0 */
/* input_pcap.c - reports out of a captured file. */
#include "dta/io/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "dta/io/capture.h"

#define BATCH 64u

struct pcap {
	struct sl_input in;
	struct sl_capture *capture;
	char *path;
	uint16_t port;
	uint64_t others;
	uint8_t *data[BATCH + 1];
	struct sl_datagram
		rest; /* that was captured with the last ones; in the last buffer, where no packet is read into */
	bool ended;
};

/* A UDP datagram to our port, whole. */
static bool datagram(const struct pcap *p, const struct sl_captured *captured,
		     struct sl_datagram *out)
{
	struct sl_captured_flow f;

	return sl_captured_flow(captured, &f) && sl_captured_datagram(&f, p->port, out);
}

static int receive(struct sl_input *in, struct sl_datagram *out, uint32_t max)
{
	struct pcap *p = (struct pcap *)in;
	uint32_t n = 0;

	if (max > BATCH)
		max = BATCH;
	if (p->rest.bytes)
		n = sl_datagrams_cut(&p->rest, out, max);
	while (n < max && !p->ended) {
		struct sl_captured captured;
		uint8_t **buffer = &p->data[n];
		const int err = sl_capture_next(p->capture, *buffer, &captured);

		p->ended = err;
		if (err == -EINVAL)
			sl_log_limited(
				SL_WARN, "translate",
				"the rest of a capture is not read: %s; capture it again file=%s",
				sl_capture_error(p->capture), p->path);
		if (err || !datagram(p, &captured, &p->rest)) {
			p->rest.bytes = 0;
			p->others += err != -ENODATA;
			continue;
		}
		n += sl_datagrams_cut(&p->rest, &out[n], max - n);
		if (p->rest.bytes) {
			uint8_t *last = p->data[BATCH];

			p->data[BATCH] = *buffer;
			*buffer = last;
		}
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

static uint64_t drops(struct sl_input *in)
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

	sl_capture_close(p->capture);
	for (uint32_t i = 0; i <= BATCH; i++)
		free(p->data[i]);
	free(p->path);
	free(p);
}

static const struct sl_input_ops ops = {.name = "pcap",
					.receive = receive,
					.answer = answer,
					.fd = fd_of,
					.drops = drops,
					.others = others,
					.close = close_pcap};

struct sl_input *sl_input_pcap(const char *path, uint16_t port, char *error, size_t error_bytes)
{
	struct pcap *p = calloc(1, sizeof(*p));
	int err = -ENOMEM;

	snprintf(error, error_bytes, "no memory");
	if (!p)
		return NULL;
	p->in.ops = &ops;
	p->port = port;
	p->path = strdup(path);
	if (!p->path)
		goto fail;
	for (uint32_t i = 0; i <= BATCH; i++) {
		p->data[i] = malloc(SL_CAPTURE_PACKET_MAX);
		if (!p->data[i])
			goto fail;
	}
	p->capture = sl_capture_open(path, error, error_bytes);
	if (p->capture)
		return &p->in;
	err = -errno;
fail:
	close_pcap(&p->in);
	errno = -err;
	return NULL;
}
