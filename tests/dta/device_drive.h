/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_drive.h - builds datagrams of devices, and keeps the records that a decoder makes of them.
 */
#ifndef TESTS_DTA_DEVICE_DRIVE_H
#define TESTS_DTA_DEVICE_DRIVE_H

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "dta/device/device.h"
#include "dta/wire/endian.h"

struct built {
	uint8_t at[4096];
	size_t bytes;
};

static inline void put_bytes(struct built *b, const void *p, size_t bytes)
{
	assert_true(b->bytes + bytes <= sizeof(b->at));
	memcpy(b->at + b->bytes, p, bytes);
	b->bytes += bytes;
}

static inline void put8(struct built *b, uint8_t v)
{
	put_bytes(b, &v, 1);
}

static inline void put16(struct built *b, uint32_t v)
{
	uint8_t be[2];

	dta_put16(be, v);
	put_bytes(b, be, 2);
}

static inline void put32(struct built *b, uint32_t v)
{
	uint8_t be[4];

	dta_put32(be, v);
	put_bytes(b, be, 4);
}

static inline void put_many32(struct built *b, const uint32_t *v, size_t n)
{
	while (n--)
		put32(b, *v++);
}
#define PUT32(b, ...)                                  \
	put_many32(b, (const uint32_t[]){__VA_ARGS__}, \
		   sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static inline void put64(struct built *b, uint64_t v)
{
	put32(b, (uint32_t)(v >> 32));
	put32(b, (uint32_t)v);
}

static inline void put_address(struct built *b, const char *text)
{
	uint8_t bytes[16];
	const int family = strchr(text, ':') ? AF_INET6 : AF_INET;

	assert_int_equal(inet_pton(family, text, bytes), 1);
	put_bytes(b, bytes, family == AF_INET ? 4 : 16);
}

/* An IPv4 header of 20 bytes, with this many bytes after it. */
static inline void put_ipv4(struct built *b, uint8_t tos, uint8_t protocol, uint16_t fragment,
			    const char *from, const char *to, size_t above)
{
	PUT32(b, 0x45000000u | (uint32_t)tos << 16 | (uint32_t)(20 + above), fragment,
	      64u << 24 | (uint32_t)protocol << 16);
	put_address(b, from);
	put_address(b, to);
}

static inline void put_tcp(struct built *b, uint16_t from, uint16_t to, uint8_t flags)
{
	put16(b, from);
	put16(b, to);
	PUT32(b, 1, 2, 0x50000000u | (uint32_t)flags << 16 | 1000, 0);
}

static inline void put_udp(struct built *b, uint16_t from, uint16_t to, size_t above)
{
	put16(b, from);
	put16(b, to);
	put16(b, (uint32_t)(8 + above));
	put16(b, 0);
}

static inline void put_ethernet(struct built *b, uint16_t type)
{
	put_bytes(b, "\x02\0\0\0\0\x01\x02\0\0\0\0\x02", 12);
	put16(b, type);
}

/* Numbers of the headers that these functions build, for check_numbers(). */
#define ETHERNET_NUMBERS                             \
	{DTA_FIELD_DESTINATION_MAC, 0x020000000001}, \
	{                                            \
		DTA_FIELD_SOURCE_MAC, 0x020000000002 \
	}
#define IP_NUMBERS(tos, ttl)                                \
	{DTA_FIELD_TOS, tos}, {DTA_FIELD_DSCP, (tos) >> 2}, \
	{                                                   \
		DTA_FIELD_TTL, ttl                          \
	}

#define DRIVE_RECORDS 64

struct drive {
	struct dta_decoder *d;
	struct dta_record got[DRIVE_RECORDS];
	size_t n;
	uint64_t now_ns;
	const char *sender;
	uint16_t port;
};

static inline void drive_keep(void *arg, const struct dta_record *r)
{
	struct drive *v = arg;

	assert_true(v->n < DRIVE_RECORDS);
	v->got[v->n++] = *r;
}

static inline void drive_begin(struct drive *v, const struct dta_decoder_ops *ops)
{
	*v = (struct drive){
		.d = dta_decoder_new(ops, NULL, drive_keep, v), .now_ns = 1, .sender = "192.0.2.9"};
	assert_non_null(v->d);
}

static inline void drive_end(struct drive *v)
{
	v->d->ops->end(v->d);
}

static inline struct in6_addr drive_address(const char *text)
{
	struct in6_addr a = {.s6_addr = {[10] = 0xff, 0xff}};

	assert_int_equal(inet_pton(strchr(text, ':') ? AF_INET6 : AF_INET, text,
				   strchr(text, ':') ? a.s6_addr : a.s6_addr + 12),
			 1);
	return a;
}

/*
 * Decodes from memory of exactly this size, so that a sanitizer sees reads beyond the end. Returns
 * the number of records.
 */
static inline size_t drive_bytes(struct drive *v, const uint8_t *p, size_t bytes)
{
	uint8_t *exact = malloc(bytes ? bytes : 1);
	const struct dta_datagram in = {.data = exact,
					.bytes = (uint32_t)bytes,
					.address = drive_address(v->sender),
					.port = v->port};

	assert_non_null(exact);
	memcpy(exact, p, bytes);
	v->n = 0;
	dta_decoder_take(v->d, &in, v->now_ns);
	free(exact);
	return v->n;
}

/* Passes on what the decoder kept. Returns the number of records. */
static inline size_t drive_flush(struct drive *v)
{
	v->n = 0;
	v->d->ops->flush(v->d, v->now_ns);
	return v->n;
}

static inline size_t drive_take(struct drive *v, const struct built *b)
{
	return drive_bytes(v, b->at, b->bytes);
}

static inline void check_address(const struct dta_record *r, enum dta_field f, const char *text)
{
	const struct in6_addr a = drive_address(text);

	assert_true(r->has >> f & 1);
	assert_memory_equal(&r->address[f], &a, sizeof(a));
}

struct expected {
	enum dta_field field;
	uint64_t number;
};
#define NUMBERS(...)                            \
	(const struct expected[]){__VA_ARGS__}, \
		sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected)

/* Checks that the record has these numbers and no others. */
static inline void check_numbers(const struct dta_record *r, const struct expected *e, size_t n)
{
	dta_field_set left = r->has >> DTA_FIELD_ADDRESSES << DTA_FIELD_ADDRESSES;

	for (size_t i = 0; i < n; i++) {
		if (!(r->has >> e[i].field & 1))
			fail_msg("no field %d", (int)e[i].field);
		if (r->number[e[i].field] != e[i].number)
			fail_msg("field %d is %llu, not %llu", (int)e[i].field,
				 (unsigned long long)r->number[e[i].field],
				 (unsigned long long)e[i].number);
		left &= ~DTA_FIELD_BIT(e[i].field);
	}
	for (int f = 0; f < DTA_FIELDS; f++)
		if (left >> f & 1)
			fail_msg("field %d is too many", f);
}

static inline uint64_t drive_refused(const struct drive *v)
{
	uint64_t n = 0;

	for (int i = DTA_DEVICE_FINE + 1; i < DTA_DEVICE_REFUSALS; i++)
		n += v->d->stats.refused[i];
	return n;
}

#endif
