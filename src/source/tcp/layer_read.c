// SPDX-License-Identifier: Apache-2.0
/* layer_read.c - reads slots out of the kernel's memory, line by line as they verify; histograms. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <sidelight/region.h>

#include "source/tcp/layer_internal.h"

#define TRIES 1000 /* of a line: the writer is between two additions for a few ns */

_Static_assert(SL_LAYER_CELLS == 8 * SL_LINE_CELLS, "a histogram is eight lines");

static bool line(const uint64_t *from, uint64_t to[8])
{
	for (int i = 0; i < TRIES; i++) {
		for (int w = 0; w < 8; w++)
			to[w] = __atomic_load_n(&from[w], __ATOMIC_RELAXED);
		if (to[7] == sl_line_check(to))
			return true;
	}
	return false;
}

uint32_t sl_layers_slots(const struct sl_layers *l, enum sl_layer_table table)
{
	return l->slots[table];
}

static bool histogram(const uint64_t *from, uint64_t cell[SL_LAYER_CELLS])
{
	uint64_t w[8];

	for (int i = 0; i < 8; i++) {
		if (!line(from + 8 * i, w))
			return false;
		memcpy(cell + SL_LINE_CELLS * i, w, SL_LINE_CELLS * sizeof(*w));
	}
	return true;
}

int sl_layers_slot(const struct sl_layers *l, enum sl_layer_table table, uint32_t index,
		   struct sl_layer_view *v)
{
	const uint64_t *slot = l->words[table] + (size_t)index * SL_SLOT_WORDS;
	uint64_t key[8], w[8];

	if (index >= l->slots[table])
		return -EINVAL;
	if (!line(slot, key))
		return -EAGAIN;
	v->state = key[SL_SLOT_STATE] & 255;
	v->role = key[SL_SLOT_STATE] >> 8 & 255;
	v->generation = key[SL_SLOT_STATE] >> 16;
	/* Group 0 takes those without a group: it has no key, and is there from the beginning. */
	if (v->state == SL_SLOT_FREE && !(table == SL_LAYER_GROUPS && !index))
		return 0;
	memcpy(v->local, &key[SL_SLOT_LOCAL], 16);
	memcpy(v->remote, &key[SL_SLOT_REMOTE], 16);
	v->local_port = (uint16_t)key[SL_SLOT_PORTS];
	v->remote_port = (uint16_t)(key[SL_SLOT_PORTS] >> 16);
	v->family = (uint8_t)(key[SL_SLOT_PORTS] >> 32);
	v->cgroup = key[SL_SLOT_CGROUP];
	if (!line(slot + 8, w))
		return -EAGAIN;
	v->start_ns = w[SL_SLOT_START - 8];
	v->end_ns = w[SL_SLOT_END - 8];
	v->netns = (uint32_t)w[SL_SLOT_NETNS - 8];
	if (!line(slot + SL_SLOT_COUNTS, w))
		return -EAGAIN;
	memcpy(v->count, w, sizeof(v->count));
	for (int i = 0; i < SL_LAYERS; i++)
		if (!histogram(slot + SL_SLOT_HISTOGRAMS + 64 * i, v->cell[i]))
			return -EAGAIN;
	/* After all of it: was it this flow's to the end? */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!line(slot, w) || w[SL_SLOT_STATE] >> 16 != v->generation)
		return -EAGAIN;
	return 1;
}

void sl_layer_add(struct sl_layer_view *to, const struct sl_layer_view *from)
{
	for (int i = 0; i < 7; i++)
		to->count[i] += from->count[i];
	for (int i = 0; i < SL_LAYERS; i++)
		for (int c = 0; c < SL_LAYER_CELLS; c++)
			to->cell[i][c] += from->cell[i][c];
}

uint64_t sl_layer_count(const uint64_t cell[SL_LAYER_CELLS])
{
	uint64_t n = 0;

	for (int c = SL_LAYER_ZERO; c < SL_LAYER_CELLS; c++)
		n += cell[c];
	return n;
}

/*
 * Within a bucket, values are taken to lie evenly on the logarithmic scale, as histogram_quantile()
 * of Prometheus does for native histograms; in the zero bucket evenly from 0.
 */
double sl_layer_quantile(const uint64_t cell[SL_LAYER_CELLS], double q)
{
	double rank = q * (double)sl_layer_count(cell), before = 0;

	if (!sl_layer_count(cell))
		return NAN;
	for (int c = SL_LAYER_ZERO; c < SL_LAYER_OVER; c++) {
		double n = (double)cell[c], part;
		int bucket = SL_LAYER_FIRST + c - SL_LAYER_BUCKETS;

		if (!cell[c] || before + n < rank) {
			before += n;
			continue;
		}
		part = rank > before ? (rank - before) / n : 0;
		if (c == SL_LAYER_ZERO)
			return 64 * part;
		return exp2((bucket - 1 + part) / 2);
	}
	return INFINITY;
}

static const char *const layers[SL_LAYERS] = {"mac_in",	 "ip_in",  "tcp_in",  "app",
					      "tcp_out", "ip_out", "mac_out", "total"};

static const struct {
	const char *name, *text;
} causes[SL_CAUSES] = {
	[SL_CAUSE_NO_NIC] = {"no_nic", "in: the driver's hand-over was not seen"},
	[SL_CAUSE_NO_IP] = {"no_ip", "in: IP's turn was not seen"},
	[SL_CAUSE_NO_TCP] = {"no_tcp", "in: TCP's turn was not seen"},
	[SL_CAUSE_DUPLICATE] = {"duplicate", "in: nothing new in the segment"},
	[SL_CAUSE_OUT_OF_ORDER] = {"out_of_order", "in: behind a hole"},
	[SL_CAUSE_DISCARDED] = {"discarded", "in: TCP did not take the segment"},
	[SL_CAUSE_READ_RING] = {"read_ring", "in: too many segments wait to be read"},
	[SL_CAUSE_NO_SEND] = {"no_send", "out: the send call was not seen"},
	[SL_CAUSE_SEND_RING] = {"send_ring", "out: too many send calls wait"},
	[SL_CAUSE_NO_OUT_IP] = {"no_out_ip", "out: IP's turn was not seen"},
	[SL_CAUSE_NO_DRIVER] = {"no_driver", "out: did not get to the driver, or too late"},
	[SL_CAUSE_RETRANSMIT] = {"retransmit", "out: sent again"},
	[SL_CAUSE_REFUSED] = {"refused", "negative, or longer than is believed"},
	[SL_CAUSE_REQ_IN] = {"request_in", "request: its last segment lacks a time"},
	[SL_CAUSE_REQ_OUT] = {"request_out", "request: its response lacks a time"},
	[SL_CAUSE_REQ_RETRANSMIT] = {"request_retransmit", "request: its response was sent again"},
	[SL_CAUSE_REQ_PENDING] = {"request_pending", "request: too many responses wait"},
	[SL_CAUSE_REQ_CLOSED] = {"request_closed", "request: closed before its response left"},
	[SL_CAUSE_NO_STATE] = {"no_state", "no memory for a socket"},
	[SL_CAUSE_FLOWS_FULL] = {"flows_full", "flows without histograms of their own"},
	[SL_CAUSE_GROUPS_FULL] = {"groups_full", "flows without a group of their own"},
	[SL_CAUSE_TRACE_DROPPED] = {"trace_dropped", "records that found the buffer full"},
};

const char *sl_layer_name(int layer)
{
	return layers[layer];
}

const char *sl_layer_cause_name(int cause)
{
	return causes[cause].name;
}

const char *sl_layer_cause_text(int cause)
{
	return causes[cause].text;
}
