// SPDX-License-Identifier: Apache-2.0
/*
 * peer_read.c - reads units of a peer's stores. Remote stores are read by RDMA READ, one window at
 * a time, and each window twice. Units that differ because another writer changed them are read
 * again.
 */
#include "dta/store_server/peer.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define WINDOW (256u << 10)
#define TRIES  4

/* Performs a READ into the landing buffer and waits for it. */
static bool read_far(struct dta_peer *p, const struct fabric_remote *from, uint64_t offset,
		     uint64_t bytes, uint8_t *to)
{
	struct fabric_read read = {
		.remote = from, .offset = offset, .length = (uint32_t)bytes, .to = to};
	struct fabric_read *done;
	struct fabric_stats s;

	if (p->failed)
		return false;
	if (fabric_post(p->fabric, &read, 1) == 1) {
		while (!fabric_poll(p->fabric, &done, 1, base_now_ns(), DTA_PEER_NS))
			poll(NULL, 0, 0); /* no sleep: a READ takes microseconds */
		if (!read.status)
			return true;
	}
	p->failed = true;
	fabric_stats(p->fabric, &s);
	snprintf(p->why, sizeof(p->why), "%s", *s.last_error ? s.last_error : "READ failed");
	return false;
}

/* Reads the window of a remote store that starts at offset twice, to detect torn units. */
static bool fill_window(struct dta_peer *p, const struct dta_peer_store *s, uint64_t offset)
{
	uint8_t *first = fabric_buffer(p->fabric, &(size_t){0});
	const uint64_t bytes = BASE_MIN((uint64_t)WINDOW, s->far.length - offset);

	p->window = NULL;
	if (!read_far(p, &s->far, offset, bytes, first) ||
	    !read_far(p, &s->far, offset, bytes, first + WINDOW))
		return false;
	p->window = s;
	p->window_at = offset;
	p->window_bytes = bytes;
	return true;
}

static enum dta_query_settled far_unit(struct dta_peer *p, const struct dta_peer_store *s,
				       uint64_t offset, uint64_t bytes, uint64_t *unit)
{
	const uint8_t *first = fabric_buffer(p->fabric, &(size_t){0});
	uint64_t any = 0;

	if (offset > s->far.length || bytes > BASE_MIN((uint64_t)WINDOW, s->far.length - offset))
		return DTA_QUERY_UNIT_TORN;
	for (int tries = 0; tries < TRIES; tries++) {
		const bool inside = p->window == s && offset >= p->window_at &&
				    offset + bytes <= p->window_at + p->window_bytes;
		const uint8_t *at;

		if ((!inside || tries) && !fill_window(p, s, offset))
			return DTA_QUERY_UNIT_TORN;
		at = first + (offset - p->window_at);
		if (memcmp(at, at + WINDOW, bytes))
			continue;
		memcpy(unit, at, bytes);
		for (uint64_t w = 0; w < bytes / 8; w++)
			any |= unit[w];
		return any ? DTA_QUERY_UNIT_SETTLED : DTA_QUERY_UNIT_EMPTY;
	}
	return DTA_QUERY_UNIT_TORN;
}

enum dta_query_settled dta_peer_unit(struct dta_peer *p, struct dta_peer_store *s, uint64_t offset,
				     uint64_t bytes, uint64_t *unit)
{
	const enum dta_query_settled is = s->object ? dta_query_settle(unit, s->view.map + offset,
								       bytes)
						    : far_unit(p, s, offset, bytes, unit);

	p->torn += is == DTA_QUERY_UNIT_TORN;
	return is;
}

/* Reads the header and epoch line of a remote store. A store that can't be used is ignored. */
static void look_at(struct dta_peer *p, struct dta_peer_store *s)
{
	char error[160];

	s->head = aligned_alloc(64, SL_STORE_BANKS_OFFSET);
	if (!s->head || s->far.length < SL_STORE_BANKS_OFFSET || fabric_map(p->fabric, &s->far) ||
	    !fill_window(p, s, 0))
		return;
	memcpy(s->head, fabric_buffer(p->fabric, &(size_t){0}), SL_STORE_BANKS_OFFSET);
	if (!dta_store_view(s->head, s->far.length, &s->view, error, sizeof(error)))
		return;
	s->view.config->kind = 0;
	base_logf(BASE_WARN, "dta", "ignoring one of the peer's stores: %s", error);
}

const char *dta_peer_connect(struct dta_peer *p, const struct dta_stores_config *config,
			     const char *host, uint16_t port)
{
	const uint64_t end = base_now_ns() + DTA_PEER_NS;
	const struct fabric_opts opts = {
		.device = config->rdma.device,
		.gid_index = config->rdma.gid_index,
		.ib_port = config->rdma.ib_port,
		.buffer_bytes = 2 * WINDOW,
		.secret = config->secret,
		.secret_bytes = config->secret_bytes,
	};
	struct fabric_stats stats;
	char target[300];
	uint64_t epoch;

	snprintf(target, sizeof(target), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	p->fabric = fabric_open(target, &opts);
	if (!p->fabric)
		return fabric_error();
	while (fabric_drive(p->fabric, base_now_ns(), &epoch) != FABRIC_UP) {
		if (base_now_ns() > end) {
			fabric_stats(p->fabric, &stats);
			snprintf(p->why, sizeof(p->why), "%s",
				 *stats.last_error ? stats.last_error
						   : "there is no RDMA "
						     "connection");
			return p->why;
		}
		poll(NULL, 0, 1);
	}
	for (uint32_t i = 0; i < p->stores; i++)
		look_at(p, &p->at[i]);
	return p->failed ? p->why : NULL;
}

void dta_peer_disconnect(struct dta_peer *p)
{
	if (p->fabric)
		fabric_close(p->fabric);
	p->fabric = NULL;
}
