// SPDX-License-Identifier: Apache-2.0
/*
 * layers.c - parses the time per layer of the network stack: header, hot line, slots, histograms.
 */
#include "region/layers.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "region/internal.h"

enum region_fault region_layers_info_parse(const struct sl_region_header *h, uint64_t actual_size,
					   struct region_layers_info *layers)
{
	struct region_info info;
	enum region_fault fault = region_kind_parse(h, actual_size, SL_REGION_LAYERS, &info);

	memset(layers, 0, sizeof(*layers));
	if (fault)
		return fault;
	if (!region_section_exact(h, SL_SECTION_LAYER_FLOWS, SL_LAYER_SLOT_SIZE, SL_LAYER_SLOTS_MAX,
				  &layers->flows, &layers->flow_slots) ||
	    !region_section_exact(h, SL_SECTION_LAYER_GROUPS, SL_LAYER_SLOT_SIZE,
				  SL_LAYER_SLOTS_MAX, &layers->groups, &layers->group_slots) ||
	    !region_losses_find(h, SL_CAUSES, &layers->losses))
		return REGION_FAULT_SECTION;
	REGION_TAKE_COMMON(layers, &info);
	return REGION_FAULT_NONE;
}

enum region_fault region_layers_hot_parse(const uint64_t line[8],
					  const struct region_layers_info *info,
					  struct region_layers_hot *hot)
{
	if (line[7] != sl_line_check(line))
		return REGION_FAULT_UNSETTLED;
	/* The writer increments the count before it knows that there is a slot: see slot_take(). */
	*hot = (struct region_layers_hot){
		.flows_used = (uint32_t)BASE_MIN(line[SL_LAYERS_FLOWS_USED], info->flow_slots),
		.groups_used = (uint32_t)BASE_MIN(line[SL_LAYERS_GROUPS_USED], info->group_slots),
		.opened = line[SL_LAYERS_OPENED],
		.closed = line[SL_LAYERS_CLOSED],
	};
	return REGION_FAULT_NONE;
}

enum region_fault region_layer_generation(const uint64_t line[8], uint64_t *generation)
{
	*generation = line[SL_SLOT_STATE] >> 16;
	return line[7] == sl_line_check(line) ? REGION_FAULT_NONE : REGION_FAULT_UNSETTLED;
}

enum region_fault region_layer_parse(const uint64_t slot[SL_SLOT_WORDS], bool keyless,
				     struct region_layer_view *v)
{
	uint32_t state = slot[SL_SLOT_STATE] & 255, role = slot[SL_SLOT_STATE] >> 8 & 255;
	enum region_fault fault = region_layer_generation(slot, &v->generation);

	if (fault)
		return fault;
	if (state > SL_SLOT_CLOSED || role > SL_ROLE_CLIENT)
		return REGION_FAULT_HOT;
	v->state = (enum sl_slot_state)state;
	v->role = (enum sl_role)role;
	if (state == SL_SLOT_FREE && !keyless)
		return REGION_FAULT_NONE;
	for (uint32_t w = 8; w < SL_SLOT_WORDS; w += 8)
		if (slot[w + 7] != sl_line_check(slot + w))
			return REGION_FAULT_UNSETTLED;
	memcpy(v->local, &slot[SL_SLOT_LOCAL], 16);
	memcpy(v->remote, &slot[SL_SLOT_REMOTE], 16);
	v->local_port = (uint16_t)slot[SL_SLOT_PORTS];
	v->remote_port = (uint16_t)(slot[SL_SLOT_PORTS] >> 16);
	v->family = (uint8_t)(slot[SL_SLOT_PORTS] >> 32);
	v->cgroup = slot[SL_SLOT_CGROUP];
	v->start_ns = slot[SL_SLOT_START];
	v->end_ns = slot[SL_SLOT_END];
	v->netns = (uint32_t)slot[SL_SLOT_NETNS];
	memcpy(v->count, slot + SL_SLOT_COUNTS, sizeof(v->count));
	for (uint32_t i = 0; i < SL_LAYERS * 8; i++)
		memcpy(&v->cell[i / 8][i % 8 * SL_LINE_CELLS], slot + SL_SLOT_HISTOGRAMS + i * 8,
		       SL_LINE_CELLS * sizeof(*slot));
	return REGION_FAULT_NONE;
}

