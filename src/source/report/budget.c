// SPDX-License-Identifier: Apache-2.0
#include "source/report/budget.h"

#include <linux/types.h>
#include <sys/socket.h>

#include "dta/wire/auth.h"
#include "dta/wire/wire.h"
#include "source/report/shared.h"

/* minimum interval between requests for an answer, and between packets sent without credit */
#define EACH_NS 100000000ull

static bool is_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

static bool mac_is_valid(const struct report_budget *b, const void *answer, size_t bytes,
			 const struct dta_answer *a)
{
	return !b->key || (bytes == DTA_ANSWER_BYTES + 8u * a->ranges + DTA_MAC_BYTES &&
			   dta_mac_fits(b->key, answer, bytes));
}

static void read_answers(struct report_budget *b, uint32_t handed)
{
	uint8_t p[DTA_ANSWER_BYTES + 8 * DTA_RANGES_MAX + DTA_MAC_BYTES + 1];
	struct dta_answer a;
	uint32_t newest;
	ssize_t n;

	for (int i = 0; b->fd >= 0 && i < 64; i++) {
		n = recv(b->fd, p, sizeof(p), MSG_DONTWAIT);
		if (n < 0) /* no answer is waiting, or the socket reports ECONNREFUSED */
			break;
		if (dta_answer_parse(p, (size_t)n, &a) || a.reporter != b->reporter ||
		    a.incarnation != b->incarnation || !mac_is_valid(b, p, (size_t)n, &a)) {
			b->refused++;
			continue;
		}
		newest = a.next;
		for (uint32_t r = 0; a.type == DTA_ACK && r < a.ranges; r++)
			if (is_after(a.range[r].first + a.range[r].count, newest))
				newest = a.range[r].first + a.range[r].count;
		/* the answer acknowledges more reports than were sent */
		if (is_after(newest, handed)) {
			b->refused++;
			continue;
		}
		if (is_after(newest, b->next))
			b->next = newest;
		b->credits = a.credits;
		b->answers++;
	}
}

struct report_allowed report_budget(struct report_budget *b, uint32_t handed, uint64_t now_ns)
{
	struct report_allowed now = {0};

	read_answers(b, handed);
	now.limited = b->credits != ~0u;
	if (!now.limited) {
		b->next = b->floor = handed; /* reports sent so far do not use up later credits */
	} else {
		if (is_after(handed, b->floor))
			b->floor = handed;
		now.allowed = b->next + b->credits;
		/* If there is no credit, send a packet from time to time to ask for more. */
		if (!is_after(now.allowed, handed) && now_ns - b->let_ns >= EACH_NS) {
			b->floor = handed + RPT_ITEMS;
			b->let_ns = now_ns;
		}
		if (is_after(b->floor, now.allowed))
			now.allowed = b->floor;
	}
	if (b->fd >= 0 && (now.limited || now_ns - b->asked_ns >= EACH_NS) &&
	    (handed != b->asked_at || now.limited)) {
		now.ask = true;
		b->asked_ns = now_ns;
		b->asked_at = handed;
	}
	return now;
}
