// SPDX-License-Identifier: Apache-2.0
/*
 * dta_flows.c - replays a capture as reports of flows: each packet adds its size to the counter of
 * its 5-tuple (addresses, ports, protocol; 13 or 37 bytes), as a switch would.
 */
#include "cli/generate/dta.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "dta/io/capture.h"
#include "dta/store/hash.h"

struct gd_flow {
	uint8_t key[GD_FLOW_KEY], key_bytes;
	uint64_t delivered; /* number of delivered bytes */
};

struct cli_dta_flows {
	struct dta_capture *capture;
	uint8_t *buffer;
	struct gd_flow *flow;
	uint32_t *slot; /* hash table with open addressing: number of the flow + 1 */
	uint32_t flows, room;
};

void cli_dta_flows_close(struct cli_dta_flows *f)
{
	if (!f)
		return;
	dta_capture_close(f->capture);
	free(f->buffer);
	free(f->flow);
	free(f->slot);
	free(f);
}

/* Returns 1 for the next packet of a flow, 0 at the end of the file or at a truncated packet. */
static int next_flow(struct cli_dta_flows *f, uint8_t key[GD_FLOW_KEY], uint32_t *length)
{
	struct dta_captured_flow p;
	struct dta_captured c;

	while (!dta_capture_next(f->capture, f->buffer, &c)) {
		const uint32_t n = dta_captured_flow(&c, &p) ? p.version == 4 ? 4 : 16 : 0;
		const bool ports = n && !p.fragment && p.above_bytes >= 4 &&
				   (p.protocol == 6 || p.protocol == 17 || p.protocol == 132);

		if (!n)
			continue;
		memcpy(key, p.from, n);
		memcpy(key + n, p.to, n);
		memset(key + 2 * n, 0, 4);
		if (ports)
			memcpy(key + 2 * n, p.above, 4);
		key[2 * n + 4] = p.protocol;
		*length = p.length;
		return (int)(2 * n + 5);
	}
	return 0;
}

struct cli_dta_flows *cli_dta_flows_open(const char *path, uint64_t *packets, char *error,
					 size_t error_bytes)
{
	struct cli_dta_flows *f = calloc(1, sizeof(*f));
	uint8_t key[GD_FLOW_KEY];
	uint32_t length;

	snprintf(error, error_bytes, "no memory");
	*packets = 0;
	if (!f)
		return NULL;
	f->room = 1u << 20;
	f->buffer = malloc(DTA_CAPTURE_PACKET_MAX);
	f->flow = calloc(f->room / 2, sizeof(*f->flow));
	f->slot = calloc(f->room, sizeof(*f->slot));
	if (!f->buffer || !f->flow || !f->slot)
		goto fail;
	/* The first pass counts the packets; the second pass sends reports. */
	f->capture = dta_capture_open(path, error, error_bytes);
	if (!f->capture)
		goto fail;
	while (next_flow(f, key, &length))
		++*packets;
	dta_capture_close(f->capture);
	f->capture = dta_capture_open(path, error, error_bytes);
	if (f->capture && *packets)
		return f;
	if (f->capture)
		snprintf(error, error_bytes, "%s: no IP packets", path);
fail:
	cli_dta_flows_close(f);
	return NULL;
}

static struct gd_flow *flow_of(struct cli_dta_flows *f, const uint8_t *key, uint32_t bytes)
{
	uint32_t at = (uint32_t)dta_hash(key, bytes, 0).lo % f->room;

	while (f->slot[at]) {
		struct gd_flow *flow = &f->flow[f->slot[at] - 1];

		if (flow->key_bytes == bytes && !memcmp(flow->key, key, bytes))
			return flow;
		at = (at + 1) % f->room;
	}
	if (f->flows == f->room / 2)
		return NULL; /* the table is full: send the report, but do not check its sum */
	f->slot[at] = ++f->flows;
	memcpy(f->flow[f->flows - 1].key, key, bytes);
	f->flow[f->flows - 1].key_bytes = (uint8_t)bytes;
	return &f->flow[f->flows - 1];
}

bool cli_dta_flows_next(struct cli_dta_flows *f, bool delivered, struct cli_dta_report *r)
{
	struct gd_flow *flow;
	uint32_t length;
	const int bytes = next_flow(f, r->key, &length);
	const uint64_t be = htobe64(length);

	if (!bytes)
		return false;
	r->shape.key_bytes = (uint8_t)bytes;
	memcpy(r->value, &be, 8);
	flow = flow_of(f, r->key, (uint32_t)bytes);
	if (flow && delivered)
		flow->delivered += length;
	return true;
}

bool cli_dta_flows_each(const struct cli_dta_flows *f, uint32_t i, const uint8_t **key,
			uint32_t *key_bytes, uint64_t *delivered)
{
	if (!f || i >= f->flows)
		return false;
	*key = f->flow[i].key;
	*key_bytes = f->flow[i].key_bytes;
	*delivered = f->flow[i].delivered;
	return true;
}
