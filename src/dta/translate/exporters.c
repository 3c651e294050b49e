// SPDX-License-Identifier: Apache-2.0
/* exporters.c - counters per exporter (exporters.h) */
#include "dta/translate/exporters.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/network.h"
#include "dta/device/exporter.h"
#include "dta/translate/control.h"
#include "dta/wire/endian.h"

/* Counters of an exporter; templates is a gauge. */
struct exporter_counts {
	uint64_t datagrams, records, options, lost, restarts, no_template, refused, unmapped,
		saturated, templates;
};

struct exporter_entry {
	struct base_node node;		 /* hash of the address */
	TAILQ_ENTRY(exporter_entry) row; /* list of proven or unproven ones, by heard_ns */
	struct in6_addr address;
	bool proven;
	uint64_t made_ns, heard_ns; /* CLOCK_REALTIME */
	uint64_t evicted;	    /* of the shared entry: exporters that lost their own */
	uint64_t sampling; /* sampling rate of the last record that had one; 0 means none */
	bool timed;
	/* the exporter's clock minus ours, in seconds, at the last datagram */
	double offset;
	struct exporter_counts counts;
};

TAILQ_HEAD(entry_row, exporter_entry);

struct dta_exporter_list {
	enum dta_device input;
	uint32_t listed;
	uint64_t sampling;
	struct exporter_counts before;
	struct base_table table;
	struct entry_row row[2]; /* unproven, then proven; silent longest first */
	struct exporter_entry entry[DTA_EXPORTERS_LISTED], other;
};

static const struct {
	const char *name;
	size_t at;
} counters[] = {
#define C(name)                                               \
	{                                                     \
#name, offsetof(struct exporter_counts, name) \
	}
	C(datagrams),	C(records), C(options),	 C(lost),      C(restarts),
	C(no_template), C(refused), C(unmapped), C(saturated), C(templates),
};
#define COUNTERS (sizeof(counters) / sizeof(*counters))

static uint64_t *counter(struct exporter_counts *c, size_t i)
{
	return (uint64_t *)(void *)((char *)c + counters[i].at);
}

static struct exporter_counts counts_of(const struct dta_device_stats *s,
					const struct dta_map_stats *m)
{
	struct exporter_counts c = {.datagrams = s->datagrams,
				    .records = s->records,
				    .options = s->options,
				    .lost = s->lost,
				    .restarts = s->restarts,
				    .no_template = s->refused[DTA_DEVICE_NO_TEMPLATE],
				    .unmapped = m->unmapped,
				    .saturated = m->saturated,
				    .templates = s->templates};

	for (int i = DTA_DEVICE_FINE + 1; i < DTA_DEVICE_REFUSALS; i++)
		c.refused += i == DTA_DEVICE_NO_TEMPLATE ? 0 : s->refused[i];
	return c;
}

struct dta_exporter_list *dta_exporter_list_new(enum dta_device input)
{
	struct dta_exporter_list *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->input = input;
	for (int i = 0; i < 2; i++)
		TAILQ_INIT(&l->row[i]);
	if (base_table_init(&l->table))
		return l;
	free(l);
	return NULL;
}

void dta_exporter_list_free(struct dta_exporter_list *l)
{
	if (l)
		base_table_free(&l->table);
	free(l);
}

static uint64_t hash_of(const struct in6_addr *address)
{
	return base_hash(0, address, sizeof(*address));
}

/* Adds a counter's change, which may be negative. */
static void move_counter(uint64_t *to, int64_t moved)
{
	*to = moved < 0 && *to < (uint64_t)-moved ? 0 : *to + (uint64_t)moved;
}

/*
 * Takes the entry of the exporter that has been silent longest, as the decoder does
 * (device/exporter.h): a flood of forged addresses takes only those of other forged ones. Its
 * counts go to the shared entry. Returns NULL if all are in use.
 */
static struct exporter_entry *evict_entry(struct dta_exporter_list *l, uint64_t real_ns)
{
	struct exporter_entry *e = TAILQ_FIRST(&l->row[0]);

	if (!e) {
		e = TAILQ_FIRST(&l->row[1]);
		/* The clock may have been set back. */
		if (real_ns < e->heard_ns || real_ns - e->heard_ns <= DTA_EXPORTER_IDLE_NS)
			return NULL;
	}
	for (size_t i = 0; i < COUNTERS; i++)
		*counter(&l->other.counts, i) += *counter(&e->counts, i);
	l->other.heard_ns = BASE_MAX(l->other.heard_ns, e->heard_ns);
	l->other.evicted++;
	base_table_remove(&l->table, e);
	TAILQ_REMOVE(&l->row[e->proven], e, row);
	*e = (struct exporter_entry){0};
	return e;
}

