// SPDX-License-Identifier: Apache-2.0
/* exporter.c - table of exporters with bounded memory (exporter.h) */
#include "dta/device/exporter.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "dta/device/template.h"

#define TEMPLATE_BYTES (64ul << 20)  /* total size of all templates */
#define TEMPLATE_SHARE (128ul << 10) /* template bytes per exporter */
#define LATE	       65536u /* a datagram up to this many units behind the newest is late */
/* a number more than this many units ahead means that the numbering restarted */
#define JUMP (1u << 20)
/* largest backward step in uptime that reordering of datagrams explains */
#define BACK_MS 60000u

TAILQ_HEAD(exporter_row, dta_exporter); /* ordered by heard_ns, oldest first */

struct dta_exporters {
	struct dta_device_stats *stats;
	size_t template_bytes;
	struct exporter_row row[2]; /* exporters by state: unproven, then proven */
	struct base_table table;    /* by address; the exporter heard last comes first */
};

static uint64_t hash_of(const struct in6_addr *address)
{
	return base_hash(0, address, sizeof(*address));
}

static void drop_exporter(struct dta_exporters *x, struct dta_exporter *e)
{
	base_table_remove(&x->table, e);
	TAILQ_REMOVE(&x->row[e->proven], e, row);
	dta_exporters_forget(x, e);
	free(e);
	x->stats->exporters--;
}

static bool is_idle(const struct dta_exporter *e, uint64_t now)
{
	return now - e->heard_ns > DTA_EXPORTER_IDLE_NS;
}

/* Returns the exporter to be replaced, other than keep, or NULL if none may be replaced. */
static struct dta_exporter *find_weakest(struct dta_exporters *x, const struct dta_exporter *keep,
					 uint64_t now)
{
	struct dta_exporter *e = TAILQ_FIRST(&x->row[0]);

	if (e == keep && e)
		e = TAILQ_NEXT(e, row);
	if (e)
		return e;
	e = TAILQ_FIRST(&x->row[1]);
	return e && e != keep && is_idle(e, now) ? e : NULL;
}

/* ---- exporters ---- */

static void note_heard(struct dta_exporters *x, struct dta_exporter *e, uint64_t now)
{
	TAILQ_REMOVE(&x->row[e->proven], e, row);
	e->heard_ns = now;
	e->proven |= now - e->made_ns >= DTA_EXPORTER_PROVEN_NS;
	TAILQ_INSERT_TAIL(&x->row[e->proven], e, row);
	for (int i = 0; i < 2; i++) {
		struct dta_exporter *old = TAILQ_FIRST(&x->row[i]);

		if (old && now - old->heard_ns > DTA_EXPORTER_LIFETIME_NS)
			drop_exporter(x, old);
	}
}

struct dta_exporter *dta_exporters_find(struct dta_exporters *x, const struct dta_datagram *d,
					uint32_t domain, uint64_t now)
{
	const uint64_t hash = hash_of(&d->address);
	struct dta_exporter *e = base_table_first(&x->table, hash);

	while (e && (e->domain != domain || e->port != d->port ||
		     memcmp(&e->address, &d->address, sizeof(e->address))))
		e = base_table_next(e);
	if (!e)
		return NULL;
	base_table_remove(&x->table, e);
	base_table_add(&x->table, e, hash);
	note_heard(x, e, now);
	return e;
}

/* Makes room for one more exporter with this address. Returns false if that is impossible. */
static bool make_room(struct dta_exporters *x, const struct in6_addr *address, uint64_t now)
{
	struct dta_exporter *give = NULL;
	uint32_t n = 0;

	struct dta_exporter *e = base_table_first(&x->table, hash_of(address));

	for (; e; e = base_table_next(e)) {
		if (memcmp(&e->address, address, sizeof(*address)))
			continue;
		n++;
		if ((!e->proven || is_idle(e, now)) &&
		    (!give || e->heard_ns <= give->heard_ns)) /* chains are newest first */
			give = e;
	}
	if (n < DTA_EXPORTERS_SHARE) {
		if (x->stats->exporters < DTA_EXPORTERS)
			return true;
		give = find_weakest(x, NULL, now);
	}
	if (give)
		drop_exporter(x, give);
	return give;
}

struct dta_exporter *dta_exporters_make(struct dta_exporters *x, const struct dta_datagram *d,
					uint32_t domain, uint64_t now)
{
	struct dta_exporter *e;

	if (!make_room(x, &d->address, now) || !(e = calloc(1, sizeof(*e)))) {
		x->stats->refused[DTA_DEVICE_NO_ROOM]++;
		return NULL;
	}
	e->address = d->address;
	e->port = d->port;
	e->domain = domain;
	e->made_ns = e->heard_ns = now;
	base_table_add(&x->table, e, hash_of(&d->address));
	TAILQ_INSERT_TAIL(&x->row[0], e, row);
	x->stats->exporters++;
	return e;
}

