// SPDX-License-Identifier: Apache-2.0
/* streams.c - detects lost datagrams by their sequence numbers (streams.h) */
#include <stdlib.h>

#include "base/hash.h"
#include "dta/store/hash.h"
#include "streams.h"

struct dta_streams *dta_streams_make(uint32_t places)
{
	struct dta_streams *s = calloc(1, sizeof(*s) + places * sizeof(*s->place));

	if (!s)
		return NULL;
	s->sets = places / DTA_STREAM_WAYS;
	/* base_hash() has a secret key, so senders cannot predict which streams share a set. */
	s->seed = base_hash_u64((uintptr_t)s);
	return s;
}

static void age_streams(struct dta_streams *s, uint64_t now_ns)
{
	if (now_ns - s->aged_ns < DTA_STREAM_FORGET_NS / 10)
		return;
	s->aged_ns = now_ns;
	for (uint32_t i = 0; i < s->sets * DTA_STREAM_WAYS; i++) {
		struct dta_stream *p = &s->place[i];

		if (p->heard_ns && now_ns - p->heard_ns >= DTA_STREAM_FORGET_NS) {
			p->heard_ns = 0;
			s->known--;
		}
	}
}

struct dta_stream *dta_streams_find(struct dta_streams *s, const struct in6_addr *address,
				    uint64_t id, uint64_t now_ns)
{
	const uint64_t of = XXH3_64bits_withSeed(address, sizeof(*address), s->seed);
	const uint64_t in = XXH3_64bits_withSeed(&id, sizeof(id), s->seed) % DTA_STREAM_SETS;
	struct dta_stream *set = s->place + ((of + in) & (s->sets - 1)) * DTA_STREAM_WAYS;
	struct dta_stream *oldest = set;

	age_streams(s, now_ns);
	for (struct dta_stream *p = set; p < set + DTA_STREAM_WAYS; p++) {
		if (p->heard_ns && p->id == id && IN6_ARE_ADDR_EQUAL(&p->address, address)) {
			p->heard_ns = now_ns;
			return p;
		}
		if (p->heard_ns < oldest->heard_ns)
			oldest = p;
	}
	if (oldest->heard_ns && now_ns - oldest->heard_ns < DTA_STREAM_SILENT_NS)
		return NULL;
	if (!oldest->heard_ns)
		s->known++;
	*oldest =
		(struct dta_stream){.address = *address, .id = id, .heard_ns = now_ns ? now_ns : 1};
	return oldest;
}

void dta_stream_take(struct dta_stream *s, uint32_t number, unsigned int bits, uint32_t drops,
		     uint64_t *lost, uint64_t *restarts)
{
	const unsigned int spare = 32 - bits;
	const int32_t ahead = (int32_t)((number - s->next) << spare) >> spare;

	if (s->seen && ahead < 0 && ahead >= -(int32_t)DTA_STREAM_LATE) {
		const uint64_t bit = UINT64_C(1) << (-ahead - 1);

		if (!(s->seen & bit) && *lost)
			--*lost;
		s->seen |= bit;
		return;
	}
	if (s->seen && ahead >= 0 && (uint32_t)ahead <= DTA_STREAM_JUMP) {
		*lost += (uint32_t)ahead;
		if (drops - s->drops <= DTA_STREAM_JUMP)
			*lost += drops - s->drops;
		s->seen = ahead < 63 ? s->seen << (ahead + 1) | 1 : 1;
	} else {
		*restarts += s->seen != 0;
		s->seen = UINT64_MAX;
	}
	s->next = number + 1;
	s->drops = drops;
}
