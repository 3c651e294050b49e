// SPDX-License-Identifier: Apache-2.0
#include "source/tcp/table.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <time.h>

#include <sidelight/flow.h>

#include "source/tcp/flow.skel.h"
#include "source/tcp/region.h"

#define FLOWS_DEFAULT	  16384u
#define JOURNAL_LEAST	  1024u
#define LINES_PER_ELEMENT (SL_FLOW_SIZE / SL_LINE_SIZE)

static uint32_t power_of_two(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

/* Microseconds per jiffy, the resolution of coarse clocks. */
static uint32_t tick_us(void)
{
	struct timespec t;

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &t) || t.tv_sec || t.tv_nsec < 1000)
		return 4000;
	return (uint32_t)(t.tv_nsec / 1000);
}

int tcp_table_size(struct flow_bpf *flow, const struct tcp_opts *o)
{
	struct tcp_flow_settings *s = (struct tcp_flow_settings *)&flow->rodata->settings;
	uint32_t slots = o->flows ? o->flows : FLOWS_DEFAULT, ring = power_of_two(slots);
	uint32_t journal = ring < JOURNAL_LEAST ? JOURNAL_LEAST : ring;
	int err;

	if (slots > SL_FLOWS_MAX || o->cgroups >= SL_FLOW_CGROUPS_MAX)
		return -EINVAL;
	s->interval_ns = o->interval_ns ? o->interval_ns : 10000000;
	s->quarantine_ns = o->quarantine_ns ? o->quarantine_ns : 5000000000;
	s->slots = slots;
	s->ring_mask = ring - 1;
	s->near_shift = 31 - (uint32_t)__builtin_ctz(ring); /* two slots per flow */
	s->journal_mask = journal - 1;
	s->journal_first = TCP_FLOWS_FIRST_ELEMENT + slots;
	s->tick_us = tick_us();
	flow->rodata->take_existing = o->existing;
	s->cgroups = o->cgroups ? o->cgroups + 1 : 0; /* slot 0: the section's counters */
	err = bpf_map__set_max_entries(flow->maps.tcp_flows,
				       s->journal_first + journal / LINES_PER_ELEMENT + s->cgroups);
	err = err ? err
		  : bpf_map__set_max_entries(flow->maps.tcp_known, s->cgroups ? s->cgroups : 1);
	err = err ? err : bpf_map__set_max_entries(flow->maps.tcp_states, slots);
	err = err ? err : bpf_map__set_max_entries(flow->maps.tcp_free, slots);
	err = err ? err : bpf_map__set_max_entries(flow->maps.tcp_dirty, ring);
	err = err ? err : bpf_map__set_max_entries(flow->maps.tcp_near, 2 * ring);
	return err ? err : bpf_map__set_max_entries(flow->maps.tcp_quarantine, ring);
}

int tcp_table_map(struct flow_bpf *flow, void **out, size_t *bytes)
{
	const struct tcp_flow_settings *s =
		(const struct tcp_flow_settings *)&flow->rodata->settings;
	uint64_t journal = (uint64_t)s->journal_first * SL_FLOW_SIZE;
	uint64_t journal_bytes = ((uint64_t)s->journal_mask + 1) * SL_LINE_SIZE;
	uint64_t cgroups = (uint64_t)s->cgroups * SL_FLOW_CGROUP_SIZE;
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, SL_LINE_SIZE, TCP_FLOWS_HOT_ELEMENT * SL_FLOW_SIZE, SL_LINE_SIZE},
		{SL_SECTION_FLOWS, SL_FLOW_SIZE, TCP_FLOWS_FIRST_ELEMENT * SL_FLOW_SIZE,
		 (uint64_t)s->slots * SL_FLOW_SIZE},
		{SL_SECTION_JOURNAL, SL_LINE_SIZE, journal, journal_bytes},
		{SL_SECTION_CGROUPS, SL_FLOW_CGROUP_SIZE, journal + journal_bytes, cgroups},
	};

	return tcp_region_map(bpf_map__fd(flow->maps.tcp_flows), journal + journal_bytes + cgroups,
			      SL_REGION_FLOWS, sections, cgroups ? 4 : 3, out, bytes);
}