bool dta_exporters_reserve(struct dta_exporters *x, struct dta_exporter *e, ptrdiff_t bytes,
			   uint64_t now)
{
	struct dta_exporter *other;

	if (bytes > 0 && e->template_bytes + (size_t)bytes > TEMPLATE_SHARE)
		return false;
	while (bytes > 0 && x->template_bytes + (size_t)bytes > TEMPLATE_BYTES) {
		other = find_weakest(x, e, now);
		if (!other)
			return false;
		drop_exporter(x, other);
	}
	e->template_bytes += (size_t)bytes;
	x->template_bytes += (size_t)bytes;
	return true;
}

void dta_exporters_forget(struct dta_exporters *x, struct dta_exporter *e)
{
	x->stats->templates -= dta_templates_free(e);
	dta_exporters_reserve(x, e, -(ptrdiff_t)e->template_bytes, 0);
}

struct dta_exporters *dta_exporters_new(struct dta_device_stats *stats)
{
	struct dta_exporters *x = calloc(1, sizeof(*x));

	if (!x || !base_table_init(&x->table)) {
		free(x);
		return NULL;
	}
	x->stats = stats;
	TAILQ_INIT(&x->row[0]);
	TAILQ_INIT(&x->row[1]);
	return x;
}

void dta_exporters_free(struct dta_exporters *x)
{
	if (!x)
		return;
	for (int i = 0; i < 2; i++)
		while (!TAILQ_EMPTY(&x->row[i]))
			drop_exporter(x, TAILQ_FIRST(&x->row[i]));
	base_table_free(&x->table);
	free(x);
}

/* ---- one exporter ---- */

void dta_exporter_number(struct dta_exporter *e, struct dta_device_stats *stats, uint32_t number,
			 uint32_t units)
{
	const uint32_t ahead = number - e->expected, behind = e->expected - number;

	if (!e->numbered) {
		e->missing = 0;
	} else if (ahead <= JUMP) {
		stats->lost += ahead;
		e->missing += ahead;
	} else if (behind <= LATE && number) {
		const uint32_t back = units < e->missing ? units : e->missing;

		stats->lost -= back;
		e->missing -= back;
		return;
	} else {
		stats->restarts++;
		e->missing = 0;
	}
	e->numbered = true;
	e->expected = number + units;
}

bool dta_exporter_restarted(struct dta_exporter *e, uint32_t uptime)
{
	const uint32_t back = e->uptime - uptime;
	/*
	 * The uptime wraps after 49 days. After a wrap the difference is large, which means that
	 * time moved forwards.
	 */
	const bool restarted = e->timed && back > BACK_MS && back < UINT32_MAX / 2;

	if (!e->timed || restarted || back > UINT32_MAX / 2)
		e->uptime = uptime;
	e->timed = true;
	return restarted;
}

bool dta_exporter_sample(struct dta_exporter *e, bool has_id, uint64_t id, uint64_t sampling)
{
	const uint32_t n = sampling < UINT32_MAX ? (uint32_t)sampling : UINT32_MAX;
	uint32_t i = 0;

	if (!has_id) {
		e->sampling = n;
		return true;
	}
	while (i < e->selectors && e->selector[i].id != id)
		i++;
	if (i == DTA_EXPORTER_SELECTORS)
		return false;
	e->selector[i].id = id;
	e->selector[i].sampling = n;
	e->selectors += i == e->selectors;
	return true;
}

/* Returns the rate that this exporter stated, or 0. */
static uint32_t stated_sampling(const struct dta_exporter *e, bool has_id, uint64_t id)
{
	uint32_t n = e->sampling;

	for (uint32_t i = 0; i < e->selectors; i++)
		/* If an exporter has only one sampler, it applies to all records that name none. */
		if ((has_id && e->selector[i].id == id) || (!has_id && !n && e->selectors == 1))
			n = e->selector[i].sampling;
	return n;
}

uint32_t dta_exporters_sampling(struct dta_exporters *x, const struct dta_exporter *e, bool has_id,
				uint64_t id)
{
	const struct dta_exporter *o = base_table_first(&x->table, e->node.hash);
	uint32_t n = stated_sampling(e, has_id, id);

	if (n)
		return n;
	for (; o; o = base_table_next(o)) {
		uint32_t other;

		if (o->domain != e->domain || !IN6_ARE_ADDR_EQUAL(&o->address, &e->address))
			continue;
		other = stated_sampling(o, has_id, id);
		if (n && other && n != other)
			return 1;
		n = other ? other : n;
	}
	return n ? n : 1;
}