/* Returns the exporter's entry, a new one, or the shared one; notes that it was heard. */
static struct exporter_entry *find_entry(struct dta_exporter_list *l, const struct in6_addr *a,
					 uint64_t real_ns)
{
	struct exporter_entry *e = base_table_first(&l->table, hash_of(a));

	while (e && memcmp(&e->address, a, sizeof(*a)))
		e = base_table_next(e);
	if (e) {
		TAILQ_REMOVE(&l->row[e->proven], e, row);
		e->proven |= real_ns > e->made_ns && real_ns - e->made_ns >= DTA_EXPORTER_PROVEN_NS;
	} else {
		e = l->listed < DTA_EXPORTERS_LISTED ? &l->entry[l->listed++]
						     : evict_entry(l, real_ns);
		if (!e) {
			l->other.heard_ns = real_ns;
			return &l->other;
		}
		e->address = *a;
		e->made_ns = real_ns;
		base_table_add(&l->table, e, hash_of(a));
	}
	TAILQ_INSERT_TAIL(&l->row[e->proven], e, row);
	e->heard_ns = real_ns;
	return e;
}

void dta_exporter_list_before(struct dta_exporter_list *l, const struct dta_device_stats *stats,
			      const struct dta_map_stats *map)
{
	l->before = counts_of(stats, map);
	l->sampling = 0;
}

void dta_exporter_list_record(struct dta_exporter_list *l, const struct dta_record *r)
{
	if (r->has >> DTA_FIELD_SAMPLING & 1)
		l->sampling = r->number[DTA_FIELD_SAMPLING];
}

/* Records the difference of clocks. sFlow and INT only send uptimes. */
static void note_clock(const struct dta_exporter_list *l, struct exporter_entry *e,
		       const struct dta_datagram *d, uint64_t real_ns)
{
	const size_t at = l->input == DTA_DEVICE_IPFIX ? 4 : 8;

	if ((l->input != DTA_DEVICE_IPFIX && l->input != DTA_DEVICE_NETFLOW) || d->bytes < at + 4)
		return;
	e->timed = true;
	e->offset = (double)dta_get32(d->data + at) - (double)real_ns * 1e-9;
}

void dta_exporter_list_after(struct dta_exporter_list *l, const struct dta_datagram *d,
			     const struct dta_device_stats *stats, const struct dta_map_stats *map,
			     uint64_t real_ns)
{
	struct exporter_counts now = counts_of(stats, map);
	struct exporter_entry *e = find_entry(l, &d->address, real_ns);

	/* A late datagram reduces lost, a replaced exporter reduces templates. */
	for (size_t i = 0; i < COUNTERS; i++)
		move_counter(counter(&e->counts, i),
			     (int64_t)(*counter(&now, i) - *counter(&l->before, i)));
	if (l->sampling)
		e->sampling = l->sampling;
	note_clock(l, e, d, real_ns);
}

/* ---- JSON ---- */

static json_t *entry_json(const char *input, const char *address, struct exporter_entry *e,
			  double silent)
{
	json_t *j = json_pack("{s:s,s:s,s:f}", "input", input, "address", address, "silent_seconds",
			      silent);

	for (size_t i = 0; i < COUNTERS; i++)
		json_object_set_new(j, counters[i].name,
				    json_integer((json_int_t)*counter(&e->counts, i)));
	if (e->sampling)
		json_object_set_new(j, "sampling", json_integer((json_int_t)e->sampling));
	if (e->timed)
		json_object_set_new(j, "clock_offset_seconds", json_real(e->offset));
	if (e->evicted)
		json_object_set_new(j, "evicted", json_integer((json_int_t)e->evicted));
	return j;
}

void dta_exporter_list_json(json_t *to, const struct dta_exporter_list *l, uint64_t real_ns)
{
	char text[INET6_ADDRSTRLEN];

	for (uint32_t i = 0; i <= DTA_EXPORTERS_LISTED; i++) {
		struct exporter_entry e = i < DTA_EXPORTERS_LISTED ? l->entry[i] : l->other;

		if (e.heard_ns)
			json_array_append_new(
				to, entry_json(dta_device_name(l->input),
					       i < DTA_EXPORTERS_LISTED
						       ? base_address_text(&e.address, text)
						       : "other",
					       &e,
					       real_ns > e.heard_ns
						       ? (double)(real_ns - e.heard_ns) * 1e-9
						       : 0));
	}
}

json_t *dta_exporters_checked(const json_t *said)
{
	json_t *all = json_array(), *j;
	size_t i;

	json_array_foreach(said, i, j)
	{
		const char *input = json_string_value(json_object_get(j, "input"));
		const char *address = json_string_value(json_object_get(j, "address"));
		const json_t *offset = json_object_get(j, "clock_offset_seconds");
		struct exporter_entry e = {.sampling = dta_control_number(j, "sampling"),
					   .evicted = dta_control_number(j, "evicted"),
					   .timed = json_is_number(offset),
					   .offset = json_number_value(offset)};
		struct in6_addr parsed;

		if (!input || !address || i >= DTA_EXPORTERS_TOLD ||
		    dta_device_find(input) == DTA_DEVICES ||
		    (strcmp(address, "other") && !base_address_read(address, &parsed)))
			continue;
		for (size_t k = 0; k < COUNTERS; k++)
			*counter(&e.counts, k) = dta_control_number(j, counters[k].name);
		json_array_append_new(
			all, entry_json(input, address, &e,
					json_number_value(json_object_get(j, "silent_seconds"))));
	}
	return all;
}
