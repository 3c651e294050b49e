// SPDX-License-Identifier: Apache-2.0
#include <stdbool.h>

#include "base/base.h"
#include "fabric/merge.h"

/*
 * Adds a READ whose memory follows, with at most one gap, which lands in the sink. A gap is within
 * one region, so it is readable.
 */
static bool add_read(struct fabric_merged *m, const struct fabric_merge_limits *limits,
		     const struct fabric_read *last, const struct fabric_read *r)
{
	struct iovec *area = &m->area[m->areas - 1];
	uint64_t end = m->addr + m->bytes;
	uint64_t at = r->remote->addr + r->offset, gap = at - end;

	if (r->remote->rkey != m->rkey || at < end || gap > FABRIC_MERGE_GAP_MAX ||
	    (gap && r->remote->addr != last->remote->addr) ||
	    m->bytes + gap + r->length > BASE_MIN(limits->bytes, FABRIC_MERGE_BYTES_MAX))
		return false;
	if (!gap && (char *)area->iov_base + area->iov_len == (char *)r->to) {
		area->iov_len += r->length;
	} else {
		if (m->areas + (gap ? 2 : 1) > limits->areas)
			return false;
		if (gap)
			m->area[m->areas++] = (struct iovec){limits->sink, gap};
		m->area[m->areas++] = (struct iovec){r->to, r->length};
	}
	m->bytes += gap + r->length;
	m->reads++;
	return true;
}

void fabric_merge(struct fabric_merged *m, const struct fabric_merge_limits *limits,
		  const struct fabric_read *reads, uint32_t count)
{
	m->addr = reads->remote->addr + reads->offset;
	m->bytes = reads->length;
	m->rkey = reads->remote->rkey;
	m->reads = m->areas = 1;
	m->area[0] = (struct iovec){reads->to, reads->length};
	while (m->reads < count && add_read(m, limits, &reads[m->reads - 1], &reads[m->reads]))
		;
}
