// SPDX-License-Identifier: Apache-2.0
#include "source/tcp/table.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/flow.h>

#include "source/tcp/flow.skel.h"

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

/* Microseconds of a jiffy: the coarse clocks have its resolution. */
static uint32_t tick_us(void)
{
	struct timespec t;

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &t) || t.tv_sec || t.tv_nsec < 1000)
		return 4000;
	return (uint32_t)(t.tv_nsec / 1000);
}

int table_size(struct flow_bpf *flow, const struct sl_tcp_options *o)
{
	struct sl_flow_settings *s = (struct sl_flow_settings *)&flow->rodata->settings;
	uint32_t slots = o->flows ? o->flows : FLOWS_DEFAULT, ring = power_of_two(slots);
	uint32_t journal = ring < JOURNAL_LEAST ? JOURNAL_LEAST : ring;
	int err;

	if (slots > SL_FLOWS_MAX)
		return -EINVAL;
	s->interval_ns = o->interval_ns ? o->interval_ns : 10000000;
	s->quarantine_ns = o->quarantine_ns ? o->quarantine_ns : 5000000000;
	s->slots = slots;
	s->ring_mask = ring - 1;
	s->journal_mask = journal - 1;
	s->journal_first = SL_FLOWS_FIRST_ELEMENT + slots;
	s->tick_us = tick_us();
	flow->rodata->take_existing = o->existing;
	err = bpf_map__set_max_entries(flow->maps.tcp_flows,
				       s->journal_first + journal / LINES_PER_ELEMENT);
	err = err ? err : bpf_map__set_max_entries(flow->maps.tcp_states, slots);
	err = err ? err : bpf_map__set_max_entries(flow->maps.tcp_free, slots);
	err = err ? err : bpf_map__set_max_entries(flow->maps.tcp_dirty, ring);
	return err ? err : bpf_map__set_max_entries(flow->maps.tcp_quarantine, ring);
}

static void boot_id(uint8_t out[16])
{
	char text[40] = "", hex[3] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), n = 0;
	unsigned int byte;

	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) < 36)
		text[0] = 0;
	close(fd);
	for (const char *p = text; *p && p[1] && n < 16; p += 2) {
		if (*p == '-')
			p++;
		memcpy(hex, p, 2);
		if (sscanf(hex, "%2x", &byte) != 1)
			return;
		out[n++] = (uint8_t)byte;
	}
}

int table_map(struct flow_bpf *flow, void **out, size_t *bytes)
{
	const struct sl_flow_settings *s = (const struct sl_flow_settings *)&flow->rodata->settings;
	uint64_t journal = (uint64_t)s->journal_first * SL_FLOW_SIZE;
	uint64_t journal_bytes = ((uint64_t)s->journal_mask + 1) * SL_LINE_SIZE;
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, SL_LINE_SIZE, SL_FLOWS_HOT_ELEMENT * SL_FLOW_SIZE, SL_LINE_SIZE},
		{SL_SECTION_FLOWS, SL_FLOW_SIZE, SL_FLOWS_FIRST_ELEMENT * SL_FLOW_SIZE,
		 (uint64_t)s->slots * SL_FLOW_SIZE},
		{SL_SECTION_JOURNAL, SL_LINE_SIZE, journal, journal_bytes},
	};
	uint64_t size = (journal + journal_bytes + 4095) & ~4095ull;
	struct sl_region_header *h;
	struct timespec now;

	h = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(flow->maps.tcp_flows),
		 0);
	if (h == MAP_FAILED)
		return -errno;
	memcpy(h->magic, SL_REGION_MAGIC, sizeof(h->magic));
	h->version = SL_REGION_VERSION;
	h->header_size = SL_HEADER_SIZE;
	h->size = size;
	h->kind = SL_REGION_FLOWS;
	h->pid = (uint32_t)getpid();
	clock_gettime(CLOCK_REALTIME, &now);
	h->start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	boot_id(h->boot_id);
	while (!h->instance)
		if (getrandom(&h->instance, sizeof(h->instance), 0) < 0 && errno != EINTR) {
			int err = -errno;

			munmap(h, size);
			return err;
		}
	h->section_count = sizeof(sections) / sizeof(*sections);
	memcpy(h->section, sections, sizeof(sections));
	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
	*out = h;
	*bytes = size;
	return 0;
}
