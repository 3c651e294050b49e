// SPDX-License-Identifier: Apache-2.0
#include "base/share.h"

#include "base/base.h"

#define FIRST 64u /* the first claim of a tenant is at most capacity / FIRST */

uint64_t base_share_limit(const struct base_share *s, uint64_t held, bool trusted)
{
	uint64_t free = s->capacity > s->used ? s->capacity - s->used : 0;
	uint64_t open = free > s->reserve ? free - s->reserve : 0;
	/* If the tenant takes w more, it holds held + w, and open - w remain free. */
	uint64_t share = open > held ? held + (open - held) / 2 : held;
	uint64_t first = s->capacity < FIRST ? 1 : s->capacity / FIRST;

	if (trusted)
		return held + free;
	first = BASE_MIN(first, free);
	return held ? share : BASE_MAX(share, first);
}

bool base_share_may(const struct base_share *s, uint64_t held, uint64_t want, bool trusted)
{
	return want <= base_share_limit(s, held, trusted) - held;
}