void region_layer_add(struct region_layer_view *to, const struct region_layer_view *from)
{
	for (int i = 0; i < 7; i++)
		to->count[i] += from->count[i];
	for (int i = 0; i < SL_LAYERS; i++)
		for (int c = 0; c < SL_LAYER_CELLS; c++)
			to->cell[i][c] += from->cell[i][c];
}

uint64_t region_layer_count(const uint64_t cell[SL_LAYER_CELLS])
{
	uint64_t n = 0;

	for (int c = SL_LAYER_ZERO; c < SL_LAYER_CELLS; c++)
		n += cell[c];
	return n;
}

/*
 * Interpolates within a bucket on the logarithmic scale, like Prometheus' histogram_quantile() for
 * native histograms, and linearly from 0 in the zero bucket.
 */
double region_layer_quantile(const uint64_t cell[SL_LAYER_CELLS], double q)
{
	double rank = q * (double)region_layer_count(cell), before = 0;

	if (!region_layer_count(cell))
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
			return exp2((SL_LAYER_FIRST - 1) / 2.0) * 1e9 * part;
		return exp2((bucket - 1 + part) / 2) * 1e9;
	}
	return INFINITY;
}

static const char *const layers[SL_LAYERS] = {"mac_in",	 "ip_in",  "tcp_in",  "app",
					      "tcp_out", "ip_out", "mac_out", "total"};

static const struct {
	const char *name, *text;
} causes[SL_CAUSES] = {
	[SL_CAUSE_NO_NIC] = {"no_nic", "in: no driver timestamp"},
	[SL_CAUSE_NO_IP] = {"no_ip", "in: no IP timestamp"},
	[SL_CAUSE_NO_TCP] = {"no_tcp", "in: no TCP timestamp"},
	[SL_CAUSE_DUPLICATE] = {"duplicate", "in: no new data in the segment"},
	[SL_CAUSE_OUT_OF_ORDER] = {"out_of_order", "in: out of order"},
	[SL_CAUSE_DISCARDED] = {"discarded", "in: TCP dropped the segment"},
	[SL_CAUSE_READ_RING] = {"read_ring", "in: too many unread segments"},
	[SL_CAUSE_NO_SEND] = {"no_send", "out: no timestamp of the send call"},
	[SL_CAUSE_SEND_RING] = {"send_ring", "out: too many unsent send calls"},
	[SL_CAUSE_NO_OUT_IP] = {"no_out_ip", "out: no IP timestamp"},
	[SL_CAUSE_NO_DRIVER] = {"no_driver", "out: reached the driver too late, or not at all"},
	[SL_CAUSE_RETRANSMIT] = {"retransmit", "out: retransmitted"},
	[SL_CAUSE_REFUSED] = {"refused", "negative, or implausibly long"},
	[SL_CAUSE_REQ_IN] = {"request_in", "request: no timestamp of its last segment"},
	[SL_CAUSE_REQ_OUT] = {"request_out", "request: no timestamp of its response"},
	[SL_CAUSE_REQ_RETRANSMIT] = {"request_retransmit",
				     "request: its response was retransmitted"},
	[SL_CAUSE_REQ_PENDING] = {"request_pending", "request: too many pending responses"},
	[SL_CAUSE_REQ_CLOSED] = {"request_closed", "request: closed before its response left"},
	[SL_CAUSE_NO_STATE] = {"no_state", "no memory for the state of a socket"},
	[SL_CAUSE_FLOWS_FULL] = {"flows_full", "flows without a slot for their histograms"},
	[SL_CAUSE_GROUPS_FULL] = {"groups_full", "flows without a slot for their group"},
	[SL_CAUSE_TRACE_DROPPED] = {"trace_dropped", "trace records dropped, buffer full"},
	[SL_CAUSE_NOTES_FULL] = {"notes_full", "counts dropped, the CPU's buffer was full"},
};

const char *region_layer_name(int layer)
{
	return layers[layer];
}

const char *region_layer_cause_name(int cause)
{
	return causes[cause].name;
}

const char *region_layer_cause_text(int cause)
{
	return causes[cause].text;
}
