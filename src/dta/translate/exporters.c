// SPDX-License-Identifier: Apache-2.0
/* exporters.c - counters per exporter (exporters.h) */
#include "dta/translate/exporters.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/network.h"
#include "dta/translate/control.h"
#include "dta/wire/endian.h"

#define PLACES 512u /* size of the hash table; a power of 2 greater than DTA_EXPORTERS_LISTED */

/* Counters of an exporter; templates is a gauge. */
struct exporter_counts {
	uint64_t datagrams, records, options, lost, restarts, no_template, refused, unmapped,
		saturated, templates;
};

struct exporter_entry {
	struct in6_addr address;
	bool used;
	uint64_t heard_ns; /* CLOCK_REALTIME */
	uint64_t sampling; /* sampling rate of the last record that had one; 0 means none */
	bool timed;
	/* the exporter's clock minus ours, in seconds, at the last datagram */
	double offset;
	struct exporter_counts counts;
};

struct dta_exporter_list {
	enum dta_device input;
	uint32_t listed;
	uint64_t sampling;
	struct exporter_counts before;
	struct exporter_entry entry[PLACES], other;
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

	if (l)
		l->input = input;
	return l;
}

void dta_exporter_list_free(struct dta_exporter_list *l)
{
	free(l);
}

static struct exporter_entry *find_entry(struct dta_exporter_list *l, const struct in6_addr *a)
{
	const uint32_t mixed = (dta_get32(a->s6_addr + 8) ^ dta_get32(a->s6_addr + 12) ^
				dta_get32(a->s6_addr + 4)) *
			       0x9e3779b1u;

	for (uint32_t i = mixed >> 23;; i++) {
		struct exporter_entry *e = &l->entry[i % PLACES];

		if (e->used && !memcmp(&e->address, a, sizeof(*a)))
			return e;
		if (e->used)
			continue;
		if (l->listed == DTA_EXPORTERS_LISTED)
			return &l->other;
		l->listed++;
		e->used = true;
		e->address = *a;
		return e;
	}
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
	struct exporter_entry *e = find_entry(l, &d->address);

	/*
	 * The change may be negative: a late datagram reduces lost, a replaced exporter reduces
	 * templates.
	 */
	for (size_t i = 0; i < COUNTERS; i++) {
		const int64_t moved = (int64_t)(*counter(&now, i) - *counter(&l->before, i));
		uint64_t *to = counter(&e->counts, i);

		*to = moved < 0 && *to < (uint64_t)-moved ? 0 : *to + (uint64_t)moved;
	}
	e->heard_ns = real_ns;
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
	return j;
}

void dta_exporter_list_json(json_t *to, const struct dta_exporter_list *l, uint64_t real_ns)
{
	char text[INET6_ADDRSTRLEN];

	for (uint32_t i = 0; i <= PLACES; i++) {
		struct exporter_entry e = i < PLACES ? l->entry[i] : l->other;

		if (e.heard_ns)
			json_array_append_new(
				to, entry_json(dta_device_name(l->input),
					       i < PLACES ? base_address_text(&e.address, text)
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
