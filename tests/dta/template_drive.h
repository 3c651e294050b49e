/* SPDX-License-Identifier: Apache-2.0 */
/* template_drive.h - hand-made messages of IPFIX and NetFlow 9, and a decoder for them. */
#ifndef TESTS_DTA_TEMPLATE_DRIVE_H
#define TESTS_DTA_TEMPLATE_DRIVE_H

#include <stdlib.h>

#include "device_drive.h"

#define SECOND UINT64_C(1000000000)

/* ---- a message, written number by number ---- */

static size_t set_at; /* of the open set in its message */

static inline void put(struct built *m, uint32_t bytes, uint64_t n)
{
	while (bytes--)
		put8(m, (uint8_t)(n >> 8 * bytes));
}

/* Numbers of 16 bits. */
#define PUT16(m, ...)                                                               \
	for (size_t i_ = 0; i_ < sizeof((const uint32_t[]){__VA_ARGS__}) / 4; i_++) \
	put16(m, ((const uint32_t[]){__VA_ARGS__})[i_])

static inline void begin_set(struct built *m, uint32_t id)
{
	set_at = m->bytes;
	PUT16(m, id, 0);
}

static inline void end_set(struct built *m)
{
	dta_put16(m->at + set_at + 2, (uint32_t)(m->bytes - set_at));
}

static inline void ipfix(struct built *m, uint32_t sequence, uint32_t domain)
{
	m->bytes = 0;
	PUT16(m, 10, 0);
	put(m, 4, 1700000000);
	put(m, 4, sequence);
	put(m, 4, domain);
}

static inline void netflow9(struct built *m, uint32_t uptime, uint32_t sequence, uint32_t source)
{
	m->bytes = 0;
	PUT16(m, 9, 1);
	put(m, 4, uptime);
	put(m, 4, 1700000000);
	put(m, 4, sequence);
	put(m, 4, source);
}

/* ---- a decoder, and what it gave ---- */

static inline struct drive *run_new(const char *kind)
{
	struct drive *x = calloc(1, sizeof(*x));

	assert_non_null(x);
	drive_begin(x, dta_device_decoder(dta_device_find(kind)));
	x->now_ns = 1000 * SECOND;
	x->sender = "192.0.2.100";
	x->port = 2000;
	return x;
}

static inline void run_end(struct drive *x)
{
	drive_end(x);
	free(x);
}

/* Returns the number of decoded records. */
static inline size_t give(struct drive *x, struct built *m)
{
	if (m->at[1] == 10)
		dta_put16(m->at + 2, (uint32_t)m->bytes);
	return drive_take(x, m);
}

static inline const struct dta_record *last(const struct drive *x)
{
	assert_true(x->n);
	return &x->got[x->n - 1];
}

static inline void has_number(const struct dta_record *r, enum dta_field f, uint64_t n)
{
	if (!(r->has >> f & 1))
		fail_msg("no field %u", (unsigned int)f);
	if (r->number[f] != n)
		fail_msg("field %u is %llu, not %llu", (unsigned int)f,
			 (unsigned long long)r->number[f], (unsigned long long)n);
}

static inline uint64_t refused(const struct drive *x, enum dta_device_refusal r)
{
	return x->d->stats.refused[r];
}

/* Template 256: two addresses, protocol, ports, packets and bytes of 4 bytes: 21 bytes a record. */
static inline void usual_template(struct built *m, uint32_t id)
{
	begin_set(m, m->at[1] == 10 ? 2 : 0);
	PUT16(m, id, 7, 8, 4, 12, 4, 4, 1, 7, 2, 11, 2, 2, 4, 1, 4);
	end_set(m);
}

static inline void usual_data(struct built *m, uint32_t id, uint32_t records)
{
	begin_set(m, id);
	for (uint32_t i = 0; i < records; i++) {
		put_address(m, "192.0.2.1");
		put_address(m, "192.0.2.2");
		put(m, 1, 17);
		PUT16(m, 1000 + i, 53);
		put(m, 4, 10 + i);
		put(m, 4, 1000 + i);
	}
	end_set(m);
}

#endif
