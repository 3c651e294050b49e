// SPDX-License-Identifier: Apache-2.0
/*
 * loss_order.c - tracks which report of a key is its reporter's newest. A report that was
 * overtaken, either through reordering in the network or because it was sent again, must not
 * overwrite newer data.
 *
 * Tracking is active only while a window has holes, because only late reports that fill holes can
 * be outdated. Each key-write, and each hop of a path, is then entered by its sequence number into
 * the hash chain of its key, newest first. A link that leads out of the window ends its chain, so
 * entries never need to be removed.
 */
#include "dta/translate/loss_internal.h"

#include <stdlib.h>
#include <string.h>

#include "dta/store/hash.h"

#define ORDERS_MAX 1024u /* reporters per table; a stranger can request one with two packets */

struct order_place {
	uint32_t tag;	/* tag of the key, never 0; 0 means no entry */
	uint32_t older; /* sequence number of the next entry in the chain */
};

struct dta_loss_order {
	struct order_place *place; /* indexed by sequence % window */
	/*
	 * sequence numbers of the first entries; there are as many chains as the window has reports
	 */
	uint32_t head[];
};

void dta_loss_hole(struct dta_loss_reporter *r)
{
	r->holed = true;
	r->hole = r->top;
}

void dta_loss_order_free(struct dta_loss *l, struct dta_loss_reporter *r)
{
	if (!r->order)
		return;
	free(r->order);
	r->order = NULL;
	l->table[r->authenticated].orders--;
}

static struct dta_loss_order *order_of(struct dta_loss *l, struct dta_loss_reporter *r)
{
	const uint32_t window = l->o.window;
	struct dta_loss_order *o = r->order;

	if (o || l->table[r->authenticated].orders == ORDERS_MAX)
		return o;
	o = calloc(1, sizeof(*o) + window * (sizeof(*o->head) + sizeof(*o->place)));
	if (!o)
		return NULL;
	o->place = (struct order_place *)(void *)(o->head + window);
	r->order = o;
	l->table[r->authenticated].orders++;
	return o;
}

/* Whether a link leads to a valid entry, which is inside the window and further down the chain. */
static bool leads_on(const struct dta_loss_reporter *r, const struct dta_loss_order *o,
		     uint32_t window, uint32_t link, uint32_t after)
{
	const uint32_t behind = dta_loss_behind(r, link);

	return behind > after && behind <= window && o->place[link & (window - 1)].tag;
}

/* Enters a report. Returns false if its key has a newer report. */
static bool enter_report(const struct dta_loss_reporter *r, struct dta_loss_order *o,
			 uint32_t window, uint32_t sequence, uint64_t hash)
{
	const uint32_t behind = dta_loss_behind(r, sequence), tag = (uint32_t)(hash >> 32) | 1;
	uint32_t *link = &o->head[hash & (window - 1)], at = 0;
	struct order_place *p;

	while (leads_on(r, o, window, *link, at) && dta_loss_behind(r, *link) < behind) {
		at = dta_loss_behind(r, *link);
		p = &o->place[*link & (window - 1)];
		if (p->tag == tag)
			return false;
		link = &p->older;
	}
	p = &o->place[sequence & (window - 1)];
	*p = (struct order_place){tag, *link};
	*link = sequence;
	return true;
}

uint32_t dta_loss_superseded(struct dta_loss *l, const struct dta_packet *packet, uint64_t *fresh)
{
	struct dta_loss_reporter *r = l->last;
	const uint32_t window = l->o.window;
	uint32_t report = 0, superseded = 0;
	struct dta_loss_order *o;

	if (!r || !r->holed || r->bits != 32)
		return 0;
	if (dta_loss_behind(r, r->hole) >= window) {
		r->holed = false;
		dta_loss_order_free(l, r);
		return 0;
	}
	o = order_of(l, r);
	if (!o) {
		l->gone.unordered += l->last_old;
		return 0;
	}
	for (uint32_t k = 0; k < packet->header.blocks; k++) {
		const struct dta_block *b = &packet->block[k];
		const uint64_t step = (uint64_t)b->key_bytes + b->value_bytes;
		/*
		 * The bytes that identify what is overwritten. For a postcard, the hop number after
		 * the key is included.
		 */
		const uint32_t bytes = b->key_bytes + (b->opcode == DTA_POSTCARD);

		if (b->opcode != DTA_KEYWRITE && b->opcode != DTA_POSTCARD) {
			report += b->count;
			continue;
		}
		for (uint32_t i = 0; i < b->count; i++, report++) {
			const uint32_t sequence = packet->header.sequence + report;

			if (!(fresh[report / 64] >> report % 64 & 1) ||
			    dta_loss_behind(r, sequence) > window ||
			    enter_report(r, o, window, sequence,
					 XXH3_64bits_withSeed(b->items + i * step, bytes,
							      l->seed + b->store)))
				continue;
			fresh[report / 64] &= ~(1ull << report % 64);
			superseded++;
		}
	}
	return superseded;
}
